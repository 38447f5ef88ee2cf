"""Linear operators of projections. Shapes exclude batch and time.

A chip stores every weight of the structure, zeros included; only simulators need the values.
Weights may be zero-stride views (see ``arrays.freeze``), so a network of shapes alone costs no memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from nirbridge._types import Shape
from nirbridge.arrays import Array


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """y = x."""

    shape: Shape

    @property
    def input_shape(self) -> Shape:
        """Shape of x."""
        return self.shape

    @property
    def output_shape(self) -> Shape:
        """Shape of y."""
        return self.shape


@dataclass(frozen=True, slots=True, eq=False)
class Scale:
    """y = scale * x, elementwise; ``scale`` has the full shape."""

    scale: Array

    @property
    def input_shape(self) -> Shape:
        """Shape of x."""
        return self.scale.shape

    @property
    def output_shape(self) -> Shape:
        """Shape of y."""
        return self.scale.shape


@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """y = weight @ x, ``weight: [post, pre]``, on flat x and y."""

    weight: Array

    @property
    def input_shape(self) -> Shape:
        """Shape of x: (pre,)."""
        return (self.weight.shape[1],)

    @property
    def output_shape(self) -> Shape:
        """Shape of y: (post,)."""
        return (self.weight.shape[0],)


@dataclass(frozen=True, slots=True, eq=False)
class Sparse:
    """y = W x with W in compressed rows: row ``post`` holds ``indices[indptr[post]:indptr[post + 1]]`` (ascending).

    ``input_shape`` and ``output_shape`` are flattened row-major (C order).
    """

    indptr: Array
    indices: Array
    data: Array
    input_shape: Shape
    output_shape: Shape


@dataclass(frozen=True, slots=True, eq=False)
class Conv:
    """Cross-correlation in one or two dimensions (as torch's conv).

    ``weight: [cout, cin // groups, *kernel]``, ``padding: ((before, after), …)`` with zeros, one entry of ``stride``,
    ``padding`` and ``dilation`` per spatial axis; ``input_shape: (cin, *spatial)``.
    """

    weight: Array
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int
    input_shape: Shape

    @property
    def kernel(self) -> tuple[int, ...]:
        """Kernel size per spatial axis."""
        return self.weight.shape[2:]

    @property
    def output_shape(self) -> Shape:
        """(cout, *spatial)."""
        return (
            self.weight.shape[0],
            *window_shape(self.input_shape[1:], self.kernel, self.stride, self.padding, self.dilation),
        )


@dataclass(frozen=True, slots=True, eq=False)
class SumPool:
    """y = factor * (sum over each window), per channel; zeros outside.

    ``kernel``, ``stride`` and ``padding`` per spatial axis; ``factor`` is 1 for SumPool2d and 1/(kernel elements) for
    AvgPool2d, which counts padding.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    input_shape: Shape
    factor: float = 1.0

    @property
    def dilation(self) -> tuple[int, ...]:
        """Always 1: pools are not dilated."""
        return (1,) * len(self.kernel)

    @property
    def output_shape(self) -> Shape:
        """(channels, *spatial)."""
        return (
            self.input_shape[0],
            *window_shape(self.input_shape[1:], self.kernel, self.stride, self.padding, self.dilation),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Reshape:
    """y = x in another shape, row-major."""

    input_shape: Shape
    output_shape: Shape

    def __post_init__(self) -> None:
        if math.prod(self.input_shape) != math.prod(self.output_shape):
            raise ValueError(f"reshape from {self.input_shape} to {self.output_shape}")


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """y = parts[-1](… parts[0](x)): a path of linear nodes between two neurons. At least two parts, none a Chain."""

    parts: tuple[Operator, ...]

    @property
    def input_shape(self) -> Shape:
        """Shape of x."""
        return self.parts[0].input_shape

    @property
    def output_shape(self) -> Shape:
        """Shape of y."""
        return self.parts[-1].output_shape


Part = Identity | Scale | Dense | Sparse | Conv | SumPool | Reshape
Operator = Part | Chain


def window_shape(
    spatial: Shape, kernel: Shape, stride: Shape, padding: tuple[tuple[int, int], ...], dilation: Shape
) -> Shape:
    """Size after a window slides over ``spatial``, as torch counts it; 0 or less where the window is too large."""
    axes = zip(spatial, kernel, stride, padding, dilation, strict=True)
    return tuple((n + lo + hi - d * (k - 1) - 1) // s + 1 for n, k, s, (lo, hi), d in axes)

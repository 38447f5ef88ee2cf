"""Flat neurons that are reshaped to images, as images of one position: ``(n,)`` as ``(n, 1, 1)``.

NIR has no node that splits an axis, but a convolution leads from ``(n, 1, 1)`` to any image (``raise_sparse``). Such
neurons, and all flat neurons and inputs before them, get axes of size one; their Linears become convolutions with a
kernel of one position, or of a whole image in front of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import freeze
from nirbridge.errors import Diagnostic, quoted
from nirbridge.importers.dataflow import Operation
from nirbridge.importers.lowering.inputs import merge_reshapes, without_splits
from nirbridge.importers.lowering.linear_layers import Term, merge_selections, selection_operator
from nirbridge.network import Projection
from nirbridge.network.compose import compose, parts_of
from nirbridge.network.neurons import Neuron
from nirbridge.network.nir.raise_linear import merged_axes
from nirbridge.network.operators import Conv, Dense, Identity, Operator, Reshape, Scale, Sparse

_IMAGE_RANKS = (2, 3)


@dataclass(frozen=True, slots=True, eq=False)
class Lifted:
    """Projections between neurons of new shapes; ``shapes``: those of the neurons and inputs that were flat."""

    projections: tuple[Projection, ...]
    shapes: Mapping[str, Shape]

    def notes(self, inputs: Mapping[str, Shape]) -> tuple[str, ...]:
        """Remarks on the inputs and the populations that have a new shape."""
        given = (
            f"input {quoted(name)}: samples of shape {inputs[name]} are given as {shape}, because NIR cannot split axes"
            for name, shape in self.shapes.items()
            if name in inputs
        )
        names = ", ".join(quoted(name) for name in self.shapes if name not in inputs)
        text = f"populations {names}: their neurons have axes of size 1, because forward reshapes some to images"
        return (*given, text) if names else tuple(given)


class Splits:
    """Flat populations and inputs that forward reshapes to images, each with its deferred problems."""

    def __init__(self) -> None:
        self.problems: dict[str, list[Diagnostic]] = {}

    def without(self, term: Term, operator: Operator, problems: Iterable[Diagnostic]) -> list[Diagnostic]:
        """Defer the problems of a path whose flat source is reshaped to an image; return those of any other path.

        ``lifted`` raises the deferred ones again if it cannot give the source the shape of an image.
        """
        found = list(problems)
        if len(term.shape) != 1 or not any(map(_splits, parts_of(operator))):
            return found
        self.problems.setdefault(term.source, []).extend(found)
        return []

    def lifted(
        self, projections: Sequence[Projection], shapes: Mapping[str, Shape], problems: list[Diagnostic]
    ) -> Lifted:
        """The projections of the network without such reshapes; if that fails, add the deferred ``problems``."""
        found = _lifted(projections, shapes, self.problems) if self.problems else None
        if self.problems and found is None:
            problems += [problem for of_source in self.problems.values() for problem in of_source]
        return found or Lifted(tuple(projections), {})


def _lifted(projections: Sequence[Projection], shapes: Mapping[str, Shape], splits: Iterable[str]) -> Lifted | None:
    """The projections with ``splits`` as images of one position; None where that fails."""
    names, ranks = set(splits), set[int]()
    for p in projections:
        if p.source in names:
            ranks |= {len(part.output_shape) for part in parts_of(p.operator) if _splits(part)}
    if len(ranks) != 1 or not ranks <= set(_IMAGE_RANKS):
        return None
    while more := {p.source for p in projections if p.target in names and len(shapes[p.source]) == 1} - names:
        names |= more
    ones = (1,) * (ranks.pop() - 1)
    found = [_with_axes(p, p.source in names, p.target in names, ones) for p in projections]
    if any(p is None for p in found):
        return None
    return Lifted(tuple(p for p in found if p is not None), {n: (*shapes[n], *ones) for n in sorted(names)})


def reshaped_neuron(neuron: Neuron, shape: Shape) -> Neuron:
    """The neuron with its parameters per neuron in another shape."""
    values = {f.name: getattr(neuron, f.name) for f in fields(neuron)}
    arrays = {name: v for name, v in values.items() if isinstance(v, np.ndarray) and v.ndim}
    return replace(neuron, **{name: freeze(v.reshape(shape)) for name, v in arrays.items()})


def merged_path(
    term: Term, calls: Mapping[str, Operation], inputs: Mapping[str, Shape]
) -> tuple[Operator, tuple[str, ...]]:
    """The path of a term as one operator, and the node name of each part left; ``inputs``: the shapes of the ports."""
    parts, names = without_splits(*merge_selections(*merge_reshapes(term, calls, inputs)))
    return compose([_as_selection(part) for part in parts], names, term.shape)


def _as_selection(part: Operator) -> Operator:
    """A reshape from image to image for which NIR has no node as a matrix, which it has."""
    if not isinstance(part, Reshape) or merged_axes(part.input_shape, part.output_shape) is not None:
        return part
    if not len(part.input_shape) == len(part.output_shape) in _IMAGE_RANKS:
        return part
    positions = np.arange(math.prod(part.input_shape))
    return selection_operator(positions, positions, part.input_shape, part.output_shape)


def _splits(part: Operator) -> bool:
    return isinstance(part, Reshape | Sparse) and len(part.input_shape) == 1 < len(part.output_shape)


def _with_axes(p: Projection, of_source: bool, of_target: bool, ones: Shape) -> Projection | None:
    """The projection between neurons of which the source or the target, or both, have axes of size one."""
    if not of_source and not of_target:
        return p
    parts = parts_of(p.operator)
    names = p.nodes if len(p.nodes) == len(parts) else ("",) * len(parts)
    walk = _Walk(ones, of_source, of_target)
    if not of_source or of_target or any(map(_splits, parts)):
        for part, name in zip(parts, names, strict=True):
            walk.step(part, name)
    else:
        flat = p.operator.input_shape
        walk.found, walk.is_lifted = [(Reshape((*flat, *ones), flat), p.source), *zip(parts, names, strict=True)], False
    walk.end()
    if not walk.is_possible or (of_target and not walk.is_lifted):
        return None
    target = p.operator.output_shape
    if walk.is_lifted and not of_target:
        walk.found.append((Reshape((*target, *ones), target), p.target))
    source = p.operator.input_shape
    kept = [part for part, _ in walk.found]
    operator, nodes = compose(kept, [name for _, name in walk.found], (*source, *ones) if of_source else source)
    bias = p.bias if p.bias is None or not of_target else freeze(p.bias.reshape(*target, *ones))
    return replace(p, operator=operator, nodes=nodes, bias=bias)


class _Walk:
    """The parts of a path, one after the other, with axes of size one where values were flat."""

    def __init__(self, ones: Shape, of_source: bool, of_target: bool) -> None:
        self.ones, self.is_lifted, self.of_target = ones, of_source, of_target
        self.found: list[tuple[Operator, str]] = []
        self.is_possible, self.waits_for_dense = True, False
        self.image: Shape = ()
        self.name = ""

    def step(self, part: Operator, name: str) -> None:
        """Add one part."""
        if self.waits_for_dense:
            self._after_image(part, name)
        elif self.is_lifted and len(part.input_shape) == 1:
            self._flat(part, name)
        elif self.of_target and isinstance(part, Reshape) and len(part.output_shape) == 1:
            self.waits_for_dense, self.image, self.name = True, part.input_shape, name
        else:
            self.is_possible = self.is_possible and not _splits(part)
            self.found.append((part, name))

    def _flat(self, part: Operator, name: str) -> None:
        """A part of what was flat."""
        shape, source = part.output_shape, (*part.input_shape, *self.ones)
        target = shape if len(shape) > 1 else (*shape, *self.ones)
        if isinstance(part, Dense):
            self.found.append((_convolution(part, source), name))
        elif isinstance(part, Scale):
            self.found.append((Scale(freeze(part.scale.reshape(source))), name))
        elif isinstance(part, Sparse):
            self.found.append((replace(part, input_shape=source, output_shape=target), name))
        elif isinstance(part, Reshape):
            self.found.append((_as_selection(Reshape(source, target)), name))
        else:
            self.is_possible = self.is_possible and isinstance(part, Identity)
        self.is_lifted = len(shape) == 1

    def _after_image(self, part: Operator, name: str) -> None:
        """A Linear of a whole image; a factor in front of it may be one number."""
        if isinstance(part, Scale):
            self.found.append((Scale(freeze(part.scale.reshape(self.image))), name))
            return
        self.waits_for_dense = False
        self.is_lifted = isinstance(part, Dense) and len(self.image) == len(self.ones) + 1
        self.is_possible = self.is_possible and self.is_lifted
        if self.is_possible:
            self.found.append((_convolution(part, self.image), name))

    def end(self) -> None:
        """A whole image that neurons of one position take as it is."""
        if self.waits_for_dense:
            count = math.prod(self.image)
            positions, target = np.arange(count), (count, *self.ones)
            self.found.append((selection_operator(positions, positions, self.image, target), self.name))
            self.is_lifted = len(self.image) == len(target)
            self.is_possible = self.is_possible and self.is_lifted


def _convolution(part: Any, image: Shape) -> Conv:
    """A Linear of the values of an image as a convolution with a kernel that covers it."""
    axes = len(image) - 1
    weight = freeze(part.weight.reshape(len(part.weight), *image))
    return Conv(weight, (1,) * axes, ((0, 0),) * axes, (1,) * axes, 1, image)

"""Linear operators as expressions of the module, on arrays ``[..., *shape]``."""

from __future__ import annotations

import numpy as np

from nirbridge._types import Shape
from nirbridge.emitters.jax.module import ModuleWriter, axes, size_of
from nirbridge.emitters.timesteps import sparse_rows, sparse_table
from nirbridge.network.apply import matrix
from nirbridge.network.compose import parts_of
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool


def linear(
    m: ModuleWriter, key: str, operator: Operator, x: str, dtype: str, shapes: tuple[Shape, Shape] | None = None
) -> str:
    """The text of ``operator(x)``.

    ``key``: of its weights; ``dtype``: of ``x`` and of the sums; ``shapes``: of the source and of the target where
    these may differ from the operator's own.
    """
    parts = parts_of(operator)
    before, after = shapes or (operator.input_shape, operator.output_shape)
    x = _reshaped(m, x, before, tuple(operator.input_shape))
    for k, part in enumerate(parts):
        x = _part(m, key if len(parts) == 1 else f"{key}.{k}", part, x, dtype)
    return _reshaped(m, x, tuple(operator.output_shape), after)


def _part(m: ModuleWriter, key: str, part: Operator, x: str, dtype: str) -> str:
    assert not isinstance(part, Chain), "a chain has no chain among its parts"
    if isinstance(part, Identity):
        return x
    if isinstance(part, Reshape):
        return _reshaped(m, x, part.input_shape, part.output_shape)
    if isinstance(part, Scale):
        return f"{x} * {m.weight(f'{key}.scale', part.scale, dtype)}"
    if isinstance(part, Dense):
        return f"{m.helper('dense')}({x}, {m.weight(f'{key}.weight', np.asarray(part.weight).T, dtype)})"
    if isinstance(part, Sparse):
        return _sparse(m, key, part, x, dtype)
    if dtype.startswith("int"):  # convolutions are of real numbers on most devices
        rows = matrix(part)
        listed = Sparse(rows.indptr, rows.indices, rows.data, part.input_shape, part.output_shape)
        return _sparse(m, key, listed, x, dtype)
    if isinstance(part, Conv):
        weight = m.weight(f"{key}.weight", part.weight, dtype)
        return (
            f"{m.helper('convolution')}({x}, {weight}, stride={part.stride}, padding={_edges(part)}, "
            f"dilation={part.dilation}, groups={part.groups})"
        )
    return _pool(m, key, part, x, dtype)


def _reshaped(m: ModuleWriter, x: str, before: tuple[int, ...], after: tuple[int, ...]) -> str:
    return x if before == after else f"{m.helper('reshaped')}({x}, {len(before)}, {axes(after)})"


def _sparse(m: ModuleWriter, key: str, part: Sparse, x: str, dtype: str) -> str:
    pre, post = size_of(part.input_shape), size_of(part.output_shape)
    x = _reshaped(m, x, tuple(part.input_shape), (pre,))
    table = sparse_table(part)
    if table is not None:
        out = f"{m.helper('dense')}({x}, {m.weight(f'{key}.weight', table, dtype)})"
    else:
        weight = m.weight(f"{key}.weight", part.data, dtype)
        sources = m.weight(f"{key}.sources", part.indices, "int32")
        targets = m.weight(f"{key}.targets", sparse_rows(part), "int32")
        out = f"{m.helper('sparse')}({x}, {weight}, {sources}, {targets}, {post})"
    return _reshaped(m, out, (post,), tuple(part.output_shape))


def _pool(m: ModuleWriter, key: str, part: SumPool, x: str, dtype: str) -> str:
    """The sums of the windows, then the factor, as the reference does it."""
    edges = ((0, 0), *_edges(part))
    sums = f"{m.helper('sum_pool')}({x}, window={(1, *part.kernel)}, stride={(1, *part.stride)}, padding={edges})"
    return sums if part.factor == 1.0 else f"{sums} * {m.weight(f'{key}.factor', part.factor, dtype)}"


def _edges(part: Conv | SumPool) -> tuple[tuple[int, int], ...]:
    """The padding; along an axis with one window none that the window does not reach, or less than none.

    There IREE, which compiles this module too, takes the extent of the input for that of the kernel.
    """
    found = []
    rows = zip(part.input_shape[1:], part.output_shape[1:], part.kernel, part.dilation, part.padding, strict=True)
    for size, windows, kernel, dilation, (low, high) in rows:
        found.append((low, (kernel - 1) * dilation + 1 - size - low if windows == 1 else high))
    return tuple(found)

"""Sums of every operator, alone and in chains, by every numpy backend, bit-identical to a loop over sources."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="the compiled backend needs the extra 'fast'")

from nirbridge.arrays import freeze
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Projection
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool
from nirbridge.simulators.compiled import sums as event_sums
from nirbridge.simulators.reference import numpy_backend
from nirbridge.simulators.reference.array_namespace import array_namespace
from nirbridge.simulators.reference.sums import accumulate
from tests.simulators.reference.oracle import Rows

RNG = np.random.default_rng(0)


def decimal(*shape: int) -> Any:
    """Sums of these depend on their order in float32."""
    return freeze(RNG.integers(-8, 13, shape) * 0.05)


def sparse(targets: int, sources: int) -> Sparse:
    mask = RNG.random((targets, sources)) < 0.4
    mask[0] = False
    ends = freeze(np.concatenate(([0], np.cumsum(mask.sum(axis=1)))))
    return Sparse(ends, freeze(np.nonzero(mask)[1]), decimal(int(mask.sum())), (sources,), (targets,))


SHAPE = (2, 5, 6)
CONV = Conv(decimal(3, 2, 2, 3), (2, 1), ((1, 0), (0, 2)), (1, 1), 1, SHAPE)
EVEN = SumPool((2, 2), (2, 3), ((1, 0), (0, 1)), SHAPE, 0.3)
OVER = SumPool((3, 2), (1, 2), ((0, 1), (1, 0)), SHAPE, 0.7)


def flat(op: Operator) -> tuple[Operator, Reshape, Dense]:
    size = int(np.prod(op.output_shape))
    return op, Reshape(op.output_shape, (size,)), Dense(decimal(4, size))


OPERATORS: list[Operator] = [
    Dense(decimal(7, 40)), sparse(9, 40), Scale(decimal(3, 4)), Identity((3, 4)), Reshape((3, 4), (12,)), CONV,
    Conv(decimal(4, 1, 2, 2), (1, 2), ((0, 1), (1, 1)), (2, 1), 2, SHAPE),
    Conv(decimal(3, 2, 3), (2,), ((1, 2),), (1,), 1, (2, 9)), EVEN, OVER, SumPool((3,), (4,), ((2, 0),), (3, 11)),
    Chain(flat(CONV)), Chain(flat(EVEN)), Chain(flat(OVER)),
    Chain((EVEN, SumPool((2, 1), (1, 1), ((0, 1), (0, 0)), EVEN.output_shape, 0.9))),
    Chain((EVEN, SumPool((1, 1), (1, 1), ((0, 0), (0, 0)), EVEN.output_shape, 0.9))),
    Chain((EVEN, Conv(decimal(3, 2, 2, 2), (1, 1), ((1, 0), (0, 0)), (1, 1), 1, EVEN.output_shape))),
    Chain((EVEN, Scale(decimal(*EVEN.output_shape)))), Chain((sparse(6, 10), Dense(decimal(3, 6)))),
]  # fmt: skip


def by_hand(op: Operator, x: np.ndarray, real: Any) -> np.ndarray:
    rows = [Rows(part, real) for part in parts_of(op)]
    found = []
    for item in x.reshape(len(x), -1):
        values = [real(v) for v in item]
        for part in rows:
            values = part(values)
        found.append(values)
    return np.array(found, real).reshape(len(x), *op.output_shape)


def bits(values: Any) -> Any:
    array = np.asarray(values)
    return array.dtype, array.shape, (array + 0).tobytes()


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: "-".join(type(part).__name__ for part in parts_of(op)))
@pytest.mark.parametrize("kind", ["few", "many", "graded"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_have_the_bits_of_the_plain_loop(op: Operator, kind: str, dtype: str) -> None:
    own, real = array_namespace("numpy", dtype), getattr(np, dtype)
    x = (RNG.random((3, *op.input_shape)) < {"few": 0.05, "many": 0.6, "graded": 0.7}[kind]).astype(np.uint8)
    x[1] = 0
    values = x * RNG.normal(size=x.shape).astype(real) if kind == "graded" else x.astype(real)
    wanted = bits(by_hand(op, values, real))
    assert bits(accumulate(op, own)(values)) == wanted
    assert bits(numpy_backend.numpy_backend(own).accumulate(Projection("a", "b", op))(values)) == wanted
    quick = event_sums.EventAccumulate(op, own, "event", [])
    assert (quick.shape, quick.dtype) == (op.output_shape, np.dtype(dtype))
    assert bits(quick(values)) == wanted
    if kind != "graded":
        assert bits(quick(x)) == wanted
        assert bits(event_sums.EventAccumulate(op, own, "auto", [])(x)) == wanted

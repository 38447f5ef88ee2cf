from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.arrays import Array, freeze
from nirbridge.errors import ModelError
from nirbridge.network import apply, matrix
from nirbridge.network.compose import compose
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool
from tests.cases import cases

RNG = np.random.default_rng(7)


def grid(*shape: int) -> Array:
    return freeze(RNG.integers(-8, 9, size=shape) / 8)


def slow_window(op: Conv | SumPool, x: Array) -> Array:
    """Cross-correlation by its definition, element by element."""
    out = np.zeros(op.output_shape)
    for index in np.ndindex(*op.output_shape):
        cout, at = index[0], index[1:]
        own = 1 if isinstance(op, SumPool) else op.weight.shape[1]
        first = cout if isinstance(op, SumPool) else cout // (op.weight.shape[0] // op.groups) * own
        for c, tap in ((c, t) for c in range(own) for t in np.ndindex(*op.kernel)):
            place = [
                o * s - p[0] + k * d for o, s, p, k, d in zip(at, op.stride, op.padding, tap, op.dilation, strict=True)
            ]
            if all(0 <= q < n for q, n in zip(place, op.input_shape[1:], strict=True)):
                weight = op.factor if isinstance(op, SumPool) else op.weight[(cout, c, *tap)]
                out[index] += weight * x[(first + c, *place)]
    return out


OPERATORS: dict[str, Operator] = {
    "identity": Identity((2, 3)),
    "scale": Scale(grid(2, 3)),
    "dense": Dense(grid(4, 6)),
    "reshape": Reshape((2, 3), (6,)),
    "sparse": Sparse(freeze([0, 2, 2, 3]), freeze([0, 3, 5]), grid(3), (2, 3), (3, 1)),
    "conv1d": Conv(grid(4, 2, 3), (2,), ((1, 2),), (2,), 1, (2, 9)),
    "conv2d": Conv(grid(3, 2, 2, 3), (1, 2), ((1, 1), (0, 2)), (1, 2), 1, (2, 5, 7)),
    "depthwise": Conv(grid(4, 1, 2, 2), (1, 1), ((0, 1), (0, 1)), (1, 1), 2, (2, 3, 4)),
    "grouped": Conv(grid(6, 2, 1, 2), (1, 1), ((0, 0), (0, 0)), (1, 1), 3, (6, 2, 3)),
    "pool": SumPool((2, 3), (2, 1), ((0, 0), (1, 1)), (2, 4, 5)),
    "average": SumPool((2, 2), (2, 2), ((1, 1), (1, 1)), (2, 4, 4), 0.25),
}
OPERATORS["chain"] = Chain(
    (
        Conv(grid(3, 2, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, (2, 4, 4)),
        SumPool((2, 2), (2, 2), ((0, 0), (0, 0)), (3, 4, 4)),
        Scale(grid(3, 2, 2)),
        Reshape((3, 2, 2), (12,)),
        Dense(grid(5, 12)),
    )
)


@pytest.mark.parametrize("name", OPERATORS)
def test_apply_is_the_matrix(name: str) -> None:
    op = OPERATORS[name]
    x = RNG.integers(-3, 4, size=(2, 3, *op.input_shape)).astype(float)
    y = apply(op, x)
    assert y.shape == (2, 3, *op.output_shape)
    assert y.reshape(6, -1) == pytest.approx(x.reshape(6, -1) @ matrix(op).T.toarray(), abs=1e-12)


@pytest.mark.parametrize("name", [n for n, op in OPERATORS.items() if isinstance(op, Conv | SumPool)])
def test_windows_by_their_definition(name: str) -> None:
    op = OPERATORS[name]
    assert isinstance(op, Conv | SumPool)
    x = RNG.integers(-3, 4, size=op.input_shape).astype(float)
    assert apply(op, x) == pytest.approx(slow_window(op, x), abs=1e-12)


def test_dense_by_hand() -> None:
    op = Dense(freeze([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    assert apply(op, np.array([1.0, -1.0])).tolist() == [-1.0, -1.0, -1.0]
    assert apply(op, np.array([True, False])).tolist() == [1.0, 3.0, 5.0]


def test_zero_weights_stay_in_the_matrix() -> None:
    assert matrix(Dense(freeze(np.zeros((3, 4))))).nnz == 12
    conv = Conv(freeze(np.zeros((2, 1, 3))), (1,), ((1, 1),), (1,), 1, (1, 4))
    assert matrix(conv).nnz == 2 * (4 * 3 - 2)
    cancels = Chain((Dense(freeze([[1.0], [1.0]])), Dense(freeze([[1.0, -1.0]]))))
    found = matrix(cancels)
    assert (found.nnz, found.toarray().tolist()) == (1, [[0.0]])


def test_a_large_matrix_is_refused_and_a_wrong_shape_too() -> None:
    broad = Dense(np.broadcast_to(np.float32(1.0), (100_000, 100_000)))
    with pytest.raises(ModelError, match=r"^operator: up to 10,000,000,000 synapses, at most 5,000,000 are listed"):
        matrix(broad)
    with pytest.raises(
        ModelError, match=r"^operator: an array of shape \(3,\), it takes \[\.\.\., \(2, 3\)\]; reshape"
    ):
        apply(Identity((2, 3)), np.zeros(3))


@st.composite
def chains(draw: st.DrawFn) -> tuple[Operator, ...]:
    """Parts that fit onto each other, from a shape (channels, height, width) on."""
    shape = (draw(st.integers(1, 3)), draw(st.integers(2, 5)), draw(st.integers(2, 5)))
    parts: list[Operator] = []
    for kind in draw(st.lists(st.sampled_from(["conv", "pool", "scale", "identity", "flat"]), max_size=4)):
        if kind == "flat" or len(shape) == 1:
            flat = (math.prod(shape),)
            parts += [Reshape(shape, flat), Dense(grid(draw(st.integers(1, 4)), flat[0]))]
        elif kind == "conv":
            kernel = [min(n, draw(st.integers(1, 3))) for n in shape[1:]]
            pads = tuple((draw(st.integers(0, 1)), draw(st.integers(0, 1))) for _ in kernel)
            strides = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
            parts.append(Conv(grid(2, shape[0], *kernel), strides, pads, (1, 1), 1, shape))
        elif kind == "pool":
            parts.append(SumPool((1, 2), (1, 2), ((0, 0), (0, 0)), shape) if shape[2] > 1 else Identity(shape))
        else:
            parts.append(Scale(grid(*shape)) if kind == "scale" else Identity(shape))
        shape = parts[-1].output_shape
    return tuple(parts) or (Identity(shape),)


@given(chains())
@settings(max_examples=cases(20, 60))
def test_composing_keeps_the_function(parts: tuple[Operator, ...]) -> None:
    composed, names = compose(parts, [str(k) for k in range(len(parts))], parts[0].input_shape)
    x = RNG.integers(-2, 3, size=parts[0].input_shape).astype(float)
    expected = x
    for part in parts:
        expected = apply(part, expected)
    assert apply(composed, x) == pytest.approx(expected, abs=1e-9)
    assert matrix(composed) @ x.ravel() == pytest.approx(expected.ravel(), abs=1e-9)
    left = composed.parts if isinstance(composed, Chain) else (composed,)
    assert isinstance(composed, Identity) or len(names) == len(left)
    assert not any(isinstance(p, Identity) for p in left[1:])


def test_what_is_merged() -> None:
    two, half = Scale(freeze(np.full((2, 3), 2.0))), Scale(freeze(np.full((2, 3), 0.5)))
    op, names = compose([two, half], ["a", "b"], (2, 3))
    assert isinstance(op, Identity)
    assert names == ()
    flat = [Reshape((2, 3, 4), (6, 4)), Reshape((6, 4), (24,))]
    op, names = compose(flat, ["a", "b"], (2, 3, 4))
    assert isinstance(op, Reshape)
    assert (op.input_shape, op.output_shape, names) == ((2, 3, 4), (24,), ("a",))
    tenth, third = np.float32(0.1), np.float32(1 / 3)
    op, _ = compose([Scale(freeze([tenth])), Scale(freeze([third]))], ["a", "b"], (1,))
    assert isinstance(op, Scale)
    assert op.scale[0] == float(tenth) * float(third)

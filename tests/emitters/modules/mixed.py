"""Random networks on the dyadic grid: every operator and record, loops, several ports, delays, odd names."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.network.check import check_network
from nirbridge.network.compose import compose
from nirbridge.network.graph import in_causal_order
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.neurons import Compare
from nirbridge.network.operators import Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool
from tests.emitters.modules.held import TIMING, plain_neuron, random_neuron

NAMES = (
    "a", "b", "class", "../x", "\u5c42", "a b", "n.1", "1", "10", "self", "forward", "lambda", "x\ny", "\"q\"",
    "torch", "spk_a", "nn", "_", "__init__", "train", "{id}", "number", "zeros", "step", "neuron", "state_a", "load",
    "Model",
)  # fmt: skip


def grid(rng: np.random.Generator, *shape: int) -> Array:
    return freeze(rng.integers(-4, 7, shape) / 8, np.float32)


def mixed_network(rng: np.random.Generator, *, plain: bool = False) -> Network:
    """A network of one to four populations; weights are eighths. ``plain``: its neurons are ``plain_neuron``."""
    compare: Compare = ">" if rng.random() < 0.5 else ">="
    names = iter(rng.permutation(np.array(NAMES, dtype=object)))
    shapes: tuple[Shape, ...] = ((3,), (2, 4, 4), (2, 6))
    inputs = tuple(Port(next(names), shapes[rng.integers(3)]) for _ in range(rng.integers(1, 3)))
    points: list[tuple[str, Shape]] = [(p.name, p.shape) for p in inputs]
    populations: list[Population] = []
    edges: list[Projection] = []
    for _ in range(rng.integers(1, 5)):
        source, shape = points[rng.integers(len(points))]
        operator = _path(rng, shape)
        out, name = operator.output_shape, next(names)
        edges.append(_edge(rng, source, name, operator))
        populations.append(Population(name, out, plain_neuron(rng, compare) if plain else random_neuron(rng, out)))
        points.append((name, out))
        for other, width in points:
            is_late = other == name
            if rng.random() < (0.3 if is_late else 0.15):
                edge = _edge(rng, other, name, _between(rng, width, out))
                edges.append(replace(edge, delay_steps=freeze(np.int64(1)), is_back=True) if is_late else edge)
    outputs = []
    for k in range(rng.integers(1, 3)):
        source, shape = points[-1 - min(k, len(populations) - 1)]
        operator = Identity(shape) if rng.random() < 0.8 else _between(rng, shape, (2,))
        outputs.append(Port(next(names), operator.output_shape))
        edges.append(Projection(source, outputs[-1].name, operator))
    network = Network(1e-3, TIMING, tuple(populations), tuple(edges), inputs, tuple(outputs))
    network = in_causal_order(network)
    check_network(network)
    return network


def _edge(rng: np.random.Generator, source: str, target: str, operator: Operator) -> Projection:
    out = operator.output_shape
    bias = grid(rng, *out) if rng.random() < 0.3 else None
    if bias is not None and len(out) == 3 and rng.random() < 0.5:
        bias = freeze(np.broadcast_to(bias[:, :1, :1], out))
    steps = freeze(np.int64(rng.integers(1, 3) if rng.random() < 0.05 else 0))
    return Projection(source, target, operator, None if bias is None else freeze(bias, np.float64), steps)


def _path(rng: np.random.Generator, shape: Shape) -> Operator:
    parts: list[Operator] = []
    for _ in range(rng.integers(1, 4)):
        parts.append(_part(rng, shape))
        shape = parts[-1].output_shape
    return compose(parts, [""] * len(parts), parts[0].input_shape)[0]


def _part(rng: np.random.Generator, shape: Shape) -> Operator:
    choice = rng.integers(6)
    if choice == 0:
        return Scale(grid(rng, *shape))
    if choice == 1:
        return Identity(shape)
    if choice == 2 or (len(shape) > 1 and choice == 3):
        return (
            _sparse(rng, shape, (int(rng.integers(1, 5)),)) if len(shape) == 1 else Reshape(shape, (math.prod(shape),))
        )
    if len(shape) == 1:
        return Dense(grid(rng, int(rng.integers(1, 5)), *shape))
    axes = len(shape) - 1
    if axes == 2 and choice == 4 and min(shape[1:]) > 1:
        return SumPool((2, 2), (2, 2), ((0, 0), (0, 0)), shape, float(rng.choice([1.0, 0.25])))
    groups = int(rng.choice([1, shape[0]]))
    kernel = (min(1 + int(rng.integers(2)), *shape[1:]),) * axes
    weight = grid(rng, groups * int(rng.integers(1, 3)), shape[0] // groups, *kernel)
    padding = tuple((int(rng.integers(2)), int(rng.integers(2))) for _ in range(axes))
    return Conv(weight, (int(rng.integers(1, 3)),) * axes, padding, (1,) * axes, groups, shape)


def _between(rng: np.random.Generator, source: Shape, target: Shape) -> Operator:
    """Any operator between two shapes."""
    if source == target and rng.random() < 0.4:
        return Scale(grid(rng, *source))
    flat, out = (math.prod(source),), (math.prod(target),)
    inner = Dense(grid(rng, *out, *flat)) if rng.random() < 0.6 else _sparse(rng, flat, out)
    parts: list[Operator] = [Reshape(source, flat), inner, Reshape(out, target)]
    return compose(parts, [""] * 3, source)[0]


def _sparse(rng: np.random.Generator, source: Shape, target: Shape) -> Sparse:
    there = rng.random((math.prod(target), math.prod(source))) < 0.5
    indptr = np.concatenate([[0], np.cumsum(there.sum(1))])
    return Sparse(freeze(indptr, np.int64), freeze(np.nonzero(there)[1], np.int64), grid(rng, int(there.sum())), source,
                  target)  # fmt: skip

"""Random networks for emitters, written without looking at them: integers for C and ONNX, real numbers for ONNX.

Everything that the models allow is drawn, its extremes more often than chance has them: images of one pixel, layers of
one neuron, projections without synapses or of zeros, kernels larger than the image, delays up to 60 time steps, several
projections between the same two populations, populations that nothing leads to or leaves, names that are words of C,
paths, markup or other alphabets. Real numbers are dyadic, so that every sum is exact in float32.
"""

from __future__ import annotations

import math
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import Neuron
from nirbridge.network.neurons import neuron as real_neuron
from nirbridge.network.operators import (
    Chain,
    Conv,
    Dense,
    Identity,
    Operator,
    Reshape,
    Scale,
    Sparse,
    SumPool,
    window_shape,
)
from nirbridge.quantization.formats import grid_of
from nirbridge.quantization.model import FixedInput, FixedNeuron, FixedProjection, QuantizedNetwork
from tests.emitters.hand_made import ints, neuron, population, projection

NAMES = (
    *("int", "static", "model", "p0", "in0", "out0", "nb_step", "x y", "../a", "a/b", "-x", "C:\\a", "CON", "."),
    *("ünï", "日本", 'q"q', "@STATE@", "%s%n", "{0}", "*/", "|`<b>", "\\n", "\N{RIGHT-TO-LEFT OVERRIDE}r"),
)
DELAY_MAX = 60
TIMING = Timing(1e-3, "euler", "to-value", ">", "per-second")

Rng = np.random.Generator


def name(rng: Rng, taken: list[str]) -> str:
    """A name that is not taken."""
    word = NAMES[int(rng.integers(len(NAMES)))]
    while word in taken:
        word += str(rng.integers(10))
    taken.append(word)
    return word


def shape(rng: Rng) -> Shape:
    kind = int(rng.integers(6))
    if kind < 2:
        return (int(rng.choice([1, 1, 2, 7, 33, 64])),)
    if kind == 2:
        return (int(rng.choice([1, 2, 4])), int(rng.choice([1, 3, 8])))
    return (int(rng.choice([1, 2, 4, 6])), int(rng.choice([1, 1, 3, 5])), int(rng.choice([1, 2, 4, 6])))


def _window(rng: Rng, into: Shape) -> tuple[dict[str, Any], Shape] | None:
    """Kernel, stride, padding and dilation that leave at least one pixel."""
    axes = len(into) - 1
    for _ in range(20):
        kernel = tuple(int(k) for k in rng.integers(1, 5, axes))
        settings = {
            "stride": tuple(int(k) for k in rng.integers(1, 4, axes)),
            "padding": tuple((int(a), int(b)) for a, b in rng.integers(0, 4, (axes, 2))),
            "dilation": tuple(int(k) for k in rng.integers(1, 4, axes)),
        }
        if min(window_shape(into[1:], kernel, **settings)) > 0:
            return settings, kernel
    return None


def _conv(rng: Rng, into: Shape, values: Any) -> Conv | None:
    found = _window(rng, into)
    if found is None:
        return None
    settings, kernel = found
    groups = int(rng.choice([g for g in (1, 1, 2, into[0]) if into[0] % g == 0]))
    weight = values((groups * int(rng.integers(1, 4)), into[0] // groups, *kernel))
    return Conv(weight, groups=groups, input_shape=into, **settings)


def _sparse(rng: Rng, into: Shape, out: Shape, values: Any) -> Sparse:
    there = rng.random((math.prod(out), math.prod(into))) < rng.choice([0, 0.1, 0.5, 1])
    indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    return Sparse(ints(indptr), ints(np.nonzero(there)[1]), values((int(there.sum()),)), into, out)


def linear(rng: Rng, into: Shape, out: Shape | None, values: Any) -> Any:
    """A dense, sparse or convolutional operator; ``out`` None: of any shape."""
    if out is None and len(into) > 1 and rng.random() < 0.7:
        found = _conv(rng, into, values)
        if found is not None:
            return found
    target = out or (shape(rng) if len(into) > 1 or rng.random() < 0.5 else (int(rng.integers(1, 20)),))
    if len(into) == len(target) == 1 and rng.random() < 0.6:
        return Dense(values((target[0], into[0])))
    return _sparse(rng, into, target, values)


def delays(rng: Rng, of: Shape, least: int) -> Array:
    kind = int(rng.integers(4))
    if kind == 0:
        return ints(rng.integers(least, DELAY_MAX + 1, of))
    return ints(least if kind < 3 else int(rng.integers(least, DELAY_MAX + 1)))


# ---- integers


class _Grid:
    """Weights on the grid of a number of bits and signs; ``sizes``: the shape that is drawn."""

    def __init__(self, rng: Rng) -> None:
        self.rng, self.bits = rng, int(rng.choice([8, 8, 8, 4, 1]))
        self.signs: Any = str(rng.choice(["mixed", "mixed", "excitatory", "inhibitory"]))
        self.reach = float(rng.choice([0, 0.01, 0.2, 1]))

    def __call__(self, sizes: Shape) -> Array:
        grid = grid_of(self.bits, self.signs)
        low, high = grid.low // grid.step, grid.high // grid.step
        return ints(np.trunc(self.rng.integers(low, high + 1, sizes) * self.reach).astype(np.int64) * grid.step)


def fixed_neuron(rng: Rng, of: Shape) -> FixedNeuron:
    def some(low: int, high: int) -> Any:
        kind = int(rng.integers(4))
        if kind == 0:
            return rng.integers(low, high, of)
        if kind == 1 and len(of) > 1:
            return np.broadcast_to(rng.integers(low, high, of[:1] + (1,) * (len(of) - 1)), of)
        return int(rng.integers(low, high))

    fires, several = rng.random() < 0.85, rng.random() < 0.3
    bits = int(rng.choice([24, 24, 24, 16, 40]))
    last = (1 << (bits - 1)) - 1
    fields: dict[str, Any] = {
        "du": some(0, 4096) if rng.random() < 0.5 else int(rng.choice([0, 4095])),
        "dv": some(0, 4097) if rng.random() < 0.7 else int(rng.choice([0, 4096])),
        "bias_mant": some(-300, 500) if rng.random() < 0.5 else 0,
        "bias_exp": int(rng.integers(0, 4)),
        "v_init": some(-5000, 5000) if rng.random() < 0.3 else 0,
        "u_init": some(-5000, 5000) if rng.random() < 0.3 else 0,
        "fires_above": some(0 if several else -50, 9000) if fires else None,
        "reset": str(rng.choice(["zero", "subtract", "none"])),
        "reset_amount": some(0, 9000),
        "refractory_steps": some(0, 5) if rng.random() < 0.4 else int(rng.choice([0, 0, 300, (1 << 16) + 3])),
        "spike_size": some(1, 3000),
        "max_spikes": int(rng.choice([2, 5, 300])) if several else 1,
    }
    made = neuron(**fields)
    floor = ints(some(-9000, 1)) if fires and rng.random() < 0.3 else None
    return replace(made, v_min=floor, u_bits=bits, v_bits=bits, v_init=ints(np.clip(made.v_init, -last, last)))


def fixed_network(seed: int) -> QuantizedNetwork:
    """A quantized network."""
    rng, taken = np.random.default_rng([seed, 7]), []
    inputs = []
    for _ in range(int(rng.integers(0 if rng.random() < 0.1 else 1, 4))):
        most = int(rng.choice([1, 1, 1, 2, 100, 1 << 15]))
        inputs.append(
            FixedInput(name(rng, taken), shape(rng), most, float(rng.choice([1, 0.25, 3])) if most > 1 else 1.0)
        )
    shapes = {p.name: p.shape for p in inputs}
    populations, edges = [], []
    for _ in range(int(rng.integers(1, 6))):
        own = name(rng, taken)
        source = str(rng.choice(list(shapes))) if shapes else None
        values = _Grid(rng)
        operator = None if source is None else linear(rng, shapes[source], None, values)
        of = shape(rng) if operator is None else operator.output_shape
        populations.append(population(own, of, fixed_neuron(rng, of)))
        shapes[own] = of
        edges += [] if source is None else [_fixed_edge(rng, source, own, operator, values)]
    for _ in range(int(rng.integers(0, 5))):
        source, target = str(rng.choice(list(shapes))), str(rng.choice([p.name for p in populations]))
        values = _Grid(rng)
        operator = linear(rng, shapes[source], shapes[target], values)
        edges.append(_fixed_edge(rng, source, target, operator, values))
    return _with_outputs(rng, inputs, populations, edges, taken)


def _fixed_edge(rng: Rng, source: str, target: str, operator: Any, values: _Grid) -> FixedProjection:
    made = projection(source, target, operator, weight_exp=int(rng.choice([0, 0, 4, 2, -1, -6])))
    late = delays(rng, operator.input_shape, 1)
    return replace(made, delay_steps=late, weight_bits=values.bits, sign_mode=values.signs)


def _with_outputs(rng: Rng, inputs: Any, populations: Any, edges: Any, taken: list[str]) -> QuantizedNetwork:
    outputs, reads = [], []
    for p in rng.permutation(len(populations))[: int(rng.integers(1, 4))]:
        of = populations[p].shape
        own = name(rng, taken)
        operator: Any = Identity(of)
        if rng.random() < 0.3:
            operator = _sparse(rng, of, shape(rng), lambda k: freeze(rng.integers(-8, 9, k) / 4))
        outputs.append(Port(own, operator.output_shape))
        late = delays(rng, of, 0) if rng.random() < 0.3 else ints(0)
        reads.append(Projection(populations[p].name, own, operator, delay_steps=late))
    latency = {node.name: 0 for node in (*inputs, *populations, *outputs)}
    return QuantizedNetwork(
        chip="loihi2", dt=1e-3, populations=tuple(populations), projections=tuple(edges), inputs=tuple(inputs),
        outputs=tuple(outputs), reads=tuple(reads), latency=MappingProxyType(latency), formats=MappingProxyType({}),
    )  # fmt: skip


# ---- real numbers


def _dyadic(rng: Rng) -> Any:
    low = int(rng.choice([-600, 0, 0]))
    share = float(rng.choice([0, 0, 0.7, 1]))
    return lambda of: freeze(rng.integers(low, 900, of) * (rng.random(of) >= share) / 1024)


def dyadic_neuron(rng: Rng, of: Shape) -> Neuron:
    def some(values: list[float]) -> Any:
        return rng.choice(values, of) if rng.random() < 0.3 else float(rng.choice(values))

    kind = str(rng.choice(["LIF", "CubaLIF", "IF", "LI", "CubaLI", "I"]))
    fields: dict[str, Any] = {"a_mem": some([7 / 8, 1 / 2, 0]) if kind not in ("IF", "I") else 1.0}
    fields |= {"g_mem": some([1 / 8, 1 / 2, 1]), "bias": some([0, 0, 1 / 64, -1 / 32])}
    if kind.startswith("Cuba"):
        fields |= {"a_syn": some([1 / 2, 3 / 4]), "g_syn": some([1, 1 / 4]), "i_init": some([0, 1 / 8])}
    if kind in ("LI", "CubaLI", "I"):
        return real_neuron(kind, theta=None, **fields)
    fields |= {"theta": some([1 / 16, 1 / 4, 1]), "v_reset": some([0, 0, -1 / 16]), "v_init": some([0, 1 / 32])}
    fields |= {"reset": str(rng.choice(["to-value", "subtract", "none"])), "compare": str(rng.choice([">", ">="]))}
    fields |= {"max_spikes": int(rng.choice([1, 1, 3])), "refractory_steps": rng.integers(0, 4, of)}
    fields |= {"reset_amount": some([1 / 16, 1 / 8]), "v_min": some([-1 / 8, 0]) if rng.random() < 0.3 else None}
    if fields["max_spikes"] > 1:
        fields["compare"] = ">"
    return real_neuron(kind, **fields)


def real_operator(rng: Rng, into: Shape, out: Shape | None, fires: bool = True) -> Operator | None:
    """Any operator, or several in a chain; ``out`` None: of any shape. A readout sends no sums, and one by one."""
    values = _dyadic(rng)
    if not fires:
        return Scale(values(into)) if out in (None, into) else None
    kind = int(rng.integers(5))
    if kind == 0 and out in (None, into):
        return Identity(into) if rng.random() < 0.5 else Scale(values(into))
    if kind == 1 and len(into) == 3:
        settings, kernel = _window(rng, into) or ({}, ())
        settings.pop("dilation", None)
        if kernel and min(window_shape(into[1:], kernel, dilation=(1, 1), **settings)) > 0:
            pool = SumPool(kernel, input_shape=into, factor=float(rng.choice([1, 1 / 4])), **settings)
            flat = math.prod(pool.output_shape)
            parts = [pool, Reshape(pool.output_shape, (flat,)), linear(rng, (flat,), out, values)]
            return Chain(tuple(parts)) if out is not None or rng.random() < 0.5 else pool
    return linear(rng, into, out, values)


def dyadic_network(seed: int) -> Network:
    """A network in real numbers."""
    rng, taken = np.random.default_rng([seed, 8]), []
    inputs = tuple(Port(name(rng, taken), shape(rng)) for _ in range(int(rng.integers(1, 4))))
    shapes = {p.name: p.shape for p in inputs}
    fires = {p.name: True for p in inputs}
    populations, edges = [], []
    for _ in range(int(rng.integers(1, 6))):
        source, own = str(rng.choice(list(shapes))), name(rng, taken)
        operator = real_operator(rng, shapes[source], None, fires[source])
        assert operator is not None
        populations.append(Population(own, operator.output_shape, dyadic_neuron(rng, operator.output_shape)))
        edges.append(_real_edge(rng, source, own, operator, 0))
        shapes[own], fires[own] = operator.output_shape, populations[-1].neuron.fires
    order = list(shapes)
    for _ in range(int(rng.integers(0, 4))):
        source, target = str(rng.choice(order)), str(rng.choice([p.name for p in populations]))
        back = order.index(source) >= order.index(target)
        operator = real_operator(rng, shapes[source], shapes[target], fires[source])
        if operator is not None:
            edges.append(replace(_real_edge(rng, source, target, operator, int(back)), is_back=back))
    outputs = []
    for _ in range(int(rng.integers(1, 4))):
        source, own = str(rng.choice([p.name for p in populations])), name(rng, taken)
        operator = Identity(shapes[source])
        operator = operator if rng.random() < 0.7 else real_operator(rng, shapes[source], None, fires[source])
        assert operator is not None
        edges.append(_real_edge(rng, source, own, operator, 0))
        outputs.append(Port(own, operator.output_shape))
    return Network(1e-3, TIMING, tuple(populations), tuple(edges), inputs, tuple(outputs))


def _real_edge(rng: Rng, source: str, target: str, operator: Operator, least: int) -> Projection:
    late = delays(rng, operator.output_shape, 0) if rng.random() < 0.2 else ints(0)
    bias = _dyadic(rng)(operator.output_shape) if rng.random() < 0.3 else None
    return Projection(source, target, operator, bias, delays(rng, operator.input_shape, least), late)

"""Quantized networks made by hand or at random, and a slow integer simulator that shares no code with the library."""

from __future__ import annotations

import math
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import freeze
from nirbridge.network.model import Port, Projection
from nirbridge.network.operators import Conv, Dense, Identity, Sparse
from nirbridge.quantization.model import FixedInput, FixedNeuron, FixedPopulation, FixedProjection, QuantizedNetwork


def ints(value: Any) -> Any:
    return freeze(np.asarray(value, dtype=np.int64))


def neuron(**changes: Any) -> FixedNeuron:
    """A plain LIF with a threshold of 64 << 6, with changes; numbers become arrays."""
    fields: dict[str, Any] = {
        "du": 4095,
        "dv": 400,
        "bias_mant": 0,
        "bias_exp": 0,
        "fires_above": 64 << 6,
        "reset": "zero",
        "reset_amount": 0,
        "spike_size": 1,
        "max_spikes": 1,
        "refractory_steps": 0,
        "v_init": 0,
        "u_init": 0,
        **changes,
    }
    plain = {"bias_exp", "reset", "max_spikes"}
    fields = {k: v if k in plain or v is None else ints(v) for k, v in fields.items()}
    return FixedNeuron(**fields, scale=freeze(np.float64(64)), v_offset=freeze(np.float64(0)))


def is_plain(n: FixedNeuron) -> bool:
    one = all(a is None or a.ndim == 0 for a in (n.du, n.dv, n.fires_above))
    grid = n.fires_above is None or not np.any(n.fires_above % 64)
    within = int(np.max(n.dv)) < 4096
    return one and grid and within and n.reset == "zero" and n.max_spikes == 1 and not np.any(n.refractory_steps)


def population(name: str, shape: Shape, n: FixedNeuron) -> FixedPopulation:
    return FixedPopulation(name, shape, n, "lif" if is_plain(n) else "custom")


def projection(source: str, target: str, operator: Any, **changes: Any) -> FixedProjection:
    changes = {k: ints(v) if "delay" in k else v for k, v in changes.items()}
    return FixedProjection(source, target, operator, 8, **changes)


def dense(rng: np.random.Generator, post: int, pre: int, size: int = 40) -> Dense:
    """Even weights, as eight bits of mixed sign are."""
    return Dense(ints(2 * rng.integers(-size // 3, size, (post, pre))))


def sparse(rng: np.random.Generator, into: Shape, out: Shape, share: float = 0.4, size: int = 40) -> Sparse:
    post, pre = math.prod(out), math.prod(into)
    there = rng.random((post, pre)) < share
    indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    values = 2 * rng.integers(-size // 3, size, int(there.sum()))
    return Sparse(ints(indptr), ints(np.nonzero(there)[1]), ints(values), into, out)


def conv(rng: np.random.Generator, into: Shape, cout: int, kernel: Shape, **changes: Any) -> Conv:
    axes = len(kernel)
    settings = {"stride": (1,) * axes, "padding": ((1, 1),) * axes, "dilation": (1,) * axes, "groups": 1, **changes}
    weight = 2 * rng.integers(-10, 30, (cout, into[0] // settings["groups"], *kernel))
    return Conv(ints(weight), input_shape=into, **settings)


def quantized(
    inputs: list[FixedInput], populations: list[FixedPopulation], projections: list[FixedProjection], outputs: list[str]
) -> QuantizedNetwork:
    """The whole; each output reads one population as it is."""
    shapes = {p.name: p.shape for p in populations}
    return QuantizedNetwork(
        chip="loihi2",
        dt=1e-3,
        populations=tuple(populations),
        projections=tuple(projections),
        inputs=tuple(inputs),
        outputs=tuple(Port(f"out {name}", shapes[name]) for name in outputs),
        reads=tuple(Projection(name, f"out {name}", Identity(shapes[name])) for name in outputs),
        latency=MappingProxyType({f"out {name}": 1 for name in outputs}),
        formats=MappingProxyType({}),
    )


def random_network(seed: int, prefix: str = "") -> QuantizedNetwork:
    """Two to four populations of any kind, dense, sparse and convolutional, with delays, loops and several ports."""
    rng = np.random.default_rng(seed)
    shapes: dict[str, Shape] = {}
    inputs = []
    for k in range(int(rng.integers(1, 3))):
        shape: Shape = ((int(rng.integers(1, 9)),), (2, 4, 5), (3, 6))[int(rng.integers(3))]
        inputs.append(FixedInput(f"{prefix}in{k}", shape))
        shapes[inputs[-1].name] = shape
    populations: list[FixedPopulation] = []
    projections: list[FixedProjection] = []
    for k in range(int(rng.integers(2, 5))):
        source = list(shapes)[int(rng.integers(len(shapes)))]
        name = f"{prefix}p{k}"
        operator = _operator(rng, shapes[source])
        populations.append(population(name, operator.output_shape, random_neuron(rng, operator.output_shape)))
        shapes[name] = operator.output_shape
        projections.append(_delayed(rng, projection(source, name, operator), shapes))
        if rng.random() < 0.4:
            other = list(shapes)[int(rng.integers(len(shapes)))]
            back = sparse(rng, shapes[other], shapes[name], 0.2)
            projections.append(
                _delayed(rng, projection(other, name, back, weight_exp=int(rng.integers(-2, 3))), shapes)
            )
    several = {p.name for p in populations if p.neuron.max_spikes > 1}
    projections = [p if p.source not in several else replace(p, weight_exp=0) for p in projections]
    return quantized(inputs, populations, projections, [populations[-1].name])


def together(networks: list[QuantizedNetwork]) -> QuantizedNetwork:
    """Several networks as one; their names differ."""
    one = networks[0]
    for other in networks[1:]:
        one = replace(
            one,
            populations=one.populations + other.populations,
            projections=one.projections + other.projections,
            inputs=one.inputs + other.inputs,
            outputs=one.outputs + other.outputs,
            reads=one.reads + other.reads,
            latency=MappingProxyType({**one.latency, **other.latency}),
        )
    return one


def random_inputs(q: QuantizedNetwork, steps: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    out = {}
    for port in q.inputs:
        low = -port.value_max if port.graded else 0
        out[port.name] = rng.integers(low, port.value_max + 1, (steps, *port.shape))
    return out


def _operator(rng: np.random.Generator, shape: Shape) -> Any:
    kind = int(rng.integers(3))
    if kind == 0 and len(shape) > 1:
        kernel = (3,) * (len(shape) - 1)
        stride = (int(rng.integers(1, 3)),) * len(kernel)
        groups = shape[0] if rng.random() < 0.3 else 1
        return conv(rng, shape, 2 * groups, kernel, stride=stride, groups=groups)
    if kind == 1 and len(shape) == 1:
        return dense(rng, int(rng.integers(1, 9)), shape[0])
    return sparse(rng, shape, (int(rng.integers(1, 9)),))


def _delayed(rng: np.random.Generator, p: FixedProjection, shapes: dict[str, Shape]) -> FixedProjection:
    kind = int(rng.integers(3))
    if kind == 0:
        return replace(p, delay_steps=ints(int(rng.integers(1, 6))))
    if kind == 1:
        return replace(p, delay_steps=ints(rng.integers(1, 5, shapes[p.source])), weight_exp=max(0, p.weight_exp))
    return p


def random_neuron(rng: np.random.Generator, shape: Shape) -> FixedNeuron:
    def some(low: int, high: int) -> Any:
        return rng.integers(low, high, shape) if rng.random() < 0.3 else int(rng.integers(low, high))

    common = {
        "du": some(0, 4096) if rng.random() < 0.5 else 4095,
        "dv": some(0, 2000),
        "bias_mant": rng.integers(-100, 400, shape),
        "bias_exp": int(rng.integers(0, 3)),
        "v_init": rng.integers(-5000, 3000, shape),
        "u_init": rng.integers(-500, 500, shape),
        "fires_above": int(rng.integers(20, 90)) << 6,
    }
    if rng.random() < 0.5:
        return neuron(
            **{k: v if np.ndim(v) == 0 or k not in ("du", "dv") else int(v.flat[0]) for k, v in common.items()}
        )
    reset = ("zero", "subtract", "none")[int(rng.integers(3))]
    several = {"max_spikes": 3, "spike_size": 1500} if rng.random() < 0.3 else {}
    custom = {"reset": reset, "reset_amount": some(500, 4000), "refractory_steps": some(0, 4), **several}
    return neuron(**{**common, "fires_above": some(1000, 6000), **custom})


class Oracle:
    """Steps a quantized network with plain Python integers, one neuron at a time."""

    def __init__(self, q: QuantizedNetwork) -> None:
        self.q = q
        self.edges = {p.name: [(e, _synapses(e)) for e in q.projections if e.target == p.name] for p in q.populations}

    def run(self, inputs: dict[str, Any], steps: int) -> dict[tuple[str, str], Any]:
        q = self.q
        sent = {name: np.zeros((steps, values[0].size), np.int64) for name, values in inputs.items()}
        for name, values in inputs.items():
            sent[name][: len(values)] = values.reshape(len(values), -1)[:steps]
        sent |= {p.name: np.zeros((steps, p.size), np.int64) for p in q.populations}
        out: dict[tuple[str, str], Any] = {}
        state = {}
        for p in q.populations:
            full = {f: np.broadcast_to(getattr(p.neuron, f), p.shape).ravel() for f in ("u_init", "v_init")}
            state[p.name] = [[int(u), int(v), 0] for u, v in zip(full["u_init"], full["v_init"], strict=True)]
            for variable in "uvs":
                out[p.name, variable] = np.zeros((steps, p.size), np.int64)
        for t in range(steps):
            for p in q.populations:
                a_in = self._inputs(p.name, p.size, sent, t)
                for i in range(p.size):
                    s = _step(p, i, state[p.name][i], a_in[i])
                    sent[p.name][t, i] = out[p.name, "s"][t, i] = s
                    out[p.name, "u"][t, i], out[p.name, "v"][t, i] = state[p.name][i][:2]
        return {(n, k): a.reshape(steps, *q.population(n).shape) for (n, k), a in out.items()}

    def _inputs(self, name: str, size: int, sent: dict[str, Any], t: int) -> list[int]:
        total = [0] * size
        for e, synapses in self.edges[name]:
            sums: dict[int, int] = {}
            late: dict[tuple[int, int], int] = {}
            for post, pre, weight, delay in synapses:
                if t - delay >= 0:
                    value = weight * int(sent[e.source][t - delay, pre])
                    sums[post] = sums.get(post, 0) + value
                    late[post, delay] = late.get((post, delay), 0) + value
            # a right shift cuts what arrives with one delay on its own, as the registers of a delayed synapse do
            for (post, _), value in late.items():
                total[post] += value << e.weight_exp if e.weight_exp >= 0 else value >> -e.weight_exp
        return total


def _synapses(e: FixedProjection) -> list[tuple[int, int, int, int]]:
    op = e.operator
    pre = np.broadcast_to(e.delay_steps, op.input_shape).ravel()
    post = np.broadcast_to(e.target_delay_steps, op.output_shape).ravel()
    return [(i, j, w, int(pre[j] + post[i])) for i, j, w in _weights(op)]


def _weights(op: Any) -> list[tuple[int, int, int]]:
    if isinstance(op, Dense):
        return [(i, j, int(op.weight[i, j])) for i in range(op.weight.shape[0]) for j in range(op.weight.shape[1])]
    if isinstance(op, Sparse):
        rows = [(i, k) for i in range(len(op.indptr) - 1) for k in range(op.indptr[i], op.indptr[i + 1])]
        return [(i, int(op.indices[k]), int(op.data[k])) for i, k in rows]
    found = []
    own_in = op.weight.shape[1]
    own_out = op.weight.shape[0] // op.groups
    for at in np.ndindex(*op.output_shape):
        i = int(np.ravel_multi_index(at, op.output_shape))
        for tap in np.ndindex(*op.weight.shape[1:]):
            place = [
                at[1 + a] * op.stride[a] - op.padding[a][0] + tap[1 + a] * op.dilation[a] for a in range(len(op.kernel))
            ]
            if all(0 <= x < n for x, n in zip(place, op.input_shape[1:], strict=True)):
                channel = (at[0] // own_out) * own_in + tap[0]
                j = int(np.ravel_multi_index((channel, *place), op.input_shape))
                found.append((i, j, int(op.weight[(at[0], *tap)])))
    return found


def _decay(x: int, k: int) -> int:
    return (abs(x) * (4096 - k) >> 12) * (1 if x > 0 else -1)


def _step(p: FixedPopulation, i: int, state: list[int], a_in: int) -> int:
    n = p.neuron

    def own(field: str) -> int:
        return int(np.broadcast_to(getattr(n, field), p.shape).ravel()[i])

    u = _decay(state[0], own("du") + 1) + a_in * 64
    half = 2 ** (n.u_bits - 1)
    u = u - 2 * half if u > half else u + 2 * half if u <= -half else u
    v = _decay(state[1], own("dv")) + u + (own("bias_mant") << n.bias_exp)
    largest = 2 ** (n.v_bits - 1) - 1
    v = max(-largest, min(largest, v))
    count = 0
    if state[2]:
        v = 0
        state[2] -= 1
    elif n.fires_above is not None and v > own("fires_above"):
        count = 1 if n.max_spikes == 1 else min(n.max_spikes, v // own("spike_size"))
    if count:
        state[2] = own("refractory_steps")
        v = 0 if n.reset == "zero" else v - count * own("reset_amount") if n.reset == "subtract" else v
    state[0], state[1] = u, v
    return count

"""Seeded networks of 10 to 600 neurons, regular and irregular, each with a chip that is tight in one or two resources.

Layers are convolutions (strided, padded, grouped, depthwise, after a pool), dense, masked (a random or a local subset
of the synapses) or one to one; some networks have recurrent layers, skips and delays, and time constants and
thresholds of few or many values, neighbours alike or mixed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.rivals.accounting import Accounts
from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.chips import Chip, read_chip
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Sparse, SumPool

NEURONS_MAX = 600
CORES = (40, 32)
"""Width and height of the mesh: more cores than the largest network has neurons."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A network and a chip that can hold it (every neuron alone fits a core)."""

    seed: int
    network: Network
    chip: Chip
    tight: tuple[str, ...]


def case(seed: int) -> Case:
    """The network and the chip of a seed."""
    rng = np.random.default_rng(seed)
    network = _network(rng)
    roomy = _roomy(rng)
    names = ("neurons", "input_axons", "output_axons", "synapse_words", "decay_profiles", "threshold_profiles")
    chances = np.array([2, 3, 2, 3, 1, 1]) / 12
    tight = tuple(sorted(rng.choice(names, size=int(rng.integers(1, 3)), replace=False, p=chances).tolist()))
    return Case(seed, network, _tightened(rng, network, roomy, tight), tight)


# -- networks ------------------------------------------------------------------------------------------------------


def _network(rng: np.random.Generator) -> Network:
    shape: Shape = _pick(rng, [(1, 6, 6), (2, 8, 8), (3, 5, 7), (2, 16), (12,), (30,), (64,)])
    most, kinds = int(rng.integers(10, NEURONS_MAX)), _pick(rng, [("spatial",), ("flat",), ("spatial", "flat")])
    points: list[tuple[str, Shape]] = [("in", shape)]
    populations: list[Population] = []
    projections: list[Projection] = []
    for number in range(int(rng.integers(1, 7))):
        source, shape = points[-1] if rng.random() < 0.8 else points[int(rng.integers(len(points)))]
        room = most - sum(p.size for p in populations)
        operator = _operator(rng, shape, room, _pick(rng, kinds))
        if operator is None:
            break
        name, out = f"p{number}", operator.output_shape
        delay = np.int64(rng.integers(0, 3) if rng.random() < 0.2 else 0)
        projections.append(Projection(source, name, operator, delay_steps=np.asarray(delay)))
        if rng.random() < 0.25:
            other, own = points[int(rng.integers(len(points)))]
            projections.append(Projection(other, name, _masked(rng, own, out)))
        if rng.random() < 0.25:
            loop = (
                Dense(_ones(*(math.prod(out),) * 2)) if len(out) == 1 and rng.random() < 0.3 else _masked(rng, out, out)
            )
            steps = np.asarray(np.int64(rng.integers(1, 4)))
            projections.append(Projection(name, name, loop, delay_steps=steps, is_back=True))
        populations.append(_population(rng, name, out))
        points.append((name, out))
    if sum(p.size for p in populations) < 10:
        projections.append(Projection("in", "more", Dense(_ones(10, math.prod(points[0][1])))))
        populations.append(_population(rng, "more", (10,)))
        if len(points[0][1]) > 1:
            flat = Reshape(points[0][1], (math.prod(points[0][1]),))
            projections[-1] = replace(projections[-1], operator=Chain((flat, projections[-1].operator)))
    timing = Timing(1e-3, "euler", "to-value", ">", "per-second")
    return Network(1e-3, timing, tuple(populations), tuple(projections), (Port("in", points[0][1]),), ())


def _pick(rng: np.random.Generator, choices: list | tuple):
    return choices[int(rng.integers(len(choices)))]


def _ones(*shape: int) -> Array:
    return np.broadcast_to(np.float64(1), shape)


def _operator(rng: np.random.Generator, shape: Shape, room: int, kind: str) -> Operator | None:
    """An operator of at most ``room`` outputs; None: none was met."""
    for _ in range(20):
        made = _window(rng, shape) if kind == "spatial" and len(shape) > 1 else _flat(rng, shape, room)
        if made is not None and min(made.output_shape) > 0 and math.prod(made.output_shape) <= room:
            return made
    return None


def _window(rng: np.random.Generator, shape: Shape) -> Operator:
    channels, *spatial = shape
    axes = len(spatial)
    pool = SumPool((2,) * axes, (2,) * axes, ((0, 0),) * axes, shape)
    parts: list[Operator] = [pool] if min(spatial) > 4 and rng.random() < 0.15 else []
    inner = parts[0].output_shape if parts else shape
    kernel, stride, low = int(_pick(rng, [1, 3, 3, 5])), int(_pick(rng, [1, 1, 2])), int(rng.integers(0, 3))
    groups = int(_pick(rng, [1, 1, channels, *(g for g in range(1, channels + 1) if channels % g == 0)]))
    out = groups * int(rng.integers(1, max(9 // groups, 2)))
    padding = ((low, low),) * axes
    weight = _ones(out, channels // groups, *(kernel,) * axes)
    conv = Conv(weight, (stride,) * axes, padding, (1,) * axes, groups, inner)
    return Chain((*parts, conv)) if parts else conv


def _flat(rng: np.random.Generator, shape: Shape, room: int) -> Operator | None:
    size = math.prod(shape)
    out = int(min(rng.integers(3, 200), room))
    kind = int(rng.integers(4))
    if out < 1 or (kind == 0 and size > room):
        return None
    if kind == 0:
        return Identity(shape)
    if kind == 1:
        dense = Dense(_ones(out, size))
        return dense if len(shape) == 1 else Chain((Reshape(shape, (size,)), dense))
    return _masked(rng, shape, (out,))


def _masked(rng: np.random.Generator, shape: Shape, out: Shape) -> Sparse:
    """Random synapses, or those of neurons that are near on a line, in places or in a random order of the targets."""
    n_in, n_out = math.prod(shape), math.prod(out)
    keep = rng.random((n_out, n_in)) < float(_pick(rng, [0.02, 0.1, 0.3]))
    if rng.random() < 0.5:
        far = np.abs(np.arange(n_out)[:, None] / n_out - np.arange(n_in) / n_in)
        keep = far < float(_pick(rng, [0.02, 0.08, 0.2]))
        keep = keep[rng.permutation(n_out)] if rng.random() < 0.6 else keep
    rows, columns = np.nonzero(keep)
    indptr = np.concatenate(([0], np.cumsum(keep.sum(axis=1))))
    return Sparse(indptr, columns, np.ones(len(rows)), shape, out)


def _population(rng: np.random.Generator, name: str, shape: Shape) -> Population:
    values: dict[str, Array] = {"a_mem": np.asarray(0.9), "theta": np.asarray(1.0)}
    for key, chance in (("a_mem", 0.35), ("theta", 0.2)):
        if rng.random() < chance:
            kinds = int(rng.integers(2, 13))
            mixed = rng.integers(kinds, size=math.prod(shape))
            mixed = mixed if rng.random() < 0.7 else np.sort(mixed)
            values[key] = (0.5 + mixed / 32.0).reshape(shape)
    return Population(name, shape, neuron("LIF", a_mem=values["a_mem"], theta=values["theta"]))


# -- chips ---------------------------------------------------------------------------------------------------------


def _roomy(rng: np.random.Generator) -> Chip:
    base = read_chip("loihi1")
    forms: list[dict[str, object]] = [{}, {}, {"index_bits": None}, {"run_free": False, "run_targets_max": 8}]
    forms += [{"shared_kernels": True}, {"run_header_bits": 0, "word_bits": 8, "run_targets_max": None}]
    mesh = replace(base.mesh, width_tiles=CORES[0], height_tiles=CORES[1], cores_per_tile=1)
    return replace(base, mesh=mesh, synapses=replace(base.synapses, **_pick(rng, forms)))


def _tightened(rng: np.random.Generator, network: Network, chip: Chip, tight: tuple[str, ...]) -> Chip:
    """The tight limits hold the heaviest neuron and between 1 and 8 times as much, few cores or many."""
    free = replace(chip, synapses=replace(chip.synapses, words=None))
    alone = Accounts(network, replace(chip, synapses=replace(chip.synapses, words=2**40)))
    one = [alone.use(np.array([n])) for n in range(network.neurons)]
    most = {name: max(u[name] for u in one) for name in one[0]}
    slots = alone.output_axons([np.array([n]) for n in range(network.neurons)])
    most["output_axons"] = int(max(slots.max(), 1))
    factor = float(np.exp(rng.uniform(0.1, np.log(8))))
    limit = {name: max(math.ceil(most[name] * factor), most[name], 1) for name in most}
    limit["neurons"] = max(2, int(network.neurons / rng.uniform(2, 20)))
    limit["decay_profiles"], limit["threshold_profiles"] = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    core = replace(chip.core, **{name: limit[name] for name in tight if name != "synapse_words"})
    words = limit["synapse_words"] if "synapse_words" in tight else free.synapses.words
    return replace(chip, core=core, synapses=replace(chip.synapses, words=words))

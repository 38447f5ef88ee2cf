"""Hypothesis strategies for tests, also of plugins: random valid NIR graphs and networks, small enough to be quick.

Needs the ``test`` extra (hypothesis). Weights lie on a grid of 1/16, so that sums are exact in float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Dense, Sparse

if TYPE_CHECKING:
    import nir

    from nirbridge.chips.model import Chip


DT = 1e-3
NAMES = ("fc", "a b", "it's", "é", "x/y", "line\nbreak", "..", '"q"', "层", "n.1", "2", "10")
KINDS = ("LIF", "IF", "CubaLIF", "LI", "CubaLI", "I", "Threshold")


@dataclass(slots=True)
class _Maker:
    """A graph under construction; ``points`` are nodes that may feed others, with their output shapes."""

    rng: np.random.Generator
    nodes: dict[str, Any] = field(default_factory=dict)
    edges: list[tuple[str, str]] = field(default_factory=list)
    points: list[tuple[str, Shape]] = field(default_factory=list)

    def pick(self, count: int) -> int:
        return int(self.rng.integers(count))

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def name(self) -> str:
        base = NAMES[self.pick(len(NAMES))]
        return base if base not in self.nodes else f"{base}{len(self.nodes)}"

    def grid(self, shape: Shape, low: int = -16, high: int = 16) -> Array:
        values = self.rng.integers(low, high, size=shape, endpoint=True) / 16
        return values.astype(np.float32 if self.chance(0.5) else np.float64)

    def add(self, node: Any, *sources: str) -> str:
        name = self.name()
        self.nodes[name] = node
        self.edges += [(source, name) for source in sources]
        return name


@st.composite
def nir_graphs(draw: st.DrawFn, *, max_populations: int = 4, nested: bool = True) -> nir.NIRGraph:
    """A valid ``nir.NIRGraph``: all neuron and linear classes, branches, residuals, several ports, subgraphs, cycles.

    Cycles pass over one to four populations, delayed or not; outputs read a population several times, each time later.

    Structure and values come from one drawn seed, sizes from drawn counts, so that examples shrink by count.
    """
    import nir

    maker = _Maker(np.random.default_rng(draw(st.integers(0, 2**32 - 1))))
    for _ in range(draw(st.integers(1, 2))):
        shape = ((maker.pick(5) + 1,), (2, 4, 5), (2, 6))[maker.pick(3)]
        maker.points.append((maker.add(nir.Input({"input": np.array(shape)})), shape))
    inputs = len(maker.points)
    for _ in range(draw(st.integers(1, max_populations))):
        if nested and maker.chance(0.2):
            _subgraph(maker)
        else:
            _layer(maker)
    if maker.chance(0.6):
        cycle(maker, first=inputs)
    for _ in range(draw(st.integers(1, 2))):
        name, shape = maker.points[-1] if maker.chance(0.6) else maker.points[maker.pick(len(maker.points))]
        output = maker.add(nir.Output({"output": np.array(shape)}), name)
        if maker.chance(0.4):
            read_out_again(maker, output, shape, first=inputs)
    metadata = {"nirbridge:dt": DT} if maker.chance(0.8) else {}
    return nir.NIRGraph(maker.nodes, maker.edges, metadata=metadata, type_check=False)


def _layer(maker: _Maker) -> None:
    """A chain of linear nodes into a new population, perhaps with a branch, a residual edge and a loop."""
    start, shape = maker.points[maker.pick(len(maker.points))]
    end, shape = _chain(maker, start, shape)
    name = maker.add(random_neuron(maker, shape), end)
    for other, other_shape in list(maker.points):
        if maker.chance(0.25):
            join(maker, other, other_shape, name, shape)
    if maker.chance(0.35):
        loop(maker, name, shape)
    maker.points.append((name, shape))


def _chain(maker: _Maker, name: str, shape: Shape) -> tuple[str, Shape]:
    mixed = uneven_after = False
    for _ in range(maker.pick(4)):
        node, out, mixes, uneven = _linear(maker, shape)
        if mixes and uneven_after:
            break  # a delay per element may not stand between two nodes that mix
        mixed, uneven_after = mixed or mixes, uneven_after or (uneven and mixed)
        name, shape = maker.add(node, name), out
    return name, shape


def _linear(maker: _Maker, shape: Shape) -> tuple[Any, Shape, bool, bool]:
    """(node, shape put out, whether it mixes elements, whether it delays them differently)."""
    import nir

    choice = maker.pick(8)
    if choice == 0:
        return nir.Scale(maker.grid(shape)), shape, False, False
    if choice == 1:
        uneven = maker.chance(0.5)
        steps = maker.rng.integers(0, 4, size=shape) if uneven else np.full(shape, maker.pick(4))
        return nir.Delay(steps * DT), shape, False, uneven
    if len(shape) == 1 or choice == 2:
        if len(shape) > 1:
            flat = (math.prod(shape),)
            return nir.Flatten({"input": np.array(shape)}, 0, -1), flat, False, False
        weight = maker.grid((maker.pick(5) + 1, math.prod(shape)))
        if choice % 2:
            return nir.Linear(weight), weight.shape[:1], True, False
        return nir.Affine(weight, maker.grid(weight.shape[:1])), weight.shape[:1], True, False
    if choice == 3:
        lead, pre = shape[:-1], shape[-1]
        return nir.Linear(maker.grid((*lead, 2, pre))), (*lead, 2), True, False
    return (*_window(maker, shape), True, False)


def _window(maker: _Maker, shape: Shape) -> tuple[Any, Shape]:
    import nir

    from nirbridge.network.nir.windows import window_of

    if len(shape) == 3 and maker.chance(0.4):
        kind = nir.SumPool2d if maker.chance(0.5) else nir.AvgPool2d
        kernel = np.minimum([2, 1 + maker.pick(2)], shape[1:])
        node = kind(kernel_size=kernel, stride=np.array([1 + maker.pick(2), 2]), padding=np.array([0, 0]))
        return node, (shape[0], *window_of("pool", node).slide(shape[1:]))
    axes = len(shape) - 1
    groups = shape[0] if maker.chance(0.3) else 1
    kernel = tuple(int(min(n, 1 + maker.pick(3))) for n in shape[1:])
    weight = maker.grid((groups * (1 + maker.pick(2)), shape[0] // groups, *kernel))
    same = maker.chance(0.2)
    stride = (1,) * axes if same else tuple(1 + maker.pick(2) for _ in range(axes))
    padding: Any = "same" if same else tuple(maker.pick(2) for _ in range(axes))
    numbers = [v[0] if axes == 1 and not isinstance(v, str) else v for v in (stride, padding, (1,) * axes)]
    bias = maker.grid(weight.shape[:1]) if maker.chance(0.5) else np.zeros(weight.shape[0])
    conv: Any = nir.Conv1d if axes == 1 else nir.Conv2d
    spatial = shape[1] if axes == 1 else shape[1:]
    node = conv(spatial, weight, numbers[0], numbers[1], numbers[2], groups, bias)
    return node, (weight.shape[0], *window_of("conv", node).slide(shape[1:]))


def _subgraph(maker: _Maker) -> None:
    import nir

    source, shape = maker.points[maker.pick(len(maker.points))]
    inner = _Maker(maker.rng)
    port = inner.add(nir.Input({"input": np.array(shape)}))
    inner.points.append((port, shape))
    _layer(inner)
    last, out = inner.points[-1]
    inner.add(nir.Output({"output": np.array(out)}), last)
    graph = nir.NIRGraph(inner.nodes, inner.edges, type_check=False)
    maker.points.append((maker.add(graph, source), out))


def random_neuron(maker: _Maker, shape: Shape) -> Any:
    """A neuron node of any class with parameters on a grid, some with metadata of nirbridge."""
    import nir

    kind = KINDS[0] if maker.chance(0.4) else KINDS[maker.pick(len(KINDS))]

    def full(low: int, high: int, unit: float) -> Array:
        values = maker.rng.integers(low, high, size=shape if maker.chance(0.3) else (), endpoint=True) * unit
        return np.broadcast_to(values, shape).astype(np.float32 if maker.chance(0.3) else np.float64)

    parameters: dict[str, Array] = {
        **{name: full(1, 16, 2 * DT) for name in ("tau", "tau_mem", "tau_syn")},
        "r": full(1, 4, 1.0) if kind not in ("IF", "I") else full(1, 2, 1 / DT),
        "w_in": full(1, 4, 0.5),
        "v_leak": full(-1, 1, 0.25),
        "v_threshold": full(1, 4, 0.5),
        "v_reset": full(-2, 0, 0.25),
        "threshold": full(1, 4, 0.5),
    }
    from nirbridge.network.nir.fields import NEURONS

    node = getattr(nir, kind)(**{name: parameters[name] for name in NEURONS[kind]})
    if kind in ("LIF", "IF", "CubaLIF") and maker.chance(0.3):
        node.metadata = {
            "nirbridge:reset": ("to-value", "subtract", "none")[maker.pick(3)],
            "nirbridge:compare": (">", ">=")[maker.pick(2)],
            "nirbridge:max_spikes": 1 + maker.pick(3),
            "nirbridge:refractory_steps": maker.pick(3),
            "nirbridge:v_init": full(-2, 2, 0.125),
            **({"nirbridge:v_min": full(-4, 0, 0.25)} if maker.chance(0.3) else {}),
        }
    return node


@st.composite
def networks(draw: st.DrawFn, *, max_populations: int = 4) -> Network:
    """A valid ``Network``: one lowered from ``nir_graphs``, some of its neurons and operators replaced by odd ones."""
    from nirbridge.network.nir.from_nir import from_nir

    network = from_nir(draw(nir_graphs(max_populations=max_populations)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    populations = tuple(_odd_neuron(p, rng) if rng.random() < 0.4 else p for p in network.populations)
    projections = tuple(_odd_operator(p, rng) if rng.random() < 0.3 else p for p in network.projections)
    return replace(network, populations=populations, projections=projections)


def _odd_neuron(population: Population, rng: np.random.Generator) -> Population:
    """Coefficients that no grid of parameters hits exactly, all options of the record."""

    def some(low: float, high: float) -> Array:
        values = rng.uniform(low, high, size=population.shape if rng.random() < 0.5 else ())
        return np.broadcast_to(values, population.shape)

    record = neuron(
        ("LIF", "CubaLIF")[int(rng.integers(2))],
        a_mem=some(-0.5, 1.0),
        g_mem=some(0.1, 2.0),
        bias=some(-0.5, 0.5),
        theta=some(0.1, 2.0),
        a_syn=some(0.0, 1.0),
        g_syn=some(0.1, 2.0),
        v_reset=some(-1.0, 0.0),
        reset=("to-value", "subtract", "none")[int(rng.integers(3))],
        reset_amount=some(0.1, 2.0),
        compare=(">", ">=")[int(rng.integers(2))],
        max_spikes=int(rng.integers(1, 4)),
        refractory_steps=rng.integers(0, 3, size=population.shape),
        v_init=some(-1.0, 1.0),
        i_init=some(-1.0, 1.0),
        v_min=some(-1.5, 0.2) if rng.random() < 0.3 else None,
    )
    return replace(population, neuron=record)


def _odd_operator(p: Projection, rng: np.random.Generator) -> Projection:
    """A dense operator thinned to a sparse one; an uneven delay at the source; any bias."""
    delay = freeze(p.delay_steps + rng.integers(0, 3, size=p.operator.input_shape), np.int64)
    bias = freeze(rng.normal(size=p.operator.output_shape))
    if not isinstance(p.operator, Dense):
        return replace(p, delay_steps=delay, bias=bias)
    weight = p.operator.weight
    rows, columns = np.nonzero(rng.random(weight.shape) < 0.6)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=weight.shape[0]))))
    data = freeze(weight[rows, columns])
    operator = Sparse(
        freeze(indptr, np.int64),
        freeze(columns, np.int64),
        data,
        p.operator.input_shape,
        p.operator.output_shape,
    )
    return replace(p, operator=operator, delay_steps=delay, bias=bias)


@st.composite
def chips(draw: st.DrawFn, *, words: bool = True) -> Chip:
    """A random small chip: a few cores with tight limits, so that networks of ``networks()`` often do not fit.

    ``words=False`` leaves out the limit of synaptic memory.
    """
    from nirbridge.chips import chip_from_dict, read_chip

    def limit(low: int, high: int) -> int | str:
        return draw(st.one_of(st.integers(low, high), st.just("unlimited")))

    base: Any = read_chip("loihi1").record
    record = dict(base)
    record["mesh"] = base["mesh"] | {
        "width_tiles": draw(st.integers(1, 4)),
        "height_tiles": draw(st.integers(1, 4)),
        "cores_per_tile": draw(st.integers(1, 2)),
        "chips_max": draw(st.integers(1, 3)),
    }
    record["core"] = base["core"] | {
        "neurons": limit(1, 40),
        "input_axons": limit(2, 80),
        "output_axons": limit(1, 80),
        "decay_profiles": limit(1, 4),
        "threshold_profiles": limit(1, 4),
    }
    record["synapses"] = base["synapses"] | {
        "words": limit(4, 400) if words else "unlimited",
        "run_targets_max": draw(st.integers(1, 64)),
        "run_free": draw(st.booleans()),
        "index_bits": draw(st.sampled_from([10, "none"])),
        "shared_kernels": draw(st.booleans()),
    }
    return chip_from_dict(record)


# -- connections ---------------------------------------------------------------------------------------------------
# Ways between the populations of random graphs: joins, loops, longer cycles, parallel readouts.
#
# ``maker`` is the graph in the making; its ``points`` are nodes that may feed others, with the shape of their outputs.

LONGEST = 4
"""Most populations of a cycle."""


def join(maker: Any, source: str, source_shape: Shape, target: str, shape: Shape) -> None:
    """An edge where both have one shape, else a dense layer, where the target is flat."""
    if source_shape == shape:
        if (source, target) not in maker.edges:  # NIR allows an edge once
            maker.edges.append((source, target))
    elif len(shape) == 1:
        maker.edges.append((_dense(maker, source, source_shape, shape), target))


def loop(maker: Any, name: str, shape: Shape) -> None:
    """A population onto itself."""
    import nir

    if len(shape) > 1:
        maker.edges.append((name, name))
        return
    end = name
    if maker.chance(0.4):
        end = maker.add(nir.Delay(np.full(shape, maker.pick(3) * DT)), end)
    weight = maker.grid((math.prod(shape), math.prod(shape)))
    node = nir.Linear(weight) if maker.chance(0.5) else nir.Affine(weight, maker.grid(shape))
    maker.edges.append((maker.add(node, end), name))


def cycle(maker: Any, first: int) -> None:
    """A cycle over two to four of the flat populations, each way of it delayed or not; none where there are fewer."""
    import nir

    flat = [p for p in maker.points[first:] if len(p[1]) == 1 and not isinstance(maker.nodes[p[0]], nir.NIRGraph)]
    if len(flat) < 2:
        return
    count = min(len(flat), 2 + maker.pick(LONGEST - 1))
    populations = [flat[i] for i in maker.rng.permutation(len(flat))[:count]]
    for (source, source_shape), (target, shape) in zip(populations, [*populations[1:], populations[0]], strict=True):
        maker.edges.append((_dense(maker, _delayed(maker, source, source_shape), source_shape, shape), target))


def read_out_again(maker: Any, output: str, shape: Shape, first: int) -> None:
    """One or two ways more into a flat output, from the last population or any other, delayed or not."""
    if len(shape) > 1:
        return
    for _ in range(1 + maker.pick(2)):
        others = maker.points[first:]
        source, source_shape = others[-1] if maker.chance(0.6) else others[maker.pick(len(others))]
        end = _delayed(maker, source, source_shape) if maker.chance(0.7) else source
        maker.edges.append((_dense(maker, end, source_shape, shape), output))


def _delayed(maker: Any, source: str, shape: Shape) -> str:
    """After a delay of 0 to 3 time steps, the same for all elements or one for each; or the source itself."""
    import nir

    if maker.chance(0.3):
        return source
    uneven = maker.chance(0.3)
    steps = maker.rng.integers(0, 4, size=shape) if uneven else np.full(shape, maker.pick(4))
    return maker.add(nir.Delay(steps * DT), source)


def _dense(maker: Any, source: str, source_shape: Shape, shape: Shape) -> str:
    import nir

    end = source
    if len(source_shape) > 1:
        end = maker.add(nir.Flatten({"input": np.array(source_shape)}, 0, -1), end)
    return maker.add(nir.Linear(maker.grid((math.prod(shape), math.prod(source_shape)))), end)

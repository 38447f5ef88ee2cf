"""Networks of the dyadic oracle: weights on a grid of 2^-10, dt/tau = 1/8, so that every sum is exact in float32."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import Adaptation, neuron
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Reshape, Scale, Sparse, SumPool
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe

TIMING = Timing(1e-3, "euler", "to-value", ">", "per-second")
LEAK = 7 / 8
"""1 - dt/tau of the dyadic oracle: with weights on a grid of 2^-10 every sum is exact in float32."""


def grid(rng: np.random.Generator, *shape: int) -> Array:
    return freeze(rng.integers(-300, 700, shape) / 1024)


def lif(**changes: Any) -> Any:
    return neuron("LIF", **{"a_mem": LEAK, "g_mem": 1 / 8, "theta": 1 / 16, **changes})


def dense(rng: np.random.Generator) -> Network:
    a, b = Population("a", (12,), lif()), Population("b", (5,), lif(reset="subtract", reset_amount=1 / 16))
    edges = (
        Projection("in", "a", Dense(grid(rng, 12, 9)), freeze(grid(rng, 12))),
        Projection("a", "b", Dense(grid(rng, 5, 12))),
    )
    return whole((a, b), edges, "b", (9,))


def convolutions(rng: np.random.Generator) -> Network:
    first = Conv(grid(rng, 4, 1, 3, 3), (2, 1), ((1, 0), (0, 1)), (1, 2), 2, (2, 9, 8))
    pool = SumPool((2, 2), (2, 2), ((0, 0), (0, 0)), first.output_shape, 0.25)
    a = Population("a", first.output_shape, lif(compare=">=", refractory_steps=2))
    flat = int(np.prod(pool.output_shape))
    chain = Chain((pool, Reshape(pool.output_shape, (flat,)), Dense(grid(rng, 6, flat))))
    return whole(
        (a, Population("b", (6,), lif())), (Projection("in", "a", first), Projection("a", "b", chain)), "b", (2, 9, 8)
    )


def recurrent(rng: np.random.Generator) -> Network:
    a = Population("a", (7,), lif(theta=np.arange(1, 8) / 32, v_reset=-1 / 16, v_init=1 / 64))
    delays = freeze(np.arange(1, 8))
    edges = (
        Projection("in", "a", Dense(grid(rng, 7, 6)), delay_steps=freeze(np.array([0, 2, 1, 0, 3, 1]))),
        Projection("a", "a", Dense(grid(rng, 7, 7)), delay_steps=delays, target_delay_steps=freeze(np.arange(7) % 3)),
        Projection("in", "a", Dense(grid(rng, 7, 6)), delay_steps=freeze(np.int64(2))),
    )
    return whole((a,), edges, "a", (6,))


def residual(rng: np.random.Generator) -> Network:
    """Two branches, currents of their own, floors, several spikes, a readout that drives, two outputs."""
    a = Population(
        "a", (6,), neuron("CubaLIF", a_mem=LEAK, g_mem=1 / 8, a_syn=1 / 2, g_syn=1.0, theta=1 / 32, v_min=-1 / 8)
    )
    b = Population("b", (6,), lif(max_spikes=3, theta=1 / 8, reset="subtract", bias=1 / 64))
    c = Population("c", (6,), lif(theta=None))
    d = Population("d", (6,), lif(reset="none"))
    indptr, indices = np.arange(0, 13, 2), np.array([0, 3, 1, 4, 2, 5, 0, 1, 2, 3, 4, 5])
    sparse = Sparse(freeze(indptr), freeze(indices), grid(rng, 12), (6,), (6,))
    edges = (
        Projection("in", "a", Identity((6,))),
        Projection("a", "b", Dense(grid(rng, 6, 6))),
        Projection("in", "b", Scale(grid(rng, 6))),
        Projection("b", "c", sparse),
        Projection("a", "c", Dense(grid(rng, 6, 6)), delay_steps=freeze(np.int64(4))),
        Projection("c", "d", Identity((6,))),
    )
    network = whole((a, b, c, d), edges, "d", (6,))
    more = Projection("c", "sum", Identity((6,))), Projection("b", "sum", Dense(grid(rng, 6, 6)), freeze(grid(rng, 6)))
    return replace(network, outputs=(*network.outputs, Port("sum", (6,))), projections=(*network.projections, *more))


def whole(
    populations: tuple[Population, ...], edges: tuple[Projection, ...], last: str, shape: tuple[int, ...]
) -> Network:
    end = next(p for p in populations if p.name == last)
    edges = (*edges, Projection(last, "out", Identity(end.shape)))
    return Network(1e-3, TIMING, populations, edges, (Port("in", shape),), (Port("out", end.shape),))


ORACLES = [dense, convolutions, recurrent, residual]


# -- drawn networks ------------------------------------------------------------------------------------------------


def drawn_neuron(rng: np.random.Generator, size: int, **more: Any) -> Any:
    """A neuron with every optional part now and then, in values of a grid."""
    each = (lambda values: freeze(values(size))) if rng.random() < 0.4 else (lambda values: float(values(1)[0]))
    kind, reset = rng.choice(["LIF", "CubaLIF", "IF"]), rng.choice(["to-value", "subtract", "none"])
    several = reset != "to-value" and rng.random() < 0.3
    changes: dict[str, Any] = {
        "a_mem": 1.0 if kind == "IF" else LEAK,
        "g_mem": 1 / 8,
        "theta": each(lambda n: rng.integers(1, 5, n) / 32),
        "reset": str(reset),
        "compare": str(rng.choice([">", ">="])),
        "refractory_steps": int(rng.integers(0, 3)) if rng.random() < 0.3 else 0,
        "max_spikes": 3 if several else 1,
    }
    if kind == "CubaLIF":
        changes |= {"a_syn": 1 / 2, "g_syn": 1.0}
    if reset == "to-value":
        changes["v_reset"] = each(lambda n: -rng.integers(0, 3, n) / 64)
    if reset == "subtract":
        changes["reset_amount"] = changes["theta"]
    if rng.random() < 0.3:
        changes["v_min"] = -1 / 8
    if rng.random() < 0.3:
        changes |= {"bias": each(lambda n: rng.integers(0, 3, n) / 64), "v_init": 1 / 64}
    if rng.random() < 0.2:
        jump = each(lambda n: rng.integers(0, 3, n) / 64)
        changes["adaptation"] = Adaptation.of(3 / 4, jump, in_reset=reset == "subtract")
    return neuron(str(kind), **{**changes, **more})


def drawn(seed: int) -> Network:
    """A random network: of dense layers, of convolutions and pools, with loops and delays, or with two branches."""
    rng = np.random.default_rng(seed)
    make = (_drawn_layers, _drawn_images, _drawn_loop, _drawn_branches)[seed % 4]
    return make(rng)


def _drawn_layers(rng: np.random.Generator) -> Network:
    sizes = [int(n) for n in rng.integers(2, 14, int(rng.integers(2, 6)))]
    populations = tuple(Population(f"p{k}", (n,), drawn_neuron(rng, n)) for k, n in enumerate(sizes[1:]))
    edges = []
    for k, (pre, post) in enumerate(itertools.pairwise(sizes)):
        bias = freeze(grid(rng, post)) if rng.random() < 0.4 else None
        delay = freeze(rng.integers(0, 4, pre)) if rng.random() < 0.3 else freeze(np.int64(rng.integers(0, 2)))
        edges.append(Projection(f"p{k - 1}" if k else "in", f"p{k}", Dense(grid(rng, post, pre)), bias, delay))
    return whole(populations, tuple(edges), populations[-1].name, (sizes[0],))


def _drawn_images(rng: np.random.Generator) -> Network:
    channels, kernels = int(rng.integers(1, 3)), int(rng.integers(1, 5))
    shape = (channels, int(rng.integers(6, 10)), int(rng.integers(6, 10)))
    step, edge = int(rng.integers(1, 3)), int(rng.integers(0, 2))
    first = Conv(
        grid(rng, kernels, channels, 3, 3), (step, 1), ((edge, 0), (0, edge)), (1, int(rng.integers(1, 3))), 1, shape
    )
    pool = SumPool((2, 2), (2, 2), ((0, 0), (0, 0)), first.output_shape, float(rng.choice([1.0, 0.25])))
    flat, size = int(np.prod(pool.output_shape)), int(rng.integers(2, 8))
    chain = Chain((pool, Reshape(pool.output_shape, (flat,)), Dense(grid(rng, size, flat))))
    a = Population("a", first.output_shape, drawn_neuron(rng, 1))
    edges = (Projection("in", "a", first), Projection("a", "b", chain))
    return whole((a, Population("b", (size,), drawn_neuron(rng, size))), edges, "b", shape)


def _drawn_loop(rng: np.random.Generator) -> Network:
    size, sources = (int(n) for n in rng.integers(2, 10, 2))
    delays = freeze(rng.integers(1, 6, size)) if rng.random() < 0.5 else freeze(np.int64(rng.integers(1, 4)))
    late = freeze(rng.integers(0, 3, size)) if rng.random() < 0.5 else freeze(np.int64(0))
    edges = (
        Projection("in", "a", Dense(grid(rng, size, sources)), delay_steps=freeze(rng.integers(0, 4, sources))),
        Projection("a", "a", Dense(grid(rng, size, size)), delay_steps=delays, target_delay_steps=late),
    )
    return whole((Population("a", (size,), drawn_neuron(rng, size)),), edges, "a", (sources,))


def _drawn_branches(rng: np.random.Generator) -> Network:
    """Two ways into one population, a list of synapses, and a readout."""
    size = int(rng.integers(3, 9))
    a, b = (Population(name, (size,), drawn_neuron(rng, size)) for name in "ab")
    c = Population("c", (size,), neuron("LI", a_mem=LEAK, g_mem=1 / 8, theta=None))
    indptr, indices = (
        np.arange(0, 2 * size + 1, 2),
        np.concatenate([np.sort(rng.choice(size, 2, False)) for _ in range(size)]),
    )
    sparse = Sparse(freeze(indptr), freeze(indices), grid(rng, 2 * size), (size,), (size,))
    edges = (
        Projection("in", "a", Scale(grid(rng, size))),
        Projection("a", "b", Dense(grid(rng, size, size))),
        Projection("in", "b", Identity((size,)), delay_steps=freeze(np.int64(rng.integers(0, 3)))),
        Projection("b", "c", sparse),
        Projection("a", "c", Identity((size,))),
    )
    return whole((a, b, c), edges, "c", (size,))


def side_by_side(networks: Sequence[Network]) -> Network:
    """Networks as parts of one, so that one process runs them all; names get the number of their part."""
    parts = [_renamed(network, f"n{k}.") for k, network in enumerate(networks)]
    joined = {key: tuple(x for part in parts for x in getattr(part, key)) for key in
              ("populations", "projections", "inputs", "outputs")}  # fmt: skip
    return replace(parts[0], **joined)


def _renamed(network: Network, prefix: str) -> Network:
    ends = {
        key: tuple(replace(x, name=prefix + x.name) for x in getattr(network, key))
        for key in ("populations", "inputs", "outputs")
    }
    edges = tuple(replace(p, source=prefix + p.source, target=prefix + p.target) for p in network.projections)
    return replace(network, **ends, projections=edges)


def check_every_bit(target: Any, network: Network, options: Any = None, *, steps: int = 24, batch: int = 3) -> None:
    """Spikes and potentials of all populations and outputs have the bits of the reference."""
    rng = np.random.default_rng(7)
    x = {p.name: (rng.random((steps, batch, *p.shape)) < 0.4).astype(np.float32) for p in network.inputs}
    record = [Probe("*", tuple(v for v in ("s", "v") if v in target.records))]
    reference = simulate(network, x, record=record, backend="numpy").recording.arrays
    found = target.run(target.emit(network, options), x, record=record).arrays
    assert set(found) == set(reference)
    differing = [key for key, array in reference.items() if not np.array_equal(found[key], array)]
    assert not differing
    assert [found[key].dtype for key in found] == [reference[key].dtype for key in found]
    assert sum(int(reference[p.name, "s"].any()) for p in network.populations if p.neuron.fires) > 0

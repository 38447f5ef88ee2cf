"""Large sparse reservoirs of shuffled neurons, and the connectivity of their maps beside that of METIS.

A ring (sources near on a line), a grid (near on a torus) and uniform random sources, each neuron with ``FAN_IN`` of
them and one of ``CHANNELS`` host inputs. Connectivity is the sum over neurons of (cores with targets - 1), as every
neuron fires alike. METIS (pymetis, where it is installed) cuts the graph into as many parts as our map has cores. Its
parts know no limit but their size, which they exceed by up to 3 %: with any repair the figure would be no lower.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from benchmarks.rivals.metis import is_installed
from nirbridge.arrays import Array, freeze
from nirbridge.chips import read_chip
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network import neuron, sparse_operator
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.pipeline import MapOptions, map_network

FAN_IN, CHANNELS = 30, 64
SIGMA_RING, SIGMA_GRID = 60.0, 4.0
WORKS = (("ring", "loihi1"), ("grid", "loihi1"), ("ring", "loihi2"), ("grid", "loihi2"), ("uniform", "loihi2"))
HEADS = ("reservoir", "seed", "chip", "effort", "cores", "bound", "connectivity", "METIS parts", "difference", "CPU s")


def sources(kind: str, neurons: int, seed: int = 0) -> Array:
    """[neurons, FAN_IN] sources of each neuron, in a random numbering; a grid has the next smaller square."""
    rng = np.random.default_rng(seed)
    if kind == "uniform":
        return rng.integers(neurons, size=(neurons, FAN_IN))
    if kind == "ring":
        away = np.rint(rng.normal(0, SIGMA_RING, (neurons, FAN_IN))).astype(np.int64)
        own = (np.arange(neurons)[:, None] + np.where(away == 0, 1, away)) % neurons
    else:
        side = int(np.sqrt(neurons))
        y, x = np.divmod(np.arange(side * side), side)
        away_y, away_x = np.rint(rng.normal(0, SIGMA_GRID, (2, side * side, FAN_IN))).astype(np.int64)
        own = (y[:, None] + away_y) % side * side + (x[:, None] + away_x) % side
    name = rng.permutation(len(own))
    shuffled = np.empty_like(own)
    shuffled[name] = name[own]
    return shuffled


def reservoir(own: Array, seed: int = 0) -> Network:
    """A network of these sources; synapses that occur twice are one, of the sum of both weights."""
    n, rng = len(own), np.random.default_rng(seed)
    rows = np.repeat(np.arange(n), own.shape[1])
    weights = rng.normal(0, 0.2, own.size).astype(np.float32)
    loop = sparse_operator(sparse.coo_array((weights, (rows, own.ravel())), shape=(n, n)))
    drive = sparse_operator(sparse.coo_array((np.ones(n), (np.arange(n), np.arange(n) % CHANNELS))))
    projections = (
        Projection("in", "reservoir", drive),
        Projection("reservoir", "reservoir", loop, delay_steps=freeze(np.int64(1)), is_back=True),
    )
    populations = (Population("reservoir", (n,), neuron("LIF", a_mem=0.9)),)
    timing = Timing(1e-3, "euler", "to-value", ">", "per-second")
    return Network(1e-3, timing, populations, projections, (Port("in", (CHANNELS,)),), ())


def cores_of_neurons(mapped: MappedNetwork) -> Array:
    """The number of the block of every neuron of the model."""
    order = np.array(mapped.partition.orders.get("reservoir", range(mapped.network.neurons)))
    part = np.empty(len(order), np.int64)
    for number, block in enumerate(mapped.partition.blocks):
        for s in block.slices:
            part[order[slice(*s.box[0])]] = number
    return part


def connectivity(own: Array, part: Array) -> int:
    """Sum over neurons with targets of the cores that hold these, less one."""
    cores = int(part.max()) + 1
    pairs = np.unique(own.ravel() * cores + np.repeat(part, own.shape[1]))
    return len(pairs) - len(np.unique(own))


def metis_parts(own: Array, parts: int) -> Array | None:
    """The part of each neuron by METIS; None: pymetis is not installed."""
    if not is_installed():
        return None
    import pymetis

    n = len(own)
    graph = sparse.csr_array((np.ones(own.size), (np.repeat(np.arange(n), own.shape[1]), own.ravel())), shape=(n, n))
    graph = sparse.csr_array(graph + graph.T)
    graph.setdiag(0)
    graph.eliminate_zeros()
    return np.asarray(pymetis.part_graph(parts, adjacency=pymetis.CSRAdjacency(graph.indptr, graph.indices))[1])


@dataclass(frozen=True, slots=True)
class ReservoirResult:
    """One reservoir on one chip; ``metis`` is the connectivity of METIS's parts, None: pymetis is not installed."""

    kind: str
    neurons: int
    seed: int
    chip: str
    effort: str
    cores: int
    bound: int
    connectivity: int
    metis: int | None
    cpu_s: float

    def row(self) -> tuple[str, ...]:
        """The cells under ``HEADS``."""
        name = (f"{self.kind} {self.neurons:,}", str(self.seed), self.chip, self.effort, str(self.cores))
        beside = ("", "")
        if self.metis is not None:
            beside = (f"{self.metis:,}", f"{self.connectivity / self.metis - 1:+.1%}")
        return *name, str(self.bound), f"{self.connectivity:,}", *beside, f"{self.cpu_s:.1f}"


def reservoir_results(neurons: int, efforts: tuple[str, ...], seed: int) -> Iterator[ReservoirResult]:
    """Every reservoir, chip and effort; CPU s of all stages with compiled kernels cached."""
    for kind, chip in WORKS:
        own = sources(kind, neurons, seed)
        network, cut = reservoir(own, seed), dict[int, int | None]()
        for effort in efforts:
            start = time.process_time()
            mapped = map_network(network, read_chip(chip), MapOptions(effort=effort, seed=seed))
            spent, report = time.process_time() - start, mapped.partition.report
            if report.cores not in cut:
                part = metis_parts(own, report.cores)
                cut[report.cores] = None if part is None else connectivity(own, part)
            reached = connectivity(own, cores_of_neurons(mapped))
            counts = (report.cores, report.cores_lower_bound, reached, cut[report.cores])
            yield ReservoirResult(kind, len(own), seed, chip, effort, *counts, round(spent, 2))

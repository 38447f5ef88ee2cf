"""Hops of the cortical microcircuit at 80, 108 and 160 neurons: nirbridge from a NIR file, a rival, published figures.

The eight populations of Potjans and Diesmann with their connection probabilities, scaled as for HySMap's small ones;
the recurrent weights are one ``nir.Linear`` with zeros. A core has room for a fifth more than its share of the neurons.
"""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path

import nir
import numpy as np

from benchmarks.rivals.annealed import annealed
from nirbridge.arrays import Array
from nirbridge.chips import Chip, chip_from_dict, read_chip
from nirbridge.network.model import Network
from nirbridge.pipeline import MapOptions, load_network, map_network

PROBABILITY = np.array(
    [
        [0.1009, 0.1689, 0.0437, 0.0818, 0.0323, 0.0, 0.0076, 0.0],
        [0.1346, 0.1371, 0.0316, 0.0515, 0.0755, 0.0, 0.0042, 0.0],
        [0.0077, 0.0059, 0.0497, 0.1350, 0.0067, 0.0003, 0.0453, 0.0],
        [0.0691, 0.0029, 0.0794, 0.1597, 0.0033, 0.0, 0.1057, 0.0],
        [0.1004, 0.0622, 0.0505, 0.0057, 0.0831, 0.3726, 0.0204, 0.0],
        [0.0548, 0.0269, 0.0257, 0.0022, 0.0600, 0.3158, 0.0086, 0.0],
        [0.0156, 0.0066, 0.0211, 0.0166, 0.0572, 0.0197, 0.0396, 0.2252],
        [0.0364, 0.0010, 0.0034, 0.0005, 0.0277, 0.0080, 0.0658, 0.1443],
    ]
)
"""Of a synapse from a neuron of population j to one of i (Potjans and Diesmann 2014, table 5)."""
SHARES = np.array([0.2681, 0.0756, 0.2840, 0.0710, 0.0629, 0.0138, 0.1865, 0.0382])
RATES = np.array([5.5, 11, 8.5, 14, 7, 12, 3.5, 9])
"""Mean spikes per second; those of neurons are log-normal."""
PUBLISHED = {80: (4, 3543), 108: (6, 7775), 160: (6, 12820)}
"""Neurons -> side of the mesh, and hops of HySMap (means of seeds)."""
HEADS = ("neurons", "mesh", "published", "as blocks", "fast", "default", "CPU s", "annealed rival", "CPU s")
STEP_S = 1e-3


def circuit(neurons: int, seed: int) -> tuple[Array, Array]:
    """Which neuron (column) reaches which (row), and spikes per second."""
    rng = np.random.default_rng(seed)
    sizes = np.maximum(np.floor(SHARES * neurons), 1).astype(int)
    while (missing := neurons - int(sizes.sum())) != 0:
        lacks = SHARES * neurons - sizes
        sizes[np.argmax(lacks) if missing > 0 else np.argmin(lacks)] += np.sign(missing)
    kind = np.repeat(np.arange(8), sizes)
    chance = PROBABILITY[np.ix_(kind, kind)] * np.clip(18 / math.sqrt(neurons), 1, 8)
    reaches = rng.random((neurons, neurons)) < chance + 0.02 * (kind[:, None] == kind)
    np.fill_diagonal(reaches, val=False)
    return reaches, RATES[kind] * np.exp(0.35 * rng.normal(size=neurons) - 0.35**2 / 2)


def from_file(reaches: Array) -> Network:
    """The network read back from a NIR file."""
    n = len(reaches)
    one = np.ones(n)
    nodes = {
        "in": nir.Input({"input": np.array([n])}),
        "drive": nir.Linear(np.eye(n, dtype=np.float32)),
        "cells": nir.LIF(0.01 * one, one, 0 * one, one),
        "back": nir.Linear(reaches.astype(np.float32)),
        "out": nir.Output({"output": np.array([n])}),
    }
    edges = [("in", "drive"), ("drive", "cells"), ("cells", "back"), ("back", "cells"), ("cells", "out")]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "circuit.nir")
        nir.write(path, nir.NIRGraph(nodes, edges))
        return load_network(path)


def mesh(neurons: int) -> Chip:
    """Crossbar cores on the mesh of the published figure, with room for a fifth more than their share."""
    side = PUBLISHED[neurons][0]
    record = dict(read_chip("crossbar256").record)
    size = {"width_tiles": side, "height_tiles": side, "cores_per_tile": 1, "chips_max": 1}
    core = {**record["core"], "neurons": room(neurons), "input_axons": "unlimited"}  # type: ignore[dict-item]
    return chip_from_dict({**record, "name": f"mesh{side}", "mesh": size, "core": core})


def room(neurons: int) -> int:
    """Neurons of one core."""
    return math.ceil(1.2 * neurons / PUBLISHED[neurons][0] ** 2)


def hops_table(seeds: int) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heads and rows: means over the seeds."""
    return HEADS, [_row(neurons, seeds) for neurons in PUBLISHED]


def _row(neurons: int, seeds: int) -> tuple[str, ...]:
    side, published = PUBLISHED[neurons]
    found = np.mean([_measured(neurons, seed) for seed in range(seeds)], axis=0)
    blocks, fast, default, seconds, rival, rival_seconds = found
    hops = (f"{published:,}", f"{blocks:,.0f}", f"{fast:,.0f}", f"{default:,.0f}", f"{seconds:.1f}")
    return (str(neurons), f"{side} x {side}", *hops, f"{rival:,.0f}", f"{rival_seconds:.1f}")


def _measured(neurons: int, seed: int) -> tuple[float, ...]:
    reaches, rate = circuit(neurons, seed)
    network, chip = from_file(reaches), mesh(neurons)
    rates = ({"cells": rate * STEP_S, "in": np.zeros(neurons)}, "given")
    found = []
    for objective, effort in (("cores", "default"), ("traffic", "fast"), ("traffic", "default")):
        start = time.process_time()
        options = MapOptions(objective=objective, effort=effort, rates=rates, seed=seed)
        found.append(map_network(network, chip, options).costs.multicast_hops_per_step / STEP_S)
        seconds = time.process_time() - start
    start = time.process_time()
    rival = annealed(reaches, rate, PUBLISHED[neurons][0], room(neurons), seed)
    return (*found, seconds, rival, time.process_time() - start)

"""Stored retimed networks: delays, latencies, initial states, relays and notes.

``python -m tests.passes.known_retimings`` writes them again, after a change of the rules that is meant.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge.arrays import compact
from nirbridge.errors import NirbridgeError
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Dense
from nirbridge.passes import RelayPools
from nirbridge.passes.retiming.retime import Retime
from tests.partitioner.cases import random_network

KNOWN = Path(__file__).parent / "known" / "retimings.json"
WAYS: dict[str, dict[str, Any]] = {
    "free": {},
    "short": {"delay_steps_max": 1},
    "binary": {"delay_steps_max": 2, "graded_spikes": False},
    "early": {"keep_early_spikes": True, "delay_steps_max": 3},
}
CASES = {f"{seed}, {way}": (seed, way) for seed in range(14) for way in WAYS}


def made(seed: int) -> Network:
    """A random network with longer delays; some populations have a start of their own, or a drive."""
    rng = np.random.default_rng([seed, 7])
    network = random_network(rng)
    projections = tuple(
        replace(p, delay_steps=p.delay_steps + int(rng.integers(0, 4))) if not p.is_back else p
        for p in network.projections
    )
    populations = tuple(_driven(p, rng) for p in network.populations)
    last = populations[-1]
    read = Projection(last.name, "out", Dense(np.eye(last.size)))
    out = Port("out", (last.size,))
    return replace(network, projections=(*projections, read), populations=populations, outputs=(out,))


def _driven(p: Population, rng: np.random.Generator) -> Population:
    values: dict[str, Any] = {"a_mem": compact(rng.choice([0.0, 0.5, 1.0])), "theta": compact(np.float64(1.0))}
    kind = int(rng.integers(4))
    if kind == 1:
        values["v_init"] = compact(rng.integers(-4, 4, size=p.shape) / 8)
    elif kind == 2:
        values["bias"] = compact(rng.integers(-4, 3, size=p.shape) / 8)
    elif kind == 3:
        values["bias"] = compact(np.float64(1.5))
    return replace(p, neuron=replace(neuron("LIF"), **values))


def outcome(name: str) -> Any:
    """Everything that retiming decided for a case, or why it cannot be done."""
    seed, way = CASES[name]
    network = RelayPools(graded_spikes=True)(made(seed))
    try:
        found = Retime(**WAYS[way]).retimed(network)
    except NirbridgeError as error:
        return str(error).split("\n")
    return {
        "latency": dict(found.latency),
        "notes": list(found.notes),
        "early": list(found.early),
        "projections": [
            [p.source, p.target, *_ends(p.delay_steps), *_ends(p.target_delay_steps), bool(p.is_back)]
            for p in found.network.projections
        ],
        "populations": [
            [p.name, p.neuron.kind, list(p.shape), *_ends(p.neuron.v_init), *_ends(p.neuron.i_init)]
            for p in found.network.populations
        ],
    }


def _ends(values: Any) -> list[float]:
    own = np.asarray(values, np.float64)
    return [round(float(own.min(initial=np.inf)), 9), round(float(own.max(initial=-np.inf)), 9)]


if __name__ == "__main__":
    lines = (f"{json.dumps(name)}: {json.dumps(outcome(name))}" for name in CASES)
    KNOWN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")

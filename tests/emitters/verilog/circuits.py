"""Circuits of networks with given lanes, held against the fixed-point simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact
from nirbridge.emitters.verilog.boards import read_board
from nirbridge.emitters.verilog.emit import program
from nirbridge.emitters.verilog.plan import circuit
from nirbridge.emitters.verilog.run import built
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.types import Probe

ALL = [Probe("*", ("s", "u", "v"))]
LANES = [(1, 1), (2, 1), (2, 2), (3, 1), (4, 2), (5, 5), (8, 2), (6, 3)]


def with_lanes(q: QuantizedNetwork, lanes: Mapping[str, tuple[int, int]] | int = 0) -> Artifact:
    """The program of a network; lanes by population, or drawn from a seed."""
    rng = np.random.default_rng(lanes if isinstance(lanes, int) else 0)
    drawn = {p.name: LANES[int(rng.integers(len(LANES)))] for p in q.populations}
    return program(circuit(q, drawn if isinstance(lanes, int) else lanes), read_board("ecp5-25k"), 0.3)


def assert_equal_to_fixed(
    q: QuantizedNetwork, artifact: Artifact, inputs: Any, simulator: str, stalls: Sequence[int] = (0, 1, 2)
) -> dict[Any, Array]:
    """Every spike, u and v of the simulated circuit is that of the fixed-point simulator, however streams rest."""
    fixed = simulate_fixed(q, inputs, record=ALL).recording.arrays
    with built(artifact, simulator) as made:
        for stall in stalls:
            found = made.recording(inputs, record=ALL, stall=stall).arrays
            assert set(found) == set(fixed)
            for key, array in fixed.items():
                assert np.array_equal(found[key], array), (key, stall)
    return dict(fixed)

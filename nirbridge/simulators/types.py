"""What goes into a simulation and what comes out of it: one `Recording` type for every simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nirbridge.arrays import Array

Key = tuple[str, str]
"""(population, input or output name, variable): a variable is ``s`` (spikes), ``v``, ``i``, or ``count``."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What to record of one node: ``s``, ``v`` (after the reset), ``u`` (before the reset), ``i``, ``count``.

    ``every``: one step in so many is kept (the last of each stretch); ``count`` sums spikes over all steps instead.
    """

    node: str
    variables: tuple[str, ...]
    every: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """What a simulation returned.

    ``arrays[node, variable]`` has shape ``[steps kept, batch, *node shape]`` (``[batch, *node shape]`` for ``count``);
    without a batch axis in the input there is none here. Spikes are uint8 (int16 where a neuron may send several,
    float where a node is graded). ``meta`` is plain JSON: dt, steps, backend, versions, seed, latency per output,
    assumptions, choices made. Saved and loaded as the contracts text says (section 2).
    """

    arrays: Mapping[Key, Array]
    meta: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class SimulationState:
    """Everything that the next step depends on, so that a long run can be cut: read-only arrays with a batch axis.

    ``arrays[name, part]``: ``v``, ``i``, ``refractory`` per population; ``past`` per source of a delayed projection:
    its last outputs, oldest first (and ``past of projection k`` per target where delays belong to the target).
    """

    step: int
    arrays: Mapping[tuple[str, str], Array]


@dataclass(frozen=True, slots=True, eq=False)
class SimulationResult:
    """A recording and the state after its last step."""

    recording: Recording
    state: SimulationState

"""Figures of another simulator, as a profile shows them beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Seconds of an inference in which no message waits for a link or a buffer: all, and by stage.

    ``neurons_s`` and ``messages_s``: of the core that is busiest with computing and sending, and with processing
    incoming messages, in each time step. ``simple_s``: another simulator's plainest timing model; None where it has
    one model.
    """

    total_s: float
    neurons_s: float
    messages_s: float
    barrier_s: float
    simple_s: float | None = None


@dataclass(frozen=True, slots=True)
class Witness:
    """Another simulator of the same map on the same data: figures of an inference, and whether its spikes are the same.

    ``energy_j`` and ``time_s``: None where the chip has no such figures. ``circuit``: of a network as a circuit, its
    cells, clock and cycles, by the columns of a profile without ``witness_``.
    """

    name: str
    version: str
    spikes_equal: bool
    spikes: float
    energy_j: float | None
    time_s: float | None
    samples: int
    notes: tuple[str, ...] = ()
    circuit: Mapping[str, float] = field(default_factory=dict)

"""Figures of another simulator, as a profile shows them beside ours."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Witness:
    """Another simulator of the same map on the same data: figures of an inference, and whether its spikes are the same.

    ``energy_j`` and ``time_s``: None where the chip has no such figures.
    """

    name: str
    version: str
    spikes_equal: bool
    spikes: float
    energy_j: float | None
    time_s: float | None
    samples: int
    notes: tuple[str, ...] = ()

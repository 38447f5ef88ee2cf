"""Spikes of the module beside those of the import, population by population."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import counted, quoted
from nirbridge.verification.matching import MatchedValues

_SHOWN = 8


@dataclass(frozen=True, slots=True)
class SpikeDifference:
    """``module``, ``imported``: spikes of both; ``unequal`` of ``values`` cells (time step, sample, neuron) differ."""

    name: str
    module: int
    imported: int
    unequal: int
    values: int

    @property
    def share(self) -> float:
        """Share of the cells that differ."""
        return self.unequal / max(1, self.values)

    @property
    def text(self) -> str:
        """Name, spikes and share."""
        return f"{quoted(self.name)} {self.module:,} and {self.imported:,} ({self.share:.2%})"

    def document(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


def spike_differences(matched: Iterable[MatchedValues]) -> tuple[SpikeDifference, ...]:
    """Of the spikes of one run."""
    return tuple(
        SpikeDifference(
            m.name,
            _total(m.original),
            _total(m.imported),
            int(np.count_nonzero(m.differs)),
            m.original.size,
        )
        for m in matched
    )


def _total(spikes: Array) -> int:
    """Their sum, of those that are numbers: a neuron that gives NaN is a difference."""
    return round(float(spikes.sum(where=np.isfinite(spikes))))


def added(runs: Iterable[Sequence[SpikeDifference]]) -> tuple[SpikeDifference, ...]:
    """Of several runs together, by name."""
    totals: dict[str, SpikeDifference] = {}
    for one in (one for run in runs for one in run):
        old = totals.get(one.name, SpikeDifference(one.name, 0, 0, 0, 0))
        totals[one.name] = SpikeDifference(
            one.name,
            old.module + one.module,
            old.imported + one.imported,
            old.unequal + one.unequal,
            old.values + one.values,
        )
    return tuple(totals.values())


def differences_text(differences: Sequence[SpikeDifference]) -> str:
    """The populations whose spikes differ, the first eight of them; empty where no population was compared."""
    unequal = [one for one in differences if one.unequal]
    if not differences:
        return ""
    if not unequal:
        return f"the spikes of {counted(len(differences), 'population')} are equal"
    more = len(unequal) - _SHOWN
    shown = ", ".join(one.text for one in unequal[:_SHOWN])
    rest = f", and {counted(more, 'other population')}" if more > 0 else ""
    return f"spikes of the module and of the import (share of values that differ): {shown}{rest}"

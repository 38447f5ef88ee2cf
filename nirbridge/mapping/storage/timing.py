"""The timing that a map was made with: how it says the model has to be read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import MappingProxyType

from nirbridge.errors import FileError, Problem, quoted
from nirbridge.mapping.storage.record import MapRecord
from nirbridge.network.model import Network, Timing
from nirbridge.network.nir.timing import CHOICES

FIELDS = ("dt", *CHOICES)


def timing_of(record: MapRecord) -> Timing:
    """The timing in the map; one FileError with every value that makes no sense."""
    stored = record.raw["timing"]
    problems = []
    if not (math.isfinite(stored["dt"]) and stored["dt"] > 0):
        limit = "expected a number of seconds above 0"
        problems.append(Problem("map: timing.dt", f"is {stored['dt']}", limit, "map the model again"))
    for key, choices in CHOICES.items():
        if stored[key] not in choices:
            limit = f"expected one of {', '.join(choices)}"
            problems.append(Problem(f"map: timing.{key}", f"is {quoted(stored[key])}", limit, "map the model again"))
    if problems:
        raise FileError(*problems)
    return Timing(**{key: stored[key] for key in FIELDS})


def asked_by(record: MapRecord, network: Network, asked: Timing) -> Timing:
    """``asked``, and what was asked for when the map was made: where it differs from ``network``, which was read so.

    What does not differ is left open, so that metadata of single nodes still counts.
    """
    mapped = timing_of(record)
    chosen = {}
    for key in FIELDS:
        mine = getattr(asked, key)
        differs = getattr(mapped, key) != getattr(network.timing, key)
        chosen[key] = getattr(mapped, key) if mine is None and differs else mine
    return Timing(**chosen)


def other_timing(record: MapRecord, network: Network) -> Iterator[Problem]:
    """Where the map was made with another timing than ``network``."""
    mapped = timing_of(record)
    for key in FIELDS:
        mine, read = getattr(mapped, key), getattr(network.timing, key)
        if mine != read:
            limit = f"{_shown(read)} as the model was read"
            step = "leave out the option, or map the model again"
            yield Problem(f"timing.{key}", f"{_shown(mine)} in the map", limit, step, MappingProxyType({"key": key}))


def _shown(value: float | str | None) -> str:
    return quoted(value) if isinstance(value, str) else str(value)

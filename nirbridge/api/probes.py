"""Probes of a simulation from short texts."""

from __future__ import annotations

from collections.abc import Sequence

from nirbridge.errors import UsageError, quoted
from nirbridge.simulators.types import Probe

Probes = str | Sequence[str | Probe]


def probes_of(record: Probes | None) -> list[Probe] | None:
    """Probes from texts such as ``l1:s,v``; None stays None. Raises UsageError."""
    if record is None:
        return None
    return [
        _probe(probe) if isinstance(probe, str) else probe
        for probe in ((record,) if isinstance(record, str) else record)
    ]


def _probe(text: str) -> Probe:
    node, colon, variables = text.rpartition(":")
    if not colon:
        return Probe(text, ("s",))
    names = tuple(name for name in variables.split(",") if name)
    if not node or not names:
        limit = "NODE:VARIABLES, variables with commas between"
        raise UsageError.of(f"record {quoted(text)}", "no node or no variable", limit, "for example '*:s,v'")
    return Probe(node, names)

"""Weights that a map leaves out as zeros although the integers of its cores are not 0."""

from __future__ import annotations

from collections.abc import Container, Iterator
from types import MappingProxyType

from nirbridge.errors import Diagnostic, NirbridgeError, counted, quoted
from nirbridge.mapping.integers import integers_of
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.storage.record import MapRecord
from nirbridge.mapping.zeros import lost_weights


def lost_problems(mapping: MappedNetwork) -> Iterator[Diagnostic]:
    """Weights that the cores have to hold and have no synapse for."""
    if not mapping.stored:
        return
    try:
        integers = None if mapping.placement_only else integers_of(mapping)
    except NirbridgeError:
        integers = None  # the chip has none for this network: the real weights count
    for k, missing in lost_weights(mapping.network, mapping.stored, integers).items():
        p = mapping.network.projections[k]
        subject = f"projection {k} ({quoted(p.source)} -> {quoted(p.target)})"
        found = f"{counted(missing, 'weight')} other than 0 left out as zeros"
        yield Diagnostic(subject, found, "", "map the model again", MappingProxyType({"projection": k}))


def unfounded_marks(record: MapRecord, stored: Container[int]) -> Iterator[Diagnostic]:
    """Projections marked to have zeros left out that have none; ``stored``: those that have."""
    for k, p in enumerate(record.projections):
        if p.zeros is not None and k not in stored:
            subject = f"projection {k} ({quoted(p.source)} -> {quoted(p.target)})"
            found = f"says zeros {quoted(p.zeros)}, but its cores hold every weight"
            yield Diagnostic(subject, found, "", "map the model again", MappingProxyType({"projection": k}))

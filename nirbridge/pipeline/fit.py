"""What a chip makes of a network before it is mapped: relays, copies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from nirbridge.errors import quoted
from nirbridge.pipeline.options import MapOptions

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip
    from nirbridge.network.model import Network


def fit_to_chip(network: Network, chip: Chip, *, relays: bool = True) -> Network:
    """The network with what the chip's fan-in makes necessary (relays), each change said in its notes."""
    from nirbridge.partitioner.relays import with_relays

    return with_relays(network, chip) if relays else network


def split_sources(network: Network, splits: Mapping[str, int]) -> Network:
    """The network with populations replaced by copies of them, in the given order, each said in its notes."""
    from nirbridge.passes import split_source

    for name, ways in splits.items():
        changed = split_source(network, name, ways)
        note = f"population {quoted(name)} is mapped as {ways} copies, each feeding a part of its targets"
        network = replace(changed, notes=(*changed.notes, note))
    return network


def rates_of_copies(network: Network, options: MapOptions) -> MapOptions:
    """Rates that a caller gave, with those of a population for its copies too."""
    if options.rates is None or not options.splits:
        return options
    given, said = options.rates
    for name, ways in options.splits.items():
        split = split_sources(network, {name: ways})
        known = {p.name for p in network.populations}
        given = {**given, **{p.name: given[name] for p in split.populations if p.name not in known and name in given}}
        network = split
    return replace(options, rates=(given, said))

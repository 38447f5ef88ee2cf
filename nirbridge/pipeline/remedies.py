"""The smallest changes that make a network fit; each was tried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nirbridge.chips import builtin_chips, cores_of, read_chip
from nirbridge.chips.model import Chip
from nirbridge.errors import NirbridgeError, counted, quoted
from nirbridge.network.model import Network
from nirbridge.partitioner.cost.sizing import cost_model, total_out_degrees
from nirbridge.partitioner.options import PartitionOptions
from nirbridge.partitioner.partition import partition
from nirbridge.passes.base import run_passes
from nirbridge.passes.replicate_source import ReplicateSource

SPLITS = (2, 3, 4, 6, 8, 12, 16)
"""Copies of a source that are tried, in this order."""
SOURCES_MAX = 3
"""Sources that are tried: those with the most targets a neuron."""


def remedies(
    network: Network, chip: Chip, options: PartitionOptions, prepare: Callable[[Chip, int | None], Network | None]
) -> tuple[str, ...]:
    """Single changes that fit, the smallest of each kind: more chips, fewer bits, a split source, another chip.

    Each is tried with first-fit packing, so a change that is left out may still fit with a longer search.
    ``prepare`` gives the network as a chip would run it with that many weight bits (None: the chip's own), and None
    where it would not: such a change is no remedy.
    """
    quick = replace(options, method="packed", effort="fast", progress=lambda *_: None)
    changes = [
        _more_chips(network, chip, quick),
        _fewer_bits(network, chip, quick, prepare),
        _split(network, chip, quick),
    ]
    for name in builtin_chips():
        if name != chip.name:
            changes.append(_another(read_chip(name), quick, prepare))
    return tuple(text for text in changes if text)


def _cores(network: Network, chip: Chip, options: PartitionOptions) -> int | None:
    try:
        return len(partition(network, chip, options).blocks)
    except NirbridgeError:
        return None


def _more_chips(network: Network, chip: Chip, options: PartitionOptions) -> str:
    chips_max = chip.mesh.chips_max
    needed = _cores(network, chip, replace(options, chips=chips_max)) if chips_max > options.chips else None
    if needed is None:
        return ""
    chips = next(n for n in range(options.chips, chips_max + 1) if len(cores_of(chip, n)) >= needed)
    return f"--chips {chips} ({needed:,} of {len(cores_of(chip, chips)):,} cores)"


def _fewer_bits(
    network: Network, chip: Chip, options: PartitionOptions, prepare: Callable[[Chip, int | None], Network | None]
) -> str:
    bits = options.weight_bits or chip.synapses.weight_bits_default
    for fewer in sorted((b for b in chip.synapses.weight_bits if b < bits), reverse=True):
        needed = _cores(network, chip, replace(options, weight_bits=fewer))
        if needed is not None and prepare(chip, fewer) is not None:
            return f"--weight-bits {fewer} ({needed:,} of {len(cores_of(chip, options.chips)):,} cores)"
    return ""


def _split(network: Network, chip: Chip, options: PartitionOptions) -> str:
    """The split that adds the fewest neurons; only where the network fits but for the limit of output axons."""
    unlimited = replace(chip, core=replace(chip.core, output_axons=None))
    if chip.core.output_axons is None or _cores(network, unlimited, options) is None:
        return ""
    splits: list[tuple[int, str]] = []
    for name in _widest_sources(network, chip, options):
        for ways in SPLITS:
            needed = _after_split(network, name, ways, chip, options)
            if needed is not None:
                extra = (ways - 1) * network.population(name).size
                cores = len(cores_of(chip, options.chips))
                costs = f"{counted(extra, 'neuron')} more, {needed:,} of {counted(cores, 'core')}"
                text = f"--split {quoted(name)}={ways} ({costs})"
                splits.append((extra, text))
                break
    return min(splits)[1] if splits else ""


def _widest_sources(network: Network, chip: Chip, options: PartitionOptions) -> list[str]:
    """Populations whose neurons have the most targets, with two targets at least."""
    degrees = total_out_degrees(cost_model(network, chip, options.weight_bits or chip.synapses.weight_bits_default))
    targets_max = {p.name: int(degrees[p.name].max(initial=0)) for p in network.populations if p.name in degrees}
    wide = [name for name in targets_max if targets_max[name] > 1]
    return sorted(wide, key=lambda name: -targets_max[name])[:SOURCES_MAX]


def _after_split(network: Network, name: str, ways: int, chip: Chip, options: PartitionOptions) -> int | None:
    try:
        return _cores(run_passes(network, [ReplicateSource(name, ways)]), chip, options)
    except NirbridgeError:
        return None


def _another(chip: Chip, options: PartitionOptions, prepare: Callable[[Chip, int | None], Network | None]) -> str:
    try:
        network = prepare(chip, None)
    except NirbridgeError:
        return ""
    if network is None:
        return ""
    needed = _cores(network, chip, replace(options, weight_bits=None, chips=1))
    return "" if needed is None else f"--chip {chip.name} ({needed:,} of {len(cores_of(chip)):,} cores)"

"""The smallest changes that would make a network fit: each was tried, none is guessed."""

from __future__ import annotations

from dataclasses import replace

from nirbridge.chips import builtin_chips, cores_of, load_chip
from nirbridge.chips.model import Chip
from nirbridge.errors import NirbridgeError
from nirbridge.network.model import Network
from nirbridge.partitioner.partition import Options, partition
from nirbridge.partitioner.relays import with_relays


def remedies(network: Network, chip: Chip, options: Options) -> tuple[str, ...]:
    """Single changes that fit, the smallest of each kind: more chips, fewer weight bits, another built-in chip.

    Each is tried with first-fit packing, so a change that is left out may still fit with a longer search.
    """
    quick = replace(options, method="packed", effort="fast", progress=lambda *_: None)
    found = [_more_chips(network, chip, quick), _fewer_bits(network, chip, quick)]
    for name in builtin_chips():
        if name != chip.name:
            found.append(_another(network, load_chip(name), quick))
    return tuple(text for text in found if text)


def _cores(network: Network, chip: Chip, options: Options) -> int | None:
    try:
        return len(partition(network, chip, options).blocks)
    except NirbridgeError:
        return None


def _more_chips(network: Network, chip: Chip, options: Options) -> str:
    most = chip.mesh.chips_max
    needed = _cores(network, chip, replace(options, chips=most)) if most > options.chips else None
    if needed is None:
        return ""
    chips = next(n for n in range(options.chips, most + 1) if len(cores_of(chip, n)) >= needed)
    return f"--chips {chips} ({needed:,} of {len(cores_of(chip, chips)):,} cores)"


def _fewer_bits(network: Network, chip: Chip, options: Options) -> str:
    bits = options.weight_bits or chip.synapses.weight_bits_default
    for fewer in sorted((b for b in chip.synapses.weight_bits if b < bits), reverse=True):
        needed = _cores(network, chip, replace(options, weight_bits=fewer))
        if needed is not None:
            return f"--weight-bits {fewer} ({needed:,} of {len(cores_of(chip, options.chips)):,} cores)"
    return ""


def _another(network: Network, chip: Chip, options: Options) -> str:
    try:
        ready = with_relays(network, chip)
    except NirbridgeError:
        return ""
    needed = _cores(ready, chip, replace(options, weight_bits=None, chips=1))
    return "" if needed is None else f"--chip {chip.name} ({needed:,} of {len(cores_of(chip)):,} cores)"

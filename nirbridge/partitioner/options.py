"""Options of ``partition``, and the check of those that a chip or a method limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from nirbridge._types import Progress, no_progress
from nirbridge.chips.model import Chip
from nirbridge.errors import UsageError, did_you_mean
from nirbridge.partitioner.searches import EFFORTS

METHODS = ("sequential", "packed", "cp-sat")


@dataclass(frozen=True, slots=True)
class PartitionOptions:
    """Options of ``partition``. ``groups``: populations of different numbers never share a core (0 where not named).

    ``keep_best``: Ctrl-C during the search gives the best partition so far, marked ``interrupted`` in its report; by
    default, and while there is none, it raises KeyboardInterrupt.
    ``spread``: `sequential` fills 1/spread of the neurons and words of a core, so that the load is spread.
    """

    method: str = "cp-sat"
    weight_bits: int | None = None
    chips: int = 1
    effort: str = "default"
    seed: int = 0
    spread: int = 1
    groups: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    keep_best: bool = False
    progress: Progress = no_progress


def checked_bits(chip: Chip, options: PartitionOptions) -> int:
    """The weight bits of the options, or the chip's default. Raises UsageError for these and for other options."""
    bits = chip.synapses.weight_bits_default if options.weight_bits is None else options.weight_bits
    if bits not in chip.synapses.weight_bits:
        legal = ", ".join(str(b) for b in chip.synapses.weight_bits)
        raise UsageError.of("--weight-bits", f"{bits}", f"{chip.name} stores {legal}", "choose one of these")
    for option, value, names in (("--method", options.method, METHODS), ("--effort", options.effort, EFFORTS)):
        if value not in names:
            hint = did_you_mean(value, names) or "choose one of these"
            raise UsageError.of(option, value, f"there are {', '.join(names)}", hint)
    if not 1 <= options.chips <= chip.mesh.chips_max:
        limit = f"a board of {chip.name} has 1 to {chip.mesh.chips_max:,}"
        raise UsageError.of("--chips", f"{options.chips}", limit, "choose a number in that range")
    return bits

"""The limiting resource of a map and its fullest core: one answer for every section, of equals the first by number."""

from __future__ import annotations

from dataclasses import dataclass

from nirbridge.chips.model import CoreId
from nirbridge.errors import counted
from nirbridge.mapping.model import MappedNetwork
from nirbridge.report.map_facts import core_name, cores_with_most, resource_rows


@dataclass(frozen=True, slots=True)
class Fullest:
    """The resource with the largest share of its limit in a core, and the cores that use as much, by number."""

    resource: str
    used: str
    share: float
    cores: tuple[CoreId, ...]

    @property
    def words(self) -> str:
        """The resource in words."""
        return self.resource.replace("_", " ")


def fullest_of(mapped: MappedNetwork) -> Fullest | None:
    """None where the chip limits no resource or no core is used; ``used`` is ``256 of 256 (100%)``."""
    rows = [row for row in resource_rows(mapped) if row.limit]
    first = max(rows, key=lambda row: row.share or 0.0, default=None)
    if first is None or not mapped.cores:
        return None
    share = first.share or 0.0
    used = f"{first.most:,} of {'~' * first.is_approximate}{first.limit:,} ({percent(share)})"
    return Fullest(first.name, used, share, cores_with_most(mapped, first.name))


def percent(share: float) -> str:
    """Whole percents; a tenth more just below the limit, so that 100% is said of what is full alone."""
    return f"{min(share, 0.999):.1%}" if 0.995 <= share < 1 else f"{share:.0%}"


def core_text(core: CoreId, mapped: MappedNetwork) -> str:
    """``core 68 at tile (4, 1)``, with the chip where there are several: a number alone is not found on the plan."""
    chip = f" of chip {core.chip}" if mapped.chips > 1 else ""
    return f"core {core_name(core, mapped)} at tile ({core.x}, {core.y}){chip}"


def as_full(cores: tuple[CoreId, ...]) -> str:
    """``, as in 67 other cores``; empty for one core."""
    return f", as in {counted(len(cores) - 1, 'other core')}" if len(cores) > 1 else ""

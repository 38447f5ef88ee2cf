"""Numbering of the cores of a chip, and masking of dead ones."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import overload

from nirbridge.chips.check import dead_core_problems
from nirbridge.chips.model import Chip, CoreId
from nirbridge.errors import ChipError, Diagnostic


def flat_index(chip: Chip, core_id: CoreId) -> int:
    """Number of a core on its own chip: ``(y * width_tiles + x) * cores_per_tile + core``."""
    mesh = chip.mesh
    return (core_id.y * mesh.width_tiles + core_id.x) * mesh.cores_per_tile + core_id.core


def core_at(chip: Chip, index: int, on_chip: int = 0) -> CoreId:
    """The core with a flat index (the inverse of ``flat_index``). Raises ChipError outside the chip."""
    mesh = chip.mesh
    if not 0 <= index < mesh.cores:
        raise ChipError(
            Diagnostic(f"core {index}", "does not exist", f"cores of {chip.name} are numbered 0 to {mesh.cores - 1:,}")
        )
    tile, core = divmod(index, mesh.cores_per_tile)
    y, x = divmod(tile, mesh.width_tiles)
    return CoreId(on_chip, x, y, core)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Cores(Sequence[CoreId]):
    """The living cores of the first ``chips`` chips, by chip, then flat index; each is made on access.

    ``dead``: numbers of the others among all cores of these chips, ascending.
    """

    chip: Chip
    chips: int
    dead: tuple[int, ...]

    def __len__(self) -> int:
        return self.chips * self.chip.mesh.cores - len(self.dead)

    @overload
    def __getitem__(self, index: int) -> CoreId: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[CoreId, ...]: ...
    def __getitem__(self, index: int | slice) -> CoreId | tuple[CoreId, ...]:
        if isinstance(index, slice):
            return tuple(map(self._living, range(*index.indices(len(self)))))
        return self._living(range(len(self))[index])

    def __contains__(self, core: object) -> bool:
        if not isinstance(core, CoreId):
            return False
        mesh = self.chip.mesh
        sizes = (self.chips, mesh.width_tiles, mesh.height_tiles, mesh.cores_per_tile)
        if not all(0 <= place < size for place, size in zip(core, sizes, strict=True)):
            return False
        number = core.chip * mesh.cores + flat_index(self.chip, core)
        at = bisect.bisect_left(self.dead, number)
        return at == len(self.dead) or self.dead[at] != number

    def __iter__(self) -> Iterator[CoreId]:
        dead, mesh = {core for core in self.chip.dead_cores if core.chip < self.chips}, self.chip.mesh
        places = product(
            range(self.chips), range(mesh.height_tiles), range(mesh.width_tiles), range(mesh.cores_per_tile)
        )
        return (core for c, y, x, k in places if (core := CoreId(c, x, y, k)) not in dead)

    def _living(self, position: int) -> CoreId:
        # of the dead with k dead before them, those below the core are the ones numbered at most position + k
        before = bisect.bisect_right(range(len(self.dead)), position, key=lambda k: self.dead[k] - k)
        on_chip, index = divmod(position + before, self.chip.mesh.cores)
        return core_at(self.chip, index, on_chip)


def cores_of(chip: Chip, chips: int = 1) -> Cores:
    """The living cores of the first ``chips`` chips, by chip, then flat index.

    Raises ChipError for fewer than 1 or more than ``mesh.chips_max`` chips.
    """
    if not 1 <= chips <= chip.mesh.chips_max:
        limit = f"a board of {chip.name} has 1 to {chip.mesh.chips_max:,}"
        raise ChipError(Diagnostic("number of chips", f"{chips:,}", limit))
    dead = {core for core in chip.dead_cores if core.chip < chips}
    return Cores(chip, chips, tuple(sorted(core.chip * chip.mesh.cores + flat_index(chip, core) for core in dead)))


def without_cores(chip: Chip, cores: Iterable[CoreId | int]) -> Chip:
    """The chip with further dead cores; a whole number is a flat index on chip 0. Ids of the others do not change.

    Raises ChipError for a core that does not exist and where no core would be left.
    """
    named = [core_at(chip, core) if isinstance(core, int) else CoreId(*core) for core in cores]
    dead = tuple(sorted({*chip.dead_cores, *named}))
    masked = dataclasses.replace(chip, dead_cores=dead)
    ChipError.raise_all(dead_core_problems(masked))
    return masked

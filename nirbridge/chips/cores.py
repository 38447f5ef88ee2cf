"""Numbering of the cores of a chip, and masking of dead ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from itertools import product

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


def cores_of(chip: Chip, chips: int = 1) -> tuple[CoreId, ...]:
    """The living cores of the first ``chips`` chips, by chip, then flat index.

    Raises ChipError for fewer than 1 or more than ``mesh.chips_max`` chips.
    """
    if not 1 <= chips <= chip.mesh.chips_max:
        limit = f"a board of {chip.name} has 1 to {chip.mesh.chips_max:,}"
        raise ChipError(Diagnostic("number of chips", f"{chips:,}", limit))
    dead, mesh = set(chip.dead_cores), chip.mesh
    places = product(range(chips), range(mesh.height_tiles), range(mesh.width_tiles), range(mesh.cores_per_tile))
    cores = (CoreId(c, x, y, core) for c, y, x, core in places)
    return tuple(core for core in cores if core not in dead) if dead else tuple(cores)


def without_cores(chip: Chip, cores: Iterable[CoreId | int]) -> Chip:
    """The chip with further dead cores; a whole number is a flat index on chip 0. Ids of the others do not change.

    Raises ChipError for a core that does not exist and where no core would be left.
    """
    named = [core_at(chip, core) if isinstance(core, int) else CoreId(*core) for core in cores]
    dead = tuple(sorted({*chip.dead_cores, *named}))
    masked = dataclasses.replace(chip, dead_cores=dead)
    ChipError.raise_all(dead_core_problems(masked))
    return masked

"""Maps as files: written, and checked against their model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nirbridge.errors import IllegalMapping, NirbridgeError, Problem
from nirbridge.pipeline.fit import fit_to_chip, split_sources
from nirbridge.pipeline.load import fingerprint

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip
    from nirbridge.mapping.model import Mapped
    from nirbridge.network.model import Network


def map_document(mapped: Mapped, model: str | Path) -> dict[str, Any]:
    """The content of the map file of a model file. Raises FileError."""
    from nirbridge.mapping.document import to_record

    return to_record(mapped, Path(model).name, fingerprint(model))


def save_map(mapped: Mapped, path: str | Path, model: str | Path) -> None:
    """Writes the map file, whole or not at all. Raises FileError."""
    from nirbridge.mapping import file

    file.write_document(map_document(mapped, model), path)


def check_map(path: str | Path, network: Network, model_sha256: str, chip: Chip | None = None) -> tuple[Problem, ...]:
    """Every violation of a saved map of this model; none: it is legal and tells the truth. Raises FileError."""
    from nirbridge.chips import from_record
    from nirbridge.mapping import check, file

    record = file.load(path)
    if any(p.relay for p in record.populations):
        network = fit_to_chip(network, from_record(record.chip))
    if sum(ways for _, ways in record.splits) > len(record.populations):
        return (Problem("map", "splits make more copies than the map has populations", "", "map the model again"),)
    try:
        network = split_sources(network, dict(record.splits))
    except NirbridgeError as error:
        return error.problems
    return check.check_file(path, network, model_sha256, chip)


def slices_of_map(path: str | Path, network: Network, model_sha256: str, chip: Chip) -> tuple[Any, ...]:
    """The slices of a saved map of this model. Raises FileError, and IllegalMapping for a map that is not of it."""
    from nirbridge.mapping import file

    problems = check_map(path, network, model_sha256, chip)
    if problems:
        raise IllegalMapping(*problems)
    return tuple(piece for block in file.load(path).blocks for piece in block.slices)

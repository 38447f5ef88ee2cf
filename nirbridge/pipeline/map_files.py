"""Maps as files: written, and checked against their model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nirbridge.errors import IllegalMapping, NirbridgeError, Problem
from nirbridge.pipeline.fit import as_mapped, fit_to_chip, retime, split_sources
from nirbridge.pipeline.load import fingerprint

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip
    from nirbridge.mapping.model import Mapped
    from nirbridge.mapping.record import MapRecord
    from nirbridge.network.model import Network, Timing


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
    from nirbridge.mapping import check, file
    from nirbridge.mapping.latencies import wrong_latencies

    record = file.load(path)
    if sum(ways for _, ways in record.splits) > len(record.populations):
        return (Problem("map", "splits make more copies than the map has populations", "", "map the model again"),)
    try:
        model, ready = _as_mapped(record, network)
    except NirbridgeError as error:
        return error.problems
    return (*check.check_file(path, ready, model_sha256, chip), *wrong_latencies(record, model))


def timing_of_map(path: str | Path, network: Network, asked: Timing) -> Timing:
    """``asked``, and what was asked for when the map was made, where it differs from how ``network`` was read."""
    from nirbridge.mapping import file
    from nirbridge.mapping.timing import asked_by

    return asked_by(file.load(path), network, asked)


def _as_mapped(record: MapRecord, network: Network) -> tuple[Network, Network]:
    """The model with the copies and pools on relays that the map has, and what retiming makes of it."""
    from nirbridge.chips import from_record

    splits, relays = dict(record.splits), any(p.relay for p in record.populations)
    if record.latency is None and not relays:
        model = split_sources(network, splits)
        return model, model
    chip = from_record(record.chip)
    fitted = fit_to_chip(network, chip, relays=relays)
    model = split_sources(fitted, splits)
    if record.latency is None:
        return model, model
    delayed, latency = as_mapped(retime(fitted, chip, relays=False))
    if latency is None:
        raise IllegalMapping.of("retimed", "the map says so", "this model needs no other delays", "map the model again")
    return model, split_sources(delayed, splits)


def load_map(path: str | Path, network: Network, model_sha256: str, chip: Chip) -> MapRecord:
    """A saved map of this model on this chip, checked. Raises FileError, and IllegalMapping with every violation."""
    from nirbridge.mapping import file

    problems = check_map(path, network, model_sha256, chip)
    if problems:
        raise IllegalMapping(*problems)
    return file.load(path)

"""Maps as files: written, and checked against their model."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nirbridge.chips import chip_from_dict
from nirbridge.chips.model import Chip
from nirbridge.errors import Diagnostic, IllegalMapping, ModelError, NirbridgeError
from nirbridge.files.gate import CommandInput, CommandOutput, check_outputs
from nirbridge.files.places import file_name
from nirbridge.importers.nirfile.reader import file_sha256
from nirbridge.mapping.checker.check import check_file
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.storage.consistency import latency_problems, placement_only_problem, requested_timing
from nirbridge.mapping.storage.file import map_to_dict, read_map, write_document
from nirbridge.mapping.storage.record import MapRecord
from nirbridge.mapping.zeros import stored_of_record
from nirbridge.network.model import Network, Timing
from nirbridge.partitioner.model import Block, BlockId, Partition, Slice, SolveReport
from nirbridge.pipeline.fit import fit_to_chip, network_to_map, replicate_sources, retime
from nirbridge.pipeline.map import place_partition
from nirbridge.pipeline.options import MapOptions


def map_document(mapped: MappedNetwork, model: str | Path) -> dict[str, Any]:
    """The content of the map file of a model file. Raises FileError."""
    return map_to_dict(mapped, file_name(model), file_sha256(model))


def save_map(mapped: MappedNetwork, path: str | Path, model: str | Path) -> None:
    """Writes the map file, whole or not at all. Raises FileError, also where the path is that of the model."""
    check_outputs([CommandOutput("map file", str(path))], [CommandInput("model", str(model))])
    write_document(map_document(mapped, model), path)


def check_map(
    path: str | Path, network: Network, model_sha256: str, chip: Chip | None = None, *, placement_only: bool = False
) -> tuple[Diagnostic, ...]:
    """Every violation of a saved map of this model; none: it is legal and tells the truth. Raises FileError.

    ``placement_only``: the placement alone is judged; else a map so marked is refused, as is one that the chip cannot
    run.
    """
    record = read_map(path)
    if record.model_sha256 != model_sha256:
        return check_file(path, network, model_sha256)
    if sum(ways for _, ways in record.splits) > len(record.populations):
        return (Diagnostic("map", "splits make more copies than the map has populations", "", "map the model again"),)
    try:
        model, prepared = _as_mapped(record, network)
    except NirbridgeError as error:
        return error.problems
    violations = check_file(path, prepared, model_sha256, chip, placement_only=placement_only)
    delays = () if placement_only or record.placement_only else _other_delays(record, network)
    texts = {str(p) for p in violations}
    return (*violations, *(p for p in delays if str(p) not in texts), *latency_problems(record, model))


def _other_delays(record: MapRecord, network: Network) -> tuple[Diagnostic, ...]:
    """Reason why a map with its model's delays cannot be executed: no delays hold the hops, or they differ."""
    relays, keep = any(p.relay for p in record.populations), bool(record.early_spikes)
    try:
        retimed = retime(network, chip_from_dict(record.chip), relays=relays, keep_early_spikes=keep)
    except ModelError as error:
        return error.problems
    except NirbridgeError:
        return ()  # the checker says what is wrong with the chip
    if set(retimed.early) != set(record.early_spikes):
        return (Diagnostic("early_spikes", "are not those of the model", "", "map the model again"),)
    if record.latency is not None or network_to_map(retimed)[1] is None:
        return ()
    limit = "on the chip a hop takes a time step, so the model needs other delays"
    return (
        Diagnostic("map", "has the delays of the model", limit, "map the model again, or check with --placement-only"),
    )


def timing_of_map(path: str | Path, network: Network, asked: Timing) -> Timing:
    """The timing ``asked``, with the timing requested for the map where ``network`` was read with another."""
    return requested_timing(read_map(path), network, asked)


def _as_mapped(record: MapRecord, network: Network) -> tuple[Network, Network]:
    """The model with the map's copies and relays for pools, and its retimed form."""
    splits, relays = dict(record.splits), any(p.relay for p in record.populations)
    if record.latency is None and not relays:
        model = replicate_sources(network, splits)
        return model, model
    chip = chip_from_dict(record.chip)
    fitted = fit_to_chip(network, chip, relays=relays)
    model = replicate_sources(fitted, splits)
    if record.latency is None:
        return model, model
    delayed, latency = network_to_map(retime(fitted, chip, relays=False, keep_early_spikes=bool(record.early_spikes)))
    if latency is None:
        raise IllegalMapping.of("retimed", "the map says so", "this model needs no other delays", "map the model again")
    return model, replicate_sources(delayed, splits)


def load_runnable(path: str | Path) -> MapRecord:
    """A saved map that is more than a placement, not checked. Raises FileError, IllegalMapping."""
    record = read_map(path)
    hint = "map the model for a chip that can run it, without --placement-only"
    IllegalMapping.raise_all(placement_only_problem(record, hint))
    return record


def load_map(path: str | Path, network: Network, model_sha256: str, chip: Chip) -> MapRecord:
    """A saved map of this model on this chip, checked. Raises FileError, and IllegalMapping with every violation."""
    IllegalMapping.raise_all(check_map(path, network, model_sha256, chip))
    return read_map(path)


def load_mapped(path: str | Path, network: Network, model_sha256: str, chip: Chip | None = None) -> MappedNetwork:
    """The value of a saved map of this model, perhaps only a placement, checked. ``chip``: see ``check_map``.

    Raises:
        FileError: the file cannot be read.
        IllegalMapping: every violation.
    """
    record = read_map(path)
    marked = record.placement_only
    IllegalMapping.raise_all(check_map(path, network, model_sha256, chip, placement_only=marked))
    return replace(mapped_network(record, network, chip or chip_from_dict(record.chip)), model=network)


def mapped_network(record: MapRecord, network: Network, chip: Chip) -> MappedNetwork:
    """The value of a saved map, checked by ``load_map``, of this model on this chip; its costs at assumed rates.

    Raises:
        IllegalMapping: the map has other delays than the model.
    """
    _, prepared = _as_mapped(record, network)
    blocks = tuple(
        Block(BlockId(b.id), tuple(Slice(s.population, s.box) for s in b.slices), MappingProxyType(dict(b.used)))
        for b in record.blocks
    )
    names = {f.name for f in fields(SolveReport)}
    report = SolveReport(**{"cores": len(blocks), **{k: v for k, v in record.proof.items() if k in names}})
    partition = Partition(blocks, record.weight_bits, report, MappingProxyType(record.orders))
    options = MapOptions(chips=record.chips, splits=dict(record.splits), objective=record.raw["objective"])
    cores = tuple(b.core for b in record.blocks)
    mapped = place_partition(prepared, chip, partition, options, cores, stored_of_record(record, prepared, chip))
    return replace(
        mapped, latency=record.latency, early_spikes=record.early_spikes, placement_only=record.placement_only
    )

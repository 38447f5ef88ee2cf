"""Maps as files, checked against their model; saved files of any kind, their differences, and a report on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from nirbridge.chips import Chip, chip_from_dict, read_chip
from nirbridge.comparison.compare import compare
from nirbridge.dialect.model_files import LOADERS, load_quantized
from nirbridge.emitters.artifact import MANIFEST, Artifact, artifact_kind, read_artifact, read_document
from nirbridge.errors import Diagnostic, FileError, IllegalMapping, ModelError, NirbridgeError, UsageError, quoted
from nirbridge.files.differences import Difference, flat, flat_differences
from nirbridge.files.gate import CommandInput, CommandOutput, check_outputs
from nirbridge.files.places import file_name
from nirbridge.files.regular import open_regular, read_up_to
from nirbridge.importers.nirfile.form import check_form
from nirbridge.importers.nirfile.reader import file_sha256
from nirbridge.mapping.checker.check import check_file
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.storage.consistency import latency_problems, placement_only_problem, requested_timing
from nirbridge.mapping.storage.differences import map_differences
from nirbridge.mapping.storage.file import map_to_dict, read_map, write_document
from nirbridge.mapping.storage.record import MapRecord
from nirbridge.mapping.zeros import stored_of_record
from nirbridge.network.model import Network, Timing
from nirbridge.network.storage.file import network_to_dict, read_network
from nirbridge.partitioner.model import Block, BlockId, Partition, Slice, SolveReport
from nirbridge.pipeline.fit import Rates, fit_to_chip, network_to_map, replicate_sources, retime, with_rates_of_added
from nirbridge.pipeline.kinds import Kind, kind_of_file, text_of_file
from nirbridge.pipeline.load import load_chip, load_network
from nirbridge.pipeline.map import place_partition
from nirbridge.pipeline.options import MapOptions
from nirbridge.pipeline.recordings import load_data, read_recording
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.storage.file import quantized_to_dict
from nirbridge.report.compare import place_text
from nirbridge.report.html.page import ReportSources
from nirbridge.simulators.types import Recording
from nirbridge.verification.storage import read_verification, verification_to_dict
from nirbridge.verification.verify import Verification

READERS: Mapping[Kind, Callable[[str | Path], Any]] = MappingProxyType(
    {
        "model": load_network,
        "map": read_map,
        "network": read_network,
        "quantized": load_quantized,
        "recording": read_recording,
        "verification": read_verification,
        "chip": lambda path: read_chip(Path(path)),
        "program": read_artifact,
        "events": load_data,
        "module": lambda path: text_of_file(path, quoted(Path(path).name)),
        "page": lambda path: text_of_file(path, quoted(Path(path).name)),
    }
)
"""By kind; tables are read by ``nirbridge.sweeps.saved_tables``, a room above this one."""
_COMPARED: Mapping[Kind, str] = MappingProxyType(
    {
        "model": "model",
        "map": "map",
        "network": "network",
        "quantized": "quantized network",
        "recording": "recording",
        "verification": "verification",
    }
)
"""The kinds that ``differences`` compares, in words."""


@dataclass(frozen=True, slots=True)
class SavedFile:
    """Content of a file: ``kind``, and the value of that kind."""

    kind: Kind
    value: Any


def load_saved(path: str | Path) -> SavedFile:
    """Reads a file of any kind that nirbridge saves or reads; its name does not matter. Raises FileError."""
    kind = kind_of_file(path)
    if kind not in READERS:
        raise FileError.of(quoted(Path(path).name), "is a table", "", "see it with nirbridge show")
    return SavedFile(kind, READERS[kind](path))


def program_manifest(program: Artifact) -> dict[str, Any]:
    """The manifest of an emitted program. Raises FileError."""
    return read_document(program, MANIFEST, {"kind": str, "files": dict})


VIEWED: tuple[Kind, ...] = ("model", "network", "map", "quantized", "recording", "verification")
VIEWED_BYTES_MAX = 2**28


def viewed_file(path: str | Path) -> tuple[Kind, bytes]:
    """Kind and content of a file for the viewer: a model, or a saved file of most kinds, which is read first.

    Raises:
        FileError: a file that is damaged, of another kind, or larger than the viewer reads.
    """
    kind, subject = kind_of_file(path), quoted(Path(path).name)
    if kind not in VIEWED or Path(path).suffix in LOADERS:
        limit = f"the viewer shows a {', '.join(VIEWED)} in files of NIR and of nirbridge"
        raise FileError.of(subject, f"is a {kind}", limit, "see it with nirbridge show")
    with open_regular(path, subject, "a model or a file that nirbridge saved") as file:
        content = read_up_to(file, VIEWED_BYTES_MAX)
    if len(content) > VIEWED_BYTES_MAX:
        limit = f"the viewer reads at most {VIEWED_BYTES_MAX:,}"
        raise FileError.of(subject, f"more than {VIEWED_BYTES_MAX:,} bytes", limit, "use nirbridge inspect or show")
    if kind == "model":
        check_form(path)
    else:
        load_saved(path)
    return kind, content


# -- differences ---------------------------------------------------------------------------------------------------
# Differences in meaning between two saved files of one kind.


_MEASURED = ("report", "notes")
"""Parts of a network that say how it was made, or report its errors."""


def differences(a: SavedFile, b: SavedFile) -> tuple[Difference, ...]:
    """Everything that differs in meaning; empty: the files mean the same. Raises UsageError: two kinds of file."""
    if a.kind != b.kind:
        found = f"one is a {_label(a)}, the other a {_label(b)}"
        raise UsageError.of("files", found, "only files of one kind can be compared", "give two of one kind")
    if a.kind not in _COMPARED:
        limit = f"files of these kinds are: {', '.join(_COMPARED.values())}"
        raise UsageError.of("files", f"two of kind {a.kind} are not compared", limit, "see each with nirbridge show")
    if a.kind == "map":
        return map_differences(cast("MapRecord", a.value), cast("MapRecord", b.value))
    if a.kind in ("model", "network", "quantized", "verification"):
        return tuple(_of_numbers(_numbers(a.value), _numbers(b.value)))
    return tuple(_of_recordings(cast("Recording", a.value), cast("Recording", b.value)))


def _label(saved: SavedFile) -> str:
    return _COMPARED.get(saved.kind, saved.kind)


def _of_numbers(a: dict[str, Any], b: dict[str, Any]) -> Iterator[Difference]:
    for difference in flat_differences(a, b):
        x, y = difference.a, difference.b
        yield Difference(difference.name, *_arrays(x, y)) if hasattr(x, "shape") or hasattr(y, "shape") else difference


def _numbers(value: Any) -> dict[str, Any]:
    """Every number and text of a network, quantized or not, or of a verification, by its dotted name."""
    if isinstance(value, Network):
        record, arrays = network_to_dict(value)
    elif isinstance(value, Verification):
        record, arrays = verification_to_dict(value)
    else:
        record, arrays = quantized_to_dict(value)
    return dict(flat({key: _resolved(value, arrays) for key, value in record.items() if key not in _MEASURED}))


def _resolved(value: Any, arrays: Mapping[str, Any]) -> Any:
    """A part of the record with its arrays in place of their names."""
    if isinstance(value, dict):
        if set(value) <= {"array", "shape"} and "array" in value:
            stored = arrays[value["array"]]
            return np.broadcast_to(stored, value.get("shape", stored.shape))
        return {key: _resolved(each, arrays) for key, each in value.items()}
    return [_resolved(each, arrays) for each in value] if isinstance(value, list) else value


def _arrays(x: Any, y: Any) -> tuple[str, str]:
    """Both as text: how many values differ, and the first of them."""
    if not (hasattr(x, "shape") and hasattr(y, "shape")) or x.shape != y.shape:
        return _described(x), _described(y)
    places = np.argwhere(x != y)
    if not len(places):
        return str(x.dtype), str(y.dtype)
    first = tuple(map(int, places[0]))
    where = f"{len(places):,} of {x.size:,} values differ, the first at {list(first)}: " if first else ""
    return f"{where}{x[first].item()}", str(y[first].item())


def _described(value: Any) -> str:
    return f"shape {list(value.shape)}" if hasattr(value, "shape") else str(value)


def _of_recordings(a: Recording, b: Recording) -> Iterator[Difference]:
    comparison = compare(a, b)
    for row in comparison.rows:
        if row.problem is not None:
            yield Difference(f"{row.node} {row.variable}", row.problem, "")
        elif row.first_values is not None:
            yield Difference(f"{row.node} {row.variable}, first at {place_text(row)}", *row.first_values)
    for node, variable in comparison.only_a:
        yield Difference(f"{node} {variable}", "recorded", None)
    for node, variable in comparison.only_b:
        yield Difference(f"{node} {variable}", None, "recorded")


# -- report --------------------------------------------------------------------------------------------------------
# The parts of a report from files: a model, and what was made of it, each held against the model.


File = str | Path
Measure = Callable[[Network], Rates | None]
"""The rates of a network, and the sentence on where they are from; None: assumed."""


def report_sources(
    model: File,
    network: Network,
    *,
    map_file: File | None = None,
    measure: Measure | None = None,
    quantized_file: File | None = None,
    verification_file: File | None = None,
    recording_files: Sequence[File] = (),
    circuit_folder: File | None = None,
) -> ReportSources:
    """The sources of a report on a model file; ``network`` is what was read from it.

    ``measure``: gives the rates for the costs of the map; None: assumed, and a remark where the map had others.

    Raises:
        FileError: a file that cannot be read.
        IllegalMapping: a map that is not of this model, or illegal.
        UsageError: a file that has no node of this model.
    """
    mapped, remarks = (None, ()) if map_file is None else _mapped(model, network, map_file, measure)
    quantized = None if quantized_file is None else _quantized(network, quantized_file, mapped)
    verification = None if verification_file is None else _verification(network, verification_file)
    recordings = {Path(path).name: read_recording(path) for path in recording_files}
    for name, recording in recordings.items():
        _check_names(network, f"recording {quoted(name)}", {node for node, _ in recording.arrays})
    return ReportSources(
        file_name(model),
        network=network,
        mapped=mapped,
        quantized=quantized,
        verification=verification,
        recordings=MappingProxyType(recordings),
        circuit=None if circuit_folder is None else _circuit(circuit_folder),
        remarks=remarks,
    )


def _circuit(folder: File) -> Artifact:
    """An emitted program in Verilog. Raises FileError."""
    program = read_artifact(folder)
    if artifact_kind(program) != "verilog":
        found = f"a program of {artifact_kind(program) or 'another tool'}"
        raise FileError.of(
            f"folder {quoted(Path(folder).name)}", found, "", "make one with nirbridge emit --to verilog"
        )
    return program


def _mapped(
    model: File, network: Network, map_file: File, measure: Measure | None
) -> tuple[MappedNetwork, tuple[str, ...]]:
    """The value of a map, checked, and a remark where its costs are at assumed rates and the file's are not."""
    mapped = load_mapped(map_file, network, file_sha256(model), measure=measure)
    rates = read_map(map_file).raw["rates"]
    if mapped.rates == rates or not mapped.rates.startswith("assumed: "):
        return mapped, ()
    said = f"Traffic, energy and time on this page assume {mapped.rates.removeprefix('assumed: ')}."
    step = "Give report --input DATA to use rates measured on it."
    return mapped, (f"{said} The map was made with rates {rates}. {step}",)


def _quantized(network: Network, path: File, mapped: MappedNetwork | None) -> QuantizedNetwork:
    """A quantized network, with the real network beside it where the model is the one that was quantized."""
    quantized = load_quantized(path)
    _check_names(network, f"quantized network {quoted(Path(path).name)}", {p.name for p in quantized.populations})
    try:
        chip: Chip = (
            mapped.chip if mapped is not None and mapped.chip.name == quantized.chip else load_chip(quantized.chip)
        )
        real = retime(network, chip).network
    except NirbridgeError:  # the chip is a file elsewhere, or the model needs options: only histograms need it
        return quantized
    sizes = {p.name: p.shape for p in real.populations}
    same = all(sizes.get(p.name) == p.shape for p in quantized.populations)
    return replace(quantized, network=real) if same else quantized


def _verification(network: Network, path: File) -> Verification:
    verification = read_verification(path)
    nodes = {node for recording in verification.recordings.values() for node, _ in recording.arrays}
    _check_names(network, f"verification {quoted(Path(path).name)}", nodes)
    return verification


def _check_names(network: Network, subject: str, names: Iterable[str]) -> None:
    """Raises UsageError for a file without a single node of the model."""
    own = {part.name for part in (*network.inputs, *network.populations, *network.outputs)}
    found = set(names)
    if not own & found:
        shown = ", ".join(map(quoted, sorted(found)[:4])) or "no node"
        limit = f"the model has {', '.join(map(quoted, sorted(own)[:4]))}"
        raise UsageError.of(subject, f"is of another model: it has {shown}", limit, "give the files of one model")


# -- map files -----------------------------------------------------------------------------------------------------
# Maps as files: written, and checked against their model.


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


def load_mapped(
    path: str | Path, network: Network, model_sha256: str, chip: Chip | None = None, *, measure: Measure | None = None
) -> MappedNetwork:
    """The value of a saved map of this model, perhaps only a placement, checked. ``chip``: see ``check_map``.

    ``measure``: see ``mapped_network``.

    Raises:
        FileError: the file cannot be read.
        IllegalMapping: every violation.
    """
    record = read_map(path)
    marked = record.placement_only
    IllegalMapping.raise_all(check_map(path, network, model_sha256, chip, placement_only=marked))
    return replace(mapped_network(record, network, chip or chip_from_dict(record.chip), measure), model=network)


def mapped_network(record: MapRecord, network: Network, chip: Chip, measure: Measure | None = None) -> MappedNetwork:
    """The value of a saved map, checked by ``load_map``, of this model on this chip.

    Its costs are at the rates that ``measure`` gives for the model with the map's copies and relays; None: assumed.

    Raises:
        IllegalMapping: the map has other delays than the model.
    """
    given, prepared = _as_mapped(record, network)
    rates = with_rates_of_added(given, prepared, None if measure is None else measure(given))
    blocks = tuple(
        Block(BlockId(b.id), tuple(Slice(s.population, s.box) for s in b.slices), MappingProxyType(dict(b.used)))
        for b in record.blocks
    )
    names = {f.name for f in fields(SolveReport)}
    report = SolveReport(**{"cores": len(blocks), **{k: v for k, v in record.proof.items() if k in names}})
    partition = Partition(blocks, record.weight_bits, report, MappingProxyType(record.orders))
    options = MapOptions(chips=record.chips, splits=dict(record.splits), objective=record.raw["objective"], rates=rates)
    cores = tuple(b.core for b in record.blocks)
    mapped = place_partition(prepared, chip, partition, options, cores, stored_of_record(record, prepared, chip))
    return replace(
        mapped, latency=record.latency, early_spikes=record.early_spikes, placement_only=record.placement_only
    )

"""The parts of a report from files: a model, and what was made of it, each held against the model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from nirbridge.errors import NirbridgeError, UsageError, quoted
from nirbridge.files.places import file_name
from nirbridge.network.model import Network
from nirbridge.pipeline.fit import retime
from nirbridge.pipeline.load import fingerprint, load_chip
from nirbridge.pipeline.map_files import load_mapped
from nirbridge.pipeline.recordings import load_recording
from nirbridge.pipeline.verify import load_verification

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip
    from nirbridge.mapping.model import MappedNetwork
    from nirbridge.quantization.model import QuantizedNetwork
    from nirbridge.report.html.sources import ReportSources
    from nirbridge.verification.verify import Verification

File = str | Path


def report_sources(
    model: File,
    network: Network,
    *,
    map_file: File | None = None,
    quantized_file: File | None = None,
    verification_file: File | None = None,
    recording_files: Sequence[File] = (),
) -> ReportSources:
    """The sources of a report on a model file; ``network`` is what was read from it.

    Raises:
        FileError: a file that cannot be read.
        IllegalMapping: a map that is not of this model, or illegal.
        UsageError: a file that has no node of this model.
    """
    from nirbridge.report.html.sources import ReportSources

    mapped, remarks = (None, ()) if map_file is None else _mapped(model, network, map_file)
    quantized = None if quantized_file is None else _quantized(network, quantized_file, mapped)
    verification = None if verification_file is None else _verification(network, verification_file)
    recordings = {Path(path).name: load_recording(path) for path in recording_files}
    for name, recording in recordings.items():
        _check_names(network, f"recording {quoted(name)}", {node for node, _ in recording.arrays})
    return ReportSources(
        file_name(model),
        network=network,
        mapped=mapped,
        quantized=quantized,
        verification=verification,
        recordings=MappingProxyType(recordings),
        remarks=remarks,
    )


def _mapped(model: File, network: Network, map_file: File) -> tuple[MappedNetwork, tuple[str, ...]]:
    """The value of a map, checked, and a remark where its costs are of other rates than the file's."""
    from nirbridge.mapping.storage.file import read_map

    mapped, rates = load_mapped(map_file, network, fingerprint(model)), read_map(map_file).raw["rates"]
    if mapped.rates == rates:
        return mapped, ()
    said = f"Traffic, energy and time on this page are at {mapped.rates}; the map was made with {rates}."
    return mapped, (said,)


def _quantized(network: Network, path: File, mapped: MappedNetwork | None) -> QuantizedNetwork:
    """A quantized network, with the real network beside it where the model is the one that was quantized."""
    from nirbridge.quantization.storage.file import read_quantized

    quantized = read_quantized(path)
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
    verification = load_verification(path)
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

"""Programs for other tools: emitted, and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nirbridge._types import Progress, no_progress
from nirbridge.pipeline.fit import retime
from nirbridge.pipeline.map import map_retimed
from nirbridge.pipeline.options import MapOptions

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip
    from nirbridge.emitters.artifact import Artifact
    from nirbridge.emitters.lava.runtime.environment import LavaStatus
    from nirbridge.mapping.storage.record import MapRecord
    from nirbridge.network.model import Network
    from nirbridge.simulators.simulate import Recording


def emit_lava(
    network: Network,
    chip: Chip,
    *,
    weight_bits: int | None = None,
    graded: Mapping[str, tuple[float, int]] | None = None,
    mapping: MapRecord | None = None,
    per_core: bool = False,
    floating: bool = False,
    keep_early_spikes: bool = False,
    progress: Progress = no_progress,
) -> Artifact:
    """Relays, delays that hold the hops, the chip's integers, and the Lava program of them; files in memory.

    ``graded``: per input (largest size, bits) as ``quantize`` takes it. ``mapping``: a saved map, one process of Lava
    for each of its slices, with its copies and (where ``weight_bits`` is None) its bits; with ``per_core`` and no map
    the network is mapped here. ``keep_early_spikes`` as of ``passes.Retime``; also where the map keeps them.

    Raises:
        ModelError: what the chip or Lava can not do; every problem.
        DoesNotFit: ``per_core``, and it does not fit.
        IllegalMapping: the map has other delays or fewer bits than what runs.
    """
    from nirbridge.emitters.lava.emit import emit
    from nirbridge.mapping.storage.consistency import check_same_network
    from nirbridge.quantization.options import QuantizationOptions
    from nirbridge.quantization.quantize import quantize

    early = keep_early_spikes or bool(mapping and mapping.early_spikes)
    retimed = retime(network, chip, splits=dict(mapping.splits) if mapping else None, keep_early_spikes=early)
    bits = weight_bits if mapping is None or weight_bits is not None else mapping.weight_bits
    options = QuantizationOptions(weight_bits=bits, graded=MappingProxyType(dict(graded or {})), progress=progress)
    quantized = quantize(retimed, chip, options)
    if mapping is not None:
        check_same_network(quantized, mapping)
        return emit(quantized, mapped=[piece for b in mapping.blocks for piece in b.slices], per_core=True)
    if per_core:
        mapped = map_retimed(retimed, chip, MapOptions(weight_bits=weight_bits, progress=progress))
        return emit(quantized, mapped=mapped, per_core=True)
    return emit(quantized, floating=floating)


def emit_with(
    target: str,
    network: Network,
    chip: Chip,
    *,
    weight_bits: int | None = None,
    keep_early_spikes: bool = False,
    progress: Progress = no_progress,
) -> Artifact:
    """The program that the emitter ``target`` of a plugin makes of the chip's integers and their map.

    Raises:
        UsageError: no emitter of that name.
        ModelError, DoesNotFit: as of ``quantize_network`` and ``map_network``.
    """
    from nirbridge import plugins as registry
    from nirbridge.quantization.options import QuantizationOptions
    from nirbridge.quantization.quantize import quantize

    emit = registry.get("emitters", target)
    retimed = retime(network, chip, keep_early_spikes=keep_early_spikes)
    quantized = quantize(retimed, chip, QuantizationOptions(weight_bits=weight_bits, progress=progress))
    bits = max((p.weight_bits for p in quantized.projections), default=weight_bits)
    mapped = map_retimed(retimed, chip, MapOptions(weight_bits=bits, progress=progress))
    return emit(quantized, mapped)


def emit_quantized(path: str | Path, *, max_bytes: int | None = None) -> Artifact:
    """The Lava program of a ``.q.npz`` file of ``save_quantized``. Raises FileError; ModelError as of ``emit_lava``."""
    from nirbridge.emitters.lava.emit import emit
    from nirbridge.files.npy import MAX_BYTES
    from nirbridge.quantization.storage.file import read_quantized

    return emit(read_quantized(path, max_bytes=max_bytes or MAX_BYTES))


def run_emitted(
    folder: str | Path,
    inputs: Any,
    *,
    steps: int | None = None,
    record: Sequence[str] = (),
    progress: Progress | None = None,
) -> Recording:
    """Runs an emitted Lava program, supervised. Raises UsageError, FileError or ModelError (see ``run_program``)."""
    from nirbridge.emitters.lava.runtime.run import run_program
    from nirbridge.simulators.simulate import Recording

    ran = run_program(folder, inputs, steps=steps, record=record, progress=progress)
    return Recording(ran.arrays, ran.meta)


def check_program_folder(folder: str | Path) -> None:
    """Raises FileError where ``write_program`` would refuse the folder, before any work is done."""
    from nirbridge.emitters.artifact import check_folder

    check_folder(folder)


def program_files(folder: str | Path) -> tuple[str, ...]:
    """The paths of the files of an emitted program; none where the folder is no program."""
    from nirbridge.emitters.artifact import known_files

    return tuple(str(Path(folder, name)) for name in sorted(known_files(Path(folder)) or ()))


def write_program(program: Artifact, folder: str | Path) -> Mapping[str, Any]:
    """Writes an emitted program, whole or not at all, and returns its manifest. Raises FileError."""
    import json

    from nirbridge.emitters.artifact import MANIFEST, write_artifact

    write_artifact(program, folder)
    return json.loads(program.files[MANIFEST])


def lava_status() -> LavaStatus:
    """The isolated Lava environment as it is."""
    from nirbridge.emitters.lava.runtime import environment

    return environment.environment_status()


def install_lava(
    python: str | Path | None = None, *, again: bool = False, progress: Progress = no_progress
) -> LavaStatus:
    """Makes the isolated Lava environment where it is not there. Raises UsageError (no fit Python, no network)."""
    from nirbridge.emitters.lava.runtime import environment

    return environment.install_environment(None if python is None else Path(python), again=again, progress=progress)

"""Programs for other tools: emitted, and run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nirbridge import plugins as registry
from nirbridge._types import Progress, no_progress
from nirbridge.chips.model import Chip
from nirbridge.dialect.model_files import load_quantized
from nirbridge.emitters.artifact import (
    MANIFEST,
    Artifact,
    artifact_kind,
    known_files,
    read_artifact,
    read_document,
    write_artifact,
)
from nirbridge.emitters.lava.runtime.run import run_program
from nirbridge.emitters.ports import PROGRAM
from nirbridge.emitters.program_data import drained_run, read_for, signature_of
from nirbridge.emitters.readme import port_facts
from nirbridge.emitters.target import Target
from nirbridge.errors import IllegalMapping, UsageError, quoted
from nirbridge.events.model import EventOptions
from nirbridge.mapping.model import MappedNetwork, Model
from nirbridge.mapping.storage.consistency import network_mismatches
from nirbridge.mapping.storage.record import MapRecord
from nirbridge.network.model import Network
from nirbridge.pipeline.fit import retime
from nirbridge.pipeline.map import map_retimed
from nirbridge.pipeline.options import MapOptions
from nirbridge.pipeline.recordings import NO_EVENTS, bind_events, has_events, refuse_axes, with_reading
from nirbridge.pipeline.saved_files import mapped_network
from nirbridge.plugins import Emitter
from nirbridge.quantization import QuantizationOptions, QuantizedNetwork, quantize
from nirbridge.simulators.given import Given
from nirbridge.simulators.types import Probe, Recording

if TYPE_CHECKING:
    from nirbridge.emitters.verilog.synthesis import Synthesis

CHIP = "loihi2"


def default_chip(target: str, options: Any = None) -> str | None:
    """The chip whose integers an emitter gets where none is named; None: it takes the network in real numbers.

    ``options``: the emitter's own; those of a target that has both kinds of numbers say which (``in_reals``).
    """
    emitter = registry.get("emitters", target)
    return (
        None
        if getattr(emitter.options() if options is None else options, "in_reals", Network in emitter.takes)
        else CHIP
    )


def emit_with(
    target: str,
    network: Network,
    chip: Chip | None,
    options: Any = None,
    *,
    weight_bits: int | None = None,
    graded: Mapping[str, tuple[float, int]] | None = None,
    mapping: MapRecord | None = None,
    per_core: bool = False,
    keep_early_spikes: bool = False,
    on_quantized: Callable[[QuantizedNetwork], None] | None = None,
    progress: Progress = no_progress,
) -> Artifact:
    """The program that the emitter ``target`` makes of a network for a chip; files in memory.

    Args:
        target: the name of an emitter.
        network: what to emit.
        chip: whose integers and cores, for an emitter that takes these; None: real numbers, all that some take.
        options: the emitter's own options; None: its defaults.
        weight_bits: of all weights; default: those of ``mapping``, else the chip's.
        graded: per input (largest size, bits) as ``quantize`` takes it.
        mapping: a saved map, emitted core by core.
        per_core: emit core by core; without ``mapping`` the network is mapped.
        keep_early_spikes: as of ``passes.Retime``; also where the map keeps them.
        on_quantized: called with the integers, where it is made of integers.
        progress: called with a stage and the completed fraction.

    Raises:
        UsageError: no emitter of that name, or options that need a type of model that it does not take.
        ModelError: what the chip or the target cannot compute; every problem.
        DoesNotFit: it has to be mapped, and does not fit.
        IllegalMapping: the map has other delays or fewer bits than what runs.
    """
    emitter = registry.get("emitters", target)
    needs_integers = {"--graded": graded, "--bits": weight_bits, "--keep-early-spikes": keep_early_spikes}
    needs_map = {"--map": mapping, "--per-core": per_core}
    in_integers = chip is not None and takes_integers(emitter)
    check_takes(target, emitter, {} if in_integers else needs_integers, needs_map)
    check_takes(target, emitter, {} if in_integers else {"--chip": chip}, {})
    if chip is None or not in_integers:
        return emitter.emit(network, options)
    early = keep_early_spikes or bool(mapping and mapping.early_spikes)
    retimed = retime(network, chip, splits=dict(mapping.splits) if mapping else None, keep_early_spikes=early)
    bits = weight_bits if mapping is None or weight_bits is not None else mapping.weight_bits
    quantization = QuantizationOptions(weight_bits=bits, graded=MappingProxyType(dict(graded or {})), progress=progress)
    quantized = quantize(retimed, chip, quantization)
    if on_quantized is not None:
        on_quantized(quantized)
    if mapping is not None:
        IllegalMapping.raise_all(network_mismatches(quantized, mapping))
    widest = max((p.weight_bits for p in quantized.projections), default=bits)

    def mapped() -> MappedNetwork:
        if mapping is not None:
            return mapped_network(mapping, network, chip)
        return map_retimed(retimed, chip, MapOptions(weight_bits=widest, progress=progress), quantized)

    model = model_to_emit(target, emitter, quantized, mapped, per_core=per_core or mapping is not None)
    return emitter.emit(model, options)


def check_takes(target: str, emitter: Emitter, refused: Mapping[str, object], needs_map: Mapping[str, object]) -> None:
    """Raises UsageError for options that need a type of model that the emitter does not take."""
    of_integers = {Network, QuantizedNetwork} <= {*emitter.takes} and any(refused.values())
    refused = {**refused, **({} if MappedNetwork in emitter.takes else needs_map)}
    given = [option for option, value in refused.items() if value]
    if given:
        takes = f"it takes {' or '.join(kind.__name__ for kind in emitter.takes)}"
        limit = "they are of a chip's integers" if of_integers else takes
        raise UsageError.of(f"emitter {quoted(target)}", f"given with {', '.join(given)}", limit, "leave them out")


def takes_integers(emitter: Emitter) -> bool:
    """True if it emits the integers of a chip; False: the network in real numbers."""
    return any(kind is not Network for kind in emitter.takes)


def can_run(target: str) -> bool:
    """True if programs of an emitter can be run from here."""
    return bool(registry.get("emitters", target).records)


def program_facts(target: str, program: Artifact) -> list[tuple[str, str]]:
    """Labels and texts of what an emitter says of a program: its costs, its latency, its inputs."""
    emitter = registry.get("emitters", target)
    if not isinstance(emitter, Target):  # a plugin's files are its own
        return []
    if emitter.facts is not None:
        return list(emitter.facts(read_document(program, MANIFEST, {})))
    return list(port_facts(read_document(program, PROGRAM, {}))) if PROGRAM in program.files else []


def synthesizer(target: str) -> Callable[..., tuple[Artifact, Synthesis]]:
    """The function of an emitter that adds figures on a device to its programs. Raises UsageError: it has none."""
    found = getattr(registry.get("emitters", target), "synthesize", None)
    if found is None:
        limit = "its programs are no circuits"
        raise UsageError.of(f"emitter {quoted(target)}", "given with --synthesize", limit, "leave it out")
    return found


def model_to_emit(
    target: str,
    emitter: Emitter,
    quantized: QuantizedNetwork,
    mapped: Callable[[], MappedNetwork],
    *,
    per_core: bool,
) -> Model:
    """The integers, or these on the cores of a map where the emitter takes nothing else or ``per_core`` is given.

    Raises:
        UsageError: ``per_core``, and the emitter takes no map.
    """
    check_takes(target, emitter, {}, {"--per-core": per_core})
    if not per_core and QuantizedNetwork in emitter.takes:
        return quantized
    return replace(mapped(), quantized=quantized)


def emitter_options(target: str, **chosen: object) -> Any:
    """The options of an emitter with those that are chosen, i.e. not None; None where none is.

    Raises:
        UsageError: the emitter has no such option.
    """
    given = {name: value for name, value in chosen.items() if value is not None}
    if not given:
        return None
    kind = registry.get("emitters", target).options
    unknown = [f"--{name.replace('_', '-')}" for name in given if name not in {f.name for f in fields(kind)}]
    if unknown:
        limit = "it has no such option"
        raise UsageError.of(f"emitter {quoted(target)}", f"given with {', '.join(unknown)}", limit, "leave it out")
    return kind(**given)


def emit_quantized(
    path: str | Path, *, target: str = "lava", max_bytes: int | None = None, options: Any = None
) -> Artifact:
    """The program of a file that ``load_quantized`` reads; ``options``: the emitter's own, None: its defaults.

    Raises:
        FileError: it cannot be read.
        UsageError: no emitter of that name, or one that does not take integers without a map.
        ModelError: what the target cannot compute.
    """
    emitter = registry.get("emitters", target)
    return emitter.emit(load_quantized(path, max_bytes=max_bytes), options)


def run_emitted(
    program: str | Path | Artifact,
    inputs: Any,
    *,
    steps: int | None = None,
    axes: str | Sequence[str] | None = None,
    record: Sequence[str] = (),
    drain: bool = False,
    events: EventOptions = NO_EVENTS,
    progress: Progress | None = None,
) -> Recording:
    """Runs an emitted program of any target, in memory or in a folder, as its manifest says.

    ``record``: ``NODE:s,u,v`` or ``*:s,u,v`` each; default: the outputs. ``axes``: those of the data; None: those of
    the network that the program was made of. ``drain``: as of ``simulate_fixed``, for arrays.
    Raises UsageError, FileError or ModelError.
    """
    kind = artifact_kind(program)
    is_lava = kind in ("", "lava")  # a Lava program runs where it lies, with all that was changed in it
    artifact: Any = program if isinstance(program, Artifact) or is_lava else read_artifact(program)
    given, latency = _read(artifact, inputs, axes, steps, events)
    is_drained = drain and any(latency.values())
    recorded = [_spikes_for_counts(text) for text in record] if is_drained else record

    def run(arrays: Any, steps: int | None) -> Recording:
        if is_lava:
            return run_program(program, arrays, steps=steps, record=recorded, progress=progress)
        options = {"steps": steps, "record": _probes(recorded), "progress": progress or no_progress}
        return registry.get("emitters", kind).run(artifact, arrays, **options)

    if not is_drained:
        return with_reading(run(given.inputs, steps), given)
    return with_reading(_with_counts(drained_run(run, given, steps, latency), _probes(record) or ()), given)


def _read(
    artifact: Any, inputs: Any, axes: str | Sequence[str] | None, steps: int | None, events: EventOptions
) -> tuple[Given, Mapping[str, int]]:
    """As ``read_for``, with events of the inputs binned by the dt of the program. Raises UsageError."""
    if events == NO_EVENTS and not has_events(inputs):
        return read_for(artifact, inputs, axes, steps)
    refuse_axes(axes)
    signature, _ = signature_of(artifact)
    if signature is None:
        limit = "this program does not state the shapes of its inputs"
        raise UsageError.of("events", "cannot be given", limit, "give arrays, as nirbridge.read_events returns them")
    arrays, text = bind_events(signature, inputs, events, steps=steps)
    given, latency = read_for(artifact, arrays, "time,sample", steps)
    return replace(given, reading=text), latency


def _spikes_for_counts(text: str) -> str:
    """A probe that records spikes in place of counts: a drained run is cut before anything is counted."""
    node, _, names = text.rpartition(":")
    return f"{node}:{','.join(dict.fromkeys('s' if name.strip() == 'count' else name for name in names.split(',')))}"


def _with_counts(recording: Recording, probes: Sequence[Probe]) -> Recording:
    """The recording with the counts that were requested; spikes that were not are left out."""
    sent, counted = ({p.node for p in probes if name in p.variables} for name in ("s", "count"))
    if not counted:
        return recording
    arrays: dict[tuple[str, str], Any] = {}
    for (node, variable), array in recording.arrays.items():
        if variable != "s" or not sent.isdisjoint((node, "*")):
            arrays[node, variable] = array
        if variable == "s" and not counted.isdisjoint((node, "*")):
            arrays[node, "count"] = array.sum(axis=0, dtype="int64")
    return replace(recording, arrays=MappingProxyType(arrays))


def _probes(texts: Sequence[str]) -> list[Probe] | None:
    """Probes of ``NODE:s,u,v`` each; a name may hold colons, the last one counts."""
    parts = [text.rpartition(":") for text in texts]
    return [Probe(node, tuple(v.strip() for v in names.split(","))) for node, _, names in parts] or None


def program_files(folder: str | Path) -> tuple[str, ...]:
    """The paths of the files of an emitted program; none where the folder is no program."""
    return tuple(str(Path(folder, name)) for name in sorted(known_files(Path(folder)) or ()))


def write_program(program: Artifact, folder: str | Path) -> Mapping[str, Any]:
    """Writes an emitted program, whole or not at all, and returns its manifest. Raises FileError."""
    write_artifact(program, folder)
    return read_document(program, MANIFEST, {})

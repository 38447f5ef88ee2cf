"""One line for each value that a stage takes or returns, shown in a prompt or a notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from nirbridge.errors import counted, quoted
from nirbridge.files.attributes import load_attribute
from nirbridge.network.compose import parts_of
from nirbridge.network.neurons import extra_arrays, extra_label
from nirbridge.network.nir.import_notes import IMPORT, partial_checks
from nirbridge.report.map_facts import cores_available, figure_with_prefix, one_line

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip
    from nirbridge.emitters.artifact import Artifact
    from nirbridge.mapping.model import MappedNetwork
    from nirbridge.mapping.storage.record import MapRecord
    from nirbridge.network.model import Network, Population, Projection
    from nirbridge.network.neurons import Neuron
    from nirbridge.partitioner.model import Partition
    from nirbridge.quantization.model import QuantizedNetwork
    from nirbridge.simulators.types import Recording

NODES_SHOWN = 6


def repr_line(value: object) -> str:
    """The value in one line: its class and its most telling properties."""
    cls = type(value)
    line = next(_LINES[base.__name__] for base in cls.__mro__ if base.__name__ in _LINES)
    line = load_attribute(line) if isinstance(line, str) else line
    return f"{cls.__name__}: {line(value)}"


def short_notes(notes: Sequence[str]) -> list[str]:
    """The notes of other stages and of self-checks; those of the import, which are the same everywhere, are counted."""
    own = [note for note in notes if not note.startswith(IMPORT) or partial_checks([note])]
    count = len(notes) - len(own)
    return [*own, f"how the model was read: see nirbridge inspect ({counted(count, 'note')})"] if count else own


def shape_line(shape: Sequence[int]) -> str:
    """``2 x 34 x 34``; ``1`` for no axes."""
    return " x ".join(f"{n:,}" for n in shape) or "1"


def range_text(values: Any) -> str:
    """One number, or the least and the greatest of an array."""
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"


def _options(options: Any) -> str:
    """The options that differ from their defaults."""
    names = [f.name for f in fields(options) if getattr(options, f.name) != f.default and f.default is not MISSING]
    names += [f.name for f in fields(options) if f.default is MISSING and getattr(options, f.name)]
    shown = [f"{name}={_option(getattr(options, name))}" for name in names]
    return ", ".join(shown) or "all defaults"


def _option(value: object) -> str:
    return repr(value) if isinstance(value, str | int | float) else "…"


def _network(network: Network) -> str:
    populations = counted(len(network.populations), "population")
    dt = f"dt {figure_with_prefix(network.dt, 's')}{' (assumed)' if network.is_dt_assumed else ''}"
    check = "".join(f", {outcome}" for outcome in partial_checks(network.notes))
    return f"{counted(network.neurons, 'neuron')}, {populations}, {dt}{check}"


def _population(p: Population) -> str:
    return f"{quoted(p.name)}, {shape_line(p.shape)} {one_line(p.neuron.kind)} neurons"


def _projection(p: Projection) -> str:
    parts = ", ".join(type(part).__name__ for part in parts_of(p.operator))
    shapes = f"{shape_line(p.operator.input_shape)} to {shape_line(p.operator.output_shape)}"
    return f"{quoted(p.source)} -> {quoted(p.target)}, {parts}, {shapes}, delay {_delay(p)}"


def _delay(p: Projection) -> str:
    least = int(p.delay_steps.min()) + int(p.target_delay_steps.min())
    most = p.max_delay_steps
    return counted(least, "time step") if least == most else f"{least:,} to {most:,} time steps"


def _neuron(neuron: Neuron) -> str:
    kind = one_line(neuron.kind)
    if neuron.theta is None:
        return f"{kind}, readout, decay {range_text(neuron.a_mem)}"
    text = f"{kind}, threshold {range_text(neuron.theta)}, decay {range_text(neuron.a_mem)}, reset {neuron.reset}"
    return text + "".join(f", {extra_label(name)} {range_text(x)}" for name, x in extra_arrays(neuron).items())


def _chip(chip: Chip) -> str:
    limit = chip.core.neurons
    per_core = "any number of neurons" if limit is None else counted(limit, "neuron")
    return f"{quoted(chip.name)}, {counted(chip.mesh.cores, 'core')} of {per_core}, up to {chip.mesh.chips_max:,} chips"


def _mapped(mapped: MappedNetwork) -> str:
    chips = f"{mapped.chips} x {quoted(mapped.chip.name)}" if mapped.chips > 1 else quoted(mapped.chip.name)
    cores = f"{len(mapped.cores):,} of {cores_available(mapped):,} cores of {chips}"
    marked = ", placement only" if mapped.placement_only else ""
    return f"{counted(mapped.network.neurons, 'neuron')} on {cores}, {_proof(mapped.partition)}{marked}"


def _partition(partition: Partition) -> str:
    return f"{counted(len(partition.blocks), 'core')}, {_proof(partition)}"


def _proof(partition: Partition) -> str:
    report = partition.report
    status = f"{report.status}, search interrupted" if report.interrupted else report.status
    return f"{status} (lower bound {report.cores_lower_bound:,})"


def _map_record(record: MapRecord) -> str:
    neurons = sum(p.neurons for p in record.populations)
    name = quoted(record.chip.get("name", ""))
    return (
        f"{quoted(PurePath(record.model_file).name)}, {counted(neurons, 'neuron')} on "
        f"{counted(len(record.blocks), 'core')} of {name}, {one_line(record.proof.get('status', ''))}"
    )


def _quantized(quantized: QuantizedNetwork) -> str:
    widths = sorted({p.weight_bits for p in quantized.projections})
    bits = "no weights" if not widths else f"weights of {_or(widths)} bits"
    latency = max(quantized.latency.values(), default=0)
    late = f"latency {counted(latency, 'time step')}"
    return f"{counted(quantized.neurons, 'neuron')} in integers of {quoted(quantized.chip)}, {bits}, {late}"


def _or(numbers: list[int]) -> str:
    return " or ".join(map(str, numbers)) if len(numbers) < 3 else f"{numbers[0]} to {numbers[-1]}"


def _recording(recording: Recording) -> str:
    keys = [f"{one_line(node)}/{one_line(variable)}" for node, variable in recording.arrays]
    more = len(keys) - NODES_SHOWN
    shown = ", ".join(keys[:NODES_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
    steps, batch = recording.meta.get("steps"), recording.meta.get("batch")
    length = [counted(steps, "time step")] if isinstance(steps, int) else []
    length += [counted(batch, "sample")] if isinstance(batch, int) else []
    return ", ".join([*length, shown or "nothing recorded"])


def _artifact(artifact: Artifact) -> str:
    size = sum(map(len, artifact.files.values()))
    return f"{counted(len(artifact.files), 'file')}, {counted(size, 'byte')}, digest {artifact.digest[:12]}"


_LINES: Mapping[str, str | Callable[[Any], str]] = {
    "Network": _network,
    "Population": _population,
    "Projection": _projection,
    "Neuron": _neuron,
    "Chip": _chip,
    "MappedNetwork": _mapped,
    "Partition": _partition,
    "MapRecord": _map_record,
    "QuantizedNetwork": _quantized,
    "Recording": _recording,
    "Comparison": "nirbridge.report.compare:comparison_verdict",
    "Bench": "nirbridge.report.bench:bench_line",
    "Profile": "nirbridge.report.profile_text:profile_line",
    "ProfilePoint": "nirbridge.report.profile_text:point_line",
    "Verification": "nirbridge.verification.verify:verification_verdict",
    "Artifact": _artifact,
    "MapOptions": _options,
    "Session": lambda session: f"{one_line(session.backend)}: {one_line(session.why)}",
}
"""Class -> its line; subclasses have that of their base."""

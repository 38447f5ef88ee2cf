"""A profile as text: figures of an inference and of a time step with their basis, layers, events and memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from nirbridge.errors import counted, quoted
from nirbridge.profiling.model import EventProfile, Figure, LayerProfile, Profile, ProfilePoint, Witness
from nirbridge.report.lines import short_notes
from nirbridge.report.map_facts import figure_with_prefix, one_line
from nirbridge.report.tables import Names, facts_table, heading, listed, table

PADDING = (0, 2, 0, 0)
LAYERS_SHOWN = 60
_MORE_OF_ONE = "memory, NeuroBench's metrics and the sources of the figures: see --verbose"
_MORE_OF_MANY = "the sources of the figures: see --verbose"
Format = Callable[[float], str]
_LEAST_OF_LAYERS = ("kind", "sparsity", "memory", "cores", "neurons", "")
_LEAST_OF_POINTS = (
    *("objective", "memory", "guaranteed", "EDP", "cores", "spikes", "throughput", "bits"),
    *("accuracy",),
)
"""Columns that a narrow terminal does without, the first to go first."""


def profile_text(profile: Profile, *, notes: bool = True, every: bool = True) -> RenderableType:
    """The profile of one point; of several points a table with a row for each.

    Without ``every`` no memory, no metrics of NeuroBench and no sources.
    """
    of = f"{one_line(profile.model)}: " if profile.model else ""
    title = Text(f"{of}{_about(profile)}", style="bold")
    if len(profile.points) == 1:
        return Group(title, *_point(profile.points[0], notes=notes, every=every), *_failed(profile))
    rows = (heading("points, per inference"), _table(profile.points))
    beside = (part for point in profile.points for part in _beside(point, alone=False))
    return Group(title, *rows, *beside, *_failed(profile), *_shared_notes(profile.points if notes else (), every=every))


def profile_line(profile: Profile) -> str:
    """Points, data, and the energy and time of an inference on the first point."""
    points = profile.points
    if not points:
        return "no points"
    first = points[0]
    known = [_amount(first, "energy_per_inference_j", "J"), _amount(first, "time_per_inference_s", "s")]
    told = [text for text in known if text]
    figures = f"{' and '.join(told)} per inference" if told else "no figures of energy and time"
    others = f", and {counted(len(points) - 1, 'more point')}" if len(points) > 1 else ""
    return f"{_about(profile)}; {figures} on {quoted(first.about['chip'])}{others}"


def point_line(point: ProfilePoint) -> str:
    """Chip, width, and energy and time of an inference."""
    known = [_amount(point, "energy_per_inference_j", "J"), _amount(point, "time_per_inference_s", "s")]
    told = " and ".join(text for text in known if text) or "no figures of energy and time"
    bits = counted(point.about["weight_bits"], "bit")
    return f"{quoted(point.about['chip'])}, weights of {bits}, {told} per inference"


def point_text(point: ProfilePoint) -> RenderableType:
    """The sections of one point."""
    return Group(*_point(point, notes=True, every=True))


def _about(profile: Profile) -> str:
    about = profile.points[0].about if profile.points else {"samples": 0, "steps": 0}
    size = f"{counted(about['samples'], 'sample')} of {counted(about['steps'], 'time step')}"
    return f"{size} ({one_line(profile.data)})" if profile.data else size


def _point(point: ProfilePoint, *, notes: bool, every: bool) -> Iterator[RenderableType]:
    about = point.about
    place = (
        f"{about['cores']:,} of {about['chip']}'s cores ({about['status']}, at least {about['cores_lower_bound']:,})"
    )
    mapping = f"weights of {counted(about['weight_bits'], 'bit')}, objective {about['objective']}"
    steps = counted(about["hardware_steps"], "time step")
    facts = [("chip", f"{one_line(place)}, {mapping}"), ("an inference", f"{steps} on the chip")]
    yield facts_table([*facts, ("rates", one_line(about["rates"]))])
    yield heading("figures")
    yield table(
        ("", "per inference", "per time step", "range", "basis"), "LRRRL", figure_rows(point), drop=("range", "basis")
    )
    energy = point.figures.get("energy_per_inference_j")
    yield heading("layers, per inference" + " (energy is partial)" * bool(energy and energy.missing))
    yield _layers(point.layers, _mark(energy))
    yield heading("events, per inference")
    yield _events(point.events)
    if every:
        yield heading("memory")
        yield _memory(point)
        yield heading("NeuroBench")
        yield _metrics(point)
    yield from _beside(point)
    if notes:
        yield from listed("sources", source_lines([point]) if every else ())
        notes_of = [*_rough(point), *_other_figure(point), *point.notes]
        yield from listed("notes", _notes(notes_of, [_MORE_OF_ONE], every=every))


def _notes(notes: Sequence[str], more: Sequence[str], *, every: bool) -> list[str]:
    """All notes; without ``every`` those of the import are counted, and ``more`` comes last."""
    return [*map(one_line, notes if every else short_notes(notes)), *([] if every else more)]


def figure_rows(point: ProfilePoint) -> Iterator[tuple[str, ...]]:
    """Rows of the table of figures; those without a value are left out."""
    pairs: tuple[tuple[str, str, str, Format], ...] = (
        ("spikes", "spikes_per_inference", "spikes_per_step", _count),
        ("input events", "input_spikes_per_inference", "", _count),
        ("synaptic operations", "synaptic_ops_per_inference", "synaptic_ops_per_step", _count),
        ("energy", "energy_per_inference_j", "energy_per_step_j", _unit("J")),
        ("energy per synaptic operation", "energy_per_synaptic_op_j", "", _unit("J")),
        ("time", "time_per_inference_s", "time_per_step_s", _unit("s")),
        ("longest time step of the data", "", "longest_step_s", _unit("s")),
        (WORST, "", "guaranteed_step_s", _unit("s")),
        ("throughput, sustained", "inferences_per_s", "", _per_second),
        ("throughput, guaranteed", "guaranteed_inferences_per_s", "", _per_second),
        ("power", "power_w", "", _unit("W")),
        ("energy-delay product", "energy_delay_js", "", _unit("J s")),
        ("accuracy, reference", "accuracy_reference", "", _share),
        ("accuracy, integers", "accuracy", "", _share),
        ("same decisions", "same_decisions", "", _share),
        ("activation sparsity", "activation_sparsity", "", _share),
        ("synaptic memory", "memory_bytes", "", _unit("B")),
    )
    for label, inference, step, text in pairs:
        figures = [point.figures.get(name) for name in (inference, step)]
        known = next((figure for figure in figures if figure is not None), None)
        if known is not None:
            cells = ("" if figure is None else _mark(figure) + text(figure.value) for figure in figures)
            yield (label + " (partial)" * bool(known.missing), *cells, _range(known, text), known.basis)


def _mark(figure: Figure | None) -> str:
    return "~" * (figure is not None and figure.basis == "assumed")


def _range(figure: Figure, text: Format) -> str:
    if figure.low is None or figure.high is None:
        return ""
    return f"{_mark(figure)}{text(figure.low)} to {_mark(figure)}{text(figure.high)}"


def _unit(unit: str) -> Format:
    return lambda value: figure_with_prefix(value, unit)


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:,.4g}"


def _share(value: float) -> str:
    return f"{value:.2%}"


def _per_second(value: float) -> str:
    return f"{value:,.4g} /s" if value < 10_000 else f"{value:,.0f} /s"


def _amount(point: ProfilePoint, name: str, unit: str) -> str:
    return _known(point, name, unit) if name in point.figures else ""


def _layers(layers: Sequence[LayerProfile], mark: str) -> RenderableType:
    headings = ("layer", "kind", "neurons", "cores", "spikes", "sparsity", "synaptic ops", "energy", "", "memory")
    total = sum(layer.total_energy_j for layer in layers)
    rows = [_layer(layer, total, mark) for layer in layers[:LAYERS_SHOWN]]
    if len(layers) > LAYERS_SHOWN:
        rows.append((f"and {len(layers) - LAYERS_SHOWN:,} more", *[""] * (len(headings) - 1)))
    return table(headings, "lLR", rows, drop=_LEAST_OF_LAYERS)


def _layer(layer: LayerProfile, total: float, mark: str) -> tuple[str | Names, ...]:
    energy = layer.total_energy_j
    return (
        Names((one_line(layer.name),)),
        one_line(layer.kind),
        f"{layer.neurons:,}",
        f"{layer.cores:,}" if layer.kind != "input" else "host",
        _count(layer.spikes),
        "" if layer.sparsity is None else _share(layer.sparsity),
        _count(layer.synaptic_ops),
        mark + figure_with_prefix(energy, "J") if total else "",
        f"{energy / total:.0%}" if total else "",
        figure_with_prefix(layer.memory_bytes, "B") if layer.memory_bytes else "",
    )


def _events(events: Sequence[EventProfile]) -> RenderableType:
    rows = [
        (
            event.kind,
            "" if event.count is None else _count(event.count),
            "" if event.energy_j is None else figure_with_prefix(event.energy_j, "J", approximate=event.is_approximate),
            "" if event.time_s is None else figure_with_prefix(event.time_s, "s", approximate=event.is_approximate),
            one_line(event.energy_source or event.time_source),
        )
        for event in events
        if event.count or event.energy_j or event.time_s
    ]
    return table(("event", "count", "energy", "time", "source"), "LRRRl", rows, drop=("source", "count"))


def _memory(point: ProfilePoint) -> RenderableType:
    rows = [
        (
            resource.resource.replace("_", " "),
            f"{resource.used:,}",
            f"{resource.most:,}",
            "not limited" if resource.limit is None else f"{resource.limit:,}",
            "" if resource.used_bytes is None else f"{resource.used_bytes:,.0f}",
            "" if resource.reserved_bytes is None else f"{resource.reserved_bytes:,.0f}",
        )
        for resource in point.memory
    ]
    headings = ("resource", "all cores", "fullest core", "limit of a core", "bytes used", "bytes of these cores")
    return table(headings, "LR", rows, padding=PADDING)


def _metrics(point: ProfilePoint) -> RenderableType:
    names = list(dict.fromkeys(name for metrics in point.neurobench.values() for name in metrics))
    columns = list(point.neurobench)
    rows = [(name, *(_metric(point.neurobench[column].get(name)) for column in columns)) for name in names]
    return table(("metric", *columns), "LR", rows, padding=PADDING)


def _metric(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value == int(value) and abs(value) > 1 else f"{value:,.6g}"


def _beside(point: ProfilePoint, *, alone: bool = True) -> Iterator[RenderableType]:
    """The section of another simulator, where there is one."""
    if point.witness is not None:
        about = point.about
        of = f", {one_line(about['chip'])}, {counted(about['weight_bits'], 'bit')}, {about['objective']}"
        title = f"beside {one_line(point.witness.name)} {one_line(point.witness.version)}".rstrip()
        yield heading(title if alone else title + of)
        yield _witness(point, point.witness)
        yield from (Text(one_line(note)) for note in point.witness.notes)


def _witness(point: ProfilePoint, witness: Witness) -> RenderableType:
    rows = [("spikes", f"{point['spikes_per_inference'] or 0:,.6g}", f"{witness.spikes:,.6g}", "", "")]
    rows[0] = (*rows[0][:3], "equal" if witness.spikes_equal else "not equal", f"{witness.samples:,} samples")
    pairs = (("energy", "energy_per_inference_j", "J", witness.energy_j),)
    pairs += (("time", "time_per_inference_s", "s", witness.time_s),)
    for label, name, unit, theirs in pairs:
        ours = point[name]
        if ours is not None and theirs is not None:
            ratio = f"{ours / theirs:.3f} times" if theirs else ""
            mark = _mark(point.figures.get(name))
            rows.append(
                (label, mark + figure_with_prefix(ours, unit), mark + figure_with_prefix(theirs, unit), ratio, "")
            )
    rows += [(name.replace("_", " "), "", f"{value:,.6g}", "", "") for name, value in witness.circuit.items()]
    return table(("per inference", "nirbridge", one_line(witness.name), "", ""), "LR", rows, padding=PADDING)


# -- several points --------------------------------------------------------------------------------------------------


def _table(points: Sequence[ProfilePoint]) -> RenderableType:
    headings = ("chip", "bits", "objective", "cores", "spikes", "energy", "time", "throughput", "guaranteed", "EDP")
    return table((*headings, "accuracy", "memory"), "LRLR", map(_row, points), drop=_LEAST_OF_POINTS)


def _row(point: ProfilePoint) -> tuple[str, ...]:
    accuracy = next((v for v in (point["accuracy"], point["accuracy_reference"]) if v is not None), None)
    return (
        one_line(point.about["chip"]),
        str(point.about["weight_bits"]),
        str(point.about["objective"]),
        f"{point.about['cores']:,}",
        _count(point["spikes_per_inference"] or 0.0),
        _known(point, "energy_per_inference_j", "J"),
        _known(point, "time_per_inference_s", "s"),
        _known(point, "inferences_per_s", "/s"),
        _known(point, "guaranteed_inferences_per_s", "/s"),
        _known(point, "energy_delay_js", "J s"),
        "" if accuracy is None else _share(accuracy),
        figure_with_prefix(point["memory_bytes"] or 0.0, "B"),
    )


def _known(point: ProfilePoint, name: str, unit: str) -> str:
    """A figure, ``~`` before an assumed one and ``(partial)`` after a partial one; no data where the file has none."""
    figure = point.figures.get(name)
    if figure is None:
        return "no data"
    if unit == "/s":
        partial = " (partial)" * bool(figure.missing)
        return f"{_mark(figure)}{_per_second(figure.value)}{partial}"
    return _mark(figure) + figure_with_prefix(figure.value, unit, partial=figure.missing)


def _failed(profile: Profile) -> Iterator[RenderableType]:
    lines = [
        f"{one_line(x.chip)}, {'default' if x.weight_bits is None else x.weight_bits} bits, {x.objective}: "
        f"{one_line(x.reason)}"
        for x in profile.failed
    ]
    yield from listed("not profiled", lines)


def _shared_notes(points: Sequence[ProfilePoint], *, every: bool) -> Iterator[RenderableType]:
    notes: dict[str, None] = {}
    yield from listed("sources", source_lines(points) if every else ())
    for point in points:
        rough = (f"{point.about['chip']}, {note}" for note in _rough(point))
        notes |= dict.fromkeys(_notes([*rough, *point.notes], [], every=every))
    notes |= {_MORE_OF_MANY: None} if points and not every else {}
    yield from listed("notes", notes)


def _rough(point: ProfilePoint) -> Iterator[str]:
    """A note on the figures marked ``~``: what stands in for those that are not public, where the sources name one."""
    pairs = (("energy", "energy_per_inference_j"), ("time", "time_per_inference_s"))
    words = " and ".join(word for word, name in pairs if _mark(point.figures.get(name)))
    if not words:
        return
    rough = (event for event in point.events if event.is_approximate)
    sources = " ".join(f"{event.energy_source}\n{event.time_source}\n" for event in rough)
    named = dict.fromkeys(re.findall(r"the figures? of (.+?)(?: \(.*\))? stands? in", sources))
    rest = f"the figures of {' and '.join(named)} stand in" if named else "rest on figures that are not public"
    yield f"{words}{':' * bool(named)} {rest} (~); see nirbridge chips {point.about['chip']}"


def _other_figure(point: ProfilePoint) -> Iterator[str]:
    """Why ``nirbridge map --input`` has another energy per time step, where it has (its costs: docs/mapping.md)."""
    here = point.figures.get("energy_per_step_j")
    costs = None if point.mapped is None else point.mapped.costs
    if here is None or costs is None or costs.energy_per_step_j is None:
        return  # no figures, or of a file, which holds no map
    there = _mark(here) + figure_with_prefix(costs.energy_per_step_j, "J")
    if there == _mark(here) + figure_with_prefix(here.value, "J"):
        return
    of_data, of_run = point.about["steps"], point.about["hardware_steps"]
    counts = {event.kind: event.count or 0.0 for event in point.events}
    reasons = [f"its spikes are averaged over {of_data:,} time steps, here over {of_run:,}"] * (of_run > of_data)
    if counts.get("neuron updates", 0.0) < counts.get("neuron accesses", 0.0):
        reasons.append("it updates every neuron, here only active ones")
    of = f"map --input states {there} per time step"
    yield f"{of}: {'; '.join(reasons)}; without --input it assumes rates" if reasons else of


# -- sources of figures -----------------------------------------------------------------------------------------------


WORST = "time step where all neurons and inputs fire"


def source_lines(points: Sequence[ProfilePoint]) -> list[str]:
    """A line per chip and source, with the figures that are taken from it, in the words of the tables."""
    return list(dict.fromkeys(line for point in points for line in _lines(point)))


def _lines(point: ProfilePoint) -> Iterator[str]:
    chip = one_line(point.about["chip"])
    found: dict[str, list[str]] = {}
    for event in point.events:
        of: dict[str, list[str]] = {}
        pairs = (("energy", event.energy_j, event.energy_source), ("time", event.time_s, event.time_source))
        for word, value, source in pairs:
            if value:
                of.setdefault(source, []).append(word)
        for source, words in of.items():
            found.setdefault(source, []).append(f"{' and '.join(words)} of {event.kind}")
    for source, figures in found.items():
        yield f"{chip}, {', '.join(figures)}: {one_line(source) or 'the chip file names no source'}"
    if "guaranteed_step_s" in point.figures:
        yield f"{chip}, {WORST}: the same figures, messages wait for links"

"""The network as a graph whose boxes are buttons, and the panel and table of what each of them is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from nirbridge.comparison.distances import is_counts
from nirbridge.errors import counted, quoted
from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.neurons import is_extra
from nirbridge.report.html.page import (
    Markup,
    Picture,
    ReportSources,
    Section,
    folded,
    joined,
    number,
    paint,
    remark,
    scrolled,
    short,
    svg,
    table,
    tag,
    text,
)
from nirbridge.report.map_facts import figure_with_prefix, one_line, rate_text
from nirbridge.report.network_facts import population_facts, projection_facts
from nirbridge.report.pictures.labels import times_text
from nirbridge.report.pictures.network_nodes import delay_text, projection_text
from nirbridge.report.pictures.network_picture import NetworkArrow, NetworkBox, NetworkPicture, network_picture
from nirbridge.simulators.types import Recording

SCALE = 1.8
"""Page pixels per point of the picture: text of 7 points is 12.6 pixels high."""
WIDTH_POINTS, NODES_MAX, ROW_MAX = 400.0, 60, 8
LISTED_MAX = 200
"""Populations with a panel and rows of the tables; the first ones of the network."""
_STRIP, _FOLDED = 3.5, 10


def network_section(sources: ReportSources, network: Network) -> Section:
    """The section of a network."""
    drawn = network_picture(network, width=WIDTH_POINTS, nodes_max=NODES_MAX, row_max=ROW_MAX)
    lead = (
        f"{counted(network.neurons, 'neuron')} in {counted(len(network.populations), 'population')},"
        f" {counted(len(network.projections), 'projection')}, a time step of {figure_with_prefix(network.dt, 's')}."
        f" {_delays(network)}"
    )
    panel = tag("aside", id="network-panel", class_="panel", aria_live="polite", aria_label="Selected population")
    hint = tag("p", "Choose a box to see its parameters, cores and rates: click it, or Tab to it.", class_="hint")
    plain = any(arrow.label is None for arrow in drawn.arrows)
    said = [f"{drawn.remark}."] * bool(drawn.remark) + ["An arrow without text passes values on as they are."] * plain
    note = [remark(each) for each in said]
    picture = scrolled(network_drawing(network, drawn), "Graph")
    columns = tag("div", tag("div", hint, picture, note), panel, class_="columns")
    return Section("network", "Network", lead, (columns, *_tables(sources, network)))


def network_data(sources: ReportSources, network: Network) -> dict[str, Any]:
    """What the panel shows of every box: name, and labels with what they say."""
    rates = population_rates(sources)
    cores = _cores(sources)
    nodes: dict[str, Any] = {}
    into: dict[str, list[Projection]] = {}
    for p in network.projections:
        into.setdefault(p.target, []).append(p)
    for population in network.populations[:LISTED_MAX]:
        rows = [*_parameters(population), *_places(cores.get(population.name)), *_rates(rates.get(population.name))]
        nodes[population.name] = [*rows, *_arriving(into.get(population.name, []))]
    for kind, ports in (("input", network.inputs), ("output", network.outputs)):
        for port in ports[:LISTED_MAX]:
            rows = [["kind", kind], ["shape", times_text(port.shape)], *_rates(rates.get(port.name))]
            nodes[port.name] = [*rows, *_arriving(into.get(port.name, []))]
    drawn = network_picture(network, width=WIDTH_POINTS, nodes_max=NODES_MAX, row_max=ROW_MAX)
    folds = {box.name: _folds(box) for box in drawn.boxes if len(box.members) > 1}
    return {one_line(name): rows for name, rows in (nodes | folds).items()}


def _folds(box: NetworkBox) -> list[list[str]]:
    """A box that stands for several nodes: the names of the first and the last ones."""
    names = [quoted(name, 60) for name in box.members]
    shown = names if len(names) <= 2 * _FOLDED else [*names[:_FOLDED], "…", *names[-_FOLDED:]]
    return [["stands for", f"{len(names):,} nodes"], ["neurons", f"{box.neurons:,}"], ["names", ", ".join(shown)]]


def _delays(network: Network) -> str:
    longest = max((p.max_delay_steps for p in network.projections), default=0)
    back = sum(p.is_back for p in network.projections)
    loops = f"{counted(back, 'projection')} {'closes' if back == 1 else 'close'} a cycle" if back else "No cycle"
    delays = f"the longest delay is {counted(longest, 'time step')}" if longest else "no delays"
    return f"{loops}; {delays}."


def network_drawing(network: Network, drawn: NetworkPicture) -> Picture:
    """The graph; a box is a button of the script, with the name of its node."""
    layers = {p.name: k for k, p in enumerate(network.populations)}
    head = tag("path", d="M0 0L6 3L0 6z", class_="head")
    ends = {"markerWidth": "6", "markerHeight": "6", "refX": "5.5", "refY": "3", "orient": "auto-start-reverse"}
    return svg(
        (drawn.width + 4) * SCALE,
        (drawn.height + 4) * SCALE,
        tag("defs", tag("marker", head, id="arrow", **ends)),
        map(_arrow, drawn.arrows),
        [_box(box, layers) for box in drawn.boxes],
        view=f"-2 -2 {number(drawn.width + 4)} {number(drawn.height + 4)}",
        role="group",
        aria_label=f"Graph of the network: {counted(len(drawn.boxes), 'box', 'boxes')}",
        class_="graph",
    )


def _arrow(arrow: NetworkArrow) -> Markup:
    points = [f"{number(x)} {number(y)}" for x, y in arrow.path]
    curves = "".join(f"C{' '.join(points[k : k + 3])}" for k in range(1, len(points) - 2, 3))
    line = tag(
        "path",
        d=f"M{points[0]}{curves}",
        class_="edge-line back" if arrow.closes_cycle else "edge-line",
        marker_end="url(#arrow)",
    )
    label = arrow.label
    if label is None:
        return line
    back = tag("rect", x=label.x, y=label.y, width=label.width, height=label.height, class_="edge-back")
    said = text(
        label.x + label.width / 2, label.y + label.height - 2.6, label.text, anchor="middle", class_="edge-text"
    )
    return joined((line, back, said))


def _box(box: NetworkBox, layers: Mapping[str, int]) -> Markup:
    radius = {"input": box.height / 2, "output": box.height / 2}.get(box.role, 2.0)
    outline = tag("rect", x=box.x, y=box.y, width=box.width, height=box.height, rx=float(radius), class_="shape")
    strip = _strip(box, layers)
    first = box.y + (box.height - 8.8 * len(box.lines)) / 2 + 6.6
    lines = [
        text(box.x + box.width / 2, first + 8.8 * k, line, anchor="middle", class_="name" if not k else None)
        for k, line in enumerate(box.lines)
    ]
    says = f"{short(box.name)}: {box.role}, {', '.join(box.lines[1:])}"
    return tag(
        "g",
        outline,
        strip,
        lines,
        class_=f"node {box.role}",
        role="button",
        tabindex="0",
        aria_label=says,
        aria_pressed="false",
        data_node=one_line(box.name),
    )


def _strip(box: NetworkBox, layers: Mapping[str, int]) -> Markup | None:
    """The fill that the population has on the floor plan, at the left edge of its box."""
    if box.role != "population" or box.name not in layers:
        return None
    place = {"x": box.x + 0.5, "y": box.y + 0.5, "width": _STRIP, "height": box.height - 1}
    return tag("rect", fill=paint(layers[box.name]), class_="strip", **place)


# -- panel -------------------------------------------------------------------------------------------------------


def _parameters(population: Population) -> Iterator[list[str]]:
    facts = population_facts(population)
    yield ["kind", one_line(facts["kind"])]
    shape = f" ({times_text(population.shape)})" if len(population.shape) > 1 else ""
    yield ["neurons", f"{population.size:,}{shape}"]
    ranges = ("threshold", "membrane_decay", "synaptic_decay", "refractory_steps", *filter(is_extra, facts))
    for name in ranges:
        if facts.get(name) is not None and (name != "refractory_steps" or facts[name][1]):
            yield [name.replace("_", " "), _range(facts[name])]
    for name in ("reset", "compare", "max_spikes"):
        if facts.get(name) not in (None, 1):
            yield [name.replace("_", " "), one_line(facts[name])]


def _range(ends: list[float]) -> str:
    return f"{ends[0]:.6g}" if ends[0] == ends[1] else f"{ends[0]:.6g} to {ends[1]:.6g}"


def _cores(sources: ReportSources) -> dict[str, tuple[int, int, str]]:
    """(slices, cores, most frequent sizes) of each population."""
    if sources.mapped is None:
        return {}
    from nirbridge.report.map_facts import population_rows

    rows = zip(sources.mapped.network.populations, population_rows(sources.mapped), strict=True)
    return {p.name: (row.slices, row.cores, row.boxes) for p, row in rows}


def _places(cores: tuple[int, int, str] | None) -> Iterator[list[str]]:
    if cores is not None:
        yield ["cores", f"{cores[1]:,}"]
        yield ["slices", f"{cores[0]:,}; by size: {cores[2]}"]


def _rates(rate: tuple[float, str] | None) -> Iterator[list[str]]:
    if rate is not None:
        yield ["rate", f"{rate_text(rate[0])} spikes per neuron and time step ({rate[1]})"]


def _arriving(projections: list[Projection]) -> Iterator[list[str]]:
    for p in projections[:12]:
        synapses = projection_facts(p)["synapses"]
        count = "" if synapses is None else f"; {counted(synapses, 'synapse')}"
        yield [f"from {short(p.source, 30)}", (projection_text(p) or "passed on") + count]
    if len(projections) > 12:
        yield ["from others", f"{len(projections) - 12:,} more projections"]


# -- tables ------------------------------------------------------------------------------------------------------


def _tables(sources: ReportSources, network: Network) -> Iterator[Markup]:
    rates, cores = population_rates(sources), _cores(sources)
    headings = ["population", "kind", "shape", "neurons", "cores", "rate"]
    rows = [
        [
            quoted(p.name, 60),
            p.neuron.kind,
            times_text(p.shape),
            f"{p.size:,}",
            f"{cores[p.name][1]:,}" if p.name in cores else "",
            rate_text(rates[p.name][0]) if p.name in rates else "",
        ]
        for p in network.populations[:LISTED_MAX]
    ]
    yield folded(
        "Populations as a table", table("Populations", headings, rows, "lllrrr", sort=True), _cut(network.populations)
    )
    projected = [
        [
            quoted(p.source, 40),
            quoted(p.target, 40),
            projection_text(p) or "passed on",
            delay_text(p),
            "yes" if p.is_back else "",
        ]
        for p in network.projections[:LISTED_MAX]
    ]
    heads = ["from", "to", "operator", "delay", "closes a cycle"]
    yield folded("Projections as a table", table("Projections", heads, projected), _cut(network.projections))


def _cut(parts: tuple[Any, ...]) -> Markup | None:
    if len(parts) <= LISTED_MAX:
        return None
    return remark(f"The first {LISTED_MAX:,} of {len(parts):,} are listed; nirbridge inspect lists all.")


# -- rates: measured where there is a recording, else assumed ----------------------------------------------------------


Rate = tuple[float, str]
"""Spikes per neuron and time step, and where the number is from."""


def population_rates(sources: ReportSources) -> dict[str, Rate]:
    """The rate of every node that has one."""
    return {**_assumed(sources), **_measured(sources)}


def _measured(sources: ReportSources) -> dict[str, Rate]:
    recordings = dict(sources.recordings)
    if sources.verification is not None:
        recordings = {**sources.verification.recordings, **recordings}
    rates: dict[str, Rate] = {}
    for name in recordings:
        for node, rate in _of(recordings[name]).items():
            rates.setdefault(node, (rate, f"measured, {one_line(name)}"))
    return rates


def _of(recording: Recording) -> dict[str, float]:
    rates = {}
    for (node, variable), array in recording.arrays.items():
        if variable == "s" and array.size and array.ndim and is_counts(array):
            rates[node] = float(array.sum(dtype=np.int64)) / array.size
    return rates


def _assumed(sources: ReportSources) -> dict[str, Rate]:
    """Spikes per time step of the neurons that send to a core, as the costs of the map count them."""
    mapped = sources.mapped
    if mapped is None:
        return {}
    axons, said = mapped.axons, one_line(mapped.rates)
    rates = {}
    for k, name in enumerate(axons.names):
        of = axons.source_name == k
        neurons = int(axons.neurons[of].sum())
        if neurons:
            rates[name] = float(axons.spikes_per_step[of].sum()) / neurons, said
    return rates

"""Reports as pages: the sections of the given values in their order; of one value, or of several of one model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from nirbridge.errors import UsageError, counted, quoted
from nirbridge.files.atomic import atomic_write_bytes
from nirbridge.files.attributes import load_attribute
from nirbridge.mapping.model import MappedNetwork
from nirbridge.report.html.page import (
    Markup,
    ReportSources,
    Section,
    folded,
    joined,
    page,
    paints,
    pattern_definitions,
    remark,
    short,
    table,
    tag,
)
from nirbridge.report.html.sections.circuit import circuit_section
from nirbridge.report.html.sections.floorplan import Plan, floorplan_section, plan_data
from nirbridge.report.html.sections.network import network_data, network_section
from nirbridge.report.html.sections.overview import (
    costs_section,
    facts_section,
    overview_section,
    proof_section,
    resources_section,
)
from nirbridge.report.html.sections.quantization import quantization_section
from nirbridge.report.html.sections.recordings import recordings_section
from nirbridge.report.html.sections.traffic import map_matrix, matrix_data, traffic_section
from nirbridge.report.html.sections.verification import compared_parts, verification_section
from nirbridge.report.map_facts import figure_with_prefix
from nirbridge.report.pictures.bar_pictures import KINDS
from nirbridge.report.summaries import summary


def report_html(sources: ReportSources) -> str:
    """The report as an HTML document."""
    data: dict[str, Any] = {}
    drawn = _sections(sources, data)
    layers = len(sources.drawn.populations) if sources.drawn is not None else 0
    if drawn:
        first = drawn[0]
        drawn[0] = Section(
            first.anchor, first.heading, first.lead, (pattern_definitions(paints(max(layers, len(KINDS)))), first.body)
        )
    return page(sources.title or "nirbridge report", _under(sources), drawn, data)


def map_html(mapped: MappedNetwork, *, title: str = "") -> str:
    """The report of a map alone."""
    return report_html(ReportSources(title, network=mapped.model, mapped=mapped, quantized=mapped.quantized))


def write_report(sources: ReportSources, path: str | os.PathLike[str]) -> None:
    """Write the report as an HTML file, whole or not at all. Raises FileError."""
    write_page(report_html(sources), path)


def write_page(page: str, path: str | os.PathLike[str]) -> None:
    """Write a page, whole or not at all. Raises FileError."""
    data = page.encode("utf-8", "backslashreplace")
    atomic_write_bytes(path, data, subject=f"report {quoted(Path(path).name)}")


def section_names(sources: ReportSources) -> list[str]:
    """The headings of a report."""
    return [section.heading for section in _sections(sources, {})]


def _sections(sources: ReportSources, data: dict[str, Any]) -> list[Section]:
    plan = None if sources.mapped is None or not sources.mapped.cores else Plan(sources.mapped)
    sections = [
        overview_section(sources, plan),
        *_network(sources, data),
        *_map(sources, plan, data),
        *_runs(sources),
        facts_section(sources),
    ]
    return [section for section in sections if section is not None]


def _under(sources: ReportSources) -> list[str]:
    """Facts below the title."""
    said = []
    if sources.mapped is not None:
        chips = f"{sources.mapped.chips} x " if sources.mapped.chips > 1 else ""
        said.append(f"{chips}{short(sources.mapped.chip.name)}")
    elif sources.quantized is not None:
        said.append(short(sources.quantized.chip))
    network = sources.drawn
    if network is not None:
        said.append(f"{counted(network.neurons, 'neuron')} in {counted(len(network.populations), 'population')}")
        said.append(f"time step {figure_with_prefix(network.dt, 's')}")
    model = sources.network or network
    if model is not None and model.file is not None:
        said.append(f"sha256 {model.file.sha256[:12]}")
    if sources.viewer:
        shown = "model" if sources.mapped is None else "map"
        said.append(tag("a", f"Look into the {shown}: open the viewer", href=quote(os.fsencode(sources.viewer))))
    return said


def _network(sources: ReportSources, data: dict[str, Any]) -> list[Section]:
    network = sources.drawn
    if network is None:
        return []
    data["nodes"] = network_data(sources, network)
    return [network_section(sources, network)]


def _map(sources: ReportSources, plan: Plan | None, data: dict[str, Any]) -> list[Section]:
    mapped = sources.mapped
    if mapped is None:
        return [] if sources.partition is None else [proof_section(sources.partition)]
    sections = []
    if plan is not None:
        matrix = map_matrix(mapped)
        data["plan"], data["matrix"] = plan_data(plan), matrix_data(matrix)
        sections = [floorplan_section(plan), traffic_section(plan, matrix)]
    return [*sections, proof_section(mapped), resources_section(mapped), costs_section(mapped)]


def _runs(sources: ReportSources) -> list[Section | None]:
    sections: list[Section | None] = []
    if sources.quantized is not None:
        sections.append(quantization_section(sources.quantized))
    if sources.verification is not None:
        sections.append(verification_section(sources.verification))
    if sources.comparison is not None:
        parts = compared_parts(sources.comparison, sources.comparison.recordings, ("A", "B"))
        state = "Equal" if sources.comparison.equal else "Different"
        sections.append(Section("comparison", "Comparison", f"{state}.", list(parts)))
    sections.append(recordings_section(sources))
    if sources.circuit is not None:
        sections.append(circuit_section(sources.circuit))
    return sections


# -- values -----------------------------------------------------------------------------------------------------------


ROWS_MAX = 200
"""Rows of the table of a value without pictures."""


def write_value(value: Any, path: str | os.PathLike[str]) -> None:
    """Write the report of one value, whole or not at all. Raises FileError."""
    write_page(value_html(value), path)


def value_html(value: Any) -> str:
    """The report of one value: with its pictures, or its card and its rows where it has none."""
    sources = sources_of((value,))
    return _card(value) if sources is None else report_html(sources)


def write_values(path: str | os.PathLike[str], values: tuple[Any, ...]) -> None:
    """Write one report of several values, whole or not at all.

    Raises:
        UsageError: a value that has no section, or two of a kind (recordings may be several).
        FileError: the place cannot be written.
    """
    sources = sources_of(values)
    if sources is None:
        others = sorted({type(value).__name__ for value in values if type(value).__name__ not in _FIELDS})
        found = f"{', '.join(others)} has no section of its own" if others else "no value, or two of a kind"
        limit = f"a report is of at most one of each: {', '.join(_FIELDS)} (of Recording any number)"
        raise UsageError.of("write_report()", found, limit, "give the values of one model")
    write_report(sources, path)


def sources_of(values: tuple[Any, ...]) -> ReportSources | None:
    """The values as the sources of one report; None where one has no section, or two are of a kind."""
    parts: dict[str, Any] = {}
    recordings: dict[str, Any] = {}
    for value in values:
        field = _FIELDS.get(type(value).__name__)
        if field is None or field in parts:
            return None
        if field == "recordings":
            recordings[f"recording {len(recordings) + 1}" if recordings else "recording"] = value
        else:
            parts[field] = value
    if not parts and not recordings:
        return None
    return _completed(ReportSources("", recordings=MappingProxyType(recordings), **parts))


def _completed(sources: ReportSources) -> ReportSources:
    """With the network that a map or a quantized network holds, and the name of its file as the title."""
    mapped, quantized = sources.mapped, sources.quantized
    network = sources.network
    if network is None and mapped is not None:
        network = mapped.model or mapped.network
    if network is None and quantized is not None:
        network = quantized.network
    if quantized is None and mapped is not None:
        quantized = mapped.quantized
    title = "nirbridge report" if network is None or network.file is None else network.file.name
    return replace(sources, title=title, network=network, quantized=quantized)


_FIELDS: Mapping[str, str] = {
    "Network": "network",
    "MappedNetwork": "mapped",
    "Partition": "partition",
    "QuantizedNetwork": "quantized",
    "Verification": "verification",
    "Comparison": "comparison",
    "Recording": "recordings",
}
"""Class of a value with sections -> its field of the sources."""


def _card(value: Any) -> str:
    name = type(value).__name__
    text = tag("pre", Markup(escape(summary(value), quote=False)), tabindex="0")
    section = Section("card", "Card", "", (text, _rows(value)))
    return page(f"{name} of nirbridge", [], [section], {})


def _rows(value: Any) -> Markup | None:
    rows = load_attribute("nirbridge.report.summaries:rows_of")(value)
    if not rows:
        return None
    headings = list(rows[0])
    cells = [[str(row.get(heading, ""))[:400] for heading in headings] for row in rows[:ROWS_MAX]]
    cut = f"The first {ROWS_MAX} of {len(rows):,} rows are listed." if len(rows) > ROWS_MAX else ""
    note = remark(cut) if cut else None
    return joined(folded("Parts as a table", table("Parts", headings, cells, sort=True), note))

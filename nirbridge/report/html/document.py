"""Reports as pages: the sections that the given values have, in their order."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from nirbridge.errors import counted, quoted
from nirbridge.files.atomic import atomic_write_bytes
from nirbridge.mapping.model import MappedNetwork
from nirbridge.report.html.page import Section, page
from nirbridge.report.html.patterns import paints, pattern_definitions
from nirbridge.report.html.sections.costs import costs_section
from nirbridge.report.html.sections.floorplan import Plan, floorplan_section, plan_data
from nirbridge.report.html.sections.network import network_data, network_section
from nirbridge.report.html.sections.overview import facts_section, overview_section
from nirbridge.report.html.sections.proof import proof_section, resources_section
from nirbridge.report.html.sections.quantization import quantization_section
from nirbridge.report.html.sections.recordings import recordings_section
from nirbridge.report.html.sections.traffic import map_matrix, matrix_data, traffic_section
from nirbridge.report.html.sections.verification import compared_parts, verification_section
from nirbridge.report.html.sources import ReportSources
from nirbridge.report.html.tags import short
from nirbridge.report.map_facts import figure_with_prefix


def report_html(sources: ReportSources) -> str:
    """The report as an HTML document."""
    data: dict[str, Any] = {}
    drawn = _sections(sources, data)
    layers = len(sources.drawn.populations) if sources.drawn is not None else 0
    if drawn:
        first = drawn[0]
        drawn[0] = Section(
            first.anchor, first.heading, first.lead, (pattern_definitions(paints(max(layers, 8))), first.body)
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
    return sections

"""Reports of values: one of a single value, or one page of several that belong to one model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from types import MappingProxyType
from typing import Any

from nirbridge.errors import UsageError
from nirbridge.files.attributes import load_attribute
from nirbridge.report.html.document import report_html, write_page, write_report
from nirbridge.report.html.page import Section, page
from nirbridge.report.html.sources import ReportSources
from nirbridge.report.html.tags import Markup, folded, joined, remark, table, tag
from nirbridge.report.summaries import summary

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
    rows = load_attribute("nirbridge.report.frames:rows_of")(value)
    if not rows:
        return None
    headings = list(rows[0])
    cells = [[str(row.get(heading, ""))[:400] for heading in headings] for row in rows[:ROWS_MAX]]
    cut = f"The first {ROWS_MAX} of {len(rows):,} rows are listed." if len(rows) > ROWS_MAX else ""
    note = remark(cut) if cut else None
    return joined(folded("Parts as a table", table("Parts", headings, cells, sort=True), note))

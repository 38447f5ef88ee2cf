"""Tables of a value's card in a notebook: sections that fold, without script, in the colours of the notebook itself.

Notebooks that are not trusted drop the style; ``details`` and tables stay, and nothing is hidden by the style alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from nirbridge.errors import counted
from nirbridge.report.html.page import Child, Markup, folded, joined, short, tag
from nirbridge.report.map_facts import (
    ResourceRow,
    core_rows,
    figure_with_prefix,
    map_facts,
    percent,
    population_rows,
    remarks,
    resource_rows,
)
from nirbridge.report.network_facts import projection_facts
from nirbridge.report.profile_text import figure_rows
from nirbridge.report.summaries import cell_text, rows_of, summary

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip
    from nirbridge.comparison.types import Comparison
    from nirbridge.mapping.model import MappedNetwork
    from nirbridge.network.model import Network
    from nirbridge.profiling.model import Profile, ProfilePoint
    from nirbridge.simulators.types import Recording

CLASS = "nirbridge-card"
ROWS_MAX, CELL_MAX, LINE_MAX, TEXT_MAX = 30, 60, 400, 8_000
"""Rows of a table, characters of a cell, of a sentence, and of the summary as text."""
_OPEN_MAX, _OPEN_ROWS_MAX = 2, 12
"""Sections that are open, and rows up to which they are."""
_RULES = {
    "": "font:13px/1.45 system-ui,sans-serif;max-width:1000px;overflow-wrap:anywhere",
    "img": "display:block;max-width:100%;height:auto;margin:4px 0",
    "summary": "cursor:pointer;padding:2px 0",
    "table": "border-collapse:collapse;margin:2px 0 8px 16px;font-size:inherit",
    "tr": "background:none!important",
    "td,th": "text-align:left!important;vertical-align:top;padding:1px 16px 1px 0!important;font-weight:normal;"
    "border:0;border-bottom:1px solid rgba(128,128,128,.3)!important;background:none!important;color:inherit",
    "thead th": "font-weight:600",
    ".n": "text-align:right!important;font-variant-numeric:tabular-nums;white-space:nowrap",
    "pre": "margin:2px 0 8px 16px;overflow-x:auto;background:none;color:inherit;font-size:12px;white-space:pre",
}
Rows = list[dict[str, Any]]


class Fold(NamedTuple):
    """A section: its name, how much is in it, and its records, a row each, or lines of text."""

    name: str
    said: str
    rows: Rows


def style() -> Markup:
    """The rules of a card, each of them of its class alone."""
    rules = (
        f"{','.join(f'.{CLASS} {part}'.strip() for part in names.split(','))}{{{given}}}"
        for names, given in _RULES.items()
    )
    return tag("style", Markup("".join(rules)))


def sections(value: object) -> Iterator[Markup]:
    """The sections of a value, the most telling one first; the last one is its summary as text."""
    name = next((base.__name__ for base in type(value).__mro__ if base.__name__ in _FOLDS), None)
    folds = [Fold("rows", "", rows_of(value))] if name is None else _FOLDS[name](value)
    for number, fold in enumerate(fold for fold in folds if fold.rows):
        is_open = number < _OPEN_MAX and len(fold.rows) <= _OPEN_ROWS_MAX
        said = fold.said or counted(len(fold.rows), "row")
        yield tag("details", tag("summary", f"{fold.name} ({said})"), _table(fold.rows), open=is_open)
    text = summary(value)
    cut = f"{text[:TEXT_MAX]}\n… print(value.summary()) shows all of it" if len(text) > TEXT_MAX else text
    yield folded("summary as text", tag("pre", *(_line(line) for line in cut.split("\n"))))


def _line(line: str) -> Markup:
    return joined((line, Markup("\n")))


def _table(rows: Rows) -> Child:
    """Columns that no row has a value in are left out; rows beyond ``ROWS_MAX`` are counted."""
    names = [name for name in rows[0] if any(row.get(name) not in (None, "", ()) for row in rows)]
    number = {name for name in names if all(_is_number(row.get(name)) for row in rows)}
    longest = LINE_MAX if len(names) <= 2 else CELL_MAX
    head = tag("tr", (tag("th", name.replace("_", " "), class_="n" if name in number else None) for name in names))
    body = (
        tag("tr", (tag("td", _cell(row.get(name), longest), class_="n" if name in number else None) for name in names))
        for row in rows[:ROWS_MAX]
    )
    more = f"… and {counted(len(rows) - ROWS_MAX, 'more row')}" if len(rows) > ROWS_MAX else None
    shown = tag("thead", head) if len(names) > 1 else None  # a list of sentences has the heading of its section
    return tag("table", shown, tag("tbody", body)), tag("p", more) if more else None


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(value: object, longest: int) -> str:
    """Names from files are text, cut in their middle; shapes are ``2 × 16 × 16``."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list):
        return short(" × ".join(map(cell_text, value)) or "1", longest)
    return short(cell_text(value), longest) if value not in (None, "") else ""


def _lines(heading: str, lines: list[str] | tuple[str, ...]) -> Fold:
    return Fold(heading, f"{len(lines):,}", [{heading: line} for line in lines])


# -- values --------------------------------------------------------------------------------------------------------


def _network(network: Network) -> Iterator[Fold]:
    yield Fold("populations", f"{len(network.populations):,}", rows_of(network))
    facts = map(projection_facts, network.projections)
    rows = [
        {
            "from": f["source"],
            "to": f["target"],
            "operator": " then ".join(part["type"] for part in f["operator"]),
            "synapses": f["synapses"],
            "delay": f["delay_steps"] if len(set(f["delay_steps"])) > 1 else f["delay_steps"][0],
        }
        for f in facts
    ]
    yield Fold("projections", f"{len(rows):,}", rows)
    ports = [("input", p) for p in network.inputs] + [("output", p) for p in network.outputs]
    yield Fold(
        "inputs and outputs", f"{len(ports):,}", [{"port": k, "name": p.name, "shape": p.shape} for k, p in ports]
    )
    for heading, lines in (("assumed", network.assumed), ("notes", network.notes)):
        yield _lines(heading, lines)


def _resource(row: ResourceRow) -> dict[str, Any]:
    return {
        "resource": row.name.replace("_", " "),
        "all cores": row.total,
        "fullest core": row.most,
        "limit": "not limited" if row.limit is None else f"{'~' * row.is_approximate}{row.limit:,}",
        "share": "" if row.share is None else percent(row.share),
        "at core": row.where,
    }


def _mapped(mapped: MappedNetwork) -> Iterator[Fold]:
    facts = [{"fact": label, "value": line} for label, lines in map_facts(mapped) for line in lines[:1]]
    yield Fold("facts", f"{len(facts):,}", facts)
    resources = list(map(_resource, resource_rows(mapped)))
    yield Fold("resources", f"{len(resources):,}", resources)
    populations = [
        {"population": p.name, "shape": p.shape, "neurons": p.neurons, "slices": p.slices, "cores": p.cores}
        for p in population_rows(mapped)
    ]
    yield Fold("populations", f"{len(populations):,}", populations)
    cores = [
        {
            "core": row.name,
            "fullest": row.fullest.replace("_", " "),
            "share": percent(row.share),
            "holds": row.slices[0],
        }
        | {"slices": len(row.slices)}
        for row in sorted(core_rows(mapped), key=lambda row: -row.share)
    ]
    yield Fold("cores, the fullest first", f"{len(cores):,}", cores)
    for heading, lines in remarks(mapped):
        yield _lines(heading, lines)


def _recording(recording: Recording) -> Iterator[Fold]:
    rows = rows_of(recording)
    for row in rows:
        total = row.pop("sum")
        row["spikes"] = int(total) if row["variable"] in ("s", "count") and total.is_integer() else None
    yield Fold("recorded", f"{len(rows):,}", rows)
    keys = ("dt", "steps", "batch", "backend", "seed", "first_step")
    meta = [{"about": key, "value": recording.meta[key]} for key in keys if recording.meta.get(key) is not None]
    yield Fold("about", f"{len(meta):,}", meta)


def _profile(profile: Profile) -> Iterator[Fold]:
    several = len(profile.points) > 1
    for point in profile.points[:1]:
        headings = ("figure", "per inference", "per time step", "range", "basis")
        figures: Rows = [dict(zip(headings, row, strict=True)) for row in figure_rows(point)]
        yield Fold("figures" + " of the first point" * several, f"{len(figures):,}", figures)
        names = ("name", "kind", "neurons", "cores", "spikes", "synaptic_ops")
        known = any(layer.total_energy_j for layer in point.layers)
        layers = [
            {name: getattr(layer, name) for name in names}
            | {"energy": _energy(layer.total_energy_j, point) if known else ""}
            for layer in point.layers
        ]
        yield Fold("layers, per inference", f"{len(layers):,}", layers)
        yield _lines("notes", point.notes)
    if several:
        yield Fold("points", f"{len(profile.points):,}", rows_of(profile))


def _energy(joules: float, point: ProfilePoint) -> str:
    figure = point.figures.get("energy_per_inference_j")
    if figure is None:
        return figure_with_prefix(joules, "J")
    return figure_with_prefix(joules, "J", approximate=figure.basis == "assumed", partial=figure.missing)


def _named(name: str) -> Callable[[Any], Iterator[Fold]]:
    """The rows of a value under one name."""

    def folds(value: Any) -> Iterator[Fold]:
        rows = rows_of(value)
        yield Fold(name, f"{len(rows):,}", rows)

    return folds


def _comparison(comparison: Comparison) -> Iterator[Fold]:
    yield from _named("compared")(comparison)
    yield _lines("notes", comparison.notes)


def _chip(chip: Chip) -> Iterator[Fold]:
    rows = [row for row in rows_of(chip) if row["value"] is not None]
    yield Fold("limits and figures", f"{len(rows):,}", rows)


_FOLDS: Mapping[str, Callable[[Any], Iterator[Fold]]] = {
    "Network": _network,
    "MappedNetwork": _mapped,
    "MapRecord": _named("slices"),
    "Partition": _named("slices"),
    "QuantizedNetwork": _named("projections"),
    "Recording": _recording,
    "Profile": _profile,
    "Comparison": _comparison,
    "Verification": _named("compared"),
    "Chip": _chip,
    "Artifact": _named("files"),
    "Bench": _named("back ends"),
}
"""Class -> its sections; all others have their rows."""

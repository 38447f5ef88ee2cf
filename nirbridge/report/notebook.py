"""Cards of values in a notebook: their picture, as an image without script, and sections that fold.

JupyterLab keeps images in notebooks that it does not trust and removes ``svg``, so the SVG is the image's data: the
picture of the page with its light and dark colours inside of it, on a ground of its own.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from itertools import islice
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from nirbridge.chips import chip_from_dict
from nirbridge.comparison.distances import has_batch
from nirbridge.errors import NirbridgeError, counted
from nirbridge.report.cards import CLASS, sections, style
from nirbridge.report.html.events import events_of, raster, remarks_of, rows_max
from nirbridge.report.html.page import (
    Child,
    Markup,
    Picture,
    asset,
    joined,
    number,
    pattern_definitions,
    picture,
    short,
    svg,
    tag,
    text,
)
from nirbridge.report.html.sections.floorplan import still_plan
from nirbridge.report.html.sections.network import network_drawing
from nirbridge.report.html.sections.overview import proof_drawing
from nirbridge.report.html.sections.quantization import HISTOGRAM_NOTE, histogram, weight_errors
from nirbridge.report.html.sections.verification import first_difference
from nirbridge.report.pictures.bar_pictures import proof_picture
from nirbridge.report.pictures.labels import distinct_labels, fitted_label, printable_name
from nirbridge.report.pictures.map_pictures import (
    CARD,
    FloorplanPicture,
    chip_layout,
    floorplan,
    floorplan_picture,
)
from nirbridge.report.pictures.network_picture import network_picture
from nirbridge.report.pictures.raster_picture import raster_picture
from nirbridge.report.plots.bars import energy_bars

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip, Mesh
    from nirbridge.comparison.types import Comparison, ComparisonRow
    from nirbridge.mapping.model import MappedNetwork
    from nirbridge.mapping.storage.record import MapRecord
    from nirbridge.network.model import Network
    from nirbridge.partitioner.model import Partition
    from nirbridge.profiling.model import Profile
    from nirbridge.quantization.model import QuantizedNetwork
    from nirbridge.simulators.types import Recording
    from nirbridge.verification.verify import Verification

BYTES_MAX = 60_000
"""Of a card; what would make it larger, a picture or the last sections, is left out, and it says so."""


def value_html(value: object) -> str:
    """The card of a value: its line, its picture where it has one, and tables that fold."""
    kind, _, said = repr(value).partition(": ")
    parts: list[Child] = [style(), tag("div", tag("strong", kind), f": {short(said, 200)}" if said else "")]
    room = BYTES_MAX - len(joined(parts).encode()) - 200
    left_out = 0
    for part in (_picture(value), *sections(value)):
        size = len(part.encode())
        if size <= room:
            parts.append(part)
        left_out += size > room
        room -= size if size <= room else 0
    if left_out:
        parts.append(tag("p", f"{counted(left_out, 'section')} too large for a card: print(value.summary())"))
    return tag("div", parts, class_=CLASS)


def _picture(value: object) -> Markup:
    name = next((base.__name__ for base in type(value).__mro__ if base.__name__ in _PICTURES), None)
    if name is None:
        return Markup("")
    try:
        drawn = _PICTURES[name](value)
    except NirbridgeError:  # a value of a file that was not checked: the summary says it all
        return Markup("")
    data = b64encode(drawn.encode()).decode("ascii")
    return Markup(f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(repr(value))}"/>' if drawn else "")


# -- cards ---------------------------------------------------------------------------------------------------------


WIDTH, MARGIN, APART, LINE, TEXT = 480.0, 6.0, 8.0, 17.0, 12.0
"""Least width, margin, space between pictures, height of a line of text, and its size in pixels."""
_LETTER, _LINES_MAX = 6.8, 3
"""Width of a letter on average, and lines of a sentence."""


def card(label: str, parts: Iterable[Picture | str]) -> str:
    """Pictures and lines of text, one below the other; with a ground of their own, legible on any theme."""
    given = list(parts)
    width = max((part.width for part in given if isinstance(part, Picture)), default=WIDTH)
    width, top = max(WIDTH, width), 0.0
    inner: list[Child] = []
    for part in given:
        if isinstance(part, Picture):
            inner.append(tag("g", part, transform=f"translate(0 {number(top)})"))
            top += part.height + APART
            continue
        for line in wrap(printable_name(part), int(width / _LETTER))[:_LINES_MAX]:
            inner.append(text(0, top + TEXT, fitted_label(line, width, TEXT)))
            top += LINE
    wide, tall = width + 2 * MARGIN, top + 2 * MARGIN
    place = {"x": -MARGIN, "y": -MARGIN, "width": wide, "height": tall}
    ground = tag("rect", **place, class_="plate")
    view = f"{number(-MARGIN)} {number(-MARGIN)} {number(wide)} {number(tall)}"
    body = tag("g", ground, _patterns("".join(map(str, inner))), inner)
    return svg(
        wide, tall, _style(body), body, view=view, xmlns="http://www.w3.org/2000/svg", role="img", aria_label=label
    )


def beside(pictures: Sequence[Picture], columns: int) -> Picture:
    """Pictures of one size as one, row by row."""
    wide, tall = pictures[0].width + APART, pictures[0].height + APART
    places = (divmod(k, columns)[::-1] for k in range(len(pictures)))
    inner = [
        tag("g", each, transform=f"translate({number(column * wide)} {number(row * tall)})")
        for each, (column, row) in zip(pictures, places, strict=True)
    ]
    return svg(min(columns, len(pictures)) * wide, -(-len(pictures) // columns) * tall, inner)


def _patterns(drawn: str) -> Markup | None:
    """The fills that are used."""
    used = set(re.findall(r"url\(#(p\d\d|dead)\)", drawn))
    return pattern_definitions(sorted(used)) if used else None


def _style(drawn: str) -> Markup:
    """The rules of the page for what is drawn; those whose colour is another on a dark ground once more for that."""
    used = {word for words in re.findall(r'class="([^"]*)"', drawn) for word in words.split()}
    light, dark = ([rule for rule, names in _rules(k) if not names or names & used] for k in (1, 2))
    other = "".join(b for a, b in zip(light, dark, strict=True) if a != b)
    return tag("style", Markup("".join(light) + f"@media (prefers-color-scheme: dark) {{{other}}}"))


@cache
def _rules(colour: int) -> list[tuple[str, set[str]]]:
    """The page's rules for pictures with the first or second of two colours, and the classes that each names."""
    style = re.sub(r"light-dark\(([^,()]+), ([^()]+)\)", rf"\{colour}", asset("page.css"))
    values = dict(re.findall(r"--([a-z]+): ([^;]+);", style))
    style = style[style.index("\nsvg {") : style.index("\n@media")]
    style = re.sub(r"var\(--([a-z]+)\)", lambda found: values[found[1]], style)
    return [
        (rule, set(re.findall(r"\.([a-z][\w-]*)", rule.split("{")[0]))) for rule in re.findall(r"[^{}]+{[^}]*}", style)
    ]


# -- networks, maps, chips -----------------------------------------------------------------------------------------


def network_svg(network: Network) -> str:
    """The graph of the page, for a column, with the sentence that says what was folded."""
    drawn = network_picture(network)
    return card(f"graph of {network!r}", (network_drawing(network, drawn), *filter(None, (drawn.remark,))))


CORES_MAX = 1_200
"""Cores of a picture; the mesh of a chip is cropped to fewer, and empty cores of a saved map are left out beyond."""
DETAILED_MAX, SIDE_MAX = 240, 100
"""Cores and parts with outlines and numbers; cores of a chip side by side."""


def map_svg(mapped: MappedNetwork) -> str:
    """Every core of the tiles in use with its populations, by number."""
    return _plan(floorplan_picture(mapped), mapped.chip.mesh, f"floor plan of {mapped!r}")


def record_svg(record: MapRecord) -> str:
    """The same of a saved map, which its model has not been compared with. Raises ChipError: the chip is none."""
    chip = chip_from_dict(dict(record.chip))
    mesh = chip.mesh
    bounds = (record.chips, mesh.width_tiles, mesh.height_tiles, mesh.cores_per_tile)
    if not record.blocks or any(not 0 <= k < n for b in record.blocks for k, n in zip(b.core, bounds, strict=True)):
        return ""
    sizes, blocks = {p.name: p.neurons for p in record.populations}, {b.core: b for b in record.blocks}
    floor = floorplan(chip, record.chips, blocks, sizes, cores_max=CORES_MAX)
    return _plan(floor, mesh, f"floor plan of {record!r}")


def _plan(floor: FloorplanPicture, mesh: Mesh, label: str) -> str:
    layout = chip_layout(mesh, {cell.core[:3] for cell in floor.cells}, CARD)
    detailed = len(floor.cells) + sum(len(cell.parts) for cell in floor.cells) <= DETAILED_MAX
    said = f"{counted(len(floor.populations), 'population')}, numbered in the order of the network"
    if not detailed:
        said = f"{counted(len(floor.populations), 'population')}; 64 fills in turn, in the order of the network"
    return card(label, (still_plan(floor, layout, detailed=detailed), said))


def chip_svg(chip: Chip) -> str:
    """The mesh of one chip: tiles, their cores, and the dead ones."""
    mesh = chip.mesh
    columns, rows = mesh.width_tiles, mesh.height_tiles
    while max(columns, rows) > 1 and (
        columns * rows * mesh.cores_per_tile > CORES_MAX or max(columns, rows) > SIDE_MAX
    ):
        columns, rows = (columns // 2, rows) if columns > rows else (columns, rows // 2)
    tiles, per_tile = [(0, 0, 0), (0, columns - 1, rows - 1)], min(mesh.cores_per_tile, CORES_MAX)
    part = replace(chip, mesh=replace(mesh, cores_per_tile=per_tile))
    floor = floorplan(part, 1, {}, {}, tiles=tiles)
    size = f"{mesh.width_tiles:,} x {mesh.height_tiles:,} tiles of {counted(mesh.cores_per_tile, 'core')}"
    boards = f"; up to {counted(mesh.chips_max, 'chip')}" if mesh.chips_max > 1 else ""
    marked = f"; {counted(len(chip.dead_cores), 'dead core')} (crossed)" if chip.dead_cores else ""
    cropped = (columns, rows) != (mesh.width_tiles, mesh.height_tiles)
    shown = [f"shown: {columns:,} x {rows:,} tiles"] if cropped else []
    shown += [f"shown: {per_tile:,} cores of a tile"] if per_tile < mesh.cores_per_tile else []
    drawn = still_plan(floor, chip_layout(part.mesh, tiles, CARD), detailed=True)
    return card(f"mesh of {chip!r}", (printable_name(chip.name), drawn, size + boards + marked, *shown))


# -- bars ----------------------------------------------------------------------------------------------------------


BARS_MAX, HISTOGRAMS_MAX = 16, 6
LABEL, BAR, AFTER, BAR_LINE = 220.0, 280.0, 180.0, 20.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A label, the filled share of the track, the words after it, and whether it stands out."""

    label: str
    share: float
    said: str
    full: bool = False


def bars_svg(bars: Sequence[Bar], label: str, heading: str, remarks: Sequence[str] = ()) -> str:
    """At most ``BARS_MAX`` bars below a heading, and lines of remarks below them."""
    more = [f"and {len(bars) - BARS_MAX:,} more"] if len(bars) > BARS_MAX else []
    return card(label, (heading, _bars(bars[:BARS_MAX], heading), *remarks, *more))


def _bars(bars: Sequence[Bar], label: str) -> Picture:
    inner: list[Child] = []
    labels = distinct_labels([bar.label for bar in bars], lambda name: fitted_label(name, LABEL - 8, 12))
    for row, bar in enumerate(bars):
        y, share = row * BAR_LINE, min(1.0, max(0.0, bar.share)) if math.isfinite(bar.share) else 1.0
        place = {"x": LABEL, "y": y + 2, "height": "14"}
        inner += [
            text(LABEL - 8, y + 14, labels[row], anchor="end"),
            tag("rect", width=BAR, class_="track", **place),
            tag("rect", width=max(1.0, share * BAR), class_="fill full" if bar.full else "fill", **place),
            text(LABEL + BAR + 8, y + 14, fitted_label(bar.said, AFTER - 8, 12)),
        ]
    return picture(LABEL + BAR + AFTER, len(bars) * BAR_LINE, inner, label=label)


def partition_svg(partition: Partition) -> str:
    """Cores found, the lower bounds, and the bound that decides."""
    proof = proof_picture(partition)
    return card(f"proof of {partition!r}", (proof_drawing(proof), *proof.sentence.split("; ")))


def profile_svg(profile: Profile) -> str:
    """Bars of the energy of an inference; nothing where no chip has figures of energy."""
    bars = energy_bars(profile)
    largest = max((bar.total for bar in bars), default=0.0)
    shown = [Bar(bar.label, bar.total / largest, bar.said) for bar in bars]
    return bars_svg(shown, f"energy of {profile!r}", "Energy of an inference") if bars else ""


def quantized_svg(quantized: QuantizedNetwork) -> str:
    """Histograms of the errors of weights; where the real weights are not there, the errors that the report states."""
    label, heading = f"errors of {quantized!r}", "Errors of the weights"
    drawn = [histogram(*each) for each in islice(weight_errors(quantized), HISTOGRAMS_MAX)]
    if drawn:
        more = len(quantized.projections) - len(drawn)
        left_out = [f"{counted(more, 'more projection')} not drawn"] if more else []
        return card(label, (heading, beside(drawn, 3), HISTOGRAM_NOTE, *left_out))
    bars = [
        Bar(f"{w['source']} to {layer.population}", 5 * float(w["error"]), f"{w['error']:.2%}, {w['bits']} bits")
        for layer in quantized.report
        for w in layer.weights
    ]
    note = "root mean square, as a share of the weights' own; a full bar is 20 %"
    return bars_svg(bars, label, heading, [note]) if bars else ""


# -- recordings ----------------------------------------------------------------------------------------------------


NODES_MAX, POINTS_MAX = 12, 2_000
DIFFERENCES_MAX = 700, 600
"""Marks of events that are equal, and of those that are not."""


def recording_svg(recording: Recording) -> str:
    """Rasters of all nodes with recorded spikes on one time axis, in the order of the recording."""
    names = [node for node, variable in recording.arrays if variable == "s"]
    nodes = [each for name in names if (each := events_of(recording, name)) is not None]
    if not nodes:
        return ""
    drawn = raster_picture(nodes[:NODES_MAX], rows_max=rows_max(min(len(nodes), NODES_MAX)), points_max=POINTS_MAX)
    label = f"raster of {recording!r}"
    shown = [f"the first {NODES_MAX} of {len(nodes):,} nodes"] if len(nodes) > NODES_MAX else []
    shown += ["sample 0 of the batch"] if has_batch(recording) else []
    return card(label, (raster(drawn, label), *(f"shown: {said}" for said in shown), *remarks_of(drawn)))


def comparison_svg(comparison: Comparison) -> str:
    """The spikes of the first node that differs, else of the first node; bars where the spikes are not there."""
    drawn = "" if comparison.recordings is None else _difference(comparison, comparison.recordings, ("A", "B"))
    rows = [row for row in comparison.rows if row.spikes is not None]
    if drawn or not rows:
        return drawn
    return _agreement([(row.node, row.equal, row) for row in rows], f"agreement of {comparison!r}")


def verification_svg(verification: Verification) -> str:
    """The first required pair that is not equal, or else the first that differs; bars where all pairs are equal."""
    differing = sorted((p for p in verification.pairs if not p.comparison.equal), key=lambda p: not p.required)
    for pair in differing:
        recordings = verification.recordings.get(pair.a), verification.recordings.get(pair.b)
        if recordings[0] is not None and recordings[1] is not None:
            drawn = _difference(pair.comparison, (recordings[0], recordings[1]), (pair.a, pair.b))
            if drawn:
                return drawn
    bars = [(f"{p.a} {'=' if p.required else '~'} {p.b}", p.comparison.equal, p.comparison) for p in verification.pairs]
    return _agreement(bars, f"agreement of {verification!r}") if bars else ""


def _agreement(rows: Iterable[tuple[str, bool, Comparison | ComparisonRow]], label: str) -> str:
    bars = []
    for name, equal, row in rows:
        share = 1.0 if row.spikes is None else row.spikes.jaccard
        said = "equal" if equal else "different" if row.spikes is None else f"different, {share:.2%}"
        bars.append(Bar(name, share if equal or row.spikes is not None else 0.0, said, not equal))
    return bars_svg(bars, label, "Events in both as a share of the events in either")


def _difference(comparison: Comparison, recordings: tuple[Recording, Recording], names: tuple[str, str]) -> str:
    rows = [row for row in comparison.rows if row.spikes is not None]
    differing = (row for row in rows if row.first_step is not None)
    row = min(differing, key=lambda row: row.first_step or 0, default=next(iter(rows), None))
    found = None if row is None else first_difference(row, recordings, names, DIFFERENCES_MAX)
    return "" if found is None else card(f"spikes of {comparison!r}", found)


_PICTURES: Mapping[str, Callable[[Any], str]] = {
    "Network": network_svg,
    "MappedNetwork": map_svg,
    "MapRecord": record_svg,
    "Chip": chip_svg,
    "Partition": partition_svg,
    "QuantizedNetwork": quantized_svg,
    "Recording": recording_svg,
    "Profile": profile_svg,
    "Comparison": comparison_svg,
    "Verification": verification_svg,
}
"""Class -> its picture; all others have their summary alone."""

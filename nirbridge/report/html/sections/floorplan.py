"""The section of the floor plan: controls, picture, legends, the panel of a core, and the table of all cores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nirbridge.chips.model import CoreId
from nirbridge.errors import counted, quoted
from nirbridge.mapping.model import MappedNetwork
from nirbridge.partitioner.cost.resources import limits
from nirbridge.partitioner.model import RESOURCES
from nirbridge.report.html.page import (
    DEAD,
    Markup,
    Picture,
    Section,
    explored,
    folded,
    number,
    paint,
    rectangles,
    remark,
    sample,
    short,
    svg,
    swatch,
    table,
    tag,
    text,
)
from nirbridge.report.map_facts import as_full, core_text, cores_available, fullest_of, one_line, percent, rate_text
from nirbridge.report.pictures.map_pictures import (
    SCREEN,
    ChipFrame,
    ChipLayout,
    CoreCell,
    DrawnLink,
    FloorplanPicture,
    TrafficPicture,
    chip_layout,
    core_routes,
    floorplan_picture,
    traffic_picture,
)

DETAILED_MAX, ROUTED_MAX, SLICES_MAX, LEGEND_MAX = 2000, 500, 8, 64
"""Cores with a panel (the fullest), cores with routes (the fullest), slices of a core in words, lines of a legend."""


class Plan:
    """The floor plan of a map: cells, links and layout, computed once for picture, panel and tables."""

    def __init__(self, mapped: MappedNetwork) -> None:
        self.mapped = mapped
        self.floor: FloorplanPicture = floorplan_picture(mapped)
        self.traffic: TrafficPicture = traffic_picture(mapped)
        limited = limits(mapped.chip)
        self.fullest = fullest_of(mapped)
        self.resources = [name for name in RESOURCES if limited[name]]
        self.layout: ChipLayout = chip_layout(mapped.chip.mesh, self.traffic.drawn, SCREEN)
        self.used = [cell for cell in self.floor.cells if cell.parts]
        fullest = sorted(self.used, key=lambda cell: (-cell.share, *_by_rows(cell)))
        self.detailed = sorted(fullest[:DETAILED_MAX], key=_by_rows)
        self.routed = {cell.core for cell in fullest[:ROUTED_MAX]}


def _by_rows(cell: CoreCell) -> tuple[int, int, int, int]:
    """The order in which cores are numbered."""
    return cell.core.chip, cell.core.y, cell.core.x, cell.core.core


def link_name(link: DrawnLink, plan: Plan) -> str:
    """The tiles of a link as (column, row), with its chip where several are in use."""
    (chip, *source), (to_chip, *target) = link.source, link.target
    there = f"{tuple(target)}" if chip == to_chip else f"chip {to_chip} {tuple(target)}"
    several = plan.floor.chips_in_use > 1 or chip or to_chip
    return f"chip {chip} {tuple(source)} to {there}" if several else f"{tuple(source)} to {there}"


def floorplan_section(plan: Plan) -> Section:
    """The section of a map."""
    mesh = plan.mapped.chip.mesh
    drawn = plan_picture(plan.floor, plan.traffic, plan.layout, plan.resources)
    label = "Floor plan: arrow keys go from core to core, Enter shows the routes of a core, Escape hides them"
    panel = tag("aside", tag("div", id="plan-panel", aria_live="polite"), class_="panel", aria_label="Selected core")
    said = "Point at a core, or go to the plan with Tab and to a core with the arrow keys."
    status = tag("p", said, id="plan-status", class_="hint")
    legends = tag("div", *_legends(plan), class_="side")
    columns = tag("div", explored("plan", drawn, label), tag("div", panel, legends, class_="beside"), class_="columns")
    crop = (
        f"A chip has {counted(mesh.width_tiles, 'column')} and {counted(mesh.height_tiles, 'row')} of tiles,"
        f" {counted(mesh.cores_per_tile, 'core')} each; at its edges, those without a used core or link are left out."
        f" A tile is (column, row); cores are numbered row by row{', after their chip' * (plan.mapped.chips > 1)}."
    )
    body = (_controls(plan), status, columns, remark(crop), _table(plan))
    return Section("floorplan", "Floor plan", _lead(plan), body)


def _lead(plan: Plan) -> str:
    chips = f"{counted(plan.floor.chips_in_use, 'chip')} of {short(plan.mapped.chip.name)}"
    lead = f"{len(plan.used):,} of {cores_available(plan.mapped):,} cores are used, on {chips}."
    if plan.fullest is not None:
        core = core_text(plan.fullest.cores[0], plan.mapped)
        lead += f" The fullest is {core}: {plan.fullest.words}, {percent(plan.fullest.share)} of the limit"
        lead += f"{as_full(plan.fullest.cores)}."
    return lead


def _controls(plan: Plan) -> Markup:
    def radio(value: str, label: str, *, checked: bool) -> Markup:
        box = tag("input", type="radio", name="plan-colour", value=value, id=f"plan-{value}", checked=checked)
        return tag("label", box, f" {label}", for_=f"plan-{value}")

    boxes = [radio("layer", "layer", checked=True)]
    if plan.resources:
        boxes.append(radio("resource", "fullest resource", checked=False))
    links = tag(
        "label",
        tag("input", type="checkbox", id="plan-show-links", checked=True),
        " links by load",
        for_="plan-show-links",
    )
    return tag(
        "div",
        tag("fieldset", tag("legend", "Colour cores by"), boxes),
        tag("fieldset", tag("legend", "Show"), links),
        class_="controls",
    )


def _layer_legend(plan: Plan) -> Markup:
    populations = list(enumerate(plan.floor.populations))
    shown = [(k, p) for k, p in populations if p.cores][:LEGEND_MAX]
    rows = [
        tag(
            "li", swatch(k), tag("span", f"{k + 1} ", class_="key"), f"{quoted(p.name, 28)}: {counted(p.cores, 'core')}"
        )
        for k, p in shown
    ]
    if len(populations) > len(shown):
        rows.append(tag("li", f"and {len(populations) - len(shown):,} more"))
    shared = sum(p.cores for p in plan.floor.populations) > len(plan.used)
    numbered = plan.layout.core >= TEXT_CORE_MIN
    many = numbered and any(len(cell.parts) > 2 for cell in plan.used)
    said = "A core of several layers counts for each" + ("; 1+ is a core of more than two." if many else ".")
    return tag(
        "div",
        tag("h3", "Layers by their number in the plan" if numbered else "Layers"),
        tag("ul", rows),
        remark(said) if shared else None,
        class_="legend by-layer",
        tabindex="0",
        role="region",
        aria_label="Legend of layers",
    )


def _legends(plan: Plan) -> Iterator[Markup]:
    yield _layer_legend(plan)
    counts = {name: sum(cell.fullest == name for cell in plan.used) for name in plan.resources}
    rows = [
        tag("li", swatch(k), f" {_words(name)}: fullest in {counted(counts[name], 'core')}")
        for k, name in enumerate(plan.resources)
        if counts[name]
    ]
    note = remark("The filled height of a core is the share of its limit, in percent.")
    yield tag("div", tag("h3", "Fullest resource"), tag("ul", rows), note, class_="legend by-resource")
    yield _link_legend(plan)


def rounded(value: float) -> str:
    """An end of a class of a legend: three digits, thousands separated."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _link_legend(plan: Plan) -> Markup:
    traffic = plan.traffic
    if traffic.busiest is None:
        return tag("div", tag("h3", "Links"), tag("p", "No spike leaves its tile."), class_="legend")
    rows = []
    for level in range(5):
        line = tag("path", d=wedge(1, 8, 23, 8, 2.0 + 2.4 * level), class_=f"load{level}")
        low, high = (traffic.load_max * (level + up) / 5 for up in (0, 1))
        rows.append(tag("li", sample(line), f" {rounded(low)} to {rounded(high)}"))
    ring = sample(tag("circle", cx="12", cy="8", r="6", class_="busiest"))
    more = f" and {len(traffic.as_busy) - 1:,} more" if len(traffic.as_busy) > 1 else ""
    rows.append(tag("li", ring, f" busiest: {link_name(traffic.busiest, plan)}{more}, {rate_text(traffic.load_max)}"))
    note = remark("A link is wide where it leaves a tile and narrow where it arrives.")
    return tag("div", tag("h3", "Links: spikes per time step"), tag("ul", rows), note, class_="legend links")


def _table(plan: Plan) -> Markup:
    limited = limits(plan.mapped.chip)
    headings = ["core", "tile", *(_words(name) for name in RESOURCES), "fullest", "holds"]
    rows = [
        [
            cell.name,
            f"({cell.core.x}, {cell.core.y})",
            *(_used(cell, name, limited[name]) for name in RESOURCES),
            f"{_words(cell.fullest)} {percent(cell.share)}" if cell.fullest else "",
            _slices(cell),
        ]
        for cell in plan.detailed
    ]
    said = "Cores as a table"
    cut = None
    if len(plan.used) > len(plan.detailed):
        cut = remark(
            f"The {len(plan.detailed):,} fullest of {len(plan.used):,} cores are listed; the map file has all."
        )
    return folded(said, table("Cores", headings, rows, "ll" + "r" * len(RESOURCES) + "ll", sort=True), cut)


def _used(cell: CoreCell, name: str, limit: int | None) -> str:
    used = cell.used.get(name, 0)
    return f"{used:,}" if not limit else f"{used:,} ({percent(used / limit)})"


def _slices(cell: CoreCell) -> str:
    slices = [piece for part in cell.parts for piece in part.slices]
    more = f" and {len(slices) - SLICES_MAX:,} more" if len(slices) > SLICES_MAX else ""
    return ", ".join(slices[:SLICES_MAX]) + more


def _words(name: str) -> str:
    return name.replace("_", " ")


# -- data of the script ------------------------------------------------------------------------------------------


def _first(plan: Plan) -> int:
    """The core whose panel is open at first: the one that the texts name."""
    named = plan.fullest.cores[0] if plan.fullest is not None else None
    return next((k for k, cell in enumerate(plan.detailed) if cell.core == named), 0)


def plan_data(plan: Plan) -> dict[str, Any]:
    """Cores with their place, panel and routes; links with their lines."""
    limited = limits(plan.mapped.chip)
    number = {(link.source, link.target): k for k, link in enumerate(plan.traffic.links)}
    names = {p.name: k for k, p in enumerate(plan.mapped.network.populations)}
    block = {core: b for b, core in enumerate(plan.mapped.cores)}
    cores = []
    for cell in plan.detailed:
        x, y = plan.layout.corner(cell.core)
        entry: dict[str, Any] = {"n": cell.name, "x": round(x, 1), "y": round(y, 1), "s": _slices(cell)}
        entry["at"] = f"chip {cell.core.chip}, tile ({cell.core.x}, {cell.core.y}), core {cell.core.core}"
        entry["u"] = [cell.used.get(name, 0) for name in RESOURCES]
        entry["f"] = [RESOURCES.index(cell.fullest), round(100 * cell.share, 1)] if cell.fullest else None
        entry["l"] = [[part.population, part.neurons] for part in cell.parts[:SLICES_MAX]]
        if cell.core in plan.routed:
            taken = core_routes(plan.mapped, block[cell.core])
            entry["r"] = [number[source, target] for source, target, _ in taken if (source, target) in number]
            entry["sent"] = round(max((load for *_, load in taken), default=0.0), 4)
        cores.append(entry)
    return {
        "first": _first(plan),
        "size": round(plan.layout.core, 2),
        "cores": cores,
        "layers": [quoted(name, 60) for name in names],
        "resources": [_words(name) for name in RESOURCES],
        "limits": [limited[name] or 0 for name in RESOURCES],
        "links": [_link_data(plan, link) for link in plan.traffic.links],
        "tile": [round(v, 1) for v in plan.layout.tile_size],
    }


def _link_data(plan: Plan, link: DrawnLink) -> list[float]:
    """Its line, load, and class of load."""
    line = plan.layout.link(link.source, link.target)
    return [*(round(v, 1) for v in line), round(link.load, 4), load_class(link.share)]


# -- the picture ------------------------------------------------------------------------------------------------------


TEXT_CORE_MIN = 22.0
"""Side of a core, in pixels, from which on it has its layer's number or its share as text."""
LOAD_CLASSES, RINGS_MAX = 5, 8
_INSET = 1.0


def plan_picture(floor: FloorplanPicture, traffic: TrafficPicture, layout: ChipLayout, resources: list[str]) -> Picture:
    """The picture: layers of paths that the script shows and hides; no element for a single core."""
    side = layout.core + 3
    return _drawn(
        layout,
        tag("g", *_links(traffic, layout), class_="links", id="plan-links"),
        *_cores(floor, layout, tag("g", *_by_resource(floor, layout, resources), class_="by-resource")),
        tag("g", *_rings(traffic, layout), class_="links"),
        tag("g", id="plan-routes", class_="routes"),
        tag("rect", id="plan-cursor", class_="cursor", width=side, height=side, visibility="hidden"),
        id="plan-picture",
        aria_hidden="true",
    )


def still_plan(floor: FloorplanPicture, layout: ChipLayout, *, detailed: bool) -> Picture:
    """The picture of the cores by population alone; ``detailed``: with their outlines and numbers."""
    return _drawn(layout, *_cores(floor, layout, detailed=detailed))


def _cores(
    floor: FloorplanPicture, layout: ChipLayout, above: Markup | None = None, *, detailed: bool = True
) -> Iterator[Markup | None]:
    """Chips with their cores, those in use filled by their populations and by what is ``above``, in outlines."""
    yield from (_frame(layout, chip, floor) for chip in layout.frames)
    yield tag("g", *_free(floor, layout))
    yield tag("g", *_by_layer(floor, layout, numbered=detailed), class_="by-layer")
    yield above
    if detailed:
        yield rectangles(_boxes(layout, [c for c in floor.cells if c.parts]), class_="outline")


def _drawn(layout: ChipLayout, *inner: Markup | None, **attributes: str) -> Picture:
    return svg(layout.width, layout.height, *inner, class_="plan", **attributes)


def _frame(layout: ChipLayout, chip: ChipFrame, floor: FloorplanPicture) -> Markup:
    """Title, coordinates of tiles, and outline of a chip."""
    width, height = layout.size_of(chip)
    cells = [cell for cell in floor.cells if cell.core.chip == chip.chip]
    used = sum(bool(cell.parts) for cell in cells)
    said = f"chip {chip.chip}" + (f": {counted(used, 'core')} used" if floor.cores_used else "")
    title = text(chip.left, chip.top - 22, said, class_="title")
    outline = tag("rect", x=chip.left - 5, y=chip.top - 5, width=width + 10, height=height + 10, rx="3", class_="chip")
    tile_width, tile_height = layout.tile_size
    across, down = tile_width + layout.lane, tile_height + layout.lane
    every_x, every_y = _every(across), _every(down)
    columns = [
        text(chip.left + (x - chip.x_first) * across + tile_width / 2, chip.top - 8, str(x), anchor="middle")
        for x in range(chip.x_first, chip.x_stop)
        if x % every_x == 0
    ]
    rows = [
        text(chip.left - 8, chip.top + (y - chip.y_first) * down + tile_height / 2 + 4, str(y), anchor="end")
        for y in range(chip.y_first, chip.y_stop)
        if y % every_y == 0
    ]
    return tag("g", title, outline, columns, rows, class_="coordinates")


def _every(pitch: float) -> int:
    """Every which column has its number, so that numbers are 24 pixels apart."""
    return next(n for n in (1, 2, 4, 8, 16, 32, 64) if n * pitch >= 24 or n == 64)


def _boxes(layout: ChipLayout, cells: list[CoreCell]) -> Iterator[tuple[float, float, float, float]]:
    side = layout.core - 2 * _INSET
    for cell in cells:
        x, y = layout.corner(cell.core)
        yield x + _INSET, y + _INSET, side, side


def _free(floor: FloorplanPicture, layout: ChipLayout) -> Iterator[Markup | None]:
    yield rectangles(_boxes(layout, [c for c in floor.cells if not c.is_dead and not c.parts]), class_="free")
    yield rectangles(_boxes(layout, [c for c in floor.cells if c.is_dead]), fill=DEAD, class_="edge")


def _by_layer(floor: FloorplanPicture, layout: ChipLayout, *, numbered: bool) -> Iterator[Markup | None]:
    """A path for each population: strips of the cores that hold neurons of it."""
    strips: dict[int, list[tuple[float, float, float, float]]] = {}
    side = layout.core - 2 * _INSET
    for cell in floor.cells:
        x, y = layout.corner(cell.core)
        left = x + _INSET
        for part in cell.parts:
            strips.setdefault(part.population, []).append((left, y + _INSET, side * part.share, side))
            left += side * part.share
    for population, boxes in sorted(strips.items()):
        yield rectangles(boxes, fill=paint(population))
    if numbered and layout.core >= TEXT_CORE_MIN:
        for cell in (cell for cell in floor.cells if cell.parts):
            more = "+" if len(cell.parts) > 2 else ""
            numbers = [str(part.population + 1) for part in cell.parts[: 1 if more else 2]]
            yield _label(layout, cell.core, ",".join(numbers) + more)


def _by_resource(floor: FloorplanPicture, layout: ChipLayout, resources: list[str]) -> Iterator[Markup | None]:
    """A path for each resource: gauges of the cores in which it is the fullest, from the bottom up."""
    used = [cell for cell in floor.cells if cell.parts]
    yield rectangles(_boxes(layout, used), class_="empty")
    gauges: dict[str, list[tuple[float, float, float, float]]] = {}
    side = layout.core - 2 * _INSET
    for cell in used:
        x, y = layout.corner(cell.core)
        filled = side * min(cell.share, 1.0)
        gauges.setdefault(cell.fullest, []).append((x + _INSET, y + _INSET + side - filled, side, filled))
    for number_of, name in enumerate(resources):
        yield rectangles(gauges.get(name, ()), fill=paint(number_of))
    if layout.core >= TEXT_CORE_MIN:
        yield from (_label(layout, cell.core, f"{100 * cell.share:.0f}") for cell in used)


def _label(layout: ChipLayout, core: CoreId, said: str) -> Markup:
    x, y = layout.corner(core)
    return text(x + layout.core / 2, y + layout.core / 2 + 4, one_line(said), anchor="middle", class_="core-text")


# -- links -------------------------------------------------------------------------------------------------------


def load_class(share: float) -> int:
    """Class of a load as a share of the greatest, 0 to 4: fifths."""
    return min(LOAD_CLASSES - 1, int(share * LOAD_CLASSES))


def wedge(x0: float, y0: float, x1: float, y1: float, width: float) -> str:
    """A link as an area that is ``width`` where it leaves its tile and a quarter of it where it arrives."""
    length = abs(x1 - x0) + abs(y1 - y0) or 1.0
    across, down = (y1 - y0) / length * width / 2, (x1 - x0) / length * width / 2
    corners = (
        (x0 - across, y0 - down),
        (x0 + across, y0 + down),
        (x1 + across / 4, y1 + down / 4),
        (x1 - across / 4, y1 - down / 4),
    )
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in corners) + "z"


def _links(traffic: TrafficPicture, layout: ChipLayout) -> Iterator[Markup]:
    """A path for each class of loads."""
    paths: dict[int, list[str]] = {}
    for link in traffic.links:
        level = load_class(link.share)
        width = 1.2 + layout.lane * 0.6 * (level + 1) / LOAD_CLASSES
        paths.setdefault(level, []).append(wedge(*layout.link(link.source, link.target), width))
    for level, wedges in sorted(paths.items()):
        yield tag("path", d="".join(wedges), class_=f"load{level}")


def _rings(traffic: TrafficPicture, layout: ChipLayout) -> Iterator[Markup]:
    """A ring around the busiest link, and around those with the same load; above the cores, whole."""
    for busiest in traffic.as_busy[:RINGS_MAX]:
        x0, y0, x1, y1 = layout.link(busiest.source, busiest.target)
        middle = (x0 + x1) / 2, (y0 + y1) / 2
        yield tag("circle", cx=middle[0], cy=middle[1], r=max(7.0, 0.7 * layout.lane), class_="busiest")

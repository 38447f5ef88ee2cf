"""Pictures of a circuit as SVG: cores and streams, and the floor plan of a device. No script, no font from elsewhere.

Inputs stand at the left, a core one column after the last source that precedes it in the network, outputs at the
right. A walk ends in a row of its own at its core, with its label; one that goes back or over a column passes below.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from nirbridge.emitters.readme import shape_text
from nirbridge.emitters.verilog.lanes import Expected
from nirbridge.emitters.verilog.plan import Circuit, Core, Stream, Walk, Window
from nirbridge.errors import counted, quoted

if TYPE_CHECKING:
    from nirbridge.emitters.verilog.synthesis import Synthesis

NAME_MAX = 24
"""Characters of a name; longer ones are cut."""
STYLE = """text{font:11px ui-monospace,"DejaVu Sans Mono",monospace;fill:#1a1d21}
.name{font-weight:600}.ground{fill:#fff}.box{fill:#f2f4f7;stroke:#525a63}.slowest{stroke:#a83c00;stroke-width:2.5}
.wire{fill:none;stroke:#2b6c9c;stroke-width:1.2;stroke-linejoin:round}.back{stroke-dasharray:5 3}.head{fill:#2b6c9c}
.block{fill:none;stroke:#111}.c0{fill:#a9d5f5}.c1{fill:#f9c56d}.c2{fill:#8edbb6}.c3{fill:#f4ec85}.c4{fill:#a9bcf7}
.c5{fill:#f7a98b}.c6{fill:#e8b6da}.c7{fill:#cdd3d9}
@media (prefers-color-scheme:dark){text{fill:#e9ebee}.ground{fill:#15181c}.box{fill:#1f242a;stroke:#adb5be}
.slowest{stroke:#ff9d5c}.wire{stroke:#5aa7dc}.head{fill:#5aa7dc}.block{stroke:#fff}.c0{fill:#1d5f8a}.c1{fill:#8a5600}
.c2{fill:#0c6a4b}.c3{fill:#6b6200}.c4{fill:#33509f}.c5{fill:#95431b}.c6{fill:#7f3f6c}.c7{fill:#565e67}}"""
"""Colours of the HTML report, light and dark."""

_CHARACTER, _LINE, _PAD = 6.7, 15.0, 8.0
"""Advance of a character of a monospaced font of 11 pixels, height of a line of text, space around text."""
_ROW, _APART, _MARGIN, _TRACK = 54.0, 22.0, 12.0, 7.0
"""Height of the end of a walk, space between boxes, around the picture, between parallel wires."""
_TURN = 36.0
"""Width in which wires change their height."""
_NO_LOOP = 2
"""Bits of a queue that only decouples two cores."""


def walk_form(walk: Walk) -> str:
    """How the weights of a walk are stored: a kernel, a matrix, or lists."""
    if isinstance(walk.form, Window):
        return "kernel"
    return "matrix" if walk.form.words is None else "lists"


def delay_text(walk: Walk) -> str:
    """The delay of a walk in time steps, or the least and the greatest of its sources."""
    low, high = int(np.min(walk.delay)), int(np.max(walk.delay))
    return str(low) if low == high else f"{low} to {high}"


def picture(plan: Circuit, costs: Sequence[Expected]) -> str:
    """The cores and streams of a circuit as SVG; ``costs``: of each core, in order."""
    cycles = [cost.cycles for cost in costs]
    slowest = cycles.index(max(cycles)) if cycles else -1
    boxes = _boxes(plan, costs, slowest)
    wires = _wires(plan, boxes)
    gaps = _gaps(wires, 1 + max((b.column for b in boxes.values()), default=0))
    bottom = _place(boxes, gaps)
    drawn = [_wire_svg(wire, boxes, gaps, bottom) for wire in wires]
    height = bottom + _TRACK * sum(wire.lane >= 0 for wire in wires) + _MARGIN
    width = max((b.x + b.width for b in boxes.values()), default=0.0)
    head = f"integers of {quoted(plan.quantized.chip, NAME_MAX)[1:-1]}"
    if cycles:
        head += f"; {counted(cycles[slowest], 'cycle')} per time step expected, set by {plan.cores[slowest].id}"
    text = _text(_MARGIN, _MARGIN + 11, head, "name")
    return _svg(max(width, _width(head)) + _MARGIN, height, head, [text, *drawn, *map(_box_svg, boxes.values())])


# -- boxes ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Box:
    """An input, a core or an output: its column, lines of text, ends of walks at its left, and its place."""

    column: int
    kind: str
    lines: tuple[str, ...]
    rows: int
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        return max(map(_width, self.lines)) + 2 * _PAD

    @property
    def height(self) -> float:
        return max(len(self.lines) * _LINE + _PAD, self.rows * _ROW)

    def row(self, number: int) -> float:
        """The height at which a walk ends."""
        return self.y + (number + 0.5) * self.height / self.rows


def _boxes(plan: Circuit, costs: Sequence[Expected], slowest: int) -> dict[str, _Box]:
    """By the id of a stream; an output is its stream's with a mark."""
    boxes = {s.id: _Box(0, "box", (_title(s), shape_text(s.shape), _token(s)), 0) for s in plan.inputs}
    for k, (core, cost) in enumerate(zip(plan.cores, costs, strict=True)):
        column = 1 + max((boxes[w.source.id].column for w in core.walks if w.source.id in boxes), default=0)
        kind = "box slowest" if k == slowest else "box"
        boxes[core.id] = _Box(column, kind, _core_lines(core, cost), len(core.walks))
    last = 1 + max((b.column for b in boxes.values()), default=0)
    for core in plan.outputs:
        boxes[f"{core.id} out"] = _Box(last, "box", (core.id, _token(core.stream)), 1)
    return boxes


def _core_lines(core: Core, cost: Expected) -> tuple[str, ...]:
    sums = ", ".join(str(s.bits) for s in core.sums) or "0"
    states = ", ".join(f"{f.name} {f.bits}" for f in core.neuron.states)
    return (
        _title(core.stream),
        counted(core.population.size, "neuron"),
        f"{counted(core.stream.layout.lanes, 'sum')}, {counted(core.neurons, 'neuron')} per cycle",
        *(f"{bits} bits" for bits in (f"sums {sums}", states) if bits),
        f"{counted(cost.cycles, 'cycle')} per time step",
    )


def _title(s: Stream) -> str:
    return f"{s.id} {quoted(s.name, NAME_MAX)}"


def _token(s: Stream) -> str:
    value = f", value {s.value_bits}" if s.value_bits else ""
    return f"index {counted(s.layout.bits, 'bit')}{value}"


def _place(boxes: Mapping[str, _Box], gaps: Sequence[_Gap]) -> float:
    """Give all boxes their place, columns around one axis; the height at which lanes begin."""
    columns = [[b for b in boxes.values() if b.column == k] for k in range(len(gaps) + 1)]
    heights = [sum(b.height + _APART for b in column) - _APART for column in columns]
    top, x = _MARGIN + 2 * _LINE, _MARGIN
    for k, column in enumerate(columns):
        y = top + (max(heights) - heights[k]) / 2
        for b in column:
            b.x, b.y = x, y
            y += b.height + _APART
        x += max((b.width for b in column), default=0.0)
        if k < len(gaps):
            gaps[k].x = x
            x += gaps[k].width
    return top + max(heights, default=0.0) + _APART


# -- wires ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Wire:
    """From a box to a row of another one; ``lane``: below all boxes, -1: none. ``falls``, ``rises``: tracks to it."""

    source: str
    target: str
    row: int
    label: tuple[str, ...]
    columns: tuple[int, int]
    lane: int = -1
    falls: int = 0
    rises: int = 0


@dataclass(slots=True)
class _Gap:
    """The space after a column: tracks down to lanes, a turn, tracks up from lanes, labels."""

    falls: int = 0
    rises: int = 0
    label: float = 0.0
    x: float = 0.0

    @property
    def width(self) -> float:
        return (self.falls + self.rises + 1) * _TRACK + _TURN + self.label


def _wires(plan: Circuit, boxes: Mapping[str, _Box]) -> list[_Wire]:
    wires = [
        _Wire(w.source.id, core.id, row, _label(w), (boxes[w.source.id].column, boxes[core.id].column))
        for core in plan.cores
        for row, w in enumerate(core.walks)
    ]
    for core in plan.outputs:
        target = f"{core.id} out"
        wires.append(_Wire(core.id, target, 0, (), (boxes[core.id].column, boxes[target].column)))
    return wires


def _label(w: Walk) -> tuple[str, ...]:
    words = counted(len(w.form.weights), "word")
    queue = [f"queue of {1 << w.fifo:,} tokens"] if w.fifo > _NO_LOOP else []
    size = f"{words} of {w.form.weights.shape[1]} x {counted(w.weight_bits, 'bit')}"
    return (f"{w.id} {walk_form(w)}, delay {delay_text(w)}", size, *queue)


def _gaps(wires: Sequence[_Wire], columns: int) -> list[_Gap]:
    """The spaces between columns, as wide as their labels and tracks; wires get their lanes."""
    gaps, lanes = [_Gap() for _ in range(columns - 1)], 0
    for wire in wires:
        before, after = wire.columns
        end = gaps[after - 1]
        end.label = max(end.label, _PAD + _TRACK + max(map(_width, wire.label), default=0.0))
        if after != before + 1:
            wire.lane, wire.falls, wire.rises = lanes, gaps[before].falls, end.rises
            lanes, gaps[before].falls, end.rises = lanes + 1, gaps[before].falls + 1, end.rises + 1
    return gaps


def _wire_svg(wire: _Wire, boxes: Mapping[str, _Box], gaps: Sequence[_Gap], bottom: float) -> str:
    source, target = boxes[wire.source], boxes[wire.target]
    before, after = gaps[wire.columns[0]], gaps[wire.columns[1] - 1]
    x, y, tip, end = source.x + source.width, source.y + source.height / 2, target.x, target.row(wire.row)
    label = after.x + after.width - after.label
    if wire.lane < 0:
        turn = before.x + before.falls * _TRACK + _TURN
        half = turn - _TURN / 2
        way = f"H{_n(turn - _TURN)}C{_n(half)} {_n(y)} {_n(half)} {_n(end)} {_n(turn)} {_n(end)}"
    else:
        down, up = before.x + (wire.falls + 1) * _TRACK, label - (wire.rises + 1) * _TRACK
        way = f"H{_n(down)}V{_n(bottom + wire.lane * _TRACK)}H{_n(up)}V{_n(end)}"
    kind = "wire back" if wire.columns[1] <= wire.columns[0] else "wire"
    line = f'<path class="{kind}" d="M{_n(x)} {_n(y)}{way}H{_n(tip - 4)}"/>'
    head = f'<path class="head" d="M{_n(tip)} {_n(end)}l-7 -3.5v7z"/>'
    texts = [_text(label, end + dy, said, "") for said, dy in zip(wire.label, (-4.0, 12.0, 12.0 + _LINE), strict=False)]
    return "".join([line, head, *texts])


# -- floor plan ----------------------------------------------------------------------------------------------------


TILE = 6
"""Pixels of a tile."""
GRIDS = {
    "ice40 hx1k": (18, 18), "ice40 hx8k": (34, 34), "ice40 up5k": (26, 32),
    "ecp5 25k": (73, 51), "ecp5 45k": (91, 72), "ecp5 85k": (127, 96),
}  # fmt: skip
"""Columns and rows of tiles, as nextpnr numbers them."""
_KINDS = {
    "TRELLIS_COMB": "LUT", "ICESTORM_LC": "logic cell", "DP16KD": "block RAM", "ICESTORM_RAM": "block RAM",
    "MULT18X18D": "multiplier", "ICESTORM_DSP": "multiplier",
}  # fmt: skip
_LARGE = ("block RAM", "multiplier")
OTHERS = ("queues", "others")
"""Parts of a device that are no core: the queues of all streams, and what belongs to no instance."""


def floor_plan(synthesis: Synthesis) -> str:
    """The tiles of a device as SVG, each in the colour of the core that has most of its cells."""
    tiles: dict[tuple[int, int], Counter[str]] = {}
    cells: dict[str, Counter[str]] = {}
    large: set[tuple[int, int]] = set()
    for each in synthesis.floor_plan:
        part, kind = _part(each.part), _KINDS.get(each.kind, "")
        tiles.setdefault((each.x, each.y), Counter())[part] += each.cells
        cells.setdefault(part, Counter())[kind] += each.cells
        if kind in _LARGE:
            large.add((each.x, each.y))
    owners = {place: max(sorted(parts), key=parts.__getitem__) for place, parts in tiles.items()}
    parts = sorted(cells, key=lambda part: (part in OTHERS and OTHERS.index(part) + 1, len(part), part))
    columns, rows = GRIDS[synthesis.device]
    head = f"{synthesis.board} ({synthesis.device}): {synthesis.mhz:g} MHz"
    legend = [(part, f"{part}: {_counts(cells[part])}") for part in parts]
    top, left = _MARGIN + 2 * _LINE, 2 * _MARGIN + columns * TILE
    drawn = [_text(_MARGIN, _MARGIN + 11, head, "name")]
    inner = [f'<rect class="box" width="{columns * TILE}" height="{rows * TILE}"/>']
    for k, (part, said) in enumerate(legend):
        y = top + k * _LINE
        inner.append(f'<path class="c{k % 8}" d="{_runs(p for p, owner in owners.items() if owner == part)}"/>')
        drawn.append(f'<path class="c{k % 8}" d="M{_n(left)} {_n(y)}h10v10h-10z"/>{_text(left + 16, y + 9, said, "")}')
    if large:
        inner.append(f'<path class="block" d="{_runs(large)}"/>')
        y = top + len(legend) * _LINE
        drawn.append(f'<path class="block" d="M{_n(left)} {_n(y)}h10v10h-10z"/>')
        drawn.append(_text(left + 16, y + 9, "block RAM or multiplier", ""))
    drawn.append(f'<g transform="translate({_n(_MARGIN)} {_n(top)})">{"".join(inner)}</g>')
    width = left + 16 + max(map(_width, ("block RAM or multiplier", *(said for _, said in legend)))) + _MARGIN
    height = top + max(rows * TILE, (len(legend) + 1) * _LINE) + _MARGIN
    return _svg(max(width, _width(head) + 2 * _MARGIN), height, f"floor plan of {head}", drawn)


def _part(instance: str) -> str:
    """The core of an instance; queues are one part, what belongs to no instance another one."""
    return OTHERS[0] if instance.endswith("queue") else instance.removesuffix("_core") or OTHERS[1]


def _counts(cells: Counter[str]) -> str:
    counts = [counted(cells[kind], kind) for kind in dict.fromkeys(_KINDS.values()) if cells[kind]]
    return ", ".join(counts) or counted(cells[""], "cell")


def _runs(places: Iterable[tuple[int, int]]) -> str:
    """Tiles as one path, those that are side by side in a row as one rectangle."""
    runs: list[list[int]] = []  # y, x, tiles
    for y, x in sorted((y, x) for x, y in places):
        if runs and runs[-1][0] == y and runs[-1][1] + runs[-1][2] == x:
            runs[-1][2] += 1
        else:
            runs.append([y, x, 1])
    return "".join(f"M{x * TILE} {y * TILE}h{n * TILE}v{TILE}h{-n * TILE}z" for y, x, n in runs)


# -- svg -----------------------------------------------------------------------------------------------------------


def _svg(width: float, height: float, label: str, parts: Iterable[str]) -> str:
    size = f'width="{_n(width)}" height="{_n(height)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {_n(width)} {_n(height)}" role="img"'
    ground = f'<rect class="ground" {size}/>'
    lines = [f'{head} aria-label="{escape(label)}">', f"<style>{STYLE}</style>", ground, *parts, "</svg>", ""]
    return "\n".join(lines)


def _box_svg(box: _Box) -> str:
    place = f'x="{_n(box.x)}" y="{_n(box.y)}" width="{_n(box.width)}" height="{_n(box.height)}"'
    return f'<rect class="{box.kind}" {place} rx="3"/>{"".join(_box_texts(box))}'


def _box_texts(box: _Box) -> Iterator[str]:
    first = box.y + (box.height - len(box.lines) * _LINE) / 2 + 11
    for k, line in enumerate(box.lines):
        yield _text(box.x + _PAD, first + k * _LINE, line, "" if k else "name")


def _text(x: float, y: float, said: str, kind: str) -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{_n(x)}" y="{_n(y)}">{escape(said, quote=False)}</text>'


def _width(text: str) -> float:
    """Width of a line; East Asian characters are as wide as two."""
    return _CHARACTER * sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def _n(value: float) -> str:
    """A coordinate in tenths of a pixel."""
    return f"{value:.1f}".removesuffix(".0")

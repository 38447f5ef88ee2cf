"""The picture of a network: boxes in rows from the inputs down to the outputs, operators on the arrows between them.

Coordinates are points (1/72 inch), y downwards, for text of ``FONT_POINTS``.

After K. Sugiyama, S. Tagawa and M. Toda, "Methods for visual understanding of hierarchical system structures", 1981:
an arc over several rows passes through a slot of its own in each of them, rows are ordered by barycentres, and x is
the least-squares placement for the order (pool adjacent violators). Arcs that close a cycle go up at the right.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from nirbridge.errors import counted
from nirbridge.network.model import Network
from nirbridge.report.pictures.labels import BOLD, COLUMN_POINTS, FONT_POINTS, fitted_label, text_width
from nirbridge.report.pictures.network_nodes import Arc, DrawnGraph, Node, Role, drawn_graph

NODES_MAX, ROW_MAX = 12, 4
"""Nodes of a picture and of a row of it, beyond which a network is folded (see ``network_nodes``)."""
LABELS_MAX = (150.0, 100.0, 72.0, 40.0)
"""Widths that texts of arrows are cut to, the first that makes the picture narrow enough."""
_WIDER = 1.08


@dataclass(frozen=True, slots=True)
class NetworkPicture:
    """Boxes and arrows within ``width`` x ``height``; ``remark`` says in a sentence what was folded, if anything."""

    width: float
    height: float
    boxes: tuple[NetworkBox, ...]
    arrows: tuple[NetworkArrow, ...]
    remark: str


def network_picture(
    network: Network, *, width: float = COLUMN_POINTS, nodes_max: int = NODES_MAX, row_max: int = ROW_MAX
) -> NetworkPicture:
    """The picture of a network for a page of ``width`` points: texts are shortened to it."""
    graph = drawn_graph(network, max(3, nodes_max), max(2, row_max))
    layout = NetworkLayout(graph, width, LABELS_MAX[0])
    for label_max in LABELS_MAX[1:]:
        if layout.width > _WIDER * width:
            layout = min(layout, NetworkLayout(graph, width, label_max), key=lambda each: each.width)
    folded = [len(node.members) for node in graph.nodes.values() if len(node.members) > 1]
    remark = f"{sum(folded):,} nodes folded into {counted(len(folded), 'box', 'boxes')}" if folded else ""
    layout.widen(text_width(remark))
    return NetworkPicture(layout.width, layout.height, tuple(layout.boxes()), tuple(layout.arrows()), remark)


# -- boxes and arrows -------------------------------------------------------------------------------------------------


LINE_HEIGHT = 8.8
"""Height of a line of text."""
_PAD_X, _PAD_Y, _ROW_GAP, _TURN, _LOOP, _WIRE = 5.0, 3.0, 8.0, 10.0, 12.0, 2.0
_BOX_MIN = 34.0

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class NetworkBox:
    """A node: its corner at the top left, its size, and its lines of text, centred; ``name`` is as in the network."""

    name: str
    role: Role
    lines: tuple[str, ...]
    members: tuple[str, ...]
    neurons: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class OperatorLabel:
    """The text of an arrow in its own rectangle, which the arrow enters above and leaves below."""

    text: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class NetworkArrow:
    """A projection: cubic Bezier curves through ``path`` (a point, then three for each curve), with its label.

    ``closes_cycle``: it leads up or back to the same node.
    """

    source: str
    target: str
    text: str
    path: tuple[Point, ...]
    label: OperatorLabel | None
    closes_cycle: bool


class NetworkLayout:
    """Slots of nodes (even rows) and of arcs (all rows that they pass), and where each row is."""

    def __init__(self, graph: DrawnGraph, width: float, label_max: float) -> None:
        self.graph, self.label_max = graph, label_max
        first = min(graph.rows.values(), default=0)
        self.rows = {name: 2 * (row - first) for name, row in graph.rows.items()}
        self.loops = {a.source: a for a in graph.arcs if a.source == a.target}
        self.texts: dict[int, str] = {}
        self.lines = _node_lines(graph.nodes.values(), self.rows, self.loops, width)
        self.node_slots = {name: self._node_slot(name) for name in graph.nodes}
        self.arc_slots = self._arc_slots(width)
        slots = [*self.node_slots.values(), *(slot for passed in self.arc_slots.values() for slot in passed)]
        place_slots(slots)
        self.slots = slots
        self.width = max((slot.x + slot.right for slot in slots), default=0.0)
        self.tops, self.heights = self._vertical(slots)
        self.height = self.tops[-1] + self.heights[-1] if self.tops else 0.0

    def widen(self, width: float) -> None:
        """Move everything to the middle of a picture of at least this width."""
        aside = max(0.0, width - self.width) / 2
        self.width += 2 * aside
        for slot in self.slots:
            slot.x += aside

    def _node_slot(self, name: str) -> Slot:
        half = _box_width(self.lines[name]) / 2
        loop = self.loops.get(name)
        beside = 0.0 if loop is None else _LOOP + _label_width(self._loop_text(loop))
        return Slot(self.rows[name], half, half + beside)

    def _loop_text(self, arc: Arc) -> str:
        return fitted_arrow_text(arc.text or "recurrent", self.label_max)

    def _arc_slots(self, width: float) -> dict[int, list[Slot]]:
        """The slots of every arc between two nodes, from top to bottom; its text has the one in the middle."""
        between = [
            (k, a, back)
            for k, (a, back) in enumerate(zip(self.graph.arcs, self.graph.back, strict=True))
            if a.source != a.target
        ]
        labelled: dict[int, list[int]] = {}
        for number, arc, back in between:
            odd = [row for row in self._passed(arc, back) if row % 2]
            middle = (odd[0] + odd[-1]) / 2
            row = min(odd, key=lambda row: (len(labelled.get(row, ())), abs(row - middle)))
            labelled.setdefault(row, []).append(number)
        result: dict[int, list[Slot]] = {}
        for row, numbers in labelled.items():
            widths = [_label_width(self.graph.arcs[number].text) + GAP for number in numbers]
            cut = min(1.0, width / sum(widths))
            for number, wide in zip(numbers, widths, strict=True):
                arc, back = self.graph.arcs[number], self.graph.back[number]
                self.texts[number] = fitted_arrow_text(arc.text, max(24.0, min(cut * wide - GAP, self.label_max)))
                half = _label_width(self.texts[number]) / 2 if arc.text else _WIRE
                result[number] = self._chain(arc, back, row, half)
        return dict(sorted(result.items()))

    def _passed(self, arc: Arc, back: bool) -> range:
        top, bottom = sorted((self.rows[arc.source], self.rows[arc.target]))
        return range(top, bottom + 1) if back else range(top + 1, bottom)

    def _chain(self, arc: Arc, back: bool, labelled: int, half: float) -> list[Slot]:
        passed = self._passed(arc, back)
        slots = [
            Slot(row, *((half, half) if row == labelled else (_WIRE, _WIRE)), lane=len(passed) if back else 0)
            for row in passed
        ]
        upper = self.node_slots[arc.target if back else arc.source]
        lower = self.node_slots[arc.source if back else arc.target]
        for a, b in itertools.pairwise(slots):
            connect(a, b)
        if not back:
            connect(upper, slots[0])
            connect(slots[-1], lower)
        return slots

    def _vertical(self, slots: Sequence[Slot]) -> tuple[list[float], list[float]]:
        """Top and height of every row; rows of arcs without a text have none."""
        count = 1 + max((slot.row for slot in slots), default=-1)
        heights = [0.0] * count
        for name, slot in self.node_slots.items():
            heights[slot.row] = max(heights[slot.row], len(self.lines[name]) * LINE_HEIGHT + 2 * _PAD_Y)
        for number, passed in self.arc_slots.items():
            for slot in passed:
                if self.texts[number]:
                    heights[slot.row] = max(heights[slot.row], LINE_HEIGHT + 2.0)
        turns = any(self.graph.back)
        tops, y = [], _ROW_GAP if turns else 0.0
        for height in heights:
            tops.append(y)
            y += height + (_ROW_GAP if height else 0.5 * _ROW_GAP)
        if turns and heights:
            heights[-1] += _ROW_GAP
        return tops, heights

    def boxes(self) -> list[NetworkBox]:
        """Every node, in its row's middle."""
        result = []
        for name, node in self.graph.nodes.items():
            lines, slot = self.lines[name], self.node_slots[name]
            size = _box_width(lines), len(lines) * LINE_HEIGHT + 2 * _PAD_Y
            corner = slot.x - size[0] / 2, self.tops[slot.row]
            result.append(NetworkBox(name, node.role, lines, node.members, node.neurons, *corner, *size))
        return result

    def arrows(self) -> list[NetworkArrow]:
        """Every arc, with its label."""
        result = [self._loop(name, arc) for name, arc in self.loops.items()]
        ports = _Ports(self)
        for number, slots in self.arc_slots.items():
            arc, back = self.graph.arcs[number], self.graph.back[number]
            label = self._label(self.texts[number], slots)
            path = self._path(slots, *ports.ends[number], back=back)
            result.append(NetworkArrow(arc.source, arc.target, arc.text, path, label, back))
        return result

    def _label(self, text: str, slots: Sequence[Slot]) -> OperatorLabel | None:
        if not text:
            return None
        slot = max(slots, key=lambda s: s.left + s.right)
        size = slot.left + slot.right, LINE_HEIGHT + 1.0
        middle = self.tops[slot.row] + self._line_height(slot.row) / 2
        return OperatorLabel(text, slot.x - slot.left, middle - size[1] / 2, *size)

    def _line_height(self, row: int) -> float:
        last = row == len(self.heights) - 1 and any(self.graph.back)
        return self.heights[row] - (_ROW_GAP if last else 0.0)

    def _path(self, slots: Sequence[Slot], start: Point, end: Point, *, back: bool) -> tuple[Point, ...]:
        """Vertical within rows, free between them; an arc that goes back turns above and below its two nodes."""
        corners = [(s.x, self.tops[s.row] + part * self._line_height(s.row)) for s in slots for part in (0.0, 1.0)]
        if not back:
            return _smooth([start, *corners, end])
        (left, top), (_, bottom) = corners[0], corners[-1]
        turn, far = top - _TURN, bottom + _TURN
        over = (start, (start[0], turn), (left, turn))
        path = (*over, *_smooth(corners), (corners[-1][0], far), (end[0], far), end)
        return path[::-1]

    def _loop(self, name: str, arc: Arc) -> NetworkArrow:
        slot = self.node_slots[name]
        height = len(self.lines[name]) * LINE_HEIGHT + 2 * _PAD_Y
        right, top = slot.x + _box_width(self.lines[name]) / 2, self.tops[slot.row]
        out, back = (right, top + 0.28 * height), (right, top + 0.72 * height)
        far = right + 1.25 * _LOOP
        text = self._loop_text(arc)
        width = _label_width(text)
        label = OperatorLabel(text, right + _LOOP, top + (height - LINE_HEIGHT - 1) / 2, width, LINE_HEIGHT + 1.0)
        return NetworkArrow(name, name, arc.text, (out, (far, out[1]), (far, back[1]), back), label, closes_cycle=True)


class _Ports:
    """Where arcs leave and enter boxes: side by side along the edge, in the order of their other ends."""

    def __init__(self, layout: NetworkLayout) -> None:
        self.ends: dict[int, tuple[Point, Point]] = {}
        upper: dict[str, list[tuple[float, int]]] = {}
        lower: dict[str, list[tuple[float, int]]] = {}
        for number, slots in layout.arc_slots.items():
            arc, back = layout.graph.arcs[number], layout.graph.back[number]
            above, below = (arc.target, arc.source) if back else (arc.source, arc.target)
            # an arc that goes back enters its target from above and leaves its source below
            (lower if back else upper).setdefault(above, []).append((slots[0].x, number))
            (upper if back else lower).setdefault(below, []).append((slots[-1].x, number))
        tops = _places(layout, lower, at_top=True)
        bottoms = _places(layout, upper, at_top=False)
        for number in layout.arc_slots:
            back = layout.graph.back[number]
            self.ends[number] = (tops[number], bottoms[number]) if back else (bottoms[number], tops[number])


def _places(layout: NetworkLayout, arcs: Mapping[str, list[tuple[float, int]]], *, at_top: bool) -> dict[int, Point]:
    places: dict[int, Point] = {}
    for name, ends in arcs.items():
        slot, lines = layout.node_slots[name], layout.lines[name]
        step = min(12.0, 0.7 * _box_width(lines) / len(ends))
        y = layout.tops[slot.row] + (0.0 if at_top else len(lines) * LINE_HEIGHT + 2 * _PAD_Y)
        for position, (_, number) in enumerate(sorted(ends)):
            places[number] = (slot.x + (position - (len(ends) - 1) / 2) * step, y)
    return places


def _node_lines(
    nodes: Collection[Node], rows: Mapping[str, int], loops: Mapping[str, Arc], width: float
) -> dict[str, tuple[str, ...]]:
    """The lines of every node: its name, then its size in one line or, where there are neighbours, in two."""
    count: dict[int, int] = {}
    for node in nodes:
        count[rows[node.name]] = count.get(rows[node.name], 0) + (2 if node.name in loops else 1)
    result = {}
    for node in nodes:
        neighbours = count[rows[node.name]]
        room = max(_BOX_MIN, (width - GAP * (neighbours - 1)) / neighbours - 2 * _PAD_X)
        name = node.name if len(node.members) < 2 else f"{node.members[0]} … {node.members[-1]}"
        details = [node.detail] if text_width(node.detail) <= room else node.detail.split(", ")
        result[node.name] = (fitted_label(name, room / BOLD), *(fitted_label(line, room) for line in details))
    return result


def fitted_arrow_text(text: str, width: float) -> str:
    """The text cut to ``width`` points: its operator is shortened first, then left out, the delay stays."""
    operator, comma, delay = text.rpartition(", delay ")
    if not comma or text_width(text) <= width:
        return fitted_label(text, width) if text else ""
    room = width - text_width(comma + delay)
    return f"{fitted_label(operator, room)}{comma}{delay}" if room > 20 else fitted_label(f"delay {delay}", width)


def _box_width(lines: Sequence[str]) -> float:
    """The first line is bold."""
    return max(_BOX_MIN, BOLD * text_width(lines[0]), *(text_width(line) for line in lines)) + 2 * _PAD_X


def _label_width(text: str) -> float:
    return text_width(text, FONT_POINTS) + 4.0


def _smooth(points: Sequence[Point]) -> tuple[Point, ...]:
    """Cubic curves through the points, vertical at each."""
    path = [points[0]]
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        middle = (y0 + y1) / 2
        path += [(x0, middle), (x1, middle), (x1, y1)]
    return tuple(path)


# -- rows of slots ----------------------------------------------------------------------------------------------------


_SWEEPS, _STRAIGHTENED = 8, 24
GAP = 7.0
"""Least space between neighbours of a row, in points."""


@dataclass(slots=True)
class Slot:
    """A place in a row: a node, or an arc that passes; ``left`` and ``right`` are its extents around ``x``.

    A slot of a ``lane`` stands after all others of its row.
    """

    row: int
    left: float
    right: float
    lane: int = 0
    x: float = 0.0
    above: list[Slot] = field(default_factory=list)
    below: list[Slot] = field(default_factory=list)


def connect(upper: Slot, lower: Slot) -> None:
    """Join two slots of neighbouring rows."""
    upper.below.append(lower)
    lower.above.append(upper)


def place_slots(slots: Sequence[Slot]) -> list[list[Slot]]:
    """Give every slot its ``x`` (the least left edge is 0); the rows in their order from left to right."""
    rows: list[list[Slot]] = [[] for _ in range(1 + max((slot.row for slot in slots), default=-1))]
    for slot in slots:
        rows[slot.row].append(slot)
    for row in rows:
        row.sort(key=lambda slot: slot.lane)
    rows = _ordered(rows)
    for row in rows:
        _spread(row, [0.0] * len(row))
    for number in range(2 * _SWEEPS):
        down = number % 2 == 0
        for row in rows if down else reversed(rows):
            _spread(row, [_mean(slot, slot.above if down else slot.below) for slot in row])
    for _ in range(_STRAIGHTENED):
        for row in rows:
            _spread(row, [_mean(slot, slot.above + slot.below) for slot in row])
    least = min((slot.x - slot.left for slot in slots), default=0.0)
    for slot in slots:
        slot.x -= least
    return rows


def _ordered(rows: list[list[Slot]]) -> list[list[Slot]]:
    """The best order that some sweeps of barycentres find; ties keep their order."""
    best, fewest = [list(row) for row in rows], _crossings(rows)
    for number in range(_SWEEPS):
        down = number % 2 == 0
        near = _positions(rows)
        for row in rows[1:] if down else rows[-2::-1]:
            _sort_row(row, down=down, near=near)
            near |= _positions([row])
        count = _crossings(rows)
        if count < fewest:
            best, fewest = [list(row) for row in rows], count
    return best


def _positions(rows: Sequence[Sequence[Slot]]) -> dict[int, float]:
    return {id(slot): position for row in rows for position, slot in enumerate(row)}


def _sort_row(row: list[Slot], *, down: bool, near: dict[int, float]) -> None:
    def key(slot: Slot) -> tuple[int, float]:
        others = slot.above if down else slot.below
        return slot.lane, sum(near[id(o)] for o in others) / len(others) if others else near[id(slot)]

    row.sort(key=key)


def _crossings(rows: Sequence[Sequence[Slot]]) -> int:
    """Pairs of arcs between neighbouring rows that cross."""
    near, count = _positions(rows), 0
    for row in rows:
        ends = [(near[id(slot)], near[id(other)]) for slot in row for other in slot.below]
        count += sum(a < c and b > d for a, b in ends for c, d in ends)
    return count


def _mean(slot: Slot, others: Sequence[Slot]) -> float:
    return sum(other.x for other in others) / len(others) if others else slot.x


def _spread(row: Sequence[Slot], wished: Sequence[float]) -> None:
    """The places nearest to ``wished`` (least squares) at which no two neighbours overlap."""
    offsets, offset = [], 0.0
    for number, slot in enumerate(row):
        offset += row[number - 1].right + GAP + slot.left if number else 0.0
        offsets.append(offset)
    pools: list[list[float]] = []  # [sum of wishes, number of slots]
    for wish, shift in zip(wished, offsets, strict=True):
        pools.append([wish - shift, 1])
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] > pools[-1][0] / pools[-1][1]:
            total, count = pools.pop()
            pools[-1][0] += total
            pools[-1][1] += count
    means = [total / count for total, count in pools for _ in range(int(count))]
    for slot, shift, mean in zip(row, offsets, means, strict=True):
        slot.x = shift + mean

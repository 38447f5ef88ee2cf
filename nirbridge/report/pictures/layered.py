"""Layered layout of a graph: slots in rows, in an order with few crossings, as straight as the widths allow.

After K. Sugiyama, S. Tagawa and M. Toda, "Methods for visual understanding of hierarchical system structures", 1981:
an arc over several rows passes through a slot of its own in each of them, rows are ordered by barycentres, and x is
the least-squares placement for the order (pool adjacent violators). Arcs that close a cycle go up at the right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

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

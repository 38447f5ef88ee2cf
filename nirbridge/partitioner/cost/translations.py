"""Which boxes have the same lists of synapses but for a shift of the sources: what is counted for one holds for all.

Next-fit streams cut a layer at places that come again and again; to list the synapses of every core would take longer
than the search. Boxes of a separable projection are alike where the relations of their ranges, counted from the first
output and the first input, are equal element by element on every axis, and several boxes of a core lie as far apart.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from nirbridge._types import Box
from nirbridge.partitioner.cost.axis import Axis
from nirbridge.partitioner.cost.connectivity import Connectivity, Separable


class Translations:
    """Keys of boxes, equal where they are alike. Axes are told apart by identity: they have to stay alive."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._ranges: dict[tuple[int, int, int], tuple[int, int]] = {}

    def key(self, form: Separable, boxes: Sequence[Box]) -> Hashable:
        """The key of boxes that a core numbers one after the other, by one projection."""
        key: list[Hashable] = []
        corner = [start for start, _ in boxes[0]]
        origin: list[int] = []
        for box in boxes:
            found = [self._range(axis, *span) for axis, span in zip(form.axes, box, strict=True)]
            first = [base for _, base in found]
            origin = origin or first
            away = tuple(start - c for (start, _), c in zip(box, corner, strict=True))
            sources_away = tuple(a - b for a, b in zip(first, origin, strict=True))
            key.append((tuple(b - a for a, b in box), tuple(number for number, _ in found), away, sources_away))
        return tuple(key)

    def _range(self, axis: Axis, start: int, stop: int) -> tuple[int, int]:
        """A number that is equal for ranges that are alike, and the first input of the range."""
        key = (id(axis), start, stop)
        if key not in self._ranges:
            content, first = _content(axis, start, stop)
            self._ranges[key] = self._numbers.setdefault(content, len(self._numbers)), first
        return self._ranges[key]


def _content(axis: Axis, start: int, stop: int) -> tuple[object, int]:
    if axis.full:
        return axis.touched.tobytes(), 0
    places, inputs = axis.within(start, stop)
    first = int(inputs.min()) if len(inputs) else 0
    outputs = axis.outs[places] - start
    return (outputs.tobytes(), (inputs - first).tobytes(), axis.taps[places].tobytes()), first


def with_shared_axes(form: Connectivity, known: dict[object, Axis]) -> Connectivity:
    """The form with one object for all equal axes: what is cached by axis then serves every layer alike."""
    if not isinstance(form, Separable):
        return form
    return Separable(tuple(known.setdefault(_all_of(axis), axis) for axis in form.axes))


def _all_of(axis: Axis) -> tuple[object, ...]:
    lists = (axis.touched, axis.indptr, axis.outs, axis.taps)
    return axis.n_in, axis.n_out, axis.full, axis.contiguous, *(a.tobytes() for a in lists)

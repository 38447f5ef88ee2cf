"""Which blocks have the same synapses up to a translation, proved from the definition of their windows.

A convolution or pool, or a chain of them, connects a box of targets axis by axis: a synapse, with its kernel element,
is one path along every axis. A path along an axis runs from an output of the range through the kernels to an input
inside the picture. Two ranges are alike where their lists of paths, outputs and inputs counted from the first ones, are
equal element by element; what the picture's border cuts off is missing from the list, so a range at a border is like
one in the middle only where the border cuts nothing. Two boxes whose ranges are alike on every axis then have the same
synapses, their sources shifted by one flat offset; so have several slices where all of them are shifted alike, targets
and sources. Nothing else is taken for alike: all other operators are listed.

Along the channels, outputs of one convolution are alike where they see the same groups, counted from the first: the
weights of another output channel are other weights, and in the same way different from each other. In a chain the
weights along several paths are added, and channels are alike only where they are the same.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from nirbridge._types import Shape
from nirbridge.mapping.storage.record import SliceRecord
from nirbridge.network.operators import Chain, Conv, Identity, Operator, Scale, SumPool

Window = Conv | SumPool


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """The windows of one projection, first to last (none: one to one), with ``form``, all that their synapses obey.

    ``numbers`` tells contents apart by exact comparison, and is shared by all projections; ``ranges`` is a cache.
    """

    parts: tuple[Window, ...]
    input_shape: Shape
    form: Hashable
    numbers: dict[object, int]
    ranges: dict[tuple[int, int, int], tuple[int, int]] = field(default_factory=dict)

    def kind(self, pieces: Sequence[tuple[SliceRecord, int]]) -> tuple[Hashable, int]:
        """A key that is equal for slices with equal synapses up to a shift of the sources, and that shift's origin.

        ``pieces`` are the slices of the target population in a block, each with the number of its first neuron.
        """
        key: list[Hashable] = [self.form]
        corner = [start for start, _ in pieces[0][0].box]
        origin: list[int] = []
        for s, number in pieces:
            found = [self._range(axis, *span) for axis, span in enumerate(s.box)]
            first = [base for _, base in found]
            origin = origin or first
            # every slice lies as far from the first one, among the targets and among the sources
            away = tuple(start - c for (start, _), c in zip(s.box, corner, strict=True))
            sources_away = tuple(a - b for a, b in zip(first, origin, strict=True))
            lengths = tuple(stop - start for start, stop in s.box)
            kinds = tuple(kind for kind, _ in found)
            key.append((number - pieces[0][1], s.order, lengths, kinds, away, sources_away))
        strides = [math.prod(self.input_shape[axis + 1 :]) for axis in range(len(self.input_shape))]
        return tuple(key), sum(n * stride for n, stride in zip(origin, strides, strict=True))

    def _range(self, axis: int, start: int, stop: int) -> tuple[int, int]:
        """A number that is equal for ranges that are alike, and the first input of the range."""
        key = (axis, start, stop)
        if key not in self.ranges:
            content, first = self._content(axis, start, stop)
            self.ranges[key] = self.numbers.setdefault(content, len(self.numbers)), first
        return self.ranges[key]

    def _content(self, axis: int, start: int, stop: int) -> tuple[object, int]:
        if self.parts and axis > 0:
            return _paths(self.parts, axis - 1, start, stop)
        if len(self.parts) > 1:
            return (start, stop), 0
        part = self.parts[0] if self.parts else None
        if part is None or isinstance(part, SumPool):
            return "one to one", start
        group = np.arange(start, stop) // (part.weight.shape[0] // part.groups)
        return (group - group[0]).tobytes(), int(group[0]) * part.weight.shape[1]


def _paths(parts: tuple[Window, ...], axis: int, start: int, stop: int) -> tuple[object, int]:
    """Every path into the outputs ``[start, stop)`` of one spatial axis: output, kernel elements, input; all exact."""
    place = np.arange(start, stop, dtype=np.int64)
    output, elements = place - start, []
    for part in reversed(parts):
        reached = place[:, None] * part.stride[axis] - part.padding[axis][0]
        reached = reached + np.arange(part.kernel[axis]) * part.dilation[axis]
        path, element = np.nonzero((reached >= 0) & (reached < part.input_shape[axis + 1]))
        output, elements = output[path], [*(e[path] for e in elements), element]
        place = reached[path, element]
    first = int(place.min()) if len(place) else 0
    return (output.tobytes(), *(e.tobytes() for e in elements), (place - first).tobytes()), first


def windows_of(operator: Operator, numbers: dict[object, int], *, weights_matter: bool) -> Windows | None:
    """The windows of an operator; None where it has other parts, which are listed block by block.

    ``weights_matter``: equal weights are stored once. A Scale is then one of the other parts, for its weights differ
    from place to place; else it is one to one.
    """
    parts = operator.parts if isinstance(operator, Chain) else (operator,)
    plain = (Identity,) if weights_matter else (Identity, Scale)
    if not all(isinstance(part, (Conv, SumPool, *plain)) for part in parts):
        return None
    windows = tuple(part for part in parts if isinstance(part, (Conv, SumPool)))
    return Windows(windows, operator.input_shape, (operator.input_shape, *map(_form, windows)), numbers)


def _form(part: Window) -> Hashable:
    own = (part.weight.shape, part.groups) if isinstance(part, Conv) else "pool"
    return own, part.kernel, part.stride, part.padding, part.dilation, part.input_shape

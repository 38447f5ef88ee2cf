"""Random operators, slices and networks, with costs counted synapse by synapse from ``apply.matrix``.

Nothing here uses the closed forms of the partitioner; only the words of a list of positions (``axon_list_words``, which
has a test of its own) and the limits of a chip are shared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from nirbridge._types import Box, Shape
from nirbridge.arrays import Array
from nirbridge.chips import read_chip
from nirbridge.chips.model import Chip
from nirbridge.network.apply import matrix
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import Neuron, neuron
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Operator, Reshape, Scale, Sparse, SumPool
from nirbridge.partitioner.cost.axons import Blocks
from nirbridge.partitioner.cost.resources import axon_list_words, delay_on_chip_steps, run_words
from nirbridge.partitioner.model import Slice

LOIHI = read_chip("loihi1")


def chip(*, core: dict[str, int | None] | None = None, **synapses: object) -> Chip:
    """Loihi 1 with some limits of a core and some fields of its synapses changed."""
    return replace(
        LOIHI,
        core=replace(LOIHI.core, **(core or {})),
        synapses=replace(LOIHI.synapses, **synapses),
    )


# -- random operators ----------------------------------------------------------------------------------------------


def weights(rng: np.random.Generator, *shape: int) -> Array:
    """Whole numbers so large that different sums of them are never equal by chance."""
    return rng.integers(1, 2**20, size=shape).astype(np.float64)


def random_conv(rng: np.random.Generator, shape: Shape) -> Conv:
    """Any kernel, stride, padding (also beyond the kernel), dilation and groups that leaves an output."""
    channels, *spatial = shape
    groups = int(rng.choice([g for g in range(1, channels + 1) if channels % g == 0]))
    cout = groups * int(rng.integers(1, 4))
    while True:
        kernel = tuple(int(k) for k in rng.integers(1, 4, size=len(spatial)))
        part = Conv(
            weights(rng, cout, channels // groups, *kernel),
            tuple(int(s) for s in rng.integers(1, 4, size=len(spatial))),
            tuple((int(a), int(b)) for a, b in rng.integers(0, 3, size=(len(spatial), 2))),
            tuple(int(d) for d in rng.integers(1, 3, size=len(spatial))),
            groups,
            shape,
        )
        if min(part.output_shape) > 0:
            return part


def random_pool(rng: np.random.Generator, shape: Shape) -> SumPool:
    spatial = shape[1:]
    while True:
        part = SumPool(
            tuple(int(k) for k in rng.integers(1, 4, size=len(spatial))),
            tuple(int(s) for s in rng.integers(1, 4, size=len(spatial))),
            tuple((int(a), int(b)) for a, b in rng.integers(0, 3, size=(len(spatial), 2))),
            shape,
            float(rng.choice([1.0, 0.25])),
        )
        if min(part.output_shape) > 0:
            return part


def random_sparse(rng: np.random.Generator, shape: Shape, out: Shape) -> Sparse:
    """A sparse operator; some of its rows and columns are empty."""
    filled = rng.random((math.prod(out), math.prod(shape))) < rng.choice([0.1, 0.5])
    rows, columns = np.nonzero(filled)
    indptr = np.concatenate(([0], np.cumsum(filled.sum(axis=1))))
    return Sparse(indptr, columns, weights(rng, len(rows)), shape, out)


def random_window(rng: np.random.Generator, shape: Shape) -> Conv | SumPool:
    return random_conv(rng, shape) if rng.random() < 0.6 else random_pool(rng, shape)


def random_part(rng: np.random.Generator, shape: Shape) -> Operator:
    kind = int(rng.integers(10))
    if kind == 0:
        return Scale(weights(rng, *shape))
    if kind == 1:
        return Identity(shape)
    if kind == 2:
        out = ((5,), (2, 3), (2, 2, 3))[int(rng.integers(3))]
        return random_sparse(rng, shape, out)
    if len(shape) == 1:
        return Dense(weights(rng, int(rng.integers(1, 7)), shape[0]))
    if kind == 3:
        return Reshape(shape, (math.prod(shape),))
    return random_window(rng, shape)


def chain(parts: Sequence[Operator]) -> Operator:
    return parts[0] if len(parts) == 1 else Chain(tuple(parts))


def random_operator(rng: np.random.Generator, shape: Shape, most: int = 3) -> Operator:
    """One to ``most`` parts; sometimes a flat output is shaped into an image again, so that windows follow."""
    parts: list[Operator] = []
    for _ in range(int(rng.integers(1, most + 1))):
        parts.append(random_part(rng, shape))
        shape = parts[-1].output_shape
        if len(shape) == 1 and rng.random() < 0.3:
            parts.append(Reshape(shape, (1, *shape)))
            shape = (1, *shape)
    return chain(parts)


def random_windows(rng: np.random.Generator, shape: Shape, most: int = 2) -> Operator:
    """One to ``most`` convolutions and pools: separable along its axes."""
    parts: list[Operator] = []
    for _ in range(int(rng.integers(1, most + 1))):
        parts.append(random_window(rng, shape))
        shape = parts[-1].output_shape
    return chain(parts)


def random_shape(rng: np.random.Generator) -> Shape:
    shapes = ((7,), (1, 9), (3, 5), (2, 5, 6), (1, 7, 7), (4, 3, 4))
    return shapes[int(rng.integers(len(shapes)))]


# -- boxes and numbering -------------------------------------------------------------------------------------------


def random_box(rng: np.random.Generator, shape: Shape) -> Box:
    ends = [sorted(rng.choice(n + 1, size=2, replace=False).tolist()) for n in shape]
    return tuple((int(a), int(b)) for a, b in ends)


def neurons_of(shape: Shape, box: Box) -> list[int]:
    """Flat indices of a box's neurons as a slice numbers them: rows, then columns, channels last."""
    places = product(*(range(a, b) for a, b in box))
    return [flat(shape, place) for place in sorted(places, key=lambda p: (*p[1:], p[0]))]


def flat(shape: Shape, place: Sequence[int]) -> int:
    index = 0
    for n, i in zip(shape, place, strict=True):
        index = index * n + i
    return index


def random_cuts(rng: np.random.Generator, shape: Shape, pieces: int) -> list[Box]:
    """A population cut at random places along random axes into at most ``pieces`` boxes."""
    boxes: list[Box] = [tuple((0, n) for n in shape)]
    for _ in range(pieces - 1):
        box = boxes.pop(int(rng.integers(len(boxes))))
        axis = int(rng.integers(len(shape)))
        a, b = box[axis]
        if b - a < 2:
            boxes.append(box)
            continue
        middle = int(rng.integers(a + 1, b))
        boxes += [(*box[:axis], part, *box[axis + 1 :]) for part in ((a, middle), (middle, b))]
    return boxes


def tiles_exactly(shape: Shape, boxes: Sequence[Box]) -> bool:
    """True if every element of ``shape`` is in exactly one of the boxes, and no box is empty or sticks out."""
    times = np.zeros(shape, np.int64)
    for box in boxes:
        if len(box) != len(shape) or any(not 0 <= a < b <= n for (a, b), n in zip(box, shape, strict=True)):
            return False
        times[tuple(slice(a, b) for a, b in box)] += 1
    return bool(np.all(times == 1))


def covers(net: Network, blocks: Blocks) -> bool:
    """True if every neuron is in exactly one slice."""
    pieces = [s for block in blocks for s in block]
    return all(tiles_exactly(p.shape, [s.box for s in pieces if s.population == p.name]) for p in net.populations)


# -- networks ------------------------------------------------------------------------------------------------------


def population(name: str, shape: Shape, record: Neuron | None = None) -> Population:
    return Population(name, shape, record or neuron("LIF", a_mem=0.9))


def network(inputs: dict[str, Shape], populations: Sequence[Population], projections: Sequence[Projection]) -> Network:
    return Network(
        1e-3,
        Timing(1e-3, "euler", "to-value", ">", "per-second"),
        tuple(populations),
        tuple(projections),
        tuple(Port(name, shape) for name, shape in inputs.items()),
        (),
    )


def random_network(rng: np.random.Generator, *, windows: bool = False) -> Network:
    """Two to four populations, some of them fed twice, by a delayed projection, or by one that comes back."""
    shape = random_shape(rng) if not windows else ((2, 5, 6), (3, 8))[int(rng.integers(2))]
    make = random_windows if windows else random_operator
    points, populations, projections = [("in", shape)], list[Population](), list[Projection]()
    for number in range(int(rng.integers(2, 5))):
        source, shape = points[int(rng.integers(len(points)))]
        operator = make(rng, shape, 2)
        name = f"p{number}"
        delay = np.array(int(rng.integers(0, 2)))
        projections.append(Projection(source, name, operator, delay_steps=delay))
        if rng.random() < 0.3:  # the same source once more
            again = random_sparse(rng, shape, operator.output_shape)
            projections.append(Projection(source, name, again))
        if rng.random() < 0.3:
            loop = random_sparse(rng, operator.output_shape, operator.output_shape)
            projections.append(Projection(name, name, loop, delay_steps=np.array(1), is_back=True))
        populations.append(population(name, operator.output_shape))
        points.append((name, operator.output_shape))
    return network({"in": points[0][1]}, populations, projections)


# -- costs, synapse by synapse -------------------------------------------------------------------------------------


def structure(operator: Operator) -> Array:
    """[post, pre], True where there is a synapse."""
    rows = matrix(operator).tocoo()
    dense = np.zeros(rows.shape, bool)
    dense[rows.row, rows.col] = True
    return dense


def positions(shape: Shape, slices: Sequence[Slice], name: str) -> dict[int, int]:
    """Number in the core of every neuron (flat) of population ``name``; slices are numbered on in their order."""
    found: dict[int, int] = {}
    number = 0
    for piece in slices:
        if piece.population == name:
            own = neurons_of(shape, piece.box)
            found.update(zip(own, range(number, number + len(own)), strict=True))
            number += len(own)
        else:
            number += math.prod(b - a for a, b in piece.box)
    return found


def lists_of(projection: Projection, place: dict[int, int]) -> dict[int, list[int]]:
    """Positions, ascending, that each source reaches among the placed targets."""
    dense = structure(projection.operator)
    lists: dict[int, list[int]] = {}
    for target, where in place.items():
        for source in np.flatnonzero(dense[target]).tolist():
            lists.setdefault(source, []).append(where)
    return {source: sorted(found) for source, found in lists.items()}


def axon_words(positions: Array, on: Chip, bits: int, *, delayed: bool, filled: bool = False) -> int:
    """Words of one axon's list of targets at these positions in a core; ``filled``: gaps may be zeros."""
    axons = np.zeros(len(positions), np.int64)
    words = int(axon_list_words(axons, positions, on.synapses, bits, delayed=delayed)[1].sum())
    span = int(positions[-1] - positions[0]) + 1
    return min(words, run_words(span, on.synapses, bits, delayed=delayed)) if filled else words


def words(projection: Projection, place: dict[int, int], on: Chip, bits: int) -> int:
    """Words of all lists of a projection in a core."""
    delayed = delay_on_chip_steps(projection) > 0
    parts = projection.operator.parts if isinstance(projection.operator, Chain) else (projection.operator,)
    how = {"delayed": delayed, "filled": any(isinstance(part, Dense | Sparse) for part in parts)}
    return sum(axon_words(np.array(found), on, bits, **how) for found in lists_of(projection, place).values())


def shared_words(projection: Projection, place: dict[int, int], on: Chip, bits: int) -> int:
    """As ``words``, lists of one input channel that are alike up to a shift, with the same weights, stored once."""
    values = matrix(projection.operator).toarray()
    delayed = delay_on_chip_steps(projection) > 0
    shape = projection.operator.input_shape
    per_channel = math.prod(shape[1:]) if len(shape) > 1 else shape[0]  # a flat input is one channel
    copies: dict[object, int] = {}
    where_of = {where: target for target, where in place.items()}
    for source, found in lists_of(projection, place).items():
        kernel = tuple(float(values[where_of[w], source]) for w in found)
        key = (source // per_channel, tuple(w - found[0] for w in found), kernel)
        copies[key] = axon_words(np.array(found), on, bits, delayed=delayed)
    return sum(copies.values())


def axons(net: Network, name: str, place: dict[int, int]) -> set[tuple[str, int]]:
    """Distinct sources with a target among the placed neurons of a population."""
    into = [p for p in net.projections if p.target == name]
    return {(p.source, source) for p in into for source in lists_of(p, place)}

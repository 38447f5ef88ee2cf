"""Differences in meaning between two map files: numbering, versions and the course of the search do not count."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from nirbridge._types import Box
from nirbridge.chips.model import CoreId
from nirbridge.errors import counted, quoted
from nirbridge.files.differences import Difference, flat, flat_differences
from nirbridge.mapping.checker.incoming import box_neurons
from nirbridge.mapping.storage.record import BlockRecord, MapRecord, SliceRecord
from nirbridge.partitioner.model import RESOURCES

_SETTINGS = ("chips", "weight_bits", "timing", "objective", "rates", "splits", "inputs", "outputs", "populations")
_NO_MEANING = ("seed", "solver", "deterministic_time", "method")
"""Of a proof: how it was found."""


def map_differences(a: MapRecord, b: MapRecord) -> tuple[Difference, ...]:
    """Model, chip, settings, populations, projections, slices, cores of neurons, costs, proof; empty: the same map."""
    orders = [
        Difference(f"order of {quoted(name)}", *(_order_text(r.orders.get(name)) for r in (a, b)))
        for name in _other_orders(a, b)
    ]
    settings, costs = flat_differences(_settings(a), _settings(b)), flat_differences(_costs(a), _costs(b))
    models = [f"{quoted(record.model_file)} {quoted(record.model_sha256[:16])[1:-1]}" for record in (a, b)]
    other_model = [] if a.model_sha256 == b.model_sha256 else [Difference("model", *models)]
    return (*other_model, *settings, *orders, *_cuts(a, b), *_moves(a, b), *costs)


def _other_orders(a: MapRecord, b: MapRecord) -> list[str]:
    """Populations of both maps whose slices count their neurons in another order."""
    names = [p.name for p in a.populations]
    listed = {p.name for p in b.populations}
    return [name for name in names if name in listed and a.orders.get(name) != b.orders.get(name)]


def _order_text(order: tuple[int, ...] | None) -> str:
    """An order in words: its first neurons."""
    if order is None:
        return "that of the model"
    return ", ".join(f"{neuron:,}" for neuron in order[:8]) + (" …" if len(order) > 8 else "")


def _settings(record: MapRecord) -> dict[str, Any]:
    """Model, chip and options of the map, by dotted name."""
    document: dict[str, Any] = {"chip": record.chip, **{key: record.raw.get(key) for key in _SETTINGS}}
    document["splits"] = [{"name": name, "ways": ways} for name, ways in record.splits]
    document["latency"] = record.latency
    document["placement_only"] = record.placement_only
    document["early_spikes"] = list(record.early_spikes)
    document["populations"] = [
        {key: value for key, value in p.items() if key != "order"} for p in record.raw["populations"]
    ]
    document["projections"] = record.raw["projections"]
    return dict(flat(document))


def _costs(record: MapRecord) -> dict[str, Any]:
    """Totals and proof by dotted name; which core is the fullest is told by its number alone, so it is left out."""
    totals: dict[str, Any] = dict(record.totals)
    for name in RESOURCES:
        totals[name] = {key: value for key, value in totals[name].items() if key != "where_max"}
    proof = {key: value for key, value in record.proof.items() if key not in _NO_MEANING}
    return dict(flat({"totals": totals, "proof": proof}))


def _cuts(a: MapRecord, b: MapRecord) -> Iterator[Difference]:
    """Populations whose slices are others, and slices that share a core in one map alone."""
    left, right = _slices(a), _slices(b)
    for name in dict.fromkeys((*left, *right)):
        x, y = left.get(name, []), right.get(name, [])
        if x != y:
            yield Difference(f"slices of {quoted(name)}", _boxes(x), _boxes(y))
    together, others = ({tuple(sorted(map(_key, block.slices))) for block in r.blocks} for r in (a, b))
    if together != others and left == right:
        only = len(together - others), len(others - together)
        yield Difference("slices on one core", f"{only[0]:,} groups of its own", f"{only[1]:,} groups of its own")


def _slices(record: MapRecord) -> dict[str, list[tuple[Box, tuple[int, ...]]]]:
    """Boxes by population, sorted."""
    by_name: dict[str, list[tuple[Box, tuple[int, ...]]]] = defaultdict(list)
    for name, box, order in (_key(each) for block in record.blocks for each in block.slices):
        by_name[name].append((box, order))
    return {name: sorted(boxes) for name, boxes in by_name.items()}


def _key(piece: SliceRecord) -> tuple[str, Box, tuple[int, ...]]:
    return piece.population, piece.box, piece.order or ()


def _boxes(slices: list[tuple[Box, tuple[int, ...]]]) -> str:
    shown = ["[" + ", ".join(f"{start}:{stop}" for start, stop in box) + "]" for box, _ in slices[:4]]
    more = f" and {len(slices) - 4:,} more" if len(slices) > 4 else ""
    return " ".join(shown) + more if shown else "none"


def _moves(a: MapRecord, b: MapRecord) -> Iterator[Difference]:
    """Populations with neurons on another core, and how many; cores as (chip, x, y, core of the tile)."""
    left, right = _by_core(a.blocks), _by_core(b.blocks)
    for p in a.populations:
        cores = left.get(p.name, {}), right.get(p.name, {})
        orders = a.orders.get(p.name), b.orders.get(p.name)
        if cores[0] == cores[1] and orders[0] == orders[1]:
            continue
        if orders[0] == orders[1]:
            stay = sum(_common(boxes, cores[1].get(core, [])) for core, boxes in cores[0].items())
        else:
            stay = _staying(a, b, p.name)
        if p.name in right and stay != p.neurons:
            name = f"placement of {p.neurons - stay:,} of {counted(p.neurons, 'neuron')} of {quoted(p.name)}"
            yield Difference(name, _cores(cores[0]), _cores(cores[1]))


def _by_core(blocks: tuple[BlockRecord, ...]) -> dict[str, dict[CoreId, list[Box]]]:
    by_core: dict[str, dict[CoreId, list[Box]]] = defaultdict(lambda: defaultdict(list))
    for block in blocks:
        for each in block.slices:
            by_core[each.population][block.core].append(each.box)
    return by_core


def _staying(a: MapRecord, b: MapRecord, name: str) -> int:
    """Neurons of a population that are on the same core in both maps, where their orders differ."""
    shapes = {next(p.shape for p in r.populations if p.name == name) for r in (a, b)}
    lengths = {len(r.orders[name]) for r in (a, b) if name in r.orders}
    if len(shapes) > 1 or {prod(shape) for shape in shapes} != lengths:
        return 0
    (shape,) = shapes
    numbers: dict[CoreId, int] = {}
    cores = []
    for record in (a, b):
        order = np.array(record.orders[name], np.int64) if name in record.orders else None
        core = np.full(prod(shape), -1, np.int64)
        for block in record.blocks:
            for piece in block.slices:
                if piece.population == name and len(piece.box) == len(shape):
                    core[box_neurons(replace(piece, order=None), shape, order)] = numbers.setdefault(
                        block.core, len(numbers)
                    )
        cores.append(core)
    return int(((cores[0] == cores[1]) & (cores[0] >= 0)).sum())


def _common(boxes: list[Box], others: list[Box]) -> int:
    """Neurons in both; the boxes of one side do not overlap."""
    pairs = (zip(x, y, strict=True) for x in boxes for y in others if len(x) == len(y))
    return sum(prod(max(0, min(p[1], q[1]) - max(p[0], q[0])) for p, q in axes) for axes in pairs)


def _cores(cores: Mapping[CoreId, object]) -> str:
    names = [f"({c.chip}, {c.x}, {c.y}, {c.core})" for c in sorted(cores, key=lambda c: (c.chip, c.y, c.x, c.core))]
    more = f" and {len(names) - 4:,} more" if len(names) > 4 else ""
    return " ".join(names[:4]) + more

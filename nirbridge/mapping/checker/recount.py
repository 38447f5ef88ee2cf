"""The arithmetic of the checker: use of each block, counted from its synapses, and the claims of a map file on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.chips.model import Chip, CoreId, SynapseFormat
from nirbridge.errors import Diagnostic, counted, quoted
from nirbridge.mapping.checker.incoming import PlacedNeurons, SynapsesByClass, box_neurons
from nirbridge.mapping.storage.record import BlockRecord, MapRecord, RouteRecord, SliceRecord
from nirbridge.network.model import Network
from nirbridge.partitioner.cost.resources import Profiles, limits, profile_ids
from nirbridge.partitioner.model import RESOURCES

HOST = -1


@dataclass(frozen=True, slots=True, eq=False)
class NeuronLayout:
    """``placed[i]``: population -> its neurons in the i-th block; ``block_of``: population -> that i per neuron or -1.

    ``times``: population -> in how many boxes each neuron is. ``ordered``: populations in an order of the map's.
    """

    placed: tuple[Mapping[str, PlacedNeurons], ...]
    block_of: Mapping[str, Array]
    times: Mapping[str, Array]
    ordered: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class RecountedUse:
    """``used[i]`` of the i-th block; ``routes``: (i or HOST, port name or '', target i) -> neurons, synapses.

    ``synapses[k]``: those of the k-th projection that end in some block.
    """

    used: tuple[dict[str, int], ...]
    routes: Mapping[tuple[int, str, int], tuple[int, int]]
    synapses: tuple[int, ...]


def lay_out(
    blocks: tuple[BlockRecord, ...],
    shapes: Mapping[str, Shape],
    is_legal: Callable[[SliceRecord], bool],
    orders: Mapping[str, Sequence[int]] | None = None,
) -> NeuronLayout:
    """Number the neurons of every block; slices for which ``is_legal(slice)`` is false take no part.

    ``orders``: of populations whose slices count places in a permutation of their neurons.
    """
    arrays = legal_orders(orders or {}, shapes)
    block_of = {name: np.full(math.prod(shape), -1, dtype=np.int32) for name, shape in shapes.items()}
    times = {name: np.zeros(math.prod(shape), dtype=np.int32) for name, shape in shapes.items()}
    placed = []
    for i, block in enumerate(blocks):
        pieces: dict[str, list[tuple[SliceRecord, int]]] = {}
        start = 0
        for s in block.slices:
            if not is_legal(s):
                continue
            neurons = box_neurons(s, shapes[s.population], arrays.get(s.population))
            pieces.setdefault(s.population, []).append((s, start))
            block_of[s.population][neurons] = i
            times[s.population][neurons] += 1
            start += len(neurons)
        placed.append({name: PlacedNeurons(shapes[name], tuple(own), arrays.get(name)) for name, own in pieces.items()})
    return NeuronLayout(tuple(placed), block_of, times, frozenset(arrays))


def legal_orders(orders: Mapping[str, Sequence[int]], shapes: Mapping[str, Shape]) -> dict[str, Array]:
    """The orders as arrays, without those of another length than the population (a violation of its own)."""
    lengths = {name: math.prod(shape) for name, shape in shapes.items()}
    return {name: np.array(order, np.int64) for name, order in orders.items() if lengths.get(name) == len(order)}


def recount(network: Network, layout: NeuronLayout, fmt: SynapseFormat, weight_bits: Sequence[int]) -> RecountedUse:
    """Counts every block; ``weight_bits``, one per projection, have to be legal on the chip."""
    into = SynapsesByClass(network.projections, fmt, weight_bits, layout.ordered)
    profiles = {p.name: profile_ids(p.neuron, p.shape) for p in network.populations}
    synapses = [0] * len(network.projections)
    used: list[dict[str, int]] = []
    routes: dict[tuple[int, str, int], tuple[int, int]] = {}
    for i, placed in enumerate(layout.placed):
        found: dict[str, list[tuple[Array, Array]]] = {}
        words = 0
        for k in (k for name in placed for k in into.projections_of.get(name, ())):
            projection = network.projections[k]
            sources, from_each, taken = into.count(k, placed[projection.target])
            found.setdefault(projection.source, []).append((sources, from_each))
            synapses[k] += int(from_each.sum())
            words += taken
        by_source = {name: _joined(parts) for name, parts in found.items()}
        routes |= _routes(by_source, layout, i)
        inputs = sum(len(sources) for sources, _ in by_source.values())
        used.append(_use(placed, inputs, words, profiles))
    for (source, _, _), (neurons, _) in routes.items():
        if source != HOST:
            used[source]["output_axons"] += neurons
    return RecountedUse(tuple(used), routes, tuple(synapses))


def _use(
    placed: Mapping[str, PlacedNeurons], inputs: int, words: int, profiles: Mapping[str, Profiles]
) -> dict[str, int]:
    decays, thresholds = _profiles(profiles, placed)
    return {
        "neurons": sum(p.count for p in placed.values()),
        "input_axons": inputs,
        "output_axons": 0,
        "synapse_words": words,
        "decay_profiles": decays,
        "threshold_profiles": thresholds,
    }


def _joined(parts: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Sources, ascending, and the synapses of each, over several projections of one source."""
    if len(parts) == 1:
        return parts[0]
    sources, index = np.unique(np.concatenate([p[0] for p in parts]), return_inverse=True)
    return sources, _sums(index, np.concatenate([p[1] for p in parts]))


def _routes(
    by_source: Mapping[str, tuple[Array, Array]], layout: NeuronLayout, target: int
) -> dict[tuple[int, str, int], tuple[int, int]]:
    """Routes into one block, by source; ``by_source`` has the sending neurons and the synapses from each."""
    routes: dict[tuple[int, str, int], tuple[int, int]] = {}
    for source, (sending, synapses) in by_source.items():
        if len(sending) == 0:
            continue
        if source not in layout.block_of:
            routes[HOST, source, target] = (len(sending), int(synapses.sum()))
            continue
        block, index = np.unique(layout.block_of[source][sending], return_inverse=True)
        neurons, total = np.bincount(index).tolist(), _sums(index, synapses).tolist()
        for b, n, m in zip(block.tolist(), neurons, total, strict=True):
            if b >= 0:
                before = routes.get((b, "", target), (0, 0))
                routes[b, "", target] = (before[0] + n, before[1] + m)
    return routes


def _sums(index: Array, counts: Array) -> Array:
    """Sums of integers by index, exact below 2**53."""
    return np.bincount(index, weights=counts).astype(np.int64)


# -- profiles ----------------------------------------------------------------------------------------------------


def _profiles(profiles: Mapping[str, Profiles], placed: Mapping[str, PlacedNeurons]) -> tuple[int, int]:
    """Distinct decay and threshold profiles of a block, over all its populations."""
    decays: set[tuple[float, ...]] = set()
    thresholds: set[float] = set()
    for name, mine in placed.items():
        ids = profiles[name]
        decays.update(ids.decay_values[i] for i in _distinct(ids.decay, mine))
        if ids.threshold_values:
            thresholds.update(ids.threshold_values[i] for i in _distinct(ids.threshold, mine))
    return len(decays), len(thresholds)


def _distinct(ids: Array, placed: PlacedNeurons) -> list[int]:
    if all(stride == 0 for stride in ids.strides):
        return [int(ids.flat[0])]
    return np.unique(ids.ravel()[placed.neurons()]).tolist()


# -- claims --------------------------------------------------------------------------------------------------------
# Claims of a map file on the whole map that do not hold: totals, routes, and the consistency of its proof.


_AGAIN = "write the map again"
_TOLERANCE = 1e-6  # relative; sums of rates in another order, and figures rounded by another writer


def slice_label(s: SliceRecord) -> str:
    """A slice in a message."""
    return f"{quoted(s.population)} [{', '.join(f'{a}:{b}' for a, b in s.box)}]"


def block_text(block: BlockRecord) -> str:
    """A block in a message."""
    slices = ", ".join(slice_label(s) for s in block.slices[:3])
    more = f" and {len(block.slices) - 3} more" if len(block.slices) > 3 else ""
    return f"block {block.id} ({slices}{more})"


def claim_problems(record: MapRecord, counts: RecountedUse, chip: Chip) -> Iterator[Diagnostic]:
    """Claims of a file whose blocks are in order that disagree with the counts or with each other."""
    yield from _projection_synapses(record, counts)
    yield from _route_claims(record, counts, chip)
    yield from _core_totals(record, chip)
    yield from _resource_totals(record, chip)
    yield from _traffic_totals(record)
    yield from _proof(record)


def _says(subject: str, said: object, recounted: object, **ids: Any) -> Diagnostic:
    return Diagnostic(subject, f"says {said}", f"counted {recounted}", _AGAIN, MappingProxyType(ids))


def _projection_synapses(record: MapRecord, counts: RecountedUse) -> Iterator[Diagnostic]:
    on_chip = {p.name for p in record.populations}
    for k, (p, synapses) in enumerate(zip(record.projections, counts.synapses, strict=True)):
        if p.target in on_chip and p.synapses != synapses:
            subject = f"projection {k} ({quoted(p.source)} -> {quoted(p.target)}), synapses"
            yield _says(subject, f"{p.synapses:,}", f"{synapses:,}", projection=k)


# -- routes ------------------------------------------------------------------------------------------------------


def _route_claims(record: MapRecord, counts: RecountedUse, chip: Chip) -> Iterator[Diagnostic]:
    ids = [block.id for block in record.blocks]
    recounted = {
        (None if source == HOST else ids[source], port or None, ids[target]): numbers
        for (source, port, target), numbers in counts.routes.items()
    }
    core = {block.id: block.core for block in record.blocks}
    seen: set[tuple[int | None, str | None, int]] = set()
    for route in record.routes:
        key = (route.source_block, route.source_input, route.target_block)
        yield from _one_route(route, recounted.get(key), key in seen, core, chip)
        seen.add(key)
    for source, port, target in sorted(recounted.keys() - seen, key=str):
        neurons, _ = recounted[source, port, target]
        found = f"is not in the map, though spikes of {counted(neurons, 'neuron')} take it"
        yield Diagnostic(_route_text(source, port, target), found, "", _AGAIN, MappingProxyType({"target": target}))


def _one_route(
    route: RouteRecord, recounted: tuple[int, int] | None, again: bool, core: dict[int, CoreId], chip: Chip
) -> Iterator[Diagnostic]:
    subject = _route_text(route.source_block, route.source_input, route.target_block)
    if again:
        yield Diagnostic(subject, "is listed more than once", "", _AGAIN)
        return
    if recounted is None:
        yield Diagnostic(subject, "no neuron sends along it", "", _AGAIN)
        return
    if route.neurons != recounted[0]:
        yield _says(f"{subject}, neurons", f"{route.neurons:,}", f"{recounted[0]:,}", target=route.target_block)
    if route.synapses != recounted[1]:
        yield _says(f"{subject}, synapses", f"{route.synapses:,}", f"{recounted[1]:,}", target=route.target_block)
    source = CoreId(0, 0, 0, 0) if route.source_block is None else core[route.source_block]
    hops = _hops(source, core[route.target_block], chip)
    if route.hops != hops:
        yield _says(f"{subject}, hops", route.hops, hops, target=route.target_block)


def _route_text(source: int | None, port: str | None, target: int) -> str:
    start = f"input {quoted(port)}" if source is None else f"block {source}"
    return f"route from {start} to block {target}"


def _hops(a: CoreId, b: CoreId, chip: Chip) -> int:
    """Links between two tiles, along x, then along y over the chips of the board; host inputs enter at chip 0."""
    (ax, ay), (bx, by) = (_place(core.chip, chip) for core in (a, b))
    along_x = (ax - bx) * chip.mesh.width_tiles + a.x - b.x
    return abs(along_x) + abs((ay - by) * chip.mesh.height_tiles + a.y - b.y)


def _place(number: int, chip: Chip) -> tuple[int, int]:
    """Column and row of a chip on its board: a chain along x where the file does not say otherwise."""
    return (number, 0) if chip.board.places is None else chip.board.places[number]


# -- totals ------------------------------------------------------------------------------------------------------


def _core_totals(record: MapRecord, chip: Chip) -> Iterator[Diagnostic]:
    totals = record.totals
    if totals["cores_used"] != len(record.blocks):
        yield _says("totals.cores_used", totals["cores_used"], len(record.blocks))
    dead = len({core for core in chip.dead_cores if core.chip < record.chips})
    available = chip.mesh.cores * record.chips - dead
    if totals["cores_available"] != available:
        yield _says("totals.cores_available", totals["cores_available"], available)


def _resource_totals(record: MapRecord, chip: Chip) -> Iterator[Diagnostic]:
    limit = limits(chip)
    for name in RESOURCES:
        said = record.totals[name]
        used = {block.id: block.used[name] for block in record.blocks}
        most = max(used.values(), default=0)
        for key, expected in (("used", sum(used.values())), ("max", most), ("limit", limit[name])):
            if said.get(key) != expected:
                yield _says(f"totals.{name}.{key}", said.get(key), expected, resource=name)
        if used and used.get(said["where_max"]) != most:
            where = " or ".join(str(block) for block, n in used.items() if n == most)
            yield _says(f"totals.{name}.where_max", f"block {said['where_max']}", f"block {where}", resource=name)


def _traffic_totals(record: MapRecord) -> Iterator[Diagnostic]:
    totals = record.totals
    away = [r for r in record.routes if r.source_block != r.target_block]
    unicast = math.fsum(r.spikes_per_step for r in away)
    if not math.isclose(totals["unicast_traffic"], unicast, rel_tol=_TOLERANCE, abs_tol=1e-12):
        yield _says("totals.unicast_traffic", totals["unicast_traffic"], unicast)
    most = math.fsum(r.spikes_per_step * r.hops for r in away)
    if totals["multicast_hops"] > most * (1 + _TOLERANCE):
        limit = f"separate paths would take {most}"
        yield Diagnostic("totals.multicast_hops", f"says {totals['multicast_hops']}", limit, _AGAIN)
    bound = record.proof["traffic_lower_bound"]
    if bound > totals["multicast_hops"] * (1 + _TOLERANCE):
        limit = f"the map itself takes {totals['multicast_hops']} multicast hops"
        yield Diagnostic("proof.traffic_lower_bound", f"is {bound}", limit, _AGAIN)
    for total, parts in (("energy_per_step_j", "energy_breakdown_j"), ("time_per_step_s", "time_breakdown_s")):
        said, summed = totals.get(total), math.fsum(totals[parts].values())
        if said is not None and not math.isclose(said, summed, rel_tol=_TOLERANCE, abs_tol=1e-30):
            yield _says(f"totals.{total}", said, f"{summed} in totals.{parts}")


# -- proof -------------------------------------------------------------------------------------------------------


def _proof(record: MapRecord) -> Iterator[Diagnostic]:
    """A bound over the cores used, or a status that the bounds do not carry (no bound is proved here)."""
    proof, cores = record.proof, len(record.blocks)
    lower, sliced = proof["cores_lower_bound"], proof["cores_lower_bound_sliced"]
    for name, bound in (("cores_lower_bound", lower), ("cores_lower_bound_sliced", sliced)):
        if bound > cores:
            yield Diagnostic(f"proof.{name}", f"is {bound}", f"the map itself takes {counted(cores, 'core')}", _AGAIN)
    if sliced < lower:
        limit = f"no less than cores_lower_bound, {lower}, holds"
        yield Diagnostic("proof.cores_lower_bound_sliced", f"is {sliced}", limit, _AGAIN)
    if proof["cores_gap"] != cores - lower:
        yield _says("proof.cores_gap", proof["cores_gap"], cores - lower)
    needed = {"optimal": lower, "optimal-sliced": sliced}.get(proof["status"], cores)
    if needed != cores:
        limit = f"the bound is {needed}, the map takes {counted(cores, 'core')}"
        yield Diagnostic("proof.status", f"is {quoted(proof['status'])}", limit, _AGAIN)

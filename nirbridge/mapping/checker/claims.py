"""Claims of a map file on the whole map that do not hold: totals, routes, and the consistency of its proof."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

from nirbridge.chips.model import Chip, CoreId
from nirbridge.errors import Diagnostic, counted, quoted
from nirbridge.mapping.checker.recount import HOST, RecountedUse
from nirbridge.mapping.storage.record import BlockRecord, MapRecord, RouteRecord, SliceRecord
from nirbridge.partitioner.cost.resources import limits
from nirbridge.partitioner.model import RESOURCES

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
    yield from _routes(record, counts, chip)
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


def _routes(record: MapRecord, counts: RecountedUse, chip: Chip) -> Iterator[Diagnostic]:
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

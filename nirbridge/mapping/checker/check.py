"""Legality of a map, counted from the synapses of the network; only the words of a run are shared with the search.

``diagnose_mapping`` yields every violation, ``check_mapping`` raises them in one error, ``is_valid_mapping`` says
whether there are any, and ``check_file`` checks a saved map against a model that was read again.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.chips import chip_from_dict
from nirbridge.chips.model import Chip, CoreId
from nirbridge.errors import Diagnostic, FileError, IllegalMapping, NirbridgeError, counted, quoted
from nirbridge.mapping.checker.recount import (
    NeuronLayout,
    RecountedUse,
    block_text,
    claim_problems,
    lay_out,
    recount,
    slice_label,
)
from nirbridge.mapping.integers import integers_of
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.storage.consistency import (
    counted_weight_bits,
    placement_only_problem,
    timing_mismatches,
    unsupported_features,
)
from nirbridge.mapping.storage.file import core_text, describe_operator, map_bytes, map_to_dict, read_map
from nirbridge.mapping.storage.record import MapRecord, ProjectionRecord, SliceRecord, map_from_dict
from nirbridge.mapping.zeros import lost_weights, stored_of_record
from nirbridge.network.model import Network, Projection, with_operators
from nirbridge.partitioner.cost.resources import as_stored, exceeded, limits

_AGAIN = "map the model again"
_WAYS_OUT = {
    "neurons": "move neurons to another core",
    "input_axons": "give the core targets of fewer sources",
    "output_axons": "put fewer sources on the core, or their targets on fewer cores",
    "synapse_words": "move neurons to another core, or use fewer weight bits",
    "decay_profiles": "put neurons of fewer different decays on the core",
    "threshold_profiles": "put neurons of fewer different thresholds on the core",
}


def diagnose_mapping(
    mapping: MappedNetwork | MapRecord,
    network: Network | None = None,
    chip: Chip | None = None,
    *,
    placement_only: bool = False,
) -> Iterator[Diagnostic]:
    """Every violation of a mapping, in a fixed order; none: the mapping is legal and all claims of its file hold.

    A ``MappedNetwork`` brings network and chip along; a loaded file needs the ``network`` of its model, and its chip is
    built from its own record where ``chip`` is None. ``placement_only``: the placement alone is judged, as it is where
    the map is marked so; abilities that the chip's neurons lack are no violation then.
    """
    stored = None
    if isinstance(mapping, MappedNetwork):
        network, chip = network or mapping.network, chip or mapping.chip
        stored = mapping.stored if network is mapping.network else None
        yield from lost_problems(mapping)
        mapping = map_from_dict(_as_loaded(map_to_dict(mapping, "mapped", "")), "mapping")
    if network is None:
        raise TypeError("a loaded map needs the network of its model")
    if chip is None:
        try:
            chip = chip_from_dict(mapping.chip)
        except NirbridgeError as error:
            yield from error.problems
            return
    stored = stored_of_record(mapping, network, chip) if stored is None else stored
    yield from unfounded_marks(mapping, stored)
    network = with_operators(network, stored)
    shapes = {p.name: p.shape for p in network.populations}
    structural = [*_same_model(mapping, network), *_blocks(mapping, chip), *_slices(mapping, shapes)]
    layout = lay_out(mapping.blocks, shapes, lambda s: _slice_fault(s, shapes) is None, mapping.orders)
    structural += _coverage(layout)
    yield from structural
    yield from unsupported_features(mapping, network, chip, placement_only=placement_only or mapping.placement_only)
    counts = recount(as_stored(network, chip), layout, chip.synapses, counted_weight_bits(mapping, network, chip))
    yield from _over_limits(mapping, counts, chip)
    yield from _understated(mapping, counts)
    if not structural:
        yield from claim_problems(mapping, counts, chip)


def check_mapping(mapping: MappedNetwork | MapRecord, network: Network | None = None, chip: Chip | None = None) -> None:
    """Raise IllegalMapping with every violation of ``diagnose_mapping``."""
    IllegalMapping.raise_all(diagnose_mapping(mapping, network, chip))


def is_valid_mapping(
    mapping: MappedNetwork | MapRecord, network: Network | None = None, chip: Chip | None = None
) -> bool:
    """True if ``diagnose_mapping`` finds nothing."""
    return next(diagnose_mapping(mapping, network, chip), None) is None


def check_file(
    path: str | os.PathLike[str],
    network: Network,
    model_sha256: str,
    chip: Chip | None = None,
    *,
    placement_only: bool = False,
) -> tuple[Diagnostic, ...]:
    """Every violation of a saved map of the model whose file has ``model_sha256`` and reads as ``network``.

    With ``chip``, the chip in the file also has to be that one. A map that is marked ``placement_only`` is refused
    unless ``placement_only`` says that the placement alone counts. A map of another model has that one problem: it is
    compared no further. Raises FileError where the file is no map at all.
    """
    record = read_map(path)
    if record.model_sha256 != model_sha256:
        found = f"is of a model with SHA-256 {quoted(record.model_sha256, 64)}"
        return (_problem("map", found, f"the model has {quoted(model_sha256, 64)}", _AGAIN),)
    problems = []
    if chip is not None and _as_loaded(dict(chip.record)) != record.chip:
        name = record.chip.get("name")
        problems.append(
            _problem("chip", f"the map's {quoted(name)} is not the requested {quoted(chip.name)}", "", _AGAIN)
        )
    if not placement_only:
        problems += placement_only_problem(
            record, "map the model for a chip that can run it; check --placement-only judges the placement alone"
        )
    problems += timing_mismatches(record, network)
    return (*problems, *diagnose_mapping(record, network, placement_only=placement_only))


def _as_loaded(document: dict[str, Any]) -> Any:
    """The document as it comes back from a file: plain lists, dicts and numbers."""
    import json

    try:
        return json.loads(map_bytes(document))
    except ValueError as error:
        raise FileError.of("mapping", f"has no place in a file ({error})") from error


def _problem(subject: str, found: str, limit: str = "", hint: str = "", /, **ids: Any) -> Diagnostic:
    return Diagnostic(subject, found, limit, hint, MappingProxyType(ids))


# -- structure ---------------------------------------------------------------------------------------------------


def _same_model(record: MapRecord, network: Network) -> Iterator[Diagnostic]:
    """Statements of the file on the network that do not hold."""
    for kind, listed, expected in (
        ("input", record.inputs, network.inputs),
        ("output", record.outputs, network.outputs),
        ("population", record.populations, network.populations),
    ):
        shapes = {p.name: p.shape for p in expected}
        names = [p.name for p in listed]
        for name in sorted(set(shapes) - set(names)):
            yield _problem(f"{kind} {quoted(name)}", "is not in the map", "", _AGAIN, name=name)
        for p in listed:
            subject = f"{kind} {quoted(p.name)}"
            if p.name not in shapes or names.count(p.name) > 1:
                found = "is listed more than once" if p.name in shapes else "is not in the model"
                yield _problem(subject, found, "", _AGAIN, name=p.name)
            elif p.shape != shapes[p.name]:
                found, limit = f"has shape {p.shape} in the map", f"{shapes[p.name]} in the model"
                yield _problem(subject, found, limit, _AGAIN, name=p.name)
    for p in record.populations:
        if p.neurons != int(np.prod(p.shape, dtype=object)):
            found = f"has {counted(p.neurons, 'neuron')} in the map"
            yield _problem(f"population {quoted(p.name)}", found, f"its shape is {p.shape}", _AGAIN, name=p.name)
    yield from _same_projections(record, network)


def _same_projections(record: MapRecord, network: Network) -> Iterator[Diagnostic]:
    listed, expected = record.projections, network.projections
    if len(listed) != len(expected):
        yield _problem("projections", f"{len(listed)} in the map", f"{len(expected)} in the model", _AGAIN)
        return
    for k, (p, q) in enumerate(zip(listed, expected, strict=True)):
        for key, stored, true in _projection_facts(p, q):
            if stored != true:
                subject = f"projection {k} ({quoted(p.source)} -> {quoted(p.target)})"
                yield _problem(subject, f"{key} is not that of the model", "", _AGAIN, projection=k, key=key)


def _projection_facts(p: ProjectionRecord, q: Projection) -> tuple[tuple[str, object, object], ...]:
    return (
        ("source", p.source, q.source),
        ("target", p.target, q.target),
        ("operator", dict(p.operator), _as_loaded({"operator": describe_operator(q.operator)})["operator"]),
        ("delay_steps", p.delay_steps, q.max_delay_steps),
        ("is_back", p.is_back, q.is_back),
    )


def _blocks(record: MapRecord, chip: Chip) -> Iterator[Diagnostic]:
    mesh = chip.mesh
    if not 1 <= record.chips <= mesh.chips_max:
        yield _problem("chips", f"{record.chips} in the map", f"a {quoted(chip.name)} board has 1 to {mesh.chips_max}")
    ids: set[int] = set()
    on_core: dict[CoreId, int] = {}
    for block in record.blocks:
        subject = f"block {block.id}"
        if block.id in ids:
            yield _problem(subject, "there is another block of this id", "", "number the blocks", block=block.id)
        ids.add(block.id)
        fault = _core_fault(block.core, record, chip)
        if fault:
            yield _problem(subject, *fault, block=block.id, core=block.core)
        if block.core in on_core:
            found = f"{core_text(block.core)} already has block {on_core[block.core]}"
            yield _problem(subject, found, "a core has one block", "use another core", block=block.id, core=block.core)
        on_core.setdefault(block.core, block.id)
        if not block.slices:
            yield _problem(subject, "has no slices", "", "leave the block out", block=block.id)


def _core_fault(core: CoreId, record: MapRecord, chip: Chip) -> tuple[str, str, str] | None:
    """The fault of a core, the limit, and the way out."""
    mesh = chip.mesh
    if core.x >= mesh.width_tiles or core.y >= mesh.height_tiles or core.core >= mesh.cores_per_tile:
        size = f"{mesh.width_tiles} x {mesh.height_tiles} tiles of {mesh.cores_per_tile} cores"
        return f"{core_text(core)} does not exist", f"a {quoted(chip.name)} has {size}", "use another core"
    if core.chip >= record.chips:
        return f"{core_text(core)} does not exist", f"the map has {counted(record.chips, 'chip')}", "use another core"
    if core in chip.dead_cores:
        return f"{core_text(core)} is not to be used", f"it is dead on this {quoted(chip.name)}", "use another core"
    return None


def _slices(record: MapRecord, shapes: dict[str, Shape]) -> Iterator[Diagnostic]:
    for block in record.blocks:
        for s in block.slices:
            fault = _slice_fault(s, shapes)
            if fault:
                subject = f"block {block.id}, slice {slice_label(s)}"
                yield _problem(subject, *fault, block=block.id, population=s.population)


def _slice_fault(s: SliceRecord, shapes: dict[str, Shape]) -> tuple[str, str, str] | None:
    if s.population not in shapes:
        return "is of a population that the model does not have", "", _AGAIN
    shape = shapes[s.population]
    if len(s.box) != len(shape):
        return (
            f"has {counted(len(s.box), 'axis', 'axes')}",
            f"the population has shape {shape}",
            "give one [start, stop) per axis",
        )
    if s.order is not None and sorted(s.order) != list(range(len(shape))):
        return (
            f"has order {s.order}",
            f"the population has {counted(len(shape), 'axis', 'axes')}",
            "name each axis once, from the slowest",
        )
    for (start, stop), n in zip(s.box, shape, strict=True):
        if not 0 <= start < stop <= n:
            return f"[{start}, {stop}) is no range of it", f"the population has shape {shape}", "correct the box"
    return None


def _coverage(layout: NeuronLayout) -> Iterator[Diagnostic]:
    for name, times in layout.times.items():
        missing, twice = np.flatnonzero(times == 0), np.flatnonzero(times > 1)
        for neurons, found, step in (
            (missing, "are in no block", "put each neuron into one slice"),
            (twice, "are in more than one box", "keep each neuron in one slice only"),
        ):
            if len(neurons):
                text = f"{len(neurons):,} of {counted(len(times), 'neuron')} {found} (the first: neuron {neurons[0]})"
                yield _problem(f"population {quoted(name)}", text, "", step, population=name, first=int(neurons[0]))


# -- limits ------------------------------------------------------------------------------------------------------


def _over_limits(record: MapRecord, counts: RecountedUse, chip: Chip) -> Iterator[Diagnostic]:
    for block, used in zip(record.blocks, counts.used, strict=True):
        for name, count, capacity in exceeded(used, limits(chip)):
            found = f"{count:,} {name.replace('_', ' ')}"
            limit = f"a {quoted(chip.name)} core holds {capacity:,}"
            ids = {"block": block.id, "core": block.core, "resource": name, "found": count, "limit": capacity}
            yield _problem(block_text(block), found, limit, _WAYS_OUT[name], **ids)


def _understated(record: MapRecord, counts: RecountedUse) -> Iterator[Diagnostic]:
    for block, used in zip(record.blocks, counts.used, strict=True):
        for name, recounted in used.items():
            if block.used[name] < recounted:
                found = f"used.{name} says {block.used[name]:,}"
                ids = {"block": block.id, "resource": name, "found": block.used[name], "counted": recounted}
                yield _problem(block_text(block), found, f"counted {recounted:,}", _AGAIN, **ids)


# -- lost weights --------------------------------------------------------------------------------------------------
# Weights that a map leaves out as zeros although the integers of its cores are not 0.


def lost_problems(mapping: MappedNetwork) -> Iterator[Diagnostic]:
    """Weights that the cores have to hold and have no synapse for."""
    if not mapping.stored:
        return
    try:
        integers = None if mapping.placement_only else integers_of(mapping)
    except NirbridgeError:
        integers = None  # the chip has none for this network: the real weights count
    for k, missing in lost_weights(mapping.network, mapping.stored, integers).items():
        p = mapping.network.projections[k]
        subject = f"projection {k} ({quoted(p.source)} -> {quoted(p.target)})"
        found = f"{counted(missing, 'weight')} other than 0 left out as zeros"
        yield Diagnostic(subject, found, "", "map the model again", MappingProxyType({"projection": k}))


def unfounded_marks(record: MapRecord, stored: Container[int]) -> Iterator[Diagnostic]:
    """Projections marked to have zeros left out that have none; ``stored``: those that have."""
    for k, p in enumerate(record.projections):
        if p.zeros is not None and k not in stored:
            subject = f"projection {k} ({quoted(p.source)} -> {quoted(p.target)})"
            found = f"says zeros {quoted(p.zeros)}, but its cores hold every weight"
            yield Diagnostic(subject, found, "", "map the model again", MappingProxyType({"projection": k}))

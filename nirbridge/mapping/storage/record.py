"""Contents of a map file, read and validated: plain numbers and names, no weights (docs/reference/map-file.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

from nirbridge._types import Box
from nirbridge._values import ReportedValue
from nirbridge.chips.model import CoreId
from nirbridge.errors import Diagnostic, FileError, IllegalMapping, counted, quoted
from nirbridge.mapping.neuron_cores import neuron_cores
from nirbridge.mapping.storage.form import FORM, SCHEMA_MARKED, form_problems

_MAX_PROBLEMS = 100
SCHEMA_ORDERED = SCHEMA_MARKED
"""The first schema with orders of neurons."""


@dataclass(frozen=True, slots=True)
class PortRecord:
    """An input or output of the model: on the host, on no core."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PopulationRecord:
    """One population; ``relay`` marks one that the compiler inserted.

    ``order``: a permutation of the neurons (flat, row-major): slices count places, place k holds neuron ``order[k]``.
    """

    name: str
    shape: tuple[int, ...]
    neurons: int
    kind: str
    relay: bool
    order: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class SliceRecord:
    """A box of a population; ``order`` lists its axes from the slowest to the fastest, None: channels last."""

    population: str
    box: Box
    order: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class BlockRecord:
    """The slices on one core, in the order in which their neurons are numbered on."""

    id: int
    core: CoreId
    slices: tuple[SliceRecord, ...]
    used: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ProjectionRecord:
    """One projection; ``delay_steps`` is its longest delay, ``operator`` its description without weights.

    ``zeros``: "dropped" where the operator is that of the stored synapses, without weights of 0.
    """

    source: str
    target: str
    operator: Mapping[str, Any]
    delay_steps: int
    weight_bits: int
    synapses: int
    nodes: tuple[str, ...]
    is_back: bool
    zeros: str | None = None


@dataclass(frozen=True, slots=True)
class RouteRecord:
    """Route from a block, or an input of the model, to a block: exactly one of the two sources is not None."""

    source_block: int | None
    source_input: str | None
    target_block: int
    neurons: int
    synapses: int
    spikes_per_step: float
    hops: int


@dataclass(frozen=True, slots=True, repr=False)
class MapRecord(ReportedValue):
    """A map file. ``raw`` is the whole JSON document, ``chip`` the record that builds the chip again.

    ``splits``: populations of the model and the number of copies that replaced them, in order (none in older files).
    ``latency``, ``placement_only``, ``early_spikes``: as of ``MappedNetwork``; None, False, empty where absent.
    """

    model_file: str
    model_sha256: str
    chip: Mapping[str, Any]
    chips: int
    inputs: tuple[PortRecord, ...]
    outputs: tuple[PortRecord, ...]
    populations: tuple[PopulationRecord, ...]
    blocks: tuple[BlockRecord, ...]
    projections: tuple[ProjectionRecord, ...]
    routes: tuple[RouteRecord, ...]
    totals: Mapping[str, Any]
    proof: Mapping[str, Any]
    raw: Mapping[str, Any]
    splits: tuple[tuple[str, int], ...] = ()
    latency: Mapping[str, int] | None = None
    placement_only: bool = False
    early_spikes: tuple[str, ...] = ()

    @property
    def weight_bits(self) -> int:
        """Bits of a weight that the map was counted with."""
        return self.raw["weight_bits"]

    @property
    def orders(self) -> dict[str, tuple[int, ...]]:
        """The orders of neurons, by population; of populations that have one."""
        return {p.name: p.order for p in self.populations if p.order is not None}

    def where(self, population: str, index: int | tuple[int, ...]) -> tuple[CoreId, ...]:
        """The core of a neuron, as of ``MappedNetwork.where``.

        Raises:
            UsageError: no such population or neuron.
            IllegalMapping: the map, which reading it does not check, holds no core for the neuron.
        """
        shapes = [(p.name, p.shape) for p in self.populations]
        slices = [(s.population, s.box, block.core) for block in self.blocks for s in block.slices]
        try:
            return neuron_cores(population, index, shapes, self.splits, slices, self.orders)
        except (StopIteration, RuntimeError, ValueError) as error:  # a slice of other axes, a neuron in no slice
            found = f"no core holds neuron {index} of population {quoted(population)}"
            hint = "check it with its model: nirbridge.load_map(path, model)"
            raise IllegalMapping.of("map", found, "a map holds every neuron", hint) from error


# -- from a JSON document -------------------------------------------------------------------------------------


def map_from_dict(document: object, name: str = "map") -> MapRecord:
    """The record of a parsed JSON document; one FileError with every problem (the first hundred) where it is none.

    Keys that this version does not know are kept in ``raw`` and otherwise ignored.
    """
    first = islice(form_problems(FORM, document, ""), _MAX_PROBLEMS)
    FileError.raise_all(Diagnostic(f"{name}: {p.subject or 'document'}", p.found, p.limit) for p in first)
    assert isinstance(document, dict)
    d: dict[str, Any] = document
    problems = [
        Diagnostic(f"{name}: routes[{i}]", "has not exactly one of source_block and source_input")
        for i, route in enumerate(d["routes"])
        if (route.get("source_block") is None) == (route.get("source_input") is None)
    ]
    problems += [
        Diagnostic(f"{name}: populations[{i}].order", found, limit, "map the model again")
        for i, p in enumerate(d["populations"])
        for found, limit in _order_faults(p, d["schema"])
    ]
    FileError.raise_all(problems[:_MAX_PROBLEMS])
    return _built(d)


def _order_faults(p: Mapping[str, Any], schema: int) -> Iterator[tuple[str, str]]:
    """Why the order of a population is none: (found, limit)."""
    order, neurons = p.get("order"), p["neurons"]
    if order is None:
        return
    if schema < SCHEMA_ORDERED:
        yield "is in a file of schema 1", f"maps of schema {SCHEMA_ORDERED} have orders"
    if len(order) != neurons:
        yield f"lists {counted(len(order), 'neuron')}", f"the population has {counted(neurons, 'neuron')}"
        return
    beyond = next((k for k in order if k >= neurons), None)
    if beyond is not None:
        yield f"names neuron {beyond:,}", f"neurons are numbered from 0 to {neurons - 1:,}"
    elif len(set(order)) != neurons:
        seen: set[int] = set()
        twice = next(k for k in order if k in seen or seen.add(k))
        yield f"names neuron {twice:,} more than once", "it names every neuron once"


def _built(d: dict[str, Any]) -> MapRecord:
    return MapRecord(
        model_file=d["model"]["file"],
        model_sha256=d["model"]["sha256"],
        chip=d["chip"],
        chips=d["chips"],
        inputs=tuple(_record(PortRecord, p, shape=tuple(p["shape"])) for p in d["inputs"]),
        outputs=tuple(_record(PortRecord, p, shape=tuple(p["shape"])) for p in d["outputs"]),
        populations=tuple(_population(p) for p in d["populations"]),
        blocks=tuple(_block(b) for b in d["blocks"]),
        projections=tuple(_record(ProjectionRecord, p, nodes=tuple(p["nodes"])) for p in d["projections"]),
        routes=tuple(_record(RouteRecord, r) for r in d["routes"]),
        totals=d["totals"],
        proof=d["proof"],
        raw=d,
        splits=tuple((s["population"], s["ways"]) for s in d.get("splits") or ()),
        latency=(d.get("retimed") or {}).get("latency"),
        placement_only=bool(d.get("placement_only")),
        early_spikes=tuple(d.get("early_spikes") or ()),
    )


def _record(kind: Any, entry: Mapping[str, Any], **values: Any) -> Any:
    """A dataclass from the keys of an object that have its fields' names (None where absent), and ``values``."""
    return kind(**{f.name: entry.get(f.name) for f in fields(kind)} | values)


def _population(p: dict[str, Any]) -> PopulationRecord:
    order = p.get("order")
    return _record(PopulationRecord, p, shape=tuple(p["shape"]), order=None if order is None else tuple(order))


def _block(b: dict[str, Any]) -> BlockRecord:
    core = CoreId(*(b["core"][key] for key in CoreId._fields))
    return _record(BlockRecord, b, core=core, slices=tuple(_slice(s) for s in b["slices"]))


def _slice(s: dict[str, Any]) -> SliceRecord:
    order = s.get("order")
    box = tuple((start, stop) for start, stop in s["box"])
    return SliceRecord(s["population"], box, None if order is None else tuple(order))

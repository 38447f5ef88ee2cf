"""Contents of a map file and their form, validated: numbers and names, no weights (docs/reference/map-file.md)."""

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
from nirbridge.network.storage.codec import WHOLE_MAX, fits_plain
from nirbridge.partitioner.model import RESOURCES

# -- form ----------------------------------------------------------------------------------------------------------
# The form of a map file, and every place where a document deviates (the shipped JSON Schema says the same).


SCHEMA = 1
SCHEMA_MARKED = 2
"""Of maps with ``placement_only``, ``early_spikes``, ``zeros`` or an ``order`` of a population's neurons."""
STATUSES = ("optimal", "optimal-sliced", "feasible")


@dataclass(frozen=True, slots=True)
class _ListOf:
    of: Any
    length: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class _MapOf:
    of: Any


@dataclass(frozen=True, slots=True)
class _Nullable:
    """The value, or null; the key may be absent."""

    of: Any


@dataclass(frozen=True, slots=True)
class _OneOf:
    values: tuple[object, ...]


_COUNT, _NUMBER, _AMOUNT, _TEXT, _BOOL, _ANY = "count", "number", "amount", "text", "bool", "any"
_LEAVES: dict[str, tuple[type, str, int | None]] = {
    _COUNT: (int, "a whole number from 0 to 2**53", 0),
    _NUMBER: (float, "a finite number", None),
    _AMOUNT: (float, "a finite number >= 0", 0),
    _TEXT: (str, "a text", None),
    _BOOL: (bool, "true or false", None),
}
"""Type, words, and least value of each simple form."""
_AXES_MAX, _WHOLE_NUMBER_MAX = 64, 2**64
_SHAPE = _ListOf(_COUNT, most=_AXES_MAX)
_PORT = {"name": _TEXT, "shape": _SHAPE}
_TOTAL = {"used": _COUNT, "max": _COUNT, "where_max": _COUNT, "limit": _Nullable(_COUNT)}
FORM = {
    "schema": _OneOf((SCHEMA, SCHEMA_MARKED)),
    "nirbridge": _TEXT,
    "model": {"file": _TEXT, "sha256": _TEXT},
    "timing": {"dt": _NUMBER, "integrator": _TEXT, "reset": _TEXT, "compare": _TEXT, "if_gain": _TEXT},
    "chip": {"name": _TEXT},  # and the other keys of a chip file
    "chips": _COUNT,
    "objective": _TEXT,
    "rates": _TEXT,
    "weight_bits": _COUNT,
    "splits": _Nullable(_ListOf({"population": _TEXT, "ways": _COUNT})),
    "retimed": _Nullable({"latency": _MapOf(_COUNT)}),
    "placement_only": _Nullable(_BOOL),
    "early_spikes": _Nullable(_ListOf(_TEXT)),
    "inputs": _ListOf(_PORT),
    "outputs": _ListOf(_PORT),
    "populations": _ListOf(
        {
            "name": _TEXT,
            "shape": _SHAPE,
            "neurons": _COUNT,
            "kind": _TEXT,
            "relay": _BOOL,
            "order": _Nullable(_ListOf(_COUNT)),
        }
    ),
    "blocks": _ListOf(
        {
            "id": _COUNT,
            "core": {"chip": _COUNT, "x": _COUNT, "y": _COUNT, "core": _COUNT},
            "slices": _ListOf(
                {"population": _TEXT, "box": _ListOf(_ListOf(_COUNT, 2), most=_AXES_MAX), "order": _Nullable(_SHAPE)}
            ),
            "used": dict.fromkeys(RESOURCES, _COUNT),
        }
    ),
    "projections": _ListOf(
        {
            "source": _TEXT,
            "target": _TEXT,
            "operator": _MapOf(_ANY),
            "delay_steps": _COUNT,
            "weight_bits": _COUNT,
            "synapses": _COUNT,
            "nodes": _ListOf(_TEXT),
            "is_back": _BOOL,
            "zeros": _Nullable(_OneOf(("dropped",))),
        }
    ),
    "routes": _ListOf(
        {
            "source_block": _Nullable(_COUNT),
            "source_input": _Nullable(_TEXT),
            "target_block": _COUNT,
            "neurons": _COUNT,
            "synapses": _COUNT,
            "spikes_per_step": _AMOUNT,
            "hops": _COUNT,
        }
    ),
    "totals": {
        "cores_used": _COUNT,
        "cores_available": _COUNT,
        "unicast_traffic": _AMOUNT,
        "multicast_hops": _AMOUNT,
        "max_link_load": _AMOUNT,
        "mean_link_load": _AMOUNT,
        "energy_per_step_j": _Nullable(_AMOUNT),
        "time_per_step_s": _Nullable(_AMOUNT),
        "energy_breakdown_j": _MapOf(_AMOUNT),
        "time_breakdown_s": _MapOf(_AMOUNT),
    }
    | dict.fromkeys(RESOURCES, _TOTAL),
    "proof": {
        "cores_lower_bound": _COUNT,
        "cores_lower_bound_sliced": _COUNT,
        "cores_gap": _COUNT,
        "traffic_lower_bound": _AMOUNT,
        "status": _OneOf(STATUSES),
        "method": _TEXT,
        "seed": _COUNT,
        "solver": _TEXT,
        "deterministic_time": _AMOUNT,
        "bounds": _MapOf(_COUNT),
        "binding": _TEXT,
        "interrupted": _Nullable(_BOOL),
    },
    "approximate": _ListOf(_TEXT),
    "assumed": _ListOf(_TEXT),
    "notes": _ListOf(_TEXT),
}


def form_problems(form: Any, value: Any, where: str) -> Iterator[Diagnostic]:
    """Every place where ``value`` is not of ``form``."""
    if isinstance(form, _Nullable):
        if value is not None:
            yield from form_problems(form.of, value, where)
    elif isinstance(form, _OneOf):
        if isinstance(value, bool) or value not in form.values:
            yield Diagnostic(where, f"is {_shown(value)}", f"known: {', '.join(map(str, form.values))}")
    elif isinstance(form, str):
        expected = _wrong_leaf(form, value)
        if expected:
            yield Diagnostic(where, f"is {_shown(value)}", f"expected {expected}")
    elif isinstance(form, _ListOf):
        yield from _wrong_list(form, value, where)
    else:
        yield from _wrong_object(form, value, where)


def _wrong_leaf(form: str, value: Any) -> str:
    """The expectation where ``value`` is not of the simple ``form``, else nothing."""
    if form == _ANY:
        return ""
    kind, words, least = _LEAVES[form]
    is_whole = kind is float and type(value) is int and abs(value) <= _WHOLE_NUMBER_MAX
    return "" if (is_whole or fits_plain(value, kind)) and (least is None or value >= least) else words


def _wrong_list(form: _ListOf, value: Any, where: str) -> Iterator[Diagnostic]:
    if not isinstance(value, list):
        yield Diagnostic(where, f"is {_shown(value)}", "expected a list")
        return
    if form.length is not None and len(value) != form.length:
        yield Diagnostic(where, f"has {len(value)} entries", f"expected {form.length}")
        return
    if form.most is not None and len(value) > form.most:
        yield Diagnostic(where, f"has {len(value):,} entries", f"expected at most {form.most}")
        return
    if form.of == _COUNT and all(type(item) is int and 0 <= item <= WHOLE_MAX for item in value):
        return  # an order lists every neuron
    for i, item in enumerate(value):
        yield from form_problems(form.of, item, f"{where}[{i}]")


def _wrong_object(form: _MapOf | dict[str, Any], value: Any, where: str) -> Iterator[Diagnostic]:
    if not isinstance(value, dict):
        yield Diagnostic(where, f"is {_shown(value)}", "expected an object")
        return
    if isinstance(form, _MapOf):
        for key in sorted(value):
            yield from form_problems(form.of, value[key], f"{where}.{quoted(key)}")
        return
    for key, inner in form.items():
        if key in value or isinstance(inner, _Nullable):
            yield from form_problems(inner, value.get(key), f"{where}.{key}" if where else key)
        else:
            yield Diagnostic(f"{where}.{key}" if where else key, "is missing")


def _shown(value: Any) -> str:
    """A value in a message, short and safe to print."""
    if isinstance(value, str):
        return quoted(value, 40)
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return "null" if value is None else str(value)[:40]


# -- record --------------------------------------------------------------------------------------------------------


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

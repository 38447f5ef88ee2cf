"""The summary of each value that a stage takes or returns, in plain text, and its rows as records and as a table."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from nirbridge.errors import UsageError, quoted
from nirbridge.files.attributes import load_attribute
from nirbridge.network.compose import parts_of
from nirbridge.network.neurons import flat_fields
from nirbridge.report.lines import range_text, shape_line
from nirbridge.report.map_facts import one_line
from nirbridge.report.map_text import map_renderable
from nirbridge.report.tables import captured, listed, table

if TYPE_CHECKING:
    from pandas import DataFrame

    from nirbridge.benchmarking.model import Bench
    from nirbridge.chips.model import Chip, CoreId
    from nirbridge.comparison.types import Comparison
    from nirbridge.emitters.artifact import Artifact
    from nirbridge.mapping.model import MappedNetwork
    from nirbridge.mapping.storage.record import MapRecord
    from nirbridge.network.model import Network, Projection
    from nirbridge.partitioner.model import Partition
    from nirbridge.quantization.model import QuantizedNetwork
    from nirbridge.simulators.types import Recording
    from nirbridge.verification.verify import Verification


# -- frames --------------------------------------------------------------------------------------------------------
# The rows of each value as plain records, and as a table of pandas.

Rows = list[dict[str, Any]]
EXTRA = "frame"


def to_frame(value: object) -> DataFrame:
    """A ``pandas.DataFrame`` with a row for each part of the value. Raises UsageError: pandas is not installed."""
    try:
        import pandas as pd
    except ImportError as error:
        hint = f"pip install 'nirbridge[{EXTRA}]'"
        raise UsageError.of("to_frame()", "pandas is not installed", f"it is in the extra {EXTRA}", hint) from error
    return pd.DataFrame(rows_of(value))


def rows_of(value: object) -> Rows:
    """A record for each part of the value."""
    cls = type(value)
    rows = next((_ROWS[base.__name__] for base in cls.__mro__ if base.__name__ in _ROWS), _field_rows)
    return rows(value)


def _network_rows(network: Network) -> Rows:
    return [
        {
            "population": p.name,
            "kind": p.neuron.kind,
            "shape": p.shape,
            "neurons": p.size,
            "fires": p.neuron.fires,
            "inputs": sum(q.target == p.name for q in network.projections),
        }
        for p in network.populations
    ]


def _chip(chip: Chip) -> Rows:
    from nirbridge.chips.schema import FIELDS

    return [
        {
            "key": field.name,
            "value": getattr(getattr(chip, field.table), field.key),
            "approximate": field.name in chip.approximate,
            "source": chip.sources.get(field.name, ""),
        }
        for field in FIELDS
        if getattr(chip, field.table, None) is not None
    ]


def _mapped(mapped: MappedNetwork) -> Rows:
    """A row per slice; columns that begin with ``core_`` are of the whole core and stand in each of its rows."""
    cores = zip(mapped.cores, mapped.partition.blocks, strict=True)
    return _slice_rows((_place(core), block) for core, block in cores)


def block_rows(partition: Partition) -> Rows:
    """A row per slice, as of a map; ``block`` in place of the core."""
    return _slice_rows(({"block": int(block.id)}, block) for block in partition.blocks)


def record_rows(record: MapRecord) -> Rows:
    """A row per slice of a saved map."""
    return _slice_rows((_place(block.core), block) for block in record.blocks)


def _slice_rows(blocks: Iterable[tuple[dict[str, Any], Any]]) -> Rows:
    """A row per slice: the core of its block, the slice, and the resources used by the whole block."""
    rows: Rows = []
    for place, block in blocks:
        used = {f"core_{name}": int(amount) for name, amount in block.used.items()}
        rows += [{**place, **_slice(s.population, s.box), **used} for s in block.slices]
    return rows


def _place(core: CoreId) -> dict[str, Any]:
    return {"chip": core.chip, "x": core.x, "y": core.y, "core": core.core}


def _slice(population: str, box: tuple[tuple[int, int], ...]) -> dict[str, Any]:
    text = ", ".join(f"{start}:{stop}" for start, stop in box)
    return {
        "population": population,
        "slice": f"[{text}]",
        "neurons": math.prod(stop - start for start, stop in box),
    }


def _quantized(quantized: QuantizedNetwork) -> Rows:
    """A row per projection into a population, with the ranges of its weights and of the accumulators of its target."""
    keys = ("source", "kind", "bits", "exponent", "sign_mode", "error", "synapse_bits")
    return [
        {
            "population": layer.population,
            **{key: weights.get(key) for key in keys},
            "a_in_min": layer.bounds.a_in[0],
            "a_in_max": layer.bounds.a_in[1],
            "proved": layer.bounds.proved,
            "process": layer.process,
            "spikes_changed": layer.measured.get("spikes_changed"),
        }
        for layer in quantized.report
        for weights in layer.weights or ({},)
    ]


def recording_rows(recording: Recording) -> Rows:
    """A row per recorded variable: its shape, and the sum of its values (spikes, for ``s``)."""
    return [
        {
            "node": node,
            "variable": variable,
            "shape": "x".join(map(str, array.shape)),
            "dtype": str(array.dtype),
            "sum": float(array.sum(dtype="float64")),
            "least": float(array.min()) if array.size else None,
            "greatest": float(array.max()) if array.size else None,
        }
        for (node, variable), array in recording.arrays.items()
    ]


def _comparison(comparison: Comparison) -> Rows:
    return [
        {
            "node": row.node,
            "variable": row.variable,
            "equal": row.equal,
            "first_step": row.first_step,
            "latency_steps": row.latency_steps,
            "largest_difference": row.largest_difference,
            "jaccard": None if row.spikes is None else row.spikes.jaccard,
            "spikes_a": None if row.spikes is None else row.spikes.spikes_a,
            "spikes_b": None if row.spikes is None else row.spikes.spikes_b,
            "problem": row.problem,
        }
        for row in comparison.rows
    ]


def _bench(bench: Bench) -> Rows:
    from nirbridge.report.bench import bench_rows

    return bench_rows(bench)


def _verification(verification: Verification) -> Rows:
    return [
        {"a": pair.a, "b": pair.b, "required": pair.required, **row}
        for pair in verification.pairs
        for row in _comparison(pair.comparison)
    ]


def file_rows(artifact: Artifact) -> Rows:
    """A row per file of a program."""
    return [
        {"file": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in artifact.files.items()
    ]


def _field_rows(value: Any) -> Rows:
    names = [f.name for f in fields(value)] if is_dataclass(value) else []
    return [{"field": name, "value": getattr(value, name)} for name in names]


_ROWS: Mapping[str, Callable[[Any], Rows]] = {
    "Network": _network_rows,
    "Chip": _chip,
    "MappedNetwork": _mapped,
    "Partition": block_rows,
    "MapRecord": record_rows,
    "QuantizedNetwork": _quantized,
    "Recording": recording_rows,
    "Comparison": _comparison,
    "Verification": _verification,
    "Artifact": file_rows,
    "Bench": _bench,
    "Profile": lambda profile: profile.rows(),
    "ProfilePoint": lambda point: [point.row()],
}
"""Class -> its rows; other dataclasses have a row per field."""


WIDTH = 120
ROWS_SHOWN = 200


def summary(value: object) -> str:
    """The value in plain text, lines of at most 120 characters, the first one its ``repr``."""
    cls = type(value)
    parts = next((_PARTS[base.__name__] for base in cls.__mro__ if base.__name__ in _PARTS), _fields)
    shown = [load_attribute(parts)(value)] if isinstance(parts, str) else parts(value)
    return f"{value!r}\n\n{plain_text(*shown)}"


def plain_text(*parts: RenderableType, width: int = WIDTH) -> str:
    """Tables and texts of rich as plain text; nothing in it is read as markup."""
    return captured(parts, width).rstrip() + "\n"


def _rows(headings: Sequence[str], alignment: str, rows: list[tuple[str, ...]]) -> Iterator[RenderableType]:
    yield table(headings, alignment, rows[:ROWS_SHOWN])
    if len(rows) > ROWS_SHOWN:
        yield Text(f"… and {len(rows) - ROWS_SHOWN:,} more")


def _network(network: Network) -> Iterator[RenderableType]:
    from nirbridge.report import inspect, network_facts

    for heading, ports in (("input", network.inputs), ("output", network.outputs)):
        yield from (Text(f"{heading} {quoted(p.name)}: {shape_line(p.shape)}") for p in ports)
    yield Text()
    yield inspect.populations_table([network_facts.population_facts(p) for p in network.populations])
    yield Text()
    yield inspect.projections_table([network_facts.projection_facts(p) for p in network.projections])
    yield Text(f"\n{inspect.timing_text(asdict(network.timing))}")
    yield from _remarks({"assumed": network.assumed, "notes": network.notes})


def _remarks(values: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The assumptions and notes of a value, of a file too: any JSON may stand where these are expected."""
    for key in ("assumed", "notes"):
        sentences = values.get(key)
        yield from listed(key, map(one_line, sentences if isinstance(sentences, list | tuple) else ()))


def _projection(p: Projection) -> Iterator[RenderableType]:
    rows = [(type(x).__name__, shape_line(x.input_shape), shape_line(x.output_shape)) for x in parts_of(p.operator)]
    yield from _rows(("operator", "input", "output"), "l", rows)
    yield from listed("NIR nodes", map(one_line, p.nodes))


def _map_record(record: MapRecord) -> Iterator[RenderableType]:
    yield from _slices(record_rows(record))
    yield from _remarks(record.raw)


def _recording(recording: Recording) -> Iterator[RenderableType]:
    yield from _cells(recording_rows(recording))
    yield from _remarks(recording.meta)


def _slices(rows: list[dict[str, Any]]) -> Iterator[RenderableType]:
    """Slices with their cores and with the words of synaptic memory of the whole core."""
    words = {"core_synapse_words": "words of its core"}
    left_out = tuple(name for name in (rows[0] if rows else ()) if name.startswith("core_") and name not in words)
    yield from _cells([{words.get(k, k): v for k, v in row.items() if k not in left_out} for row in rows])


def _cells(rows: list[dict[str, Any]]) -> Iterator[RenderableType]:
    """Rows of a frame as a table."""
    if rows:
        alignment = "".join("r" if isinstance(value, int | float) else "l" for value in rows[0].values())
        yield from _rows(list(rows[0]), alignment, [tuple(map(cell_text, row.values())) for row in rows])


def cell_text(value: object) -> str:
    """A value of a row in a cell: thousands separated, six digits of reals, names on one line."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else one_line(value)


def _fields(value: Any) -> Iterator[RenderableType]:
    """Name and value of each field; arrays as their range."""
    found = flat_fields(value) if is_dataclass(value) else {}
    rows = [(name, _field(each)) for name, each in found.items()]
    yield from _rows(("field", "value"), "l", rows)


def _field(value: Any) -> str:
    if hasattr(value, "min") and hasattr(value, "size"):
        return range_text(value)
    return getattr(value, "__name__", "a function") if callable(value) else one_line(value)


_PARTS: Mapping[str, str | Callable[[Any], Iterable[RenderableType]]] = {
    "Network": _network,
    "Population": lambda population: _fields(population.neuron),
    "Projection": _projection,
    "Chip": "nirbridge.report.chips:chip_table",
    "MappedNetwork": lambda mapped: [map_renderable(mapped, WIDTH)],
    "Partition": lambda partition: _slices(block_rows(partition)),
    "MapRecord": _map_record,
    "QuantizedNetwork": "nirbridge.report.quantize:quantize_text",
    "Recording": _recording,
    "Comparison": "nirbridge.report.compare:compare_text",
    "Verification": "nirbridge.report.compare:verify_text",
    "Bench": "nirbridge.report.bench:bench_text",
    "Profile": "nirbridge.report.profile_text:profile_text",
    "ProfilePoint": "nirbridge.report.profile_text:point_text",
    "Artifact": lambda artifact: _cells(file_rows(artifact)),
}
"""Class -> the parts of its summary; other dataclasses list their fields."""

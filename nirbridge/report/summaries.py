"""The summary of each value that a stage takes or returns, in plain text: the reports of the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from nirbridge.errors import quoted
from nirbridge.files.attributes import load_attribute
from nirbridge.network.compose import parts_of
from nirbridge.report.frames import block_rows, file_rows, record_rows, recording_rows
from nirbridge.report.layout import captured
from nirbridge.report.lines import range_text, shape_line
from nirbridge.report.map_facts import one_line
from nirbridge.report.map_text import map_renderable
from nirbridge.report.tables import listed, table

if TYPE_CHECKING:
    from nirbridge.mapping.storage.record import MapRecord
    from nirbridge.network.model import Network, Projection
    from nirbridge.simulators.types import Recording

WIDTH = 120
ROWS_SHOWN = 200


def summary(value: object) -> str:
    """The value in plain text, lines of at most 120 characters, the first one its ``repr``."""
    cls = type(value)
    parts = next((_PARTS[base.__name__] for base in cls.__mro__ if base.__name__ in _PARTS), _fields)
    shown = [load_attribute(parts)(value)] if isinstance(parts, str) else parts(value)
    return f"{value!r}\n\n{plain_text(*shown)}"


def summary_html(value: object) -> str:
    """The summary as HTML for a notebook: preformatted text, in which nothing is markup."""
    return f"<pre>{escape(summary(value))}</pre>"


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
        yield from _rows(list(rows[0]), alignment, [tuple(map(_cell, row.values())) for row in rows])


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else one_line(value)


def _fields(value: Any) -> Iterator[RenderableType]:
    """Name and value of each field; arrays as their range."""
    names = [f.name for f in fields(value)] if is_dataclass(value) else []
    rows = [(name, _field(getattr(value, name))) for name in names]
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
    "Verification": "nirbridge.report.verify:verify_text",
    "Bench": "nirbridge.report.bench:bench_text",
    "Profile": "nirbridge.report.profile.text:profile_text",
    "ProfilePoint": "nirbridge.report.profile.text:point_text",
    "Artifact": lambda artifact: _cells(file_rows(artifact)),
}
"""Class -> the parts of its summary; other dataclasses list their fields."""

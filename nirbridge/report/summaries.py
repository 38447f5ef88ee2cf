"""The summary of each value that a stage takes or returns, in plain text: the reports of the command line."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from nirbridge.errors import quoted
from nirbridge.report.lines import range_text, shape_line
from nirbridge.report.map_facts import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from nirbridge.chips.model import Chip
    from nirbridge.comparison.types import Comparison
    from nirbridge.emitters.artifact import Artifact
    from nirbridge.mapping.model import MappedNetwork
    from nirbridge.mapping.storage.record import MapRecord
    from nirbridge.network.model import Network, Population, Projection
    from nirbridge.partitioner.model import Partition
    from nirbridge.quantization.model import QuantizedNetwork
    from nirbridge.simulators.types import Recording
    from nirbridge.verification.verify import Verification

WIDTH = 120
ROWS_SHOWN = 200


def summary(value: object) -> str:
    """The value in plain text, lines of at most 120 characters, the first one its ``repr``."""
    cls = type(value)
    parts = next((_PARTS[base.__name__] for base in cls.__mro__ if base.__name__ in _PARTS), _fields)
    return f"{value!r}\n\n{plain_text(*parts(value))}"


def summary_html(value: object) -> str:
    """The summary as HTML for a notebook: preformatted text, in which nothing is markup."""
    return f"<pre>{escape(summary(value))}</pre>"


def plain_text(*parts: RenderableType, width: int = WIDTH) -> str:
    """Tables and texts of rich as plain text; nothing in it is read as markup."""
    from rich.console import Console

    console = Console(
        file=io.StringIO(), width=width, color_system=None, no_color=True, markup=False, emoji=False, highlight=False
    )
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    return "\n".join(line.rstrip() for line in captured.get().rstrip().split("\n")) + "\n"


def table(*columns: str, numbers: tuple[str, ...] = ()) -> Any:
    """An empty table; the columns ``numbers`` are set to the right."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False)
    for name in columns:
        made.add_column(name, justify="right" if name in numbers else "left")
    return made


def _rows(made: Any, rows: list[tuple[str, ...]]) -> Iterator[RenderableType]:
    from rich.text import Text

    for row in rows[:ROWS_SHOWN]:
        made.add_row(*map(Text, row))
    yield made
    if len(rows) > ROWS_SHOWN:
        yield Text(f"… and {len(rows) - ROWS_SHOWN:,} more")


def _listed(heading: str, sentences: Any) -> Iterator[RenderableType]:
    from rich.text import Text

    if sentences:
        yield Text(f"\n{heading}")
        yield from (Text(f"- {one_line(text)}") for text in sentences)


def _network(network: Network) -> Iterator[RenderableType]:
    from dataclasses import asdict

    from rich.text import Text

    from nirbridge.report import inspect, network_facts

    for heading, ports in (("input", network.inputs), ("output", network.outputs)):
        yield from (Text(f"{heading} {quoted(p.name)}: {shape_line(p.shape)}") for p in ports)
    yield Text()
    yield inspect.populations_table([network_facts.population_facts(p) for p in network.populations])
    yield Text()
    yield inspect.projections_table([network_facts.projection_facts(p) for p in network.projections])
    yield Text(f"\n{inspect.timing_text(asdict(network.timing))}")
    yield from _listed("assumed", network.assumed)
    yield from _listed("notes", network.notes)


def _population(p: Population) -> Iterator[RenderableType]:
    yield from _fields(p.neuron)


def _projection(p: Projection) -> Iterator[RenderableType]:
    from nirbridge.network.compose import parts_of

    made = table("operator", "input", "output")
    rows = [(type(x).__name__, shape_line(x.input_shape), shape_line(x.output_shape)) for x in parts_of(p.operator)]
    yield from _rows(made, rows)
    yield from _listed("NIR nodes", p.nodes)


def _chip(chip: Chip) -> Iterator[RenderableType]:
    from nirbridge.report.chips import chip_table

    yield chip_table(chip)


def _mapped(mapped: MappedNetwork) -> Iterator[RenderableType]:
    from nirbridge.report.map_text import map_renderable

    yield map_renderable(mapped, WIDTH)


def _partition(partition: Partition) -> Iterator[RenderableType]:
    from nirbridge.report.frames import block_rows

    yield from _slices(block_rows(partition))


def _map_record(record: MapRecord) -> Iterator[RenderableType]:
    from nirbridge.report.frames import record_rows

    yield from _slices(record_rows(record))
    yield from _listed("assumed", record.raw.get("assumed", ()))
    yield from _listed("notes", record.raw.get("notes", ()))


def _quantized(quantized: QuantizedNetwork) -> Iterator[RenderableType]:
    from nirbridge.report.quantize import quantize_text

    yield quantize_text(quantized)


def _recording(recording: Recording) -> Iterator[RenderableType]:
    from nirbridge.report.frames import recording_rows

    yield from _cells(recording_rows(recording))
    for key in ("assumed", "notes"):
        found = recording.meta.get(key)
        yield from _listed(key, found if isinstance(found, list | tuple) else ())


def _comparison(comparison: Comparison) -> Iterator[RenderableType]:
    from nirbridge.report.compare import compare_text

    yield compare_text(comparison)


def _verification(verification: Verification) -> Iterator[RenderableType]:
    from nirbridge.report.verify import verify_text

    yield verify_text(verification)


def _artifact(artifact: Artifact) -> Iterator[RenderableType]:
    from nirbridge.report.frames import file_rows

    yield from _cells(file_rows(artifact))


def _slices(rows: list[dict[str, Any]]) -> Iterator[RenderableType]:
    """Slices with their cores and with the words of synapses of the whole core."""
    words = {"core_synapse_words": "words of its core"}
    left_out = tuple(name for name in (rows[0] if rows else ()) if name.startswith("core_") and name not in words)
    yield from _cells([{words.get(k, k): v for k, v in row.items() if k not in left_out} for row in rows])


def _cells(rows: list[dict[str, Any]]) -> Iterator[RenderableType]:
    """Rows of a frame as a table."""
    if rows:
        numbers = tuple(name for name, value in rows[0].items() if isinstance(value, int | float))
        yield from _rows(table(*rows[0], numbers=numbers), [tuple(map(_cell, row.values())) for row in rows])


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
    yield from _rows(table("field", "value"), rows)


def _field(value: Any) -> str:
    if hasattr(value, "min") and hasattr(value, "size"):
        return range_text(value)
    return getattr(value, "__name__", "a function") if callable(value) else one_line(value)


_PARTS: Mapping[str, Callable[[Any], Iterator[RenderableType]]] = {
    "Network": _network,
    "Population": _population,
    "Projection": _projection,
    "Chip": _chip,
    "MappedNetwork": _mapped,
    "Partition": _partition,
    "MapRecord": _map_record,
    "QuantizedNetwork": _quantized,
    "Recording": _recording,
    "Comparison": _comparison,
    "Verification": _verification,
    "Artifact": _artifact,
}
"""Class -> the parts of its summary; other dataclasses list their fields."""

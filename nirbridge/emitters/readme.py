"""Templates of programs filled in, names of a model and shapes in their README.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nirbridge.errors import counted, quoted

PORTS_SHOWN = 4
_SAMPLES = ["time steps", "samples"]


def table_name(name: str) -> str:
    """A name of the model between marks that it cannot leave, in a cell of a table."""
    return quoted(name).replace("|", "/").replace("`", "'").replace("<", "(").replace(">", ")")


def shape_text(shape: Sequence[object]) -> str:
    """``8 x 8 x 2``; 1 for a single value."""
    return " x ".join(map(str, shape)) or "1"


def port_facts(program: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Inputs with the axes of their arrays, and the latency of outputs where it is known, from a ``program.json``."""
    for port in program["inputs"][:PORTS_SHOWN]:
        alone, samples = (", ".join([*axes, *map(str, port["shape"])]) for axes in (["time steps"], _SAMPLES))
        yield "input", f"{table_name(port['name'])} [{alone}] or [{samples}]"
    if len(program["inputs"]) > PORTS_SHOWN:
        yield "", f"and {len(program['inputs']) - PORTS_SHOWN:,} more inputs"
    if "latency" in program:
        yield from latency_facts({port["name"]: program["latency"][port["name"]] for port in program["outputs"]})


def latency_facts(latency: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """The latency of outputs in time steps."""
    texts = [f"{table_name(name)} {counted(latency[name], 'time step')}" for name in list(latency)[:PORTS_SHOWN]]
    more = f" and {len(latency) - PORTS_SHOWN:,} more" if len(latency) > PORTS_SHOWN else ""
    if texts:
        yield "latency", ", ".join(texts) + more


def filled(text: str, marks: Mapping[str, str]) -> str:
    """The template with its marks replaced in one go: no name of a model can be taken for a mark."""
    parts = text.split("@")
    return "".join(part if k % 2 == 0 else marks[part] for k, part in enumerate(parts))

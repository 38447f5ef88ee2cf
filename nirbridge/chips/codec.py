"""Conversion of a chip to a plain dict of JSON values and back, and the checks of such a dict."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from nirbridge.chips.model import (
    Board,
    Chip,
    CoreId,
    CoreLimits,
    EnergyFigures,
    Mesh,
    NeuronSupport,
    NumberFormats,
    Steps,
    SynapseFormat,
    TimeFigures,
    at_count,
)
from nirbridge.chips.schema import CORES_MAX, COUNT_MAX, FIELDS, FIGURE_MAX, TABLES, Field, table_fields
from nirbridge.errors import Diagnostic, did_you_mean, quoted

SCHEMA = 1
WITH = " with "
"""Between the name of a chip and the values that were changed, as in ``loihi2 with core.neurons=512``."""
NAME = re.compile(rf"[A-Za-z][A-Za-z0-9_.-]{{0,63}}({WITH}[a-z][a-z0-9_.=+, \[\]…-]{{1,199}})?")
_TOP = ("schema", "name", "description", "approximate", "dead_cores", *TABLES, "range", "source")
_OPTIONAL_TOP = ("approximate", "dead_cores", "numbers", "board", "energy", "time", "range")
_LINE = "one line of printable text, not empty, of at most 1,000 characters"


def chip_to_dict(chip: Chip) -> dict[str, Any]:
    """The chip as JSON values, complete: ``chip_from_valid_dict(chip_to_dict(chip))`` equals the chip."""
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "name": chip.name,
        "description": chip.description,
        "approximate": list(chip.approximate),
        "dead_cores": [list(core) for core in chip.dead_cores],
    }
    for table in TABLES:
        part = getattr(chip, table)
        if part is None:  # a chip without [numbers]
            continue
        values = ((f, getattr(part, f.key)) for f in table_fields(table))
        record[table] = {f.key: _file_value(f, value) for f, value in values if f.required or value is not None}
    if not record["board"]:
        del record["board"]
    if chip.ranges:
        record["range"] = {key: plain(ends) for key, ends in chip.ranges.items()}
    record["source"] = dict(chip.sources)
    return record


def chip_from_valid_dict(record: Mapping[str, Any]) -> Chip:
    """The chip that a record without problems describes; every source resolved to its own key."""
    parts = {table: _part(table, record.get(table, {})) for table in TABLES}
    by_key = flat_sources(record["source"])
    ranges = ranges_from(record.get("range", {}))
    names = [f.name for f in _present(record)] + [f"range.{key}" for key in ranges]
    sources = {name: by_key.get(name, by_key.get(name.partition(".")[0], "")) for name in names}
    return Chip(
        name=record["name"],
        description=record["description"],
        mesh=Mesh(**parts["mesh"]),
        core=CoreLimits(**parts["core"]),
        synapses=SynapseFormat(**parts["synapses"]),
        neuron=NeuronSupport(**parts["neuron"]),
        energy=EnergyFigures(**parts["energy"]),
        time=TimeFigures(**parts["time"]),
        sources=MappingProxyType(sources),
        approximate=tuple(sorted(record.get("approximate", ()))),
        dead_cores=tuple(sorted(CoreId(*core) for core in record.get("dead_cores", ()))),
        numbers=NumberFormats(**parts["numbers"]) if "numbers" in record else None,
        board=Board(**parts["board"]),
        ranges=MappingProxyType(ranges),
    )


def chip_dict_problems(record: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Every problem of form: keys, types, ranges, names, sources, approximate keys."""
    if record.get("schema") != SCHEMA or isinstance(record.get("schema"), bool):
        yield Diagnostic("schema", _found(record, "schema"), f"this nirbridge reads schema = {SCHEMA}")
    yield from _keys("", record, _TOP, _OPTIONAL_TOP)
    yield from _texts(record)
    for table in TABLES:
        if table in record:
            yield from _table(table, record[table])
    yield from range_problems(record)
    yield from _approximate(record)
    yield from _dead_cores(record)
    yield from _sources(record)


def flat_sources(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """``[source]`` with dotted keys: ``{"core": {"neurons": x}}`` and ``{"core.neurons": x}`` are the same."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping) and not prefix:
            flat.update(flat_sources(value, f"{key}."))
        else:
            flat[prefix + str(key)] = value
    return flat


def _present(record: Mapping[str, Any]) -> list[Field]:
    tables = {table: values for table, values in record.items() if isinstance(values, Mapping)}
    return [f for f in FIELDS if f.key in tables.get(f.table, ())]


def _part(table: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {f.key: _model_value(f, values[f.key]) for f in table_fields(table) if f.key in values}


def _model_value(f: Field, value: Any) -> Any:
    if f.absent and value == f.absent:
        return None
    if f.kind == "count list":
        return tuple(value)
    if f.kind == "pairs":
        return tuple((a, b) for a, b in value)
    return steps_from(value) if f.kind in ("figure", "steps") else value


def _file_value(f: Field, value: Any) -> Any:
    if value is None:
        return f.absent
    return plain(value)


# -- problems ------------------------------------------------------------------------------------------------------


def _found(record: Mapping[str, Any], key: str) -> str:
    return f"found {shown(record[key])}" if key in record else "missing"


def _keys(
    table: str, values: Mapping[str, Any], known: tuple[str, ...], optional: tuple[str, ...]
) -> Iterator[Diagnostic]:
    where = f"[{table}] " if table else ""
    for key in values:
        if key not in known:
            step = did_you_mean(str(key), known) or f"known keys: {', '.join(known)}"
            yield Diagnostic(f"{where}key {quoted(key)}", "unknown", hint=step)
    for key in known:
        if key not in values and key not in optional and key != "schema":
            yield Diagnostic(f"{table}.{key}" if table else key, "missing")


def _texts(record: Mapping[str, Any]) -> Iterator[Diagnostic]:
    name = record.get("name")
    if name is not None and not (isinstance(name, str) and NAME.fullmatch(name)):
        limit = "a name is a letter, then up to 63 letters, digits, '_', '.', '-'"
        yield Diagnostic("name", f"found {shown(name)}", limit)
    description = record.get("description")
    if description is not None and not _is_line(description):
        yield Diagnostic("description", f"found {shown(description)}", f"a description is {_LINE}")


def _table(table: str, values: Any) -> Iterator[Diagnostic]:
    if not isinstance(values, Mapping):
        yield Diagnostic(table, f"found {shown(values)}", f"expected a table [{table}]")
        return
    fields = table_fields(table)
    optional = tuple(f.key for f in fields if not f.required)
    yield from _keys(table, values, tuple(f.key for f in fields), optional)
    for f in fields:
        if f.key in values:
            yield from value_problems(f, values[f.key])


def value_problems(f: Field, value: Any) -> Iterator[Diagnostic]:
    """Problems of one value: its type and its bounds."""
    if f.absent and value == f.absent:
        return
    if f.kind == "flag" and not isinstance(value, bool):
        yield Diagnostic(f.name, f"found {shown(value)}", "expected true or false")
    yield from figure_problems(f, value)
    if f.kind == "count" and not _is_count(value, f.least, f.most):
        other = f' or "{f.absent}"' if f.absent else ""
        most = "10^12" if f.most == COUNT_MAX else f"{f.most:,}"
        yield Diagnostic(f.name, f"found {shown(value)}", f"expected a whole number from {f.least} to {most}{other}")
    if f.kind == "count list" and not _is_width_list(value):
        yield Diagnostic(f.name, f"found {shown(value)}", "expected a list of whole numbers from 1 to 64")


def _is_count(value: Any, least: int, most: int = COUNT_MAX) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_line(value: Any) -> bool:
    # Printable: reports show these texts on terminals.
    return isinstance(value, str) and bool(value.strip()) and value.isprintable() and len(value) <= 1000


def _is_width_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and 0 < len(value) <= 64 and all(_is_count(w, 1) and w <= 64 for w in value)


def _approximate(record: Mapping[str, Any]) -> Iterator[Diagnostic]:
    names = record.get("approximate", [])
    if not isinstance(names, list | tuple):
        yield Diagnostic("approximate", f"found {shown(names)}", "expected a list of keys such as 'core.neurons'")
        return
    present = [f.name for f in _present(record)]
    for name in names:
        if name not in present:
            step = did_you_mean(str(name), present)
            yield Diagnostic("approximate", f"{shown(name)} is not a key of this file", hint=step)
    strings = [name for name in names if isinstance(name, str)]
    for name in sorted({name for name in strings if strings.count(name) > 1}):
        yield Diagnostic("approximate", f"{quoted(name)} is listed twice")


def _dead_cores(record: Mapping[str, Any]) -> Iterator[Diagnostic]:
    dead = record.get("dead_cores", [])
    if not isinstance(dead, list | tuple):
        yield Diagnostic("dead_cores", f"found {shown(dead)}", "expected a list of [chip, x, y, core]")
        return
    for core in dead:
        if not (isinstance(core, list | tuple) and len(core) == 4 and all(_is_count(i, 0) for i in core)):
            yield Diagnostic("dead_cores", f"found {shown(core)}", "expected [chip, x, y, core], whole numbers from 0")


def _sources(record: Mapping[str, Any]) -> Iterator[Diagnostic]:
    table = record.get("source")
    if table is None:
        return  # reported as a missing key
    if not isinstance(table, Mapping):
        yield Diagnostic("source", f"found {shown(table)}", "expected a table [source]")
        return
    sources = flat_sources(table)
    present = [f.name for f in _present(record)]
    required = (
        f.name for f in FIELDS if f.required and (f.table in record or f.table not in _OPTIONAL_TOP)
    )  # a missing one is reported as such
    table_of_ranges = record.get("range")
    ranged = table_of_ranges if isinstance(table_of_ranges, Mapping) else {}
    ranges = [f"range.{key}" for key in ranged if key in RANGED]  # others are problems already
    allowed = {*present, *required, *TABLES, "range", *ranges}
    for key, text in sources.items():
        if key not in allowed:
            is_field = any(f.name == key for f in FIELDS)
            step = "give the number, or take its source out" if is_field else did_you_mean(key, allowed)
            yield Diagnostic("[source]", f"{quoted(key)} is not a key of this file", hint=step)
        elif not _is_line(text):
            yield Diagnostic("[source]", f"{quoted(key)}: found {shown(text)}", f"a source is {_LINE}")
    for name in [*present, *ranges]:
        if name not in sources and name.partition(".")[0] not in sources:
            yield Diagnostic(name, "no source", "every number has one", f'add "{name}" = "…" under [source]')


# -- figures -------------------------------------------------------------------------------------------------------

STEPS_MAX = 1000
"""Most entries of a figure by a count."""

RANGED = tuple(f.name for f in FIELDS if f.kind in ("figure", "steps"))
"""Keys that may have a range."""


def is_figure(value: Any) -> bool:
    """True for a finite number from 0 to ``FIGURE_MAX``; NaN is not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= FIGURE_MAX


def is_steps(value: Any) -> bool:
    """True for a list of [count, figure] with ascending counts of at least 1."""
    if not isinstance(value, list | tuple) or not 0 < len(value) <= STEPS_MAX:
        return False
    if not all(isinstance(entry, list | tuple) and len(entry) == 2 for entry in value):
        return False
    counts = [entry[0] for entry in value]
    whole = all(isinstance(n, int) and not isinstance(n, bool) and 1 <= n <= CORES_MAX for n in counts)
    return whole and counts == sorted(set(counts)) and all(is_figure(entry[1]) for entry in value)


def is_pairs(value: Any) -> bool:
    """True for a list of pairs of whole numbers from 0."""
    return isinstance(value, list | tuple) and len(value) <= CORES_MAX and all(_is_pair(entry) for entry in value)


def _is_pair(value: Any) -> bool:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return False
    return all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= CORES_MAX for n in value)


def steps_from(value: Any) -> float | Steps:
    """A figure, or one by a count, as the model has it."""
    return tuple((int(n), float(x)) for n, x in value) if isinstance(value, list | tuple) else float(value)


def plain(value: Any) -> Any:
    """Tuples within tuples as lists of JSON."""
    return [plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def ranges_from(table: Mapping[str, Any]) -> dict[str, tuple[float | Steps, float | Steps]]:
    """The ranges of a record without problems."""
    return {key: (steps_from(low), steps_from(high)) for key, (low, high) in sorted(table.items())}


def at_least(a: float | Steps, b: float | Steps) -> bool:
    """True where ``a`` is not below ``b`` for any count."""
    counts = {1} | {n for x in (a, b) if isinstance(x, tuple) for n, _ in x}
    return all(at_count(a, n) >= at_count(b, n) for n in counts)


def figure_problems(f: Field, value: Any) -> Iterator[Diagnostic]:
    """Problems of a figure, a figure by a count, or a list of pairs."""
    if f.kind == "figure" and not is_figure(value):
        yield Diagnostic(
            f.name, f"found {shown(value)}", f"expected a finite number of {f.unit}, not negative, to 10^6"
        )
    if f.kind == "steps" and not (is_figure(value) or is_steps(value)):
        expected = (
            f"expected a finite number of {f.unit}, not negative, to 10^6, or a list of [tiles, {f.unit}], ascending"
        )
        yield Diagnostic(f.name, f"found {shown(value)}", expected)
    if f.kind == "pairs" and not is_pairs(value):
        yield Diagnostic(f.name, f"found {shown(value)}", "expected a list of pairs of whole numbers from 0")


def range_problems(record: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Problems of ``[range]``: keys without a figure, wrong forms, figures outside their range."""
    table = record.get("range", {})
    if not isinstance(table, Mapping):
        yield Diagnostic("range", f"found {shown(table)}", "expected a table [range]")
        return
    for key, value in table.items():
        part, _, name = str(key).partition(".")
        group = record.get(part)
        if key not in RANGED or not isinstance(group, Mapping) or name not in group:
            yield Diagnostic(
                "[range]", f"{quoted(key)} is not a figure of this file", hint=did_you_mean(str(key), RANGED)
            )
        elif not _is_range(value):
            yield Diagnostic(f"range {key}", f"found {shown(value)}", "expected [lowest, highest], each as the figure")
        elif is_figure(group[name]) or is_steps(group[name]):
            yield from _outside(key, steps_from(group[name]), steps_from(value[0]), steps_from(value[1]))


def _is_range(value: Any) -> bool:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return False
    return all(is_figure(end) or is_steps(end) for end in value)


def _outside(key: str, figure: float | Steps, low: float | Steps, high: float | Steps) -> Iterator[Diagnostic]:
    if not (at_least(figure, low) and at_least(high, figure)):
        found = f"the figure {shown(plain(figure))} lies outside {shown(plain([low, high]))}"
        yield Diagnostic(f"range {key}", found, "a range holds its figure")


def shown(value: object) -> str:
    """A wrong value in one short text."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Mapping):
        return "a table"
    try:
        text = str(value).lower() if isinstance(value, bool) else str(value)
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        text = "a number of thousands of digits"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


_SHOWN = 60

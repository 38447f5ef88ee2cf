"""The description of a sweep, a TOML file or a mapping with the same keys, checked as a whole."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nirbridge import plugins
from nirbridge.chips import Chip, described_chip
from nirbridge.chips.codec import flat_sources, value_problems
from nirbridge.chips.load import unknown_key
from nirbridge.chips.schema import FIELDS, TABLES, Field
from nirbridge.errors import (
    ChipError,
    Diagnostic,
    FileError,
    NirbridgeError,
    UsageError,
    did_you_mean,
    quoted,
    type_text,
)
from nirbridge.files.json_text import read_toml
from nirbridge.pipeline.options import OBJECTIVES

EFFORTS = ("fast", "default", "max")
ENCODERS = ("rate", "latency")
SEED_MAX, COUNT_MAX, BITS_MAX = 2**31 - 1, 2**31 - 1, 64
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model file, and its data where they are not those of the whole sweep."""

    file: str
    input: str | None = None
    labels: str | None = None


@dataclass(frozen=True, slots=True)
class ChipEntry:
    """A chip as the sweep names it: a name or a path, or with ``record`` (JSON) a chip that it describes itself."""

    name: str
    record: str | None = None


@dataclass(frozen=True, slots=True)
class Encoder:
    """How numbers from 0 to 1 become spikes of ``steps`` time steps (``simulators.encoders``)."""

    kind: str
    steps: int


@dataclass(frozen=True, slots=True)
class SweepSpec:
    """What a sweep's file says; paths are as written, ``folder`` is what they are relative to.

    ``values``: keys of the chips, each with all its values.
    """

    models: tuple[ModelEntry, ...]
    chips: tuple[ChipEntry, ...]
    values: tuple[tuple[str, tuple[Any, ...]], ...]
    bits: tuple[int | None, ...]
    objectives: tuple[str, ...]
    seeds: tuple[int, ...]
    effort: str
    steps: int | None
    samples: int | None
    encoder: Encoder | None
    to: str | None
    folder: str


_KEYS = (
    "models",
    "chips",
    "chip",
    "set",
    "bits",
    "objectives",
    "seeds",
    "effort",
    "input",
    "labels",
    "steps",
    "samples",
    "encoder",
    "to",
)
_MODEL_KEYS = ("file", "input", "labels")
_ENCODER_KEYS = ("kind", "steps")


def load_spec(
    source: str | os.PathLike[str] | Mapping[str, Any], values: Mapping[str, Any] = MappingProxyType({})
) -> SweepSpec:
    """The sweep that a TOML file or a mapping describes; paths of a file are relative to its folder.

    ``values``: keys of the chips with one value each, in the place of those under ``set``.

    Raises:
        FileError: a file that cannot be read, or is wrong; every problem.
        UsageError: a mapping that is wrong; every problem.
    """
    if isinstance(source, Mapping):
        return spec_from_dict(_with(source, values), os.getcwd(), "sweep", UsageError)
    path = os.fspath(source)
    subject = f"sweep file {quoted(os.path.basename(path))}"
    record = _with(read_toml(path, subject), values)
    return spec_from_dict(record, os.path.dirname(os.path.abspath(path)), subject, FileError)


def _with(record: Mapping[str, Any], values: Mapping[str, Any]) -> Mapping[str, Any]:
    axes = record.get("set", {})
    if not values or not isinstance(axes, Mapping):
        return record
    return {**record, "set": {**flat_sources(axes), **{key: [value] for key, value in values.items()}}}


def spec_from_dict(record: Mapping[str, Any], folder: str, subject: str, kind: type[NirbridgeError]) -> SweepSpec:
    """The sweep of a record of plain values. Raises ``kind`` with every problem."""
    problems = [
        Diagnostic(f"{subject}, {problem.subject}", problem.found, problem.limit, problem.hint)
        for problem in _problems(record, folder)
    ]
    kind.raise_all(problems)
    shared = record.get("input"), record.get("labels")
    encoder = record.get("encoder")
    return SweepSpec(
        models=tuple(_model(entry, *shared) for entry in record["models"]),
        chips=_chips(record, folder),
        values=tuple((key, tuple(values)) for key, values in _axes(record).items()),
        bits=tuple(record.get("bits", (None,))),
        objectives=tuple(record.get("objectives", ("cores",))),
        seeds=tuple(record.get("seeds", (0,))),
        effort=record.get("effort", "default"),
        steps=record.get("steps"),
        samples=record.get("samples"),
        encoder=None if encoder is None else Encoder(encoder["kind"], encoder["steps"]),
        to=record.get("to"),
        folder=folder,
    )


def _chips(record: Mapping[str, Any], folder: str) -> tuple[ChipEntry, ...]:
    """The chips of a record whose keys are right. Raises ChipError for one that is described wrongly."""
    own = [described_chip(table, f"chip {k}", Path(folder)) for k, table in enumerate(record.get("chip", ()), 1)]
    entries = [
        ChipEntry(each.name, json.dumps(each.record)) if isinstance(each, Chip) else ChipEntry(each)
        for each in (*record.get("chips", ()), *own)
    ]
    names = [entry.name for entry in entries]
    twice = [name for k, name in enumerate(names) if name in names[:k]]
    ChipError.raise_all(Diagnostic(f"chip {quoted(name)}", "is there twice", "each name once") for name in twice)
    return tuple(entries)


def _axes(record: Mapping[str, Any]) -> dict[str, Any]:
    """Key of a chip -> its values; arrays of NumPy as lists."""
    flat = flat_sources(record.get("set", {}))
    return {key: values.tolist() if hasattr(values, "tolist") else values for key, values in flat.items()}


def _model(entry: Any, shared_input: str | None, shared_labels: str | None) -> ModelEntry:
    table = {"file": entry} if isinstance(entry, str) else entry
    # labels belong to their input: a model with an input of its own does not take the labels of another
    labels = table.get("labels", None if "input" in table else shared_labels)
    return ModelEntry(table["file"], table.get("input", shared_input), labels)


# -- problems ----------------------------------------------------------------------------------------------------------


def _problems(record: Mapping[str, Any], folder: str) -> Iterator[Diagnostic]:
    yield from _unknown(record, _KEYS, "")
    missing = [key for key in ("models", "chips") if key not in record and not (key == "chips" and "chip" in record)]
    yield from (Diagnostic(f"key '{key}'", "missing", "a sweep has one or more", "add it") for key in missing)
    for key, check in _LISTS.items():
        if key in record:
            yield from _list(key, record[key], check)
    yield from _chip_problems(record, folder)
    yield from _axis_problems(record)
    yield from _values(record)
    yield from _data(record)


def _chip_problems(record: Mapping[str, Any], folder: str) -> Iterator[Diagnostic]:
    """Chips that the sweep describes itself, as ``[[chip]]``: those of a chip file, and names that occur twice."""
    tables = record.get("chip", [{}])
    if not isinstance(tables, list | tuple) or not tables:
        yield _wrong("chip", tables, "tables", 'as in [[chip]], extends = "loihi2", name = "mine"')
    elif isinstance(record.get("chips", []), list | tuple):
        names = [each for each in record.get("chips", ()) if isinstance(each, str | Chip)]
        try:
            _chips({**record, "chips": names}, folder)
        except ChipError as error:
            yield from error.problems


def _axis_problems(record: Mapping[str, Any]) -> Iterator[Diagnostic]:
    if not isinstance(record.get("set", {}), Mapping):
        yield _wrong("set", record["set"], "a table of lists", 'as in [set], "core.neurons" = [256, 512]')
        return
    fields = {f.name: f for f in FIELDS}
    for key, values in _axes(record).items():
        if key in fields:
            yield from _list(f"set.{key}", values, partial(_check_value, fields[key]))
        else:
            yield unknown_key(key)


def _check_value(field: Field, key: str, value: Any) -> Diagnostic | None:
    return next(value_problems(field, value), None)


def _values(record: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Problems of the keys that have one value."""
    for key in ("input", "labels"):
        if key in record and not _is_path(record[key]):
            yield _wrong(key, record[key], "the path of a file")
    for key in ("steps", "samples"):
        if key in record and not _is_whole(record[key], 1, COUNT_MAX):
            yield _wrong(key, record[key], f"a whole number from 1 to {COUNT_MAX:,}")
    if "effort" in record and record["effort"] not in EFFORTS:
        yield _not_one_of("effort", record["effort"], EFFORTS)
    targets = plugins.names("emitters")
    if "to" in record and record["to"] not in targets:
        yield _not_one_of("to", record["to"], tuple(targets))
    if "encoder" in record:
        yield from _encoder(record["encoder"])


def _unknown(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> Iterator[Diagnostic]:
    for key in table:
        if key not in known:
            of_chip = f"of a [[chip]] it is [chip.{key}]" if key in TABLES else ""
            hint = of_chip or did_you_mean(key, known) or f"known keys: {', '.join(known)}"
            yield Diagnostic(f"{where}key {quoted(key)}", "unknown", "", hint)


def _list(key: str, values: Any, check: Any) -> Iterator[Diagnostic]:
    if not isinstance(values, list | tuple):
        yield _wrong(key, values, "a list", f"as in {key} = [{_show(values)}]")
        return
    if not values:
        yield Diagnostic(f"key '{key}'", "an empty list", "at least one value", "add one, or leave the key out")
    seen: set[Any] = set()
    for value in values:
        problem = check(key, value)
        if problem is not None:
            yield problem
        elif (name := _identity(value)) in seen:
            yield Diagnostic(f"key '{key}'", f"{_show(value)} is there twice", "each value once", "remove one")
        else:
            seen.add(name)


def _identity(value: Any) -> Any:
    if isinstance(value, Chip):
        return value.name
    return json.dumps(value, sort_keys=True) if isinstance(value, Mapping | list | tuple) else value


def _check_model(key: str, value: Any) -> Diagnostic | None:
    if not isinstance(value, Mapping):
        return None if _is_path(value) else _wrong(key, value, "paths of model files, or tables with 'file'")
    unknown = next(_unknown(value, _MODEL_KEYS, "key 'models', "), None)
    if unknown is not None:
        return unknown
    if "file" not in value:
        return Diagnostic(f"key '{key}'", "a table without 'file'", "", "add the path of the model")
    wrong = next((name for name in value if not _is_path(value[name])), None)
    return None if wrong is None else _wrong(f"{key}.{wrong}", value[wrong], "the path of a file")


def _check_text(key: str, value: Any) -> Diagnostic | None:
    is_chip = _is_path(value) or isinstance(value, Chip)
    return None if is_chip else _wrong(key, value, "names of chips, or paths of their files")


def _check_bits(key: str, value: Any) -> Diagnostic | None:
    limit = f"whole numbers from 1 to {BITS_MAX}"
    return None if _is_whole(value, 1, BITS_MAX) else _wrong(key, value, limit, "leave the key out for the chip's own")


def _check_seed(key: str, value: Any) -> Diagnostic | None:
    return None if _is_whole(value, 0, SEED_MAX) else _wrong(key, value, f"whole numbers from 0 to {SEED_MAX:,}")


def _check_objective(key: str, value: Any) -> Diagnostic | None:
    return None if value in OBJECTIVES else _not_one_of(key, value, OBJECTIVES)


_LISTS = {
    "models": _check_model,
    "chips": _check_text,
    "bits": _check_bits,
    "objectives": _check_objective,
    "seeds": _check_seed,
}


def _encoder(value: Any) -> Iterator[Diagnostic]:
    if not isinstance(value, Mapping):
        yield _wrong("encoder", value, "a table", 'as in encoder = {kind = "rate", steps = 50}')
        return
    yield from _unknown(value, _ENCODER_KEYS, "key 'encoder', ")
    if value.get("kind") not in ENCODERS:
        yield _not_one_of("encoder.kind", value.get("kind"), ENCODERS)
    if not _is_whole(value.get("steps"), 1, COUNT_MAX):
        yield _wrong("encoder.steps", value.get("steps"), f"a whole number from 1 to {COUNT_MAX:,}")


def _data(record: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Keys that say something of data that there are not."""
    models = record.get("models")
    tables = [entry for entry in models if isinstance(entry, Mapping)] if isinstance(models, list | tuple) else []
    if "input" in record or any("input" in table for table in tables):
        return
    for key in ("labels", "steps", "samples", "encoder", "to"):
        if key in record:
            yield Diagnostic(f"key '{key}'", "without 'input'", "it says how data are used", "add the input")


def _wrong(key: str, value: Any, limit: str, hint: str = "") -> Diagnostic:
    return Diagnostic(f"key '{key}'", f"found {_show(value)}", f"expected {limit}", hint)


def _not_one_of(key: str, value: Any, names: tuple[str, ...]) -> Diagnostic:
    hint = did_you_mean(value, names) if isinstance(value, str) else ""
    return _wrong(key, value, f"one of {', '.join(names)}", hint)


def _show(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, int | float):
        return "a table" if isinstance(value, Mapping) else type_text(value)
    try:
        text = str(value)
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        text = "a number of thousands of digits"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and "\0" not in value


def _is_whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most

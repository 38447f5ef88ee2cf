"""The description of a sweep: a TOML file, or a mapping with the same keys, checked as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nirbridge.errors import Diagnostic, FileError, NirbridgeError, UsageError, did_you_mean, quoted, type_text
from nirbridge.files.toml import read_toml
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
class Encoder:
    """How numbers from 0 to 1 become spikes of ``steps`` time steps (``simulators.encoders``)."""

    kind: str
    steps: int


@dataclass(frozen=True, slots=True)
class SweepSpec:
    """What a sweep's file says; paths are as written, ``folder`` is what they are relative to."""

    models: tuple[ModelEntry, ...]
    chips: tuple[str, ...]
    bits: tuple[int | None, ...]
    objectives: tuple[str, ...]
    seeds: tuple[int, ...]
    effort: str
    steps: int | None
    samples: int | None
    encoder: Encoder | None
    folder: str


_KEYS = ("models", "chips", "bits", "objectives", "seeds", "effort", "input", "labels", "steps", "samples", "encoder")
_MODEL_KEYS = ("file", "input", "labels")
_ENCODER_KEYS = ("kind", "steps")


def load_spec(source: str | os.PathLike[str] | Mapping[str, Any]) -> SweepSpec:
    """The sweep that a TOML file or a mapping describes; paths of a file are relative to its folder.

    Raises:
        FileError: a file that cannot be read, or is wrong; every problem.
        UsageError: a mapping that is wrong; every problem.
    """
    if isinstance(source, Mapping):
        return spec_from_dict(source, os.getcwd(), "sweep", UsageError)
    path = os.fspath(source)
    subject = f"sweep file {quoted(os.path.basename(path))}"
    return spec_from_dict(read_toml(path, subject), os.path.dirname(os.path.abspath(path)), subject, FileError)


def spec_from_dict(record: Mapping[str, Any], folder: str, subject: str, kind: type[NirbridgeError]) -> SweepSpec:
    """The sweep of a record of plain values. Raises ``kind`` with every problem."""
    problems = [
        Diagnostic(f"{subject}, {problem.subject}", problem.found, problem.limit, problem.hint)
        for problem in _problems(record)
    ]
    kind.raise_all(problems)
    shared = record.get("input"), record.get("labels")
    encoder = record.get("encoder")
    return SweepSpec(
        models=tuple(_model(entry, *shared) for entry in record["models"]),
        chips=tuple(record["chips"]),
        bits=tuple(record.get("bits", (None,))),
        objectives=tuple(record.get("objectives", ("cores",))),
        seeds=tuple(record.get("seeds", (0,))),
        effort=record.get("effort", "default"),
        steps=record.get("steps"),
        samples=record.get("samples"),
        encoder=None if encoder is None else Encoder(encoder["kind"], encoder["steps"]),
        folder=folder,
    )


def _model(entry: Any, shared_input: str | None, shared_labels: str | None) -> ModelEntry:
    table = {"file": entry} if isinstance(entry, str) else entry
    # labels belong to their input: a model with an input of its own does not take the labels of another
    labels = table.get("labels", None if "input" in table else shared_labels)
    return ModelEntry(table["file"], table.get("input", shared_input), labels)


# -- problems ----------------------------------------------------------------------------------------------------------


def _problems(record: Mapping[str, Any]) -> Iterator[Diagnostic]:
    yield from _unknown(record, _KEYS, "")
    missing = [key for key in ("models", "chips") if key not in record]
    yield from (Diagnostic(f"key '{key}'", "missing", "a sweep has one or more", "add it") for key in missing)
    for key, check in _LISTS.items():
        if key in record:
            yield from _list(key, record[key], check)
    yield from _values(record)
    yield from _data(record)


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
    if "encoder" in record:
        yield from _encoder(record["encoder"])


def _unknown(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> Iterator[Diagnostic]:
    for key in table:
        if key not in known:
            hint = did_you_mean(key, known) or f"known keys: {', '.join(known)}"
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
        elif (name := tuple(sorted(value.items())) if isinstance(value, Mapping) else value) in seen:
            yield Diagnostic(f"key '{key}'", f"{_show(value)} is there twice", "each value once", "remove one")
        else:
            seen.add(name)


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
    return None if _is_path(value) else _wrong(key, value, "names of chips, or paths of their files")


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
    for key in ("labels", "steps", "samples", "encoder"):
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

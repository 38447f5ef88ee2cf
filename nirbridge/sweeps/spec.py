"""The description of a sweep, a TOML file or a mapping with the same keys, checked as a whole; and its plan."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

from nirbridge import plugins
from nirbridge._version import __version__
from nirbridge.chips.model import Chip
from nirbridge.errors import Diagnostic, FileError, NirbridgeError, UsageError, did_you_mean, quoted, type_text
from nirbridge.files.json_text import read_toml
from nirbridge.files.regular import open_regular, template_bytes
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
    to: str | None
    folder: str


_KEYS = (
    "models",
    "chips",
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
        to=record.get("to"),
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
    targets = plugins.names("emitters")
    if "to" in record and record["to"] not in targets:
        yield _not_one_of("to", record["to"], tuple(targets))
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


# -- plan ----------------------------------------------------------------------------------------------------------
# The plan of a sweep: every point in order, each with a key that depends on all that its result depends on.


POINTS_MAX = 100_000
SCHEMA = 1
"""Part of every key: it changes with the meaning of a point."""


@dataclass(frozen=True, slots=True)
class PointFile:
    """A file that a point reads: its role, its absolute path, and the SHA-256 of its content."""

    role: str
    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One point: plain values alone, so that it can be sent to another process or machine.

    ``key``: SHA-256 of the definition of the point, of the contents of its files, and of the code of nirbridge.
    """

    key: str
    model: str
    chip: str
    bits: int | None
    objective: str
    effort: str
    seed: int
    input: str | None
    labels: str | None
    steps: int | None
    samples: int | None
    encoder: tuple[str, int] | None
    to: str | None
    files: tuple[PointFile, ...]

    def path(self, role: str) -> str | None:
        """The absolute path of the file of a role, None where there is none."""
        return next((file.path for file in self.files if file.role == role), None)

    @property
    def label(self) -> str:
        """The point in words."""
        bits = "" if self.bits is None else f", {self.bits} bits"
        return f"{quoted(self.model)} on {quoted(self.chip)}{bits}, {self.objective}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """All points, in the order of models, chips, bits, objectives and seeds."""

    points: tuple[SweepPoint, ...]


def make_plan(spec: SweepSpec) -> SweepPlan:
    """The plan of a sweep; every file is read once, for its digest.

    Raises:
        FileError, ChipError: files that cannot be read, unknown chips; every problem of the first of these kinds.
        UsageError: too many points.
    """
    count = math.prod(len(axis) for axis in (spec.models, spec.chips, spec.bits, spec.objectives, spec.seeds))
    if count > POINTS_MAX:
        raise UsageError.of("sweep", f"{count:,} points", f"at most {POINTS_MAX:,}", "cut it into several sweeps")
    digests = _digests(spec)
    points = []
    for model, chip, bits, objective, seed in product(spec.models, spec.chips, spec.bits, spec.objectives, spec.seeds):
        points.append(_point(spec, (model, chip, bits, objective, seed), digests))
    return SweepPlan(tuple(points))


def _digests(spec: SweepSpec) -> Mapping[tuple[str, str], PointFile]:
    """Every file by role and path as written; of a chip without a file, its record."""
    found: dict[tuple[str, str], PointFile] = {}
    problems: list[Diagnostic] = []
    kind: type[NirbridgeError] = FileError
    for role, name in dict.fromkeys(_named(spec)):
        try:
            found[role, name] = _chip_file(spec, name) if role == "chip" else _file(spec, role, name)
        except NirbridgeError as error:
            kind = type(error) if not problems else kind
            problems += error.problems
    kind.raise_all(problems)
    return found


def _named(spec: SweepSpec) -> Iterator[tuple[str, str]]:
    for model in spec.models:
        yield "model", model.file
        yield from ((role, name) for role, name in (("input", model.input), ("labels", model.labels)) if name)
    yield from (("chip", name) for name in spec.chips)


def _file(spec: SweepSpec, role: str, name: str) -> PointFile:
    path = os.path.abspath(os.path.join(spec.folder, name))
    return PointFile(role, path, file_digest(path, f"{role} {quoted(name)}"))


def _chip_file(spec: SweepSpec, name: str) -> PointFile:
    """A chip by name is one of nirbridge or of a plugin: its whole record counts, and it has no path."""
    is_path = name.endswith(".toml") or "/" in name or "\\" in name
    path = os.path.abspath(os.path.join(spec.folder, name)) if is_path else ""
    return PointFile("chip", path, chip_digest(plugins.find_chip(path or name)))


def chip_digest(chip: Chip) -> str:
    """The SHA-256 of the record of a chip."""
    return hashlib.sha256(json.dumps(chip.record, sort_keys=True).encode()).hexdigest()


@cache
def code_digest() -> str:
    """The SHA-256 of the sources of nirbridge: names and contents."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package)} {hashlib.sha256(template_bytes(path)).hexdigest()}\n".encode())
    return digest.hexdigest()


def file_digest(path: str, subject: str) -> str:
    """The SHA-256 of a file. Raises FileError."""
    digest = hashlib.sha256()
    with open_regular(path, subject, "a file") as handle:
        for piece in iter(partial(handle.read, 2**20), b""):
            digest.update(piece)
    return digest.hexdigest()


def _point(
    spec: SweepSpec,
    chosen: tuple[ModelEntry, str, int | None, str, int],
    digests: Mapping[tuple[str, str], PointFile],
) -> SweepPoint:
    model, chip, bits, objective, seed = chosen
    named = (("model", model.file), ("chip", chip), ("input", model.input), ("labels", model.labels))
    files = tuple(digests[role, name] for role, name in named if name)
    values = {
        "model": model.file,
        "chip": chip,
        "bits": bits,
        "objective": objective,
        "effort": spec.effort,
        "seed": seed,
        "input": model.input,
        "labels": model.labels,
        "steps": spec.steps if model.input else None,
        "samples": spec.samples if model.input else None,
        "encoder": (spec.encoder.kind, spec.encoder.steps) if spec.encoder and model.input else None,
        "to": spec.to if model.input else None,
    }
    contents = {file.role: file.sha256 for file in files}
    about = {"contents": contents, "schema": SCHEMA, "nirbridge": __version__, "code": code_digest()}
    text = json.dumps({**values, **about}, sort_keys=True)
    return SweepPoint(hashlib.sha256(text.encode()).hexdigest(), **values, files=files)

"""The plan of a sweep: every point in order, each with a key that depends on all that its result depends on."""

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
from nirbridge.chips import Chip
from nirbridge.errors import Diagnostic, FileError, NirbridgeError, UsageError, quoted
from nirbridge.files.regular import open_regular, template_bytes
from nirbridge.sweeps.spec import ChipEntry, ModelEntry, SweepSpec

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

    ``values``: of keys of the chip that are others than its own; ``record``: a chip of the sweep itself, in JSON.
    ``key``: SHA-256 of the definition of the point, of the contents of its files, and of the code of nirbridge.
    """

    key: str
    model: str
    chip: str
    values: tuple[tuple[str, Any], ...]
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
    record: str | None = None

    def path(self, role: str) -> str | None:
        """The absolute path of the file of a role, None where there is none."""
        return next((file.path for file in self.files if file.role == role), None)

    @property
    def label(self) -> str:
        """The point in words."""
        values = "".join(f", {key}={column_value(value)}" for key, value in self.values)
        bits = "" if self.bits is None else f", {self.bits} bits"
        return f"{quoted(self.model)} on {quoted(self.chip)}{values}{bits}, {self.objective}, seed {self.seed}"


def column_value(value: Any) -> Any:
    """A value of a chip's key in a table: a list as its text."""
    return json.dumps(value) if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """All points, in the order of models, chips, values of their keys, bits, objectives and seeds."""

    points: tuple[SweepPoint, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Of each point what sets it apart: the values of its chip's keys, and its columns that may differ."""
        about = ("model", "chip", "bits", "objective", "seed")
        return [
            {
                **{key: column_value(value) for key, value in point.values},
                **{name: getattr(point, name) for name in about},
            }
            for point in self.points
        ]


def make_plan(spec: SweepSpec) -> SweepPlan:
    """The plan of a sweep; every file is read once, for its digest.

    Raises:
        FileError, ChipError: files that cannot be read, unknown chips; every problem of the first of these kinds.
        UsageError: too many points.
    """
    axes = [[(key, value) for value in values] for key, values in spec.values]
    others = (spec.models, spec.chips, spec.bits, spec.objectives, spec.seeds)
    count = math.prod(len(axis) for axis in (*others, *axes))
    if count > POINTS_MAX:
        raise UsageError.of("sweep", f"{count:,} points", f"at most {POINTS_MAX:,}", "cut it into several sweeps")
    digests = _digests(spec)
    chosen = product(spec.models, spec.chips, product(*axes), spec.bits, spec.objectives, spec.seeds)
    return SweepPlan(tuple(_point(spec, each, digests) for each in chosen))


def _digests(spec: SweepSpec) -> Mapping[tuple[str, str], PointFile]:
    """Every file by role and path as written; of a chip without a file, its record."""
    found: dict[tuple[str, str], PointFile] = {}
    problems: list[Diagnostic] = []
    kind: type[NirbridgeError] = FileError
    for role, name, record in dict.fromkeys(_named(spec)):
        try:
            found[role, name] = _chip_file(spec, name, record) if role == "chip" else _file(spec, role, name)
        except NirbridgeError as error:
            kind = type(error) if not problems else kind
            problems += error.problems
    kind.raise_all(problems)
    return found


def _named(spec: SweepSpec) -> Iterator[tuple[str, str, str | None]]:
    for model in spec.models:
        yield "model", model.file, None
        yield from ((role, name, None) for role, name in (("input", model.input), ("labels", model.labels)) if name)
    yield from (("chip", chip.name, chip.record) for chip in spec.chips)


def _file(spec: SweepSpec, role: str, name: str) -> PointFile:
    path = os.path.abspath(os.path.join(spec.folder, name))
    return PointFile(role, path, file_digest(path, f"{role} {quoted(name)}"))


def _chip_file(spec: SweepSpec, name: str, record: str | None) -> PointFile:
    """A chip by name is one of nirbridge or of a plugin: its whole record counts, and it has no path."""
    if record is not None:
        return PointFile("chip", "", hashlib.sha256(record.encode()).hexdigest())
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
    chosen: tuple[ModelEntry, ChipEntry, tuple[tuple[str, Any], ...], int | None, str, int],
    digests: Mapping[tuple[str, str], PointFile],
) -> SweepPoint:
    model, chip, changed, bits, objective, seed = chosen
    named = (("model", model.file), ("chip", chip.name), ("input", model.input), ("labels", model.labels))
    files = tuple(digests[role, name] for role, name in named if name)
    values = {
        "model": model.file,
        "chip": chip.name,
        "values": changed,
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
    return SweepPoint(hashlib.sha256(text.encode()).hexdigest(), **values, files=files, record=chip.record)

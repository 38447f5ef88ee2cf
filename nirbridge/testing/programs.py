"""Checks of emitted programs against their Protocol: files, manifest, digest, and results."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from nirbridge.emitters.artifact import MANIFEST, Artifact, read_json
from nirbridge.errors import FileError, ModelError
from nirbridge.mapping.model import Model
from nirbridge.testing.examples import example_inputs
from nirbridge.testing.faults import FAILED, Faults, fingerprint
from nirbridge.testing.runs import check_refusals, check_runs

README = "README.md"


def check_programs(faults: Faults, emitter: Any, name: str, models: Sequence[Model], *, run: bool) -> None:
    """The programs of models of one type, of which the target may refuse some with a ModelError, but not all."""
    held = [model for model in models if not _is_refused(emitter, model)]
    if not held:
        faults.add("refuses every example network with a ModelError", "a target takes one of them at least")
    for number, model in enumerate(held):
        check_program(faults, emitter, name, model, run=run, refuse=number == 0)


def _is_refused(emitter: Any, model: Model) -> bool:
    try:
        emitter.emit(model)
    except ModelError:
        return True
    except Exception:  # a fault, which the check of the program says
        return False
    return False


def check_program(faults: Faults, emitter: Any, name: str, model: Model, *, run: bool, refuse: bool) -> None:
    """The program of one model; ``refuse``: also wrong arguments of ``run``."""
    before = fingerprint(model)
    program = faults.call("emit", partial(emitter.emit, model))
    faults.unchanged("the model", before, model)
    if not faults.is_a("emit", program, Artifact):
        return
    _check_files(faults, program, name)
    again = faults.call("emit with default options", lambda: emitter.emit(model, emitter.options()))
    if again is not FAILED and again.digest != program.digest:
        faults.add("the program differs from one call to the next", "the same model gives the same bytes")
    if run and emitter.records:
        bound = partial(emitter.run, program)
        check_runs(faults, bound, model, emitter.records, brief=not refuse)
        if refuse:
            check_refusals(faults, bound, model)
    elif run:
        faults.refuses(
            "run, which cannot run a program (records is empty)", partial(emitter.run, program, example_inputs(model))
        )


def _check_files(faults: Faults, program: Artifact, name: str) -> None:
    if README not in program.files:
        faults.add(f"the program has no {README}", "a program says what it is and how it is run")
    try:
        manifest = read_json(program, MANIFEST)
    except FileError:
        faults.add(f"the program has no readable {MANIFEST}", "emitters.artifact.make_artifact makes one")
        return
    kind = manifest.get("kind") if isinstance(manifest, Mapping) else None
    if kind != name:
        faults.add(f"the manifest says kind {kind!r}", f"the registered name, {name!r}, so that the program can be run")
    digests = {path: hashlib.sha256(data).hexdigest() for path, data in program.files.items() if path != MANIFEST}
    if not isinstance(manifest, Mapping) or manifest.get("files") != digests:
        faults.add("the manifest has other digests than the files", "the manifest names every file with its SHA-256")

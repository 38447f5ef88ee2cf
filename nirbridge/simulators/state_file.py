"""States of simulations as ``.npz`` files: a record with its arrays, a digest, and the model that they are of."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nirbridge.arrays import Array
from nirbridge.errors import FileError, ModelError, quoted
from nirbridge.files.npy import MAX_BYTES, RecordFormat, read_record, write_record
from nirbridge.files.places import file_name
from nirbridge.network.model import Network
from nirbridge.network.storage.codec import check_fields
from nirbridge.program.step import step_program
from nirbridge.program.text import program_text
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.types import Key, SimulationState

FORMAT = RecordFormat(
    "nirbridge-state",
    1,
    ("|u1", "<i8", "<f4", "<f8"),
    "a state",
    "give a file that Session.save wrote",
    "save the state again",
)
_FIELDS: dict[str, Any] = {"step": int, "parts": list[list[str]], "model": str}


def write_state(path: str | Path, state: SimulationState, model: Network | QuantizedNetwork | None) -> str:
    """Write a state, whole or not at all and the same bytes every time; return its digest.

    ``model``: what it is a state of; None: not known, and not checked where the file is read.

    Raises:
        FileError: the place cannot be written.
    """
    parts = sorted(state.arrays)
    record = {"step": state.step, "parts": [list(key) for key in parts], "model": _mark(model)}
    return write_record(path, FORMAT, record, {str(k): state.arrays[key] for k, key in enumerate(parts)})


def read_state(
    path: str | Path, model: Network | QuantizedNetwork | None, *, max_bytes: int = MAX_BYTES
) -> SimulationState:
    """A state of a model from a file; a run checks its shapes and values.

    Raises:
        FileError: another kind of file, a damaged one, one that declares more than ``max_bytes``, or a state of
            another model.
    """

    def build(record: Mapping[str, Any], arrays: Mapping[str, Array]) -> tuple[SimulationState, str]:
        check_fields(record, _FIELDS, "state")
        keys: list[Key] = [(key[0], key[1]) for key in record["parts"] if len(key) == 2]
        names = [str(k) for k in range(len(record["parts"]))]
        if len(set(keys)) != len(names) or set(arrays) != set(names):
            raise ModelError.of("state", f"{len(names):,} parts, and {len(arrays):,} arrays", "each part has an array")
        found = {key: arrays[name] for key, name in zip(keys, names, strict=True)}
        for array in found.values():
            array.flags.writeable = False
        return SimulationState(record["step"], found), record["model"]

    state, mark = read_record(path, FORMAT, build, max_bytes=max_bytes)
    if mark and model is not None and mark != _mark(model):
        found, limit = "is a state of another model", "a run goes on with the same neurons and weights"
        raise FileError.of(f"file {quoted(file_name(path))}", found, limit, "open the model that it was saved from")
    return state


def _mark(model: Network | QuantizedNetwork | None) -> str:
    """SHA-256 of everything that decides a time step of a model; empty where there is none."""
    if model is None:
        return ""
    return hashlib.sha256(program_text(step_program(model))[0].encode()).hexdigest()

"""Files of a record and arrays with anything in them, for tests of their readers."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge.files.npy import RecordFormat, digest_of

VALUES: list[Any] = [
    *(None, True, -1, 0, 3, 2**31, 2**63, 2**70, -0.5, 1e308, float("inf"), float("nan")),
    *("", "x", "a0", "mixed", "zero", [], [0], [-1], [1.5], [10**6, 10**6], [[1]], [None], ["a"]),
    *({}, {"array": "a0"}, {"array": "nothing"}, {"array": ["a0"]}, {"array": 3}, {"a": {"b": 1}}),
]
"""Values for any place of a record."""


def npy(array: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def written(path: Path, form: RecordFormat, record: Any, arrays: dict[str, Any], **change: bytes) -> Path:
    """A file with the right digest of whatever is in it; ``change``: members as bytes."""
    header = {"schema": form.schema, "kind": form.kind, "digest": digest(record, arrays)}
    text = json.dumps({**header, **record}, sort_keys=True)
    members = {"meta": npy(np.frombuffer(text.encode(), np.uint8)), **{k: npy(v) for k, v in arrays.items()}, **change}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path


def digest(record: Any, arrays: dict[str, Any]) -> str:
    try:
        return digest_of(record, arrays)
    except ValueError:  # NaN in the record: there is no right digest
        return "0" * 64


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a JSON value."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return found + [p for k, v in items for p in places(v, (*path, k))]


def with_value(record: Any, place: tuple[Any, ...], value: Any) -> Any:
    """A copy of a JSON value with another one in this place."""
    changed = json.loads(json.dumps(record))
    holder = changed
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    return changed


def changed_array(old: Any, kind: int, seed: int) -> Any:
    """An array with one bad value (``kind`` 0 to 2), or of another type or shape (to 11)."""
    rng = np.random.default_rng(seed)
    place = tuple(int(rng.integers(n)) for n in old.shape)
    new = np.array(old)
    worst = [np.nan, np.inf, -1.0] if old.dtype.kind == "f" else [-1, 2**62, -(2**63)]
    if kind < 3:
        new[place] = np.array(worst[kind] if old.dtype.kind in "fi" else 1).astype(old.dtype)
        return new
    others = [old.astype(np.float32), old.astype(np.uint8), old.reshape(-1), old[..., None], np.zeros((0,), old.dtype)]
    others += [np.repeat(old.reshape(-1), 2), old.reshape(-1)[:-1], np.zeros((), old.dtype)]
    return [*others, old.astype(np.float64) * np.nan][kind - 3]


def damaged(data: bytes, where: float, byte: int, *, cut: bool) -> bytes:
    """The data with one other byte, or cut off there."""
    at = int(where * len(data))
    return data[:at] if cut else data[:at] + bytes([byte]) + data[at + 1 :]

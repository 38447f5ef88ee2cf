"""A profile as plain JSON, and as a file: JSON, CSV or parquet by the ending of its name."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from nirbridge.errors import UsageError, quoted
from nirbridge.files.atomic import atomic_write_bytes
from nirbridge.profiling.model import LayerProfile, Profile, ProfilePoint

ENDINGS = (".json", ".csv", ".parquet")
EXTRA = "sweep"


def profile_document(profile: Profile) -> dict[str, Any]:
    """Everything of a profile: a record per point with its figures, layers, events, memory and metrics."""
    return {
        **dict(profile.meta),
        "model": profile.model,
        "data": profile.data,
        "points": [_point(point) for point in profile.points],
        "failed": [asdict(failed) for failed in profile.failed],
    }


def _point(point: ProfilePoint) -> dict[str, Any]:
    return {
        "about": dict(point.about),
        "figures": {name: asdict(figure) for name, figure in point.figures.items()},
        "layers": [_layer(layer) for layer in point.layers],
        "events": [asdict(event) for event in point.events],
        "memory": [asdict(resource) for resource in point.memory],
        "neurobench": {of: dict(metrics) for of, metrics in point.neurobench.items()},
        "witness": None if point.witness is None else asdict(point.witness),
        "notes": list(point.notes),
        "row": point.row(),
    }


def _layer(layer: LayerProfile) -> dict[str, Any]:
    fields = (name for name in LayerProfile.__dataclass_fields__ if name != "energy_j")
    plain = {name: getattr(layer, name) for name in fields}
    return {**plain, "energy_j": dict(layer.energy_j), "total_energy_j": layer.total_energy_j}


def check_profile_path(path: str | os.PathLike[str]) -> str:
    """The ending of a file that a profile is written to.

    Raises:
        UsageError: another ending; ``.parquet`` without pandas or pyarrow.
    """
    name = os.path.basename(os.fspath(path))
    ending = os.path.splitext(name)[1]
    if ending not in ENDINGS:
        limit = f"a profile is written as {', '.join(ENDINGS)}"
        raise UsageError.of(f"file {quoted(name)}", f"ends in {quoted(ending)}", limit, "choose one of these")
    if ending == ".parquet":
        _require_parquet()
    return ending


def write_profile(profile: Profile, path: str | os.PathLike[str]) -> None:
    """Write a profile, whole or not at all: JSON has everything, CSV and parquet a row per point.

    Raises:
        UsageError: another ending; ``.parquet`` without pandas or pyarrow.
        FileError: the place cannot be written.
    """
    ending = check_profile_path(path)
    content = {".json": _json, ".csv": _csv, ".parquet": _parquet}[ending](profile)
    atomic_write_bytes(os.fspath(path), content, subject=f"profile {quoted(os.path.basename(os.fspath(path)))}")


def _json(profile: Profile) -> bytes:
    return (json.dumps(profile_document(profile), sort_keys=True, indent=2, default=_plain) + "\n").encode()


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value.tolist()


def _csv(profile: Profile) -> bytes:
    import csv

    text = io.StringIO()
    rows = profile.rows()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _parquet(profile: Profile) -> bytes:
    buffer = io.BytesIO()
    profile.to_frame().to_parquet(buffer, index=False)
    return buffer.getvalue()


def _require_parquet() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("pandas", "pyarrow") if find_spec(name) is None]
    if missing:
        hint = f"pip install 'nirbridge[{EXTRA}]', or write .json or .csv"
        raise UsageError.of("parquet", f"{' and '.join(missing)} not installed", f"in the extra {EXTRA}", hint)

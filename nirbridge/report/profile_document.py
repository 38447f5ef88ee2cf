"""A profile as plain JSON, as a file by the ending of its name (JSON, CSV, parquet), and why its times differ."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from nirbridge.emitters.witness import StageTimes, Witness
from nirbridge.errors import UsageError, quoted
from nirbridge.files.atomic import atomic_write_bytes
from nirbridge.profiling.model import LayerProfile, Profile, ProfilePoint
from nirbridge.report.map_facts import figure_with_prefix

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


# -- causes --------------------------------------------------------------------------------------------------------

TIME_SHARE = 0.10
"""Difference in time, as a part of the other simulator's, above which its cause is measured."""


def differs(ours: float, theirs: float | None) -> bool:
    """True if two times are further apart than ``TIME_SHARE`` of the second."""
    return theirs is not None and abs(ours - theirs) > TIME_SHARE * theirs


def time_causes(witness: Witness, ours: StageTimes, theirs: StageTimes, *, overlap: bool) -> Iterator[str]:
    """Sentences that name the cause of a difference in time: waiting on routes, and the rest by stages."""
    name, seconds = witness.name, witness.time_s or 0.0
    waiting = max(seconds - theirs.total_s, 0.0)
    simple = "" if theirs.simple_s is None else f", and its timing model simple gives {_time(theirs.simple_s)}"
    longer = "longer" if seconds > ours.total_s else "shorter"
    yield (
        f"its time is {_time(abs(seconds - ours.total_s))} {longer} than ours: of {name}'s {_time(seconds)},"
        f" {_time(waiting)} is waiting of messages for others on their route, by the estimate of its detailed model of"
        f" the network, which our model leaves out; without waiting its own delays add up to {_time(theirs.total_s)}"
        f" (ours: {_time(ours.total_s)}){simple}"
    )
    if not differs(ours.total_s, theirs.total_s):
        return
    rows = (("neurons", "neurons_s"), ("incoming messages", "messages_s"), ("barrier", "barrier_s"))
    pairs = (f"{label} {_time(getattr(ours, key))} and {_time(getattr(theirs, key))}" for label, key in rows)
    order = "" if overlap else f"; stages follow each other in our model of this chip, and overlap in {name}'s"
    yield f"the rest by stages, of the busiest core in each time step, ours and {name}'s: {', '.join(pairs)}{order}"


def _time(value: float) -> str:
    return figure_with_prefix(round(value, 12), "s")  # sums of doubles: what is below a picosecond is rounding

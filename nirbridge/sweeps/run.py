"""Sweeps run: the missing points of a plan, on this machine or a cluster, and the table of all."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from nirbridge import pipeline
from nirbridge._types import Progress, no_progress
from nirbridge.chips import chip_from_dict
from nirbridge.errors import Diagnostic, FileError, NirbridgeError, UsageError, counted, quoted, without_option
from nirbridge.files.atomic import atomic_write_bytes
from nirbridge.files.json_text import ANSWER_BYTES_MAX, parse_json
from nirbridge.files.regular import open_file
from nirbridge.mapping.cost import missing_figures
from nirbridge.network.model import Network
from nirbridge.network.storage.codec import fits
from nirbridge.pipeline.options import MapOptions
from nirbridge.sweeps.model import COLUMNS, FROM_PROFILE, PLAN, Sweep, columns_with, type_of
from nirbridge.sweeps.plan import SweepPlan, SweepPoint, chip_digest, column_value, file_digest
from nirbridge.sweeps.tasks import check_jobs, run_tasks

if TYPE_CHECKING:
    from nirbridge.mapping.model import MappedNetwork
    from nirbridge.profiling.activity import ProfileData


def run_sweep(
    plan: SweepPlan,
    output: str | os.PathLike[str] | None = None,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    progress: Progress = no_progress,
) -> Sweep:
    """All points of a plan; those that an earlier run has kept beside ``output`` are not computed again.

    Args:
        plan: the points.
        output: where the table will be; rows are kept in the folder of that name with ``.parts`` after it.
        jobs: processes of this machine.
        scheduler: the address of a Dask scheduler instead, which is trusted with code.
        progress: called with the count of points and the estimated rest, and the completed fraction.

    Raises:
        FileError: a file has changed since the plan was made, or a row cannot be kept.
        UsageError: data or labels that do not fit a model; no such scheduler; workers that end again and again; an
            extra that is missing.
    """
    check_jobs(jobs, scheduler)
    folder = None if output is None else parts_folder(output)
    rows = {} if folder is None else kept_rows(folder, plan.points)
    missing = [point for point in plan.points if point.key not in rows]
    check_data(missing)
    tell = _teller(len(plan.points), len(rows), progress)
    tell(len(rows))
    task = partial(compute_and_keep, folder)
    keys = [point.key for point in missing]
    for _, row in run_tasks(task, missing, keys=keys, jobs=jobs, scheduler=scheduler):
        rows[row["key"]] = row
        tell(len(rows))
    return Sweep(plan, tuple(rows[point.key] for point in plan.points))


def compute_and_keep(folder: str | None, point: SweepPoint) -> Row:
    """The row of a point, kept by the task itself, so that it is not lost with the worker's memory."""
    if folder is None:
        return compute_point(point)
    kept = kept_rows(folder, [point]).get(point.key) if os.path.isdir(folder) else None
    if kept is not None:
        return kept
    row = compute_point(point)
    make_parts_folder(folder)
    write_part(folder, row)
    return row


def _teller(total: int, before: int, progress: Progress) -> Callable[[int], None]:
    """Reports the count, and how long the rest takes at the mean pace so far."""
    start = time.monotonic()

    def tell(done: int) -> None:
        text = f"{done:,} of {counted(total, 'point')}"
        if before < done < total:
            text += f", about {_duration((time.monotonic() - start) / (done - before) * (total - done))} left"
        progress(text, done / total)

    return tell


def _duration(seconds: float) -> str:
    """``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


# -- point ---------------------------------------------------------------------------------------------------------
# One point of a sweep: a row of figures, which depends on the point and the contents of its files alone.


def compute_point(point: SweepPoint) -> dict[str, Any]:
    """The row of a point. A point that cannot be mapped is a row, too, with the first line of its error.

    Raises:
        FileError: a file of the point is not there, or has another content than when the plan was made.
    """
    _check_files(point)
    wall, cpu = time.perf_counter(), time.process_time()
    row: dict[str, Any] = dict.fromkeys(columns_with([key for key, _ in point.values]))
    row |= {name: getattr(point, name) for name in PLAN} | _value_columns(point)
    row["encoder"] = None if point.encoder is None else f"{point.encoder[0]}, {point.encoder[1]} time steps"
    try:
        row |= _figures(point)
    except NirbridgeError as error:
        row["error"] = str(without_option(error.problems[0]) if error.problems else error).partition("\n")[0]
    row |= {"measured_wall_s": time.perf_counter() - wall, "measured_cpu_s": time.process_time() - cpu}
    return row


def check_data(points: Sequence[SweepPoint]) -> None:
    """Read the data and labels of every model of the points once, before a point is computed.

    A model that cannot be read is left to its points, whose rows say why.

    Raises:
        UsageError: data or labels that do not fit a model; all problems.
    """
    problems: list[Diagnostic] = []
    first = {(p.path("model"), p.path("input"), p.path("labels")): p for p in reversed(points) if p.input is not None}
    for point in reversed(first.values()):
        try:
            network = pipeline.load_network(_path(point, "model"))
        except NirbridgeError:
            continue
        try:
            _data(point, network)
        except NirbridgeError as error:
            of = f"model {quoted(point.model)}, "
            problems += [replace(problem, subject=of + problem.subject) for problem in error.problems]
    UsageError.raise_all(problems)


def _check_files(point: SweepPoint) -> None:
    for file in point.files:
        subject = f"{file.role} {quoted(getattr(point, file.role))}"
        if file.role == "chip":
            found = file.sha256 if point.record else chip_digest(pipeline.load_chip(file.path or point.chip))
        else:
            found = file_digest(file.path, subject)
        if found != file.sha256:
            raise FileError.of(subject, "has changed since the sweep began", "", "start the sweep again")


def _figures(point: SweepPoint) -> dict[str, Any]:
    if point.record is None:
        own = pipeline.load_chip(point.path("chip") or point.chip)
    else:
        own = chip_from_dict(parse_json(point.record, f"chip {quoted(point.chip)}", bytes_max=ANSWER_BYTES_MAX))
    chip = replace(pipeline.load_chip(own, values=dict(point.values)), name=own.name)  # the columns have the values
    network = pipeline.load_network(_path(point, "model"))
    mapping = MapOptions(objective=point.objective, effort=point.effort, seed=point.seed, weight_bits=point.bits)
    if point.input is None:
        mapped = pipeline.map_network(network, chip, mapping)
        return _map_columns(mapped) | _assumed_columns(mapped, mapping)
    options = pipeline.ProfileOptions(mapping=mapping, target=point.to)
    profile = pipeline.profile_network(network, [chip], _data(point, network), options)
    profiled = profile.points[0]
    assert profiled.mapped is not None, "a profile made here has its map"
    row = profiled.row()
    return {name: _plain(row[name]) for name in FROM_PROFILE} | _map_columns(profiled.mapped)


def _value_columns(point: SweepPoint) -> dict[str, Any]:
    return {key: column_value(value) for key, value in point.values}


def _data(point: SweepPoint, network: Network) -> ProfileData:
    return pipeline.read_data(
        network,
        _arrays(point, network),
        _labels(point),
        steps=point.steps,
        samples=point.samples,
        origin=point.input or "",
    )


def _path(point: SweepPoint, role: str) -> str:
    path = point.path(role)
    assert path is not None, "the plan has a file for each role that a point names"
    return path


def _arrays(point: SweepPoint, network: Network) -> Any:
    """The data, encoded on request with the seed of the point."""
    path = _path(point, "input")
    if point.encoder is None:
        arrays = pipeline.load_data(path)
        return pipeline.read_inputs(network, arrays, labels=_labels(point), steps=point.steps).with_labels
    from nirbridge.simulators import encoders

    arrays = pipeline.load_inputs(path)
    kind, steps = point.encoder
    names = {port.name for port in network.inputs}

    def encoded(name: str, values: Any) -> Any:
        if name == "labels" and name not in names:
            return values
        if values.dtype.kind not in "biuf":
            raise UsageError.of(f"encoder {kind}", f"an array of type {values.dtype}", "numbers from 0 to 1")
        return encoders.rate(values, steps, seed=point.seed) if kind == "rate" else encoders.latency(values, steps)

    if isinstance(arrays, Mapping):
        return {name: encoded(name, values) for name, values in arrays.items()}
    return encoded("", arrays)


def _labels(point: SweepPoint) -> Any:
    return None if point.labels is None else pipeline.load_npy(_path(point, "labels"))


def _map_columns(mapped: MappedNetwork) -> dict[str, Any]:
    costs, report = mapped.costs, mapped.partition.report
    return {
        "cores_gap": len(mapped.cores) - report.cores_lower_bound,
        "unicast_traffic": float(costs.unicast_spikes_per_step),
        "multicast_hops": float(costs.multicast_hops_per_step),
        "max_link_load": float(costs.max_link_load_spikes_per_step),
    }


def _assumed_columns(mapped: MappedNetwork, mapping: MapOptions) -> dict[str, Any]:
    """The columns of a profile that a map without data has; its rates, and so its figures, are assumed."""
    costs, report = mapped.costs, mapped.partition.report
    energy, step = costs.energy_per_step_j, costs.time_per_step_s
    missing = missing_figures(mapped.chip)
    return {
        "chips": mapped.chips,
        "weight_bits": mapped.partition.weight_bits,
        "method": mapping.method,
        "dt_s": mapped.network.dt,
        "cores": len(mapped.cores),
        "cores_lower_bound": report.cores_lower_bound,
        "status": report.status,
        "neurons": mapped.network.neurons,
        "rates": mapped.rates,
        "energy_per_step_j": energy,
        "energy_basis": None if energy is None else "assumed",
        "time_per_step_s": step,
        "time_basis": None if step is None else "assumed",
        "energy_missing": None if energy is None else ", ".join(missing["energy"]) or None,
        "time_missing": None if step is None else ", ".join(missing["time"]) or None,
        "power_w": energy / step if energy is not None and step else None,
    }


def _plain(value: Any) -> Any:
    """A value of JSON: NumPy's numbers as Python's, None for one that is not finite."""
    plain = value.item() if hasattr(value, "item") else value
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain


# -- parts ---------------------------------------------------------------------------------------------------------
# Rows by key, each in a file of its own beside the sweep's table, so that a sweep goes on where it was cut.

Row = dict[str, Any]
ENDING = ".parts"
PART_BYTES_MAX = 1_000_000


def parts_folder(output: str | os.PathLike[str]) -> str:
    """The folder of the rows of a table, made where there is none.

    Raises:
        FileError: it cannot be made.
    """
    folder = os.path.abspath(os.fspath(output)) + ENDING
    make_parts_folder(folder)
    return folder


def make_parts_folder(folder: str) -> None:
    """Make the folder of the rows where there is none; never what a link leads to. Raises FileError."""
    subject = f"folder {quoted(os.path.basename(folder))}"
    if os.path.islink(folder):
        raise FileError.of(subject, "is a symbolic link", "rows are kept in a folder of their own", "remove it")
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise FileError.of(subject, f"cannot be made ({error.strerror})", "", "check the path") from error


def write_part(folder: str, row: Row) -> None:
    """Keep a row, whole or not at all; a link or a FIFO of its name is replaced. Raises FileError.

    Where a folder has its name, the row is in the table alone: the next run computes it again.
    """
    path = os.path.join(folder, f"{row['key']}.json")
    if os.path.isdir(path) and not os.path.islink(path):
        return
    data = json.dumps(row, allow_nan=False).encode()
    atomic_write_bytes(path, data, subject=f"part {row['key'][:12]}", follow=False)


def kept_rows(folder: str, points: Iterable[SweepPoint]) -> dict[str, Row]:
    """The rows that are kept of these points, by key; a damaged one, a link or a FIFO counts as missing."""
    rows = ((point.key, _read(os.path.join(folder, f"{point.key}.json"), point)) for point in points)
    return {key: row for key, row in rows if row is not None}


def _read(path: str, point: SweepPoint) -> Row | None:
    try:
        with open_file(path, follow=False) as file:
            data = file.read(PART_BYTES_MAX + 1)
        row = parse_json(data, "part", bytes_max=PART_BYTES_MAX)
    except (FileError, OSError):
        return None
    return row if _is_row(row, point) else None


def _is_row(row: Any, point: SweepPoint) -> bool:
    """True for a row of this point whose values have the types of their columns."""
    own = _value_columns(point)
    if not isinstance(row, dict) or tuple(row) != columns_with(list(own)):
        return False
    if any(type(row[key]) is not type(value) or row[key] != value for key, value in own.items()):
        return False
    same = all(row[name] == getattr(point, name) for name in ("key", "model", "chip", "bits", "objective", "seed"))
    return same and all(row[name] is None or fits(row[name], type_of(name)) for name in COLUMNS)

"""One point of a sweep: a row of figures, which depends on the point and the contents of its files alone."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nirbridge import pipeline
from nirbridge.errors import Diagnostic, FileError, NirbridgeError, UsageError, quoted, without_option
from nirbridge.network.model import Network
from nirbridge.pipeline.options import MapOptions
from nirbridge.sweeps.columns import COLUMNS, FROM_PROFILE, PLAN
from nirbridge.sweeps.plan import SweepPoint, chip_digest, file_digest

if TYPE_CHECKING:
    from nirbridge.mapping.model import MappedNetwork
    from nirbridge.profiling.data import ProfileData


def compute_point(point: SweepPoint) -> dict[str, Any]:
    """The row of a point. A point that cannot be mapped is a row, too, with the first line of its error.

    Raises:
        FileError: a file of the point is not there, or has another content than when the plan was made.
    """
    _check_files(point)
    wall, cpu = time.perf_counter(), time.process_time()
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    row |= {name: getattr(point, name) for name in PLAN}
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
            found = chip_digest(pipeline.load_chip(file.path or point.chip))
        else:
            found = file_digest(file.path, subject)
        if found != file.sha256:
            raise FileError.of(subject, "has changed since the sweep began", "", "start the sweep again")


def _figures(point: SweepPoint) -> dict[str, Any]:
    chip = pipeline.load_chip(point.path("chip") or point.chip)
    network = pipeline.load_network(_path(point, "model"))
    mapping = MapOptions(objective=point.objective, effort=point.effort, seed=point.seed, weight_bits=point.bits)
    if point.input is None:
        mapped = pipeline.map_network(network, chip, mapping)
        return _map_columns(mapped) | _assumed_columns(mapped, mapping)
    profile = pipeline.profile_network(network, [chip], _data(point, network), pipeline.ProfileOptions(mapping=mapping))
    profiled = profile.points[0]
    assert profiled.mapped is not None, "a profile made here has its map"
    row = profiled.row()
    return {name: _plain(row[name]) for name in FROM_PROFILE} | _map_columns(profiled.mapped)


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
    arrays = pipeline.load_inputs(_path(point, "input"))
    if point.encoder is None:
        return pipeline.read_inputs(network, arrays, labels=_labels(point), steps=point.steps).inputs
    from nirbridge.simulators import encoders

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
    return None if point.labels is None else pipeline.load_labels(_path(point, "labels"))


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
        "power_w": energy / step if energy is not None and step else None,
    }


def _plain(value: Any) -> Any:
    """A value of JSON: NumPy's numbers as Python's, None for one that is not finite."""
    plain = value.item() if hasattr(value, "item") else value
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain

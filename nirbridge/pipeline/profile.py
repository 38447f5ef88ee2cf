"""A network profiled on data: simulated, mapped with the measured rates, and charged, point by point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from nirbridge import plugins as registry
from nirbridge._types import Progress, no_progress
from nirbridge._version import __version__
from nirbridge.arrays import Array
from nirbridge.chips.model import Chip
from nirbridge.emitters.witness import StageTimes, Witness
from nirbridge.errors import (
    Diagnostic,
    DoesNotFit,
    ModelError,
    NirbridgeError,
    UsageError,
    counted,
    quoted,
    without_option,
)
from nirbridge.mapping.integers import integers_of
from nirbridge.network.model import Network
from nirbridge.pipeline.map import map_network
from nirbridge.pipeline.options import MapOptions
from nirbridge.profiling.activity import Activity, ProfileData, measure_integers, measure_reference, profile_data
from nirbridge.profiling.costing import OWN, CostCounter, run_rates
from nirbridge.profiling.model import FailedPoint, Profile, ProfilePoint
from nirbridge.profiling.point import PointRuns, profile_point
from nirbridge.report.profile_document import differs, time_causes

Rates = tuple[Mapping[str, "Array"], str]


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """Options of a profile: the tables that are made, and how each point is mapped.

    ``bits`` and ``objectives``: one point for each; empty: those of ``mapping``. ``target``: an emitter whose simulator
    runs the same map (``sanafe``). ``potentials``: count membrane updates, which takes memory and time.
    """

    mapping: MapOptions = field(default_factory=MapOptions)
    bits: tuple[int, ...] = ()
    objectives: tuple[str, ...] = ()
    target: str | None = None
    potentials: bool = True
    model: str = ""
    progress: Progress = no_progress


def read_data(network: Network, arrays: Any, labels: Any = None, **options: Any) -> ProfileData:
    """The data of a profile, as ``profiling.activity.profile_data``. Raises UsageError."""
    return profile_data(network, arrays, labels, **options)


def measured_rates(
    network: Network,
    arrays: Any,
    *,
    steps: int | None = None,
    origin: str = "the data",
    progress: Progress = no_progress,
) -> Rates:
    """Spikes per neuron and time step of a network on data, and where they are from, as ``MapOptions.rates``.

    Raises UsageError: data that do not fit.
    """
    data = read_data(network, arrays, steps=steps, origin=origin)
    return rates_of_run(network, data, measure_reference(network, data.inputs, potentials=False, progress=progress))


def rates_of_run(network: Network, data: ProfileData, activity: Activity) -> Rates:
    """The rates of a run of the reference, with those of readouts."""
    shapes = {p.name: p.shape for p in (*network.inputs, *network.populations)}
    size = f"{counted(data.samples, 'sample')} of {counted(data.steps, 'time step')}"
    found = run_rates(network, activity.rates(shapes))
    return MappingProxyType(found), f"measured on {data.origin}: {size}"


def profile_network(
    network: Network, chips: Sequence[Chip], data: ProfileData, options: ProfileOptions | None = None
) -> Profile:
    """What a network costs on chips, measured on data; a point for each chip, width and objective.

    Raises:
        DoesNotFit, ModelError, UsageError: as of ``map_network``, where no point can be profiled; every reason.
    """
    settings = options or ProfileOptions()
    reference = measure_reference(network, data.inputs, potentials=settings.potentials, progress=settings.progress)
    rates = rates_of_run(network, data, reference)
    points: list[ProfilePoint] = []
    failed: list[FailedPoint] = []
    problems: dict[str, Diagnostic] = {}
    errors: list[type[NirbridgeError]] = []
    for chip, mapping in _requests(chips, settings, rates):
        try:
            points.append(_point(network, chip, data, reference, mapping, settings))
        except (DoesNotFit, ModelError, UsageError) as error:
            reason = "; ".join(str(without_option(problem)) for problem in error.problems[:3])
            failed.append(FailedPoint(chip.name, mapping.weight_bits, mapping.objective, reason))
            problems |= {str(problem): problem for problem in error.problems}
            errors.append(type(error))
    if not points:
        raise errors[0](*problems.values())
    return Profile(settings.model, data.origin, tuple(points), tuple(failed), MappingProxyType(_meta()))


def _requests(chips: Sequence[Chip], settings: ProfileOptions, rates: Rates) -> Iterator[tuple[Chip, MapOptions]]:
    """Chips, then widths, then objectives, each combination once."""
    if not chips:
        raise UsageError.of("chips", "none", "a profile is of a network on a chip", "name one")
    given = replace(settings.mapping, rates=settings.mapping.rates or rates, progress=settings.progress)
    for chip in chips:
        for bits in settings.bits or (given.weight_bits,):
            for objective in settings.objectives or (given.objective,):
                yield chip, replace(given, weight_bits=bits, objective=objective)


def _point(
    network: Network,
    chip: Chip,
    data: ProfileData,
    reference: Activity,
    mapping: MapOptions,
    settings: ProfileOptions,
) -> ProfilePoint:
    mapped = map_network(network, chip, mapping)
    runs_nothing = mapped.placement_only or chip.numbers is None
    integers = None if runs_nothing else integers_of(mapped)
    counter = CostCounter(mapped)
    options: dict[str, Any] = {"potentials": settings.potentials, "progress": settings.progress}
    options["on_block"] = counter.take
    if integers is not None:
        activity = measure_integers(integers, data.inputs, marks_updates=counter.marks_updates, **options)
    else:  # relays and copies of the map are in no other run
        activity = measure_reference(mapped.network, data.inputs, **options)
    about = {"model": settings.model, "effort": mapping.effort, "method": mapping.method, "seed": mapping.seed}
    runs = PointRuns(network, data, reference, mapped, integers, activity, counter)
    return profile_point(runs, about, network.notes, witness=_witness(runs, settings.target, settings.progress))


def _witness(runs: PointRuns, target: str | None, progress: Progress) -> Witness | None:
    """The figures of another simulator of the same map; None where none is requested.

    Raises:
        UsageError: it gives no figures, nothing runs the map, or its tool is not installed.
        ModelError: what it cannot express, or a run that failed.
    """
    if target is None:
        return None

    emitter: Any = registry.get("emitters", target)
    subject = f"emitter {quoted(target)}"
    if not hasattr(emitter, "figures"):
        limit = "a profile compares energy and time"
        raise UsageError.of(subject, "gives no figures", limit, "use --to sanafe")
    if runs.integers is None:
        raise UsageError.of(subject, "runs the integers of a map", "this map has none", "leave --to out")
    witness = emitter.figures(runs.mapped, runs.data.inputs, progress=progress)
    ours = _own_stages(runs)
    if ours is None or not differs(ours.total_s, witness.time_s) or not hasattr(emitter, "stage_times"):
        return witness
    theirs = emitter.stage_times(runs.mapped, runs.data.inputs, progress=progress)
    overlap = bool(runs.mapped.chip.time.overlap)
    return replace(witness, notes=(*witness.notes, *time_causes(witness, ours, theirs, overlap=overlap)))


def _own_stages(runs: PointRuns) -> StageTimes | None:
    """Our time of an inference by stages; None where the chip has no figures of time."""
    costs, samples = runs.counter.finish(), runs.data.samples
    total = costs.time()
    if total is None:
        return None
    seconds = (total, costs.busiest_s["neurons"], costs.busiest_s["messages"], costs.time_s[OWN].get("barrier", 0.0))
    return StageTimes(*(value / samples for value in seconds))


def _meta() -> dict[str, Any]:
    return {"schema": 1, "nirbridge": __version__}

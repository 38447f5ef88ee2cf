"""One point of a profile: its figures from the activity of its runs and the costs of its map."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge.chips.model import Chip
from nirbridge.mapping.model import MapCosts, MappedNetwork
from nirbridge.network.model import Network
from nirbridge.partitioner.cost.resources import limits
from nirbridge.partitioner.model import RESOURCES
from nirbridge.profiling.activity import Activity
from nirbridge.profiling.columns import Basis
from nirbridge.profiling.costing import (
    ENERGY_FIGURES,
    TIME_FIGURES,
    Placed,
    events_per_step,
    full_rates,
    layer_costs,
    placed,
    run_rates,
)
from nirbridge.profiling.data import ProfileData
from nirbridge.profiling.model import EventProfile, Figure, LayerProfile, MemoryProfile, ProfilePoint, Witness
from nirbridge.profiling.neurobench import accuracy_of, integer_metrics, reference_metrics
from nirbridge.quantization.model import QuantizedNetwork

_TIME = dict(TIME_FIGURES) | {"busiest link": "hop_x_s", "barrier": "barrier_s"}
_COUNTED = "counted in a simulation of the data"


@dataclass(frozen=True, slots=True, eq=False)
class PointRuns:
    """The runs that a point is made of.

    ``integers``: None where nothing runs the map; ``activity`` is their run, or that of the mapped network in real
    numbers.
    """

    network: Network
    data: ProfileData
    reference: Activity
    mapped: MappedNetwork
    integers: QuantizedNetwork | None
    activity: Activity


def profile_point(
    runs: PointRuns, about: Mapping[str, Any], notes: tuple[str, ...] = (), witness: Witness | None = None
) -> ProfilePoint:
    """The figures of one point.

    ``about``: the columns of the request (chip, bits, objective …); those of the map and the data are added.
    """
    ready = placed(runs.mapped)
    shapes = {p.name: p.shape for p in (*runs.mapped.network.inputs, *runs.mapped.network.populations)}
    rates = run_rates(runs.mapped.network, runs.activity.rates(shapes))
    paid, events = ready.costs(rates), events_per_step(ready, rates)
    layers = tuple(_layers(runs, ready, rates))
    metrics = _metrics(runs)
    figures = dict(_figures(runs, ready, paid, events, metrics))
    return ProfilePoint(
        about=MappingProxyType(_about(runs, layers) | dict(about)),
        figures=MappingProxyType(figures),
        layers=layers,
        events=tuple(_events(runs, paid, events)),
        memory=tuple(_memory(runs.mapped)),
        neurobench=MappingProxyType(metrics),
        notes=(*notes, *_notes(runs)),
        witness=witness,
        mapped=runs.mapped,
    )


def _about(runs: PointRuns, layers: tuple[LayerProfile, ...]) -> dict[str, Any]:
    mapped, report = runs.mapped, runs.mapped.partition.report
    return {
        "chip": mapped.chip.name,
        "chips": mapped.chips,
        "weight_bits": mapped.partition.weight_bits,
        "objective": mapped.objective,
        "samples": runs.data.samples,
        "steps": runs.data.steps,
        "hardware_steps": runs.activity.run_steps,
        "dt_s": mapped.network.dt,
        "cores": len(mapped.cores),
        "cores_lower_bound": report.cores_lower_bound,
        "status": report.status,
        "neurons": mapped.network.neurons,
        "synapses": sum(layer.synapses for layer in layers),
        "rates": mapped.rates,
    }


def _figures(
    runs: PointRuns,
    ready: Placed,
    paid: MapCosts,
    events: Mapping[str, float],
    metrics: Mapping[str, Mapping[str, float]],
) -> Iterator[tuple[str, Figure]]:
    counted, steps, chip = runs.activity, runs.activity.run_steps, runs.mapped.chip

    def measured(value: float, source: str = _COUNTED) -> Figure:
        return Figure(value, "measured", source)

    inputs = [port.name for port in runs.mapped.network.inputs if port.name in counted.counts]
    yield "input_spikes_per_inference", measured(sum(map(counted.per_inference, inputs)))
    for name, kind in (("spikes", "spikes"), ("synaptic_ops", "synaptic operations")):
        yield f"{name}_per_inference", measured(events[kind] * steps)
        yield f"{name}_per_step", measured(events[kind])
    energy, time = paid.energy_per_step_j, paid.time_per_step_s
    yield from _energy_figures(chip, energy, steps, events)
    worst = ready.costs(full_rates(runs.mapped.network)).time_per_step_s
    yield from _time_figures(chip, time, worst, steps)
    if energy is not None and time is not None:
        bases = {_basis(chip, "energy"), _basis(chip, "time")}
        basis: Basis = "assumed" if "assumed" in bases else "published"
        yield "power_w", Figure(energy / time, basis, "energy over time")
        yield "energy_delay_js", Figure(energy * steps * time * steps, basis, "energy times time of an inference")
    yield from _accuracies(runs, measured)
    sparsity = (metrics.get("integers") or metrics["reference"]).get("ActivationSparsity")
    if sparsity is not None:
        yield "activation_sparsity", measured(sparsity)
    words = sum(b.used.get("synapse_words", 0) for b in runs.mapped.partition.blocks)
    yield "memory_bytes", measured(words * chip.synapses.word_bits / 8, "counted in the map, in whole words")


def _energy_figures(
    chip: Chip, energy: float | None, steps: int, events: Mapping[str, float]
) -> Iterator[tuple[str, Figure]]:
    if energy is None:
        return
    basis, source = _basis(chip, "energy"), _sources(chip, "energy")
    yield "energy_per_inference_j", Figure(energy * steps, basis, source)
    yield "energy_per_step_j", Figure(energy, basis, source)
    if events["synaptic operations"]:
        yield "energy_per_synaptic_op_j", Figure(energy / events["synaptic operations"], basis, source)


def _time_figures(chip: Chip, time: float | None, worst: float | None, steps: int) -> Iterator[tuple[str, Figure]]:
    if time is None or worst is None:
        return
    basis, source = _basis(chip, "time"), _sources(chip, "time")
    yield "time_per_inference_s", Figure(time * steps, basis, source)
    yield "time_per_step_s", Figure(time, basis, source)
    yield "guaranteed_step_s", Figure(worst, basis, f"every neuron and input fires; {source}")
    yield "inferences_per_s", Figure(1 / (time * steps), basis, source)
    yield "guaranteed_inferences_per_s", Figure(1 / (worst * steps), basis, f"every neuron and input fires; {source}")


def _accuracies(runs: PointRuns, measured: Any) -> Iterator[tuple[str, Figure]]:
    output, labels = runs.data.output, runs.data.labels
    if output is None:
        return
    if labels is not None:
        yield "accuracy_reference", measured(accuracy_of(runs.reference.totals, labels, output))
    if runs.integers is None:
        return
    if labels is not None:
        yield "accuracy", measured(accuracy_of(runs.activity.totals, labels, output))
    pair = (runs.reference.totals[output].argmax(axis=1), runs.activity.totals[output].argmax(axis=1))
    yield "same_decisions", measured(float(np.mean(pair[0] == pair[1])))


def _layers(runs: PointRuns, ready: Placed, rates: Mapping[str, Any]) -> Iterator[LayerProfile]:
    counted, network = runs.activity, runs.mapped.network
    steps, word = counted.run_steps, runs.mapped.chip.synapses.word_bits / 8
    costs = layer_costs(ready, rates)
    for node in (*network.inputs, *network.populations):
        cost, neuron = costs[node.name], getattr(node, "neuron", None)
        spikes = float(np.broadcast_to(rates[node.name], node.shape).sum()) * steps
        fires = neuron is None or neuron.fires
        yield LayerProfile(
            name=node.name,
            kind="input" if neuron is None else neuron.kind,
            neurons=node.size,
            cores=cost.cores,
            spikes=spikes if fires else 0.0,
            synaptic_ops=cost.synaptic_ops * steps,
            sparsity=_sparsity(counted, node.name, node.size),
            energy_j=MappingProxyType({kind: joules * steps for kind, joules in cost.energy_j.items()}),
            busiest_core_s=cost.busiest_core_s,
            synapses=cost.synapses,
            memory_bytes=cost.words * word,
        )


def _sparsity(counted: Activity, name: str, size: int) -> float | None:
    active = counted.active.get(name)
    return None if active is None else 1 - active / (size * counted.steps * counted.samples)


def _events(runs: PointRuns, paid: MapCosts, events: Mapping[str, float]) -> Iterator[EventProfile]:
    chip, steps = runs.mapped.chip, runs.activity.run_steps
    for kind in dict.fromkeys([*events, *paid.time_breakdown_s]):
        keys = [f"energy.{ENERGY_FIGURES[kind]}"] if kind in ENERGY_FIGURES else []
        keys += [f"time.{_TIME[kind]}"] if kind in _TIME else []
        energy, time = paid.energy_breakdown_j.get(kind), paid.time_breakdown_s.get(kind)
        count = events.get(kind)
        yield EventProfile(
            kind=kind,
            count=None if count is None else count * steps,
            energy_j=None if energy is None else energy * steps,
            time_s=None if time is None else time * steps,
            energy_source=chip.sources.get(keys[0], "") if kind in ENERGY_FIGURES else "",
            time_source=chip.sources.get(keys[-1], "") if kind in _TIME else "",
            is_approximate=any(key in chip.approximate for key in keys),
        )


def _memory(mapped: MappedNetwork) -> Iterator[MemoryProfile]:
    blocks, limit = mapped.partition.blocks, limits(mapped.chip)
    for name in RESOURCES:
        used = [int(block.used.get(name, 0)) for block in blocks]
        size = mapped.chip.synapses.word_bits / 8 if name == "synapse_words" else None
        most = limit[name]
        reserved = None if size is None or most is None else size * most * len(blocks)
        total = None if size is None else size * sum(used)
        yield MemoryProfile(name, sum(used), max(used, default=0), most, total, reserved)


def _metrics(runs: PointRuns) -> dict[str, Mapping[str, float]]:
    output, labels = runs.data.output, runs.data.labels
    scored = output is not None and labels is not None

    def score(activity: Activity) -> float | None:
        return accuracy_of(activity.totals, labels, output) if scored else None  # type: ignore[arg-type]

    found = {"reference": reference_metrics(runs.network, runs.reference, score(runs.reference))}
    if runs.integers is not None:
        found["integers"] = integer_metrics(runs.integers, runs.activity, score(runs.activity))
    return {name: MappingProxyType(metrics) for name, metrics in found.items()}


def _basis(chip: Chip, table: str) -> Basis:
    return "assumed" if any(key.startswith(f"{table}.") for key in chip.approximate) else "published"


def _sources(chip: Chip, table: str) -> str:
    """The distinct sources of a table of figures."""
    found = (text.partition(":")[0] for key, text in chip.sources.items() if key.startswith(f"{table}."))
    return "; ".join(dict.fromkeys(found))


def _notes(runs: PointRuns) -> Iterator[str]:
    counted = runs.activity
    if not sum(counted.active.values()):
        firing = any(p.neuron.fires for p in runs.mapped.network.populations)
        yield (
            "no neuron fired: the energy is that of idle time steps"
            if firing
            else "no neuron of the network fires: it has readouts only"
        )
    if runs.integers is None:
        yield "no integers run on this map, so that spikes and rates are those of the reference"
    for table in ("energy", "time"):
        if not any(getattr(getattr(runs.mapped.chip, table), f) is not None for f in _fields(runs, table)):
            yield f"the chip file of {runs.mapped.chip.name} has no figures of {table}, so none is given"
    late = counted.run_steps - counted.steps
    if late:
        yield f"an inference takes {late} more time steps than its data: the latency of the hops"


def _fields(runs: PointRuns, table: str) -> tuple[str, ...]:
    figures = getattr(runs.mapped.chip, table)
    return tuple(name for name in type(figures).__dataclass_fields__ if name.endswith(("_j", "_s")))

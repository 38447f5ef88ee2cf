"""One point of a profile: its figures from the activity of its runs and the costs of its map."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.model import Chip
from nirbridge.errors import counted
from nirbridge.mapping.cost import ENERGY_FIGURES, TIME_FIGURES, missing_figures, worst_case
from nirbridge.mapping.cost.model import SYNAPTIC, figure, has_figure, own_kind
from nirbridge.mapping.cost.recorded import cost_model_of
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.model import Network
from nirbridge.partitioner.cost.axons import synapse_kind
from nirbridge.partitioner.cost.connectivity import out_degrees
from nirbridge.partitioner.cost.resources import limits
from nirbridge.partitioner.cost.sizing import CostModel
from nirbridge.partitioner.model import RESOURCES, Slice
from nirbridge.profiling.activity import Activity, ProfileData
from nirbridge.profiling.costing import OWN, CostCounter, Parts, RunCosts, drivers
from nirbridge.profiling.model import Basis, EventProfile, Figure, LayerProfile, MemoryProfile, ProfilePoint, Witness
from nirbridge.profiling.neurobench import accuracy_of, integer_metrics, reference_metrics
from nirbridge.quantization.model import QuantizedNetwork

_COUNTED = "counted in a simulation of the data"
_OF_BOTH = ("power_w", "energy_delay_js")
"""Figures of energy and time."""


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
    counter: CostCounter


def profile_point(
    runs: PointRuns, about: Mapping[str, Any], notes: tuple[str, ...] = (), witness: Witness | None = None
) -> ProfilePoint:
    """The figures of one point.

    ``about``: the columns of the request (chip, bits, objective …); those of the map and the data are added.
    """
    costs = runs.counter.finish()
    layers = tuple(_layers(runs, costs))
    metrics = _metrics(runs)
    return ProfilePoint(
        about=MappingProxyType(_about(runs, layers) | dict(about)),
        figures=MappingProxyType(dict(_figures(runs, costs, metrics))),
        layers=layers,
        events=tuple(_events(runs, costs)),
        memory=tuple(_memory(runs.mapped)),
        neurobench=MappingProxyType(metrics),
        notes=(*notes, *_notes(runs, costs)),
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
    runs: PointRuns, costs: RunCosts, metrics: Mapping[str, Mapping[str, float]]
) -> Iterator[tuple[str, Figure]]:
    activity, samples, chip = runs.activity, runs.data.samples, runs.mapped.chip
    inputs = [port.name for port in runs.mapped.network.inputs if port.name in activity.counts]
    yield "input_spikes_per_inference", _measured(sum(map(activity.per_inference, inputs)))
    totals = {"spikes": costs.counts["spikes"], "synaptic_ops": _operations(costs)}
    for name, count in totals.items():
        yield f"{name}_per_inference", _measured(count / samples)
        yield f"{name}_per_step", _measured(count / costs.steps)
    missing = missing_figures(chip)
    both = tuple(dict.fromkeys((*missing["energy"], *missing["time"])))
    for name, figure_of in (*_energy_figures(runs, costs, totals["synaptic_ops"]), *_time_figures(runs, costs)):
        left_out = both if name in _OF_BOTH else missing["energy" if name.startswith("energy") else "time"]
        yield name, replace(figure_of, missing=left_out)
    yield from _accuracies(runs)
    sparsity = (metrics.get("integers") or metrics["reference"]).get("ActivationSparsity")
    if sparsity is not None:
        yield "activation_sparsity", _measured(sparsity)
    words = sum(b.used.get("synapse_words", 0) for b in runs.mapped.partition.blocks)
    yield "memory_bytes", _measured(words * chip.synapses.word_bits / 8, "counted in the map, in whole words")


def _measured(value: float, source: str = _COUNTED) -> Figure:
    return Figure(value, "measured", source)


def _operations(costs: RunCosts) -> int:
    return sum(costs.counts[kind] for kind in SYNAPTIC.values())


def _energy_figures(runs: PointRuns, costs: RunCosts, operations: int) -> Iterator[tuple[str, Figure]]:
    energy, samples = costs.energy(), runs.data.samples
    if energy is None:
        return
    basis, source = charged(runs.mapped.chip, costs.energy_j[OWN], ENERGY_FIGURES)
    ends = costs.energy("low"), costs.energy("high")
    yield "energy_per_inference_j", Figure(energy / samples, basis, source, *_over(ends, samples))
    yield "energy_per_step_j", Figure(energy / costs.steps, basis, source, *_over(ends, costs.steps))
    if operations:
        yield "energy_per_synaptic_op_j", Figure(energy / operations, basis, source, *_over(ends, operations))


def _over(ends: tuple[float | None, float | None], count: int) -> tuple[float | None, float | None]:
    low, high = (None if end is None else end / count for end in ends)
    return (None, None) if low == high else (low, high)


def _time_figures(runs: PointRuns, costs: RunCosts) -> Iterator[tuple[str, Figure]]:
    time, samples = costs.time(), runs.data.samples
    worst = worst_case(runs.mapped).time_limit_s
    if time is None or worst is None or costs.longest_s is None:
        return
    basis, source = charged(runs.mapped.chip, costs.time_s[OWN], TIME_FIGURES)
    ends = costs.time("low"), costs.time("high")
    yield "time_per_inference_s", Figure(time / samples, basis, source, *_over(ends, samples))
    yield "time_per_step_s", Figure(time / costs.steps, basis, source, *_over(ends, costs.steps))
    yield "longest_step_s", Figure(costs.longest_s, basis, source)
    yield "inferences_per_s", Figure(samples / time, basis, source)
    fires = f"every neuron and input fires, messages wait for links; {source}"
    yield "guaranteed_step_s", Figure(worst, basis, fires)
    yield "guaranteed_inferences_per_s", Figure(1 / (worst * runs.activity.run_steps), basis, fires)
    energy = costs.energy()
    if energy is not None:
        bases = {basis, charged(runs.mapped.chip, costs.energy_j[OWN], ENERGY_FIGURES)[0]}
        both: Basis = "assumed" if "assumed" in bases else "published"
        yield "power_w", Figure(energy / time, both, "energy over time, without static power")
        product = energy * time / samples**2
        yield "energy_delay_js", Figure(product, both, "energy times time of an inference")


def charged(chip: Chip, parts: Mapping[str, float], figures: Mapping[str, str]) -> tuple[Basis, str]:
    """The basis of a sum of parts by kind of event, and the sources of the figures that it rests on."""
    keys = [figures[kind] for kind, value in parts.items() if value]
    basis: Basis = "assumed" if any(key in chip.approximate for key in keys) else "published"
    sources = (chip.sources.get(key, "").partition(":")[0] for key in keys)
    return basis, "; ".join(dict.fromkeys(text for text in sources if text)) or "no event that costs anything"


def _accuracies(runs: PointRuns) -> Iterator[tuple[str, Figure]]:
    output, labels = runs.data.output, runs.data.labels
    if output is None:
        return
    if labels is not None:
        yield "accuracy_reference", _measured(accuracy_of(runs.reference.totals, labels, output))
    if runs.integers is None:
        return
    if labels is not None:
        yield "accuracy", _measured(accuracy_of(runs.activity.totals, labels, output))
    pair = (runs.reference.totals[output].argmax(axis=1), runs.activity.totals[output].argmax(axis=1))
    yield "same_decisions", _measured(float(np.mean(pair[0] == pair[1])))


def _layers(runs: PointRuns, costs: RunCosts) -> Iterator[LayerProfile]:
    activity, network, samples = runs.activity, runs.mapped.network, runs.data.samples
    word = runs.mapped.chip.synapses.word_bits / 8
    always = {
        p: np.full(next(q.size for q in network.populations if q.name == p), costs.steps) for p in drivers(network)
    }
    counts = {**activity.counts, **always}
    found = layer_costs(runs.counter, costs, counts)
    for node in (*network.inputs, *network.populations):
        cost, neuron = found[node.name], getattr(node, "neuron", None)
        yield LayerProfile(
            name=node.name,
            kind="input" if neuron is None else neuron.kind,
            neurons=node.size,
            cores=cost.cores,
            spikes=float(counts[node.name].sum()) / samples if node.name in counts else 0.0,
            synaptic_ops=cost.synaptic_ops / samples,
            sparsity=_sparsity(activity, node.name, node.size),
            energy_j=MappingProxyType({kind: joules / samples for kind, joules in cost.energy_j.items()}),
            busiest_core_s=None if cost.work_s is None else cost.work_s / costs.steps,
            synapses=cost.synapses,
            memory_bytes=cost.words * word,
        )


def _sparsity(counted: Activity, name: str, size: int) -> float | None:
    active = counted.active.get(name)
    return None if active is None else 1 - active / (size * counted.steps * counted.samples)


def _events(runs: PointRuns, costs: RunCosts) -> Iterator[EventProfile]:
    chip, samples = runs.mapped.chip, runs.data.samples
    energy, time = costs.energy_j[OWN], costs.time_s[OWN]
    for kind in dict.fromkeys([*ENERGY_FIGURES, *TIME_FIGURES]):
        count, joules, seconds = costs.counts.get(kind), energy.get(kind), time.get(kind)
        if not (count or joules or seconds):
            continue
        sources = [chip.sources.get(table.get(kind, ""), "") for table in (ENERGY_FIGURES, TIME_FIGURES)]
        keys = [table[kind] for table, part in ((ENERGY_FIGURES, joules), (TIME_FIGURES, seconds)) if part]
        yield EventProfile(
            kind=kind,
            count=None if count is None else count / samples,
            energy_j=None if joules is None else joules / samples,
            time_s=None if seconds is None else seconds / samples,
            energy_source=sources[0],
            time_source=sources[1],
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
        found["integers"] = integer_metrics(runs.integers, runs.network, runs.activity, score(runs.activity))
    return {name: MappingProxyType(metrics) for name, metrics in found.items()}


def _notes(runs: PointRuns, costs: RunCosts) -> Iterator[str]:
    activity, chip = runs.activity, runs.mapped.chip
    if not sum(activity.active.values()):
        firing = any(p.neuron.fires for p in runs.mapped.network.populations)
        yield (
            "no neuron fired: the energy is that of idle time steps"
            if firing
            else "no neuron of the network fires: it has readouts only"
        )
    if runs.integers is None:
        yield "no integers run on this map, so that spikes and rates are those of real numbers"
    missing = missing_figures(chip)
    for table, known in (("energy", costs.energy()), ("time", costs.time())):
        if known is None:
            yield f"the chip file of {chip.name} has no figures of {table}, so none is given"
        elif missing[table]:
            yield f"{table} is partial: the chip file has no data for {', '.join(missing[table])}"
    late = activity.run_steps - activity.steps
    if late:
        yield f"an inference takes {counted(late, 'more time step')} than its data: the latency of the hops"


# -- layers --------------------------------------------------------------------------------------------------------
# The energy of a run shared out to inputs and populations: operations to their target, messages to their source.

Counts = Mapping[str, Array]
"""Messages of each neuron in a run, flat, by name of every input and population that sends."""


@dataclass(frozen=True, slots=True, eq=False)
class LayerCosts:
    """Events of one input or population in a run, and its share of the energy in joules, by kind.

    ``work_s``: seconds that the busiest of its cores works in the run.
    """

    synaptic_ops: int
    energy_j: Parts
    work_s: float | None
    cores: int
    synapses: int
    words: int


def layer_costs(counter: CostCounter, costs: RunCosts, counts: Counts) -> dict[str, LayerCosts]:
    """By name of input and population; the energies of all add up to that of the run."""
    mapped, sizes = counter.mapped, cost_model_of(counter.mapped)
    chip = mapped.chip
    found: dict[str, LayerCosts] = {}
    for node in (*mapped.network.inputs, *mapped.network.populations):
        events = _sent(counter, node.name, counts.get(node.name), chip)
        slices = _slices(mapped, node.name)
        ops: dict[str, int] = {}
        synapses, words = 0, 0
        if node.name in sizes.incoming:
            ops, synapses = _received(sizes, node.name, counts, mapped)
            words = sum(sizes.cost(node.name, piece.box).synapse_words for _, piece in slices)
            events |= {"neuron accesses": node.size * costs.steps, "neuron updates": costs.updates[node.name]}
        blocks = sorted({block for block, _ in slices})
        work = max((float(costs.work_s[b]) for b in blocks), default=None) if costs.time() is not None else None
        found[node.name] = LayerCosts(
            sum(ops.values()), _priced(events | ops, chip), work, len(blocks), synapses, words
        )
    return found


def _priced(events: Mapping[str, int], chip: Chip) -> Parts:
    figures = {kind: figure(chip, key) for kind, key in ENERGY_FIGURES.items()}
    known = {k: events[k] * joules for k, joules in figures.items() if joules is not None and events.get(k)}
    return MappingProxyType(known)


def _sent(counter: CostCounter, name: str, counts: Array | None, chip: Chip) -> dict[str, int]:
    """Spikes and messages of a source, and the links of their paths; host inputs cost the host nothing."""
    if counts is None:
        return {}
    of = counter.counter
    columns = of.numbering.columns[name]
    begin, end = of.fanout.ptr[columns], of.fanout.ptr[columns + 1]

    def along(links: Array) -> int:
        done = np.concatenate(([0], np.cumsum(links[of.pair])))
        return int(counts @ (done[end] - done[begin]))

    x, y = along(of.paths.crossings_x), along(of.paths.crossings_y)
    between = has_figure(chip, ENERGY_FIGURES, "chip crossings")
    links = {
        "hops x": along(of.paths.hops_x) + (0 if between else x),
        "hops y": along(of.paths.hops_y) + (0 if between else y),
        "chip crossings": x + y if between else 0,
    }
    if any(port.name == name for port in counter.mapped.network.inputs):
        return links
    return links | {"spikes": int(counts.sum()), "axons out": int(counts @ (end - begin))}


def _received(sizes: CostModel, name: str, counts: Counts, mapped: MappedNetwork) -> tuple[dict[str, int], int]:
    """Synaptic operations into a population by kind, and its synapses."""
    ops: dict[str, int] = {}
    synapses, orders = 0, mapped.partition.orders
    for edge in sizes.incoming[name]:
        degrees = out_degrees(edge.form)
        synapses += int(degrees.sum())
        sent = counts.get(edge.source)
        if sent is not None:
            kind = own_kind(mapped.chip, ENERGY_FIGURES, synapse_kind(edge))
            in_order = sent[np.asarray(orders[edge.source])] if edge.source in orders else sent
            ops[kind] = ops.get(kind, 0) + int(degrees @ in_order)
    return ops, synapses


def _slices(mapped: MappedNetwork, name: str) -> list[tuple[int, Slice]]:
    """The slices of a population, each with its block."""
    blocks = enumerate(mapped.partition.blocks)
    return [(number, s) for number, block in blocks for s in block.slices if s.population == name]

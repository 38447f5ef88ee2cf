"""Diagnostics of a network that does not fit: layer, resource, limit, proof, and a way out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

import numpy as np

from nirbridge._types import Box
from nirbridge.arrays import Array
from nirbridge.chips.model import Chip
from nirbridge.errors import Diagnostic, counted, quoted
from nirbridge.network.model import Network, Population
from nirbridge.partitioner.cost.axis import Axis
from nirbridge.partitioner.cost.connectivity import Explicit, Separable, out_degrees
from nirbridge.partitioner.cost.resources import delay_on_chip_steps, exceeded, limits
from nirbridge.partitioner.cost.sizing import CostModel
from nirbridge.partitioner.searches import PartitionOptions

RESOURCE_NAMES = {
    "neurons": "neurons",
    "input_axons": "input axons",
    "output_axons": "output axons",
    "synapse_words": "words of synaptic memory",
    "decay_profiles": "decay profiles",
    "threshold_profiles": "threshold profiles",
}
ADVICE = {
    "input_axons": "give the layer fewer inputs (split the source over several layers, or prune it)",
    "synapse_words": "use fewer weight bits (--bits), or fewer inputs",
    "output_axons": "split the source (--split), or place its targets in fewer cores",
    "neurons": "use another chip",
    "decay_profiles": "let more neurons share one time constant",
    "threshold_profiles": "let more neurons share one threshold",
}


def fit_diagnostic(subject: str, found: str, limit: str, hint: str, /, **ids: object) -> Diagnostic:
    """A ``Diagnostic`` with its ids frozen."""
    return Diagnostic(subject, found, limit, hint, MappingProxyType(ids))


def delay_problems(network: Network, chip: Chip) -> Iterator[Diagnostic]:
    """Projections whose delay is out of the chip's range."""
    longest = chip.core.delay_steps
    for projection in network.projections:
        steps = delay_on_chip_steps(projection)
        if longest is not None and steps > longest:
            yield fit_diagnostic(
                f"projection {quoted(projection.source)} -> {quoted(projection.target)}",
                f"a delay of {steps:,} time steps",
                f"a {chip.name} synapse holds {longest:,}",
                "shorten the delay, use a longer dt, or another chip",
                projection=(projection.source, projection.target),
                resource="delay_steps",
            )


def oversized_neurons(sizes: CostModel) -> Iterator[Diagnostic]:
    """Populations of which a single neuron exceeds a core: no mapping exists."""
    for population in sizes.network.populations:
        uses = ((box, sizes.cost(population.name, box)._asdict()) for box in _heaviest(sizes, population.name))
        excesses = ((box, exceeded(use, limits(sizes.chip))) for box, use in uses)
        box, excess = next((pair for pair in excesses if pair[1]), ((), ()))
        for resource, used, capacity in excess:
            yield fit_diagnostic(
                _neuron_text(population, [start for start, _ in box]),
                f"{used:,} {RESOURCE_NAMES[resource]} for one neuron",
                f"a {sizes.chip.name} core holds {capacity:,}",
                ADVICE[resource],
                population=population.name,
                resource=resource,
                found=used,
                limit=capacity,
            )


def fan_out_problems(sizes: CostModel) -> Iterator[Diagnostic]:
    """Populations of which a single neuron reaches more cores than a core has output axons: no mapping exists.

    Its targets, counted once, are at least those of its largest projection into each population, and a core holds
    no more of them than it has neurons.
    """
    capacity, per_core = sizes.chip.core.output_axons, sizes.chip.core.neurons
    if capacity is None or per_core is None:
        return
    for population in sizes.network.populations:
        targets: dict[str, Array] = {}
        for target, edge in sizes.outgoing[population.name]:
            degrees = out_degrees(edge.form)
            targets[target] = np.maximum(targets.get(target, degrees), degrees)
        total = sum(targets.values(), np.zeros(population.size, np.int64))
        widest = int(np.argmax(total))
        cores = -(-int(total[widest]) // per_core)
        if cores > capacity:
            yield fit_diagnostic(
                _neuron_text(population, np.unravel_index(widest, population.shape)),
                f"{int(total[widest]):,} targets, which fill {cores:,} cores and take as many output axons",
                f"a {sizes.chip.name} core holds {capacity:,}",
                ADVICE["output_axons"],
                population=population.name,
                resource="output_axons",
                found=cores,
                limit=capacity,
            )


def _neuron_text(population: Population, index: Iterable[object]) -> str:
    neuron = "" if population.size == 1 else f", neuron ({', '.join(str(i) for i in index)})"
    return f"population {quoted(population.name)}{neuron}"


def _heaviest(sizes: CostModel, name: str) -> list[Box]:
    """Neurons that may have the most sources: the middle one, and the longest list of each explicit projection."""
    shape = sizes.shapes[name]
    boxes = [tuple((n // 2, n // 2 + 1) for n in shape)]
    for edge in sizes.incoming[name]:
        if isinstance(edge.form, Explicit):
            row = int(np.argmax(np.diff(edge.form.indptr)))
            boxes.append(tuple((int(i), int(i) + 1) for i in np.unravel_index(row, shape)))
        elif isinstance(edge.form, Separable):
            boxes.append(tuple(_widest(axis) for axis in edge.form.axes))
    return boxes


def _widest(axis: Axis) -> tuple[int, int]:
    if axis.full:
        return (0, 1)
    reach: Array = np.bincount(axis.outs, minlength=axis.n_out)
    widest = int(np.argmax(reach))
    return (widest, widest + 1)


def no_core_left(chip: Chip, chips: int) -> Diagnostic:
    """Diagnostic of a board without a usable core."""
    subject = f"{chips} x {chip.name}"
    return fit_diagnostic(
        subject, "no core is left", "every one is masked out", "name fewer cores, or more chips (--chips)"
    )


def too_many_cores(
    network: Network,
    chip: Chip,
    chips: int,
    available: int,
    bound: int,
    reasons: tuple[str, ...],
    by_population: Mapping[str, int],
) -> Diagnostic:
    """The bound alone proves that no mapping exists.

    ``reasons``: the limits that imply it; ``by_population``: the bound of each population on its own.
    """
    subject = f"network of {counted(network.neurons, 'neuron')}"
    heaviest = max(sorted(by_population), key=lambda name: by_population[name])
    layer = f"population {quoted(heaviest)} alone {by_population[heaviest]:,}"
    found = f"at least {counted(bound, 'core')} in any map ({layer}), proved by the limit per core of " + _limits_text(
        chip, reasons
    )
    ids = {"reasons": reasons, "found": bound, "limit": available, "population": heaviest}
    if bound > network.neurons:
        limit = "more cores than neurons: no number of cores is enough"
        return fit_diagnostic(subject, found, limit, "use another chip, or let each neuron reach fewer others", **ids)
    need = -(-bound * chips // available)
    step = f"use at least --chips {need}" if need <= chip.mesh.chips_max else "use another chip, or a smaller network"
    return fit_diagnostic(
        subject, found, f"{chips} x {chip.name} {'has' if chips == 1 else 'have'} {available:,}", step, **ids
    )


def _limits_text(chip: Chip, reasons: tuple[str, ...]) -> str:
    limit = limits(chip)
    return " and ".join(f"{limit[r]:,} {RESOURCE_NAMES[r]}" for r in reasons)


def not_found(
    network: Network, chip: Chip, options: PartitionOptions, available: int, best: int | None, bound: int
) -> Diagnostic:
    """No mapping was found, and none was ruled out, with these options of the search."""
    chips = options.chips
    is_quick = options.method in ("sequential", "packed")
    more = ["--method cp-sat"] if is_quick else []
    more += [f"--chips {chips + 1}"] if chips < chip.mesh.chips_max else []
    more += ["--effort max"] if options.effort != "max" and not is_quick else []
    found = "no map was found" if best is None else f"the best map found needs {best:,} cores"
    return fit_diagnostic(
        f"network of {counted(network.neurons, 'neuron')}",
        f"{found} (not proved impossible: at least {bound:,} are needed)",
        f"{chips} x {chip.name} {'has' if chips == 1 else 'have'} {available:,}",
        ", or ".join([*more, *(["another chip"] if len(more) < 2 else [])]),
        found=best,
        limit=available,
    )


def ruled_out(network: Network, chip: Chip, available: int, reasons: tuple[str, ...]) -> Diagnostic:
    """The exact model ruled out every mapping."""
    parts = _limits_text(chip, reasons) or "the number of cores"
    return fit_diagnostic(
        f"network of {counted(network.neurons, 'neuron')}",
        f"no map onto {counted(available, 'core')} exists (proved by CP-SAT, neuron by neuron)",
        f"the limits {parts} per core rule it out together" if len(reasons) > 1 else f"{parts} per core rule it out",
        "use more chips (--chips), or another chip",
        reasons=reasons,
        limit=available,
    )

"""Partitions for an objective, or the reasons that there is none and the smallest changes that fit; pinned cores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import NoReturn

from nirbridge import plugins as registry
from nirbridge.chips import Chip, CoreId, builtin_chips, core_at, cores_of, read_chip
from nirbridge.errors import (
    Diagnostic,
    DoesNotFit,
    ModelError,
    NirbridgeError,
    UsageError,
    counted,
    did_you_mean,
    quoted,
)
from nirbridge.network.model import Network
from nirbridge.partitioner import Partition, PartitionOptions, partition
from nirbridge.partitioner.cost.sizing import cost_model, total_out_degrees
from nirbridge.passes.base import run_passes
from nirbridge.passes.replicate_source import ReplicateSource
from nirbridge.pipeline.fit import PreparedNetwork, prepare_network, with_placement_hint
from nirbridge.pipeline.options import MapOptions

TRIED_NEURONS_MAX = 200_000
"""Above this many neurons changes that would fit are not tried: each trial takes seconds."""
ORDERED_MAX = 20_000
"""Above this many neurons a network whose neurons were put in order gets no other partitions: each takes minutes."""
SPREADS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Fractions of a core that ``latency`` tries to fill: 1/1, 1/2, …"""


def check_fit(network: Network, chip: Chip, options: MapOptions | None = None) -> tuple[Network, Partition]:
    """Does it fit? The network as it would be mapped, and a partition; weights are not needed, and nothing is placed.

    Raises:
        DoesNotFit: every reason, the limit that proves it, and changes that fit.
        ModelError: what the chip cannot run, unless ``placement_only`` is requested.
    """
    settings = options or MapOptions()
    prepared = prepare_network(network, chip, settings)
    if prepared.unsupported:
        raise_unfit(prepared, chip, settings, network)
    return prepared.network, partitions(prepared, chip, replace(settings, objective="cores"), network)[0]


def raise_unfit(prepared: PreparedNetwork, chip: Chip, options: MapOptions, model: Network) -> NoReturn:
    """Raises ModelError with all that the chip cannot run, or DoesNotFit where it does not even fit (quick search)."""
    partitions(prepared, chip, replace(options, objective="cores", effort="fast"), model)
    raise ModelError(*map(with_placement_hint, prepared.unsupported))


def partitions(prepared: PreparedNetwork, chip: Chip, options: MapOptions, model: Network) -> list[Partition]:
    """The partition for the fewest cores; for other objectives several, of which the best is taken.

    ``model``: what ``ready`` was prepared from, which other chips are tried with. Raises DoesNotFit, with the reasons
    why the delays are not other ones.
    """
    network = prepared.stored_network
    partition = registry.get("partitioners", options.method)
    base = _partition_options(network, options)
    try:
        first = partition(network, chip, base)
    except DoesNotFit as error:
        changes = _changes_that_fit(network, chip, options, model)
        raise DoesNotFit(*error.problems, *(prepared.unsupported or prepared.refused), *changes) from None
    candidates = [first]
    if first.report.interrupted or (first.orders and network.neurons > ORDERED_MAX):
        return candidates
    for other in _alternatives(base, options.objective):
        try:
            candidates.append(registry.get("partitioners", other.method)(network, chip, other))
        except DoesNotFit:
            continue
        except KeyboardInterrupt:
            if not options.keep_best:
                raise
            return [as_interrupted(p) for p in candidates]
        if candidates[-1].report.interrupted:
            break
    return candidates


def as_interrupted(partition: Partition) -> Partition:
    """The partition as the best one of a search that Ctrl-C ended."""
    return replace(partition, report=replace(partition.report, interrupted=True))


def _partition_options(network: Network, options: MapOptions) -> PartitionOptions:
    names = {p.name for p in network.populations}
    for name in options.pins:
        if name not in names:
            hint = did_you_mean(name, names) or "name one"
            raise UsageError.of("--pin", f"no population {quoted(name)}", f"there are {first_names(names)}", hint)
    groups = {cores: number + 1 for number, cores in enumerate(sorted(set(options.pins.values())))}
    return PartitionOptions(
        method=options.method,
        weight_bits=options.weight_bits,
        chips=options.chips,
        effort=options.effort,
        seed=options.seed,
        groups=MappingProxyType({name: groups[cores] for name, cores in options.pins.items()}),
        keep_best=options.keep_best,
        progress=options.progress,
    )


def _alternatives(base: PartitionOptions, objective: str) -> list[PartitionOptions]:
    if objective == "cores":
        return []
    methods = [replace(base, method=m) for m in ("packed", "sequential")]
    if objective == "traffic":
        return methods
    return methods + [replace(base, method="sequential", spread=s) for s in SPREADS[1:]]


def _changes_that_fit(network: Network, chip: Chip, options: MapOptions, model: Network) -> tuple[Diagnostic, ...]:
    if network.neurons > TRIED_NEURONS_MAX:
        found = f"not searched in a network of more than {TRIED_NEURONS_MAX:,} neurons"
        return (
            Diagnostic("changes that fit", found, "", "ask nirbridge check with --chips, --bits or another --chip"),
        )
    options.progress("changes that fit", None)
    found = remedies(network, chip, _partition_options(network, options), lambda *other: _runs(model, options, *other))
    if not found:
        nothing = "none found; tried more chips, fewer weight bits, a split source and other built-in chips, each alone"
        return (Diagnostic("changes that fit", nothing),)
    return (Diagnostic("changes that fit", "; or ".join(found)),)


def _runs(model: Network, options: MapOptions, chip: Chip, bits: int | None) -> Network | None:
    """The network as another chip, or other weights, would run it; None: it would not."""
    prepared = prepare_network(model, chip, replace(options, weight_bits=bits))
    return None if prepared.unsupported else prepared.stored_network


def first_names(names: set[str]) -> str:
    """The first eight names, for a message."""
    shown = [quoted(n) for n in sorted(names)]
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")


def pinned_blocks(partition: Partition, chip: Chip, options: MapOptions) -> dict[int, CoreId]:
    """The cores of blocks with slices of pinned populations. Raises UsageError."""
    pins: dict[int, CoreId] = {}
    for cores in sorted(set(options.pins.values())):
        names = {name for name, population_cores in options.pins.items() if population_cores == cores}
        blocks = [i for i, b in enumerate(partition.blocks) if any(s.population in names for s in b.slices)]
        if len(blocks) > len(cores):
            raise UsageError.of(
                f"--pin {first_names(names)}",
                f"takes {counted(len(blocks), 'core')}",
                f"{len(cores)} named",
                "name as many: --pin NAME=3,4,5",
            )
        beyond = [core for core in cores if core >= chip.mesh.cores * options.chips]
        if beyond:
            limit = f"cores of {options.chips} x {chip.name} are 0 to {chip.mesh.cores * options.chips - 1:,}"
            subject = f"--pin {first_names(names)}"
            raise UsageError.of(subject, f"core {beyond[0]:,}", limit, "choose one of these, or use more --chips")
        pins.update({block: _core(chip, core) for block, core in zip(blocks, cores, strict=False)})
    return pins


def _core(chip: Chip, number: int) -> CoreId:
    """The core of a number that runs on over the chips of a board."""
    on_chip, index = divmod(number, chip.mesh.cores)
    return core_at(chip, index, on_chip)


# -- remedies ------------------------------------------------------------------------------------------------------
# The smallest changes that make a network fit; each was tried.


SPLITS = (2, 3, 4, 6, 8, 12, 16)
"""Copies of a source that are tried, in this order."""
SOURCES_MAX = 3
"""Sources that are tried: those with the most targets a neuron."""


def remedies(
    network: Network, chip: Chip, options: PartitionOptions, prepare: Callable[[Chip, int | None], Network | None]
) -> tuple[str, ...]:
    """Single changes that fit, the smallest of each kind: more chips, fewer bits, a split source, another chip.

    Each is tried with first-fit packing, so a change that is left out may still fit with a longer search.
    ``prepare`` gives the network as a chip would run it with that many weight bits (None: the chip's own), and None
    where it would not: such a change is no remedy.
    """
    quick = replace(options, method="packed", effort="fast", progress=lambda *_: None)
    changes = [
        _more_chips(network, chip, quick),
        _fewer_bits(network, chip, quick, prepare),
        _split(network, chip, quick),
    ]
    for name in builtin_chips():
        if name != chip.name:
            changes.append(_another(read_chip(name), quick, prepare))
    return tuple(text for text in changes if text)


def _cores(network: Network, chip: Chip, options: PartitionOptions) -> int | None:
    try:
        return len(partition(network, chip, options).blocks)
    except NirbridgeError:
        return None


def _more_chips(network: Network, chip: Chip, options: PartitionOptions) -> str:
    chips_max = chip.mesh.chips_max
    needed = _cores(network, chip, replace(options, chips=chips_max)) if chips_max > options.chips else None
    if needed is None:
        return ""
    chips = next(n for n in range(options.chips, chips_max + 1) if len(cores_of(chip, n)) >= needed)
    return f"--chips {chips} ({needed:,} of {len(cores_of(chip, chips)):,} cores)"


def _fewer_bits(
    network: Network, chip: Chip, options: PartitionOptions, prepare: Callable[[Chip, int | None], Network | None]
) -> str:
    bits = options.weight_bits or chip.synapses.weight_bits_default
    for fewer in sorted((b for b in chip.synapses.weight_bits if b < bits), reverse=True):
        needed = _cores(network, chip, replace(options, weight_bits=fewer))
        if needed is not None and prepare(chip, fewer) is not None:
            return f"--bits {fewer} ({needed:,} of {len(cores_of(chip, options.chips)):,} cores)"
    return ""


def _split(network: Network, chip: Chip, options: PartitionOptions) -> str:
    """The split that adds the fewest neurons; only where the network fits but for the limit of output axons."""
    unlimited = replace(chip, core=replace(chip.core, output_axons=None))
    if chip.core.output_axons is None or _cores(network, unlimited, options) is None:
        return ""
    splits: list[tuple[int, str]] = []
    for name in _widest_sources(network, chip, options):
        for ways in SPLITS:
            needed = _after_split(network, name, ways, chip, options)
            if needed is not None:
                extra = (ways - 1) * network.population(name).size
                cores = len(cores_of(chip, options.chips))
                costs = f"{counted(extra, 'neuron')} more, {needed:,} of {counted(cores, 'core')}"
                text = f"--split {quoted(name)}={ways} ({costs})"
                splits.append((extra, text))
                break
    return min(splits)[1] if splits else ""


def _widest_sources(network: Network, chip: Chip, options: PartitionOptions) -> list[str]:
    """Populations whose neurons have the most targets, with two targets at least."""
    degrees = total_out_degrees(cost_model(network, chip, options.weight_bits or chip.synapses.weight_bits_default))
    targets_max = {p.name: int(degrees[p.name].max(initial=0)) for p in network.populations if p.name in degrees}
    wide = [name for name in targets_max if targets_max[name] > 1]
    return sorted(wide, key=lambda name: -targets_max[name])[:SOURCES_MAX]


def _after_split(network: Network, name: str, ways: int, chip: Chip, options: PartitionOptions) -> int | None:
    try:
        return _cores(run_passes(network, [ReplicateSource(name, ways)]), chip, options)
    except NirbridgeError:
        return None


def _another(chip: Chip, options: PartitionOptions, prepare: Callable[[Chip, int | None], Network | None]) -> str:
    try:
        network = prepare(chip, None)
    except NirbridgeError:
        return ""
    if network is None:
        return ""
    needed = _cores(network, chip, replace(options, weight_bits=None, chips=1))
    return "" if needed is None else f"--chip {chip.name} ({needed:,} of {len(cores_of(chip)):,} cores)"

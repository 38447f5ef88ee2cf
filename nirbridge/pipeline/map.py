"""A network mapped onto the cores of a chip, improved and accepted by the checker, with its costs per time step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from nirbridge.arrays import Array
from nirbridge.chips import Chip, CoreId, cores_of
from nirbridge.errors import UsageError, did_you_mean, quoted
from nirbridge.mapping.checker.check import check_mapping
from nirbridge.mapping.cost import costs
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.placement.neuron_moves import Moved, move_neurons
from nirbridge.mapping.placement.place import annealed_on_trees, place
from nirbridge.mapping.placement.slice_moves import move_slices
from nirbridge.mapping.rates import assumed_rates
from nirbridge.mapping.traffic import Traffic, traffic
from nirbridge.mapping.traffic_bound import traffic_lower_bound
from nirbridge.network.model import Network, with_operators
from nirbridge.network.operators import Operator
from nirbridge.partitioner import Partition
from nirbridge.partitioner.cost.axons import AxonTable, axon_table, full_run_words, resource_use, spikes_per_block
from nirbridge.partitioner.cost.resources import exceeded, limits
from nirbridge.partitioner.cost.sizing import CostModel, cost_model
from nirbridge.partitioner.model import Block, BlockId
from nirbridge.partitioner.ordering import in_orders, ordered_network
from nirbridge.partitioner.search.interruption import finished
from nirbridge.passes import RetimedNetwork
from nirbridge.pipeline.fit import PreparedNetwork, prepare_network, prepare_retimed
from nirbridge.pipeline.options import BOUNDS, OBJECTIVES, MapOptions
from nirbridge.pipeline.partitioning import as_interrupted, first_names, partitions, pinned_blocks, raise_unfit
from nirbridge.quantization.model import QuantizedNetwork

Draft = Callable[..., MappedNetwork]
"""The function that makes drafts: ``place_partition`` with all but a partition, options and cores given."""


# -- improvements --------------------------------------------------------------------------------------------------
# A placed map made better: slices, neurons and blocks moved to where their spikes take fewer links.
#
# Each step takes a draft (``place_partition``), its options and the function that makes drafts, and gives a draft: the
# same one where nothing better was found.


def with_moved_slices(mapped: MappedNetwork, options: MapOptions, draft: Draft) -> MappedNetwork:
    """Slices on other cores, and their blocks. Those of pinned blocks stay where they are."""
    return _with_moved_slices(mapped, options, draft, new_cores=False)


def with_slices_on_new_cores(mapped: MappedNetwork, options: MapOptions, draft: Draft) -> MappedNetwork:
    """The same with free cores: after the search without them, which often finds more than this one alone."""
    return _with_moved_slices(mapped, options, draft, new_cores=True)


def _with_moved_slices(mapped: MappedNetwork, options: MapOptions, draft: Draft, *, new_cores: bool) -> MappedNetwork:
    blocks = tuple(b.slices for b in mapped.partition.blocks)
    if len(blocks) < 2 or all(len(slices) == 1 for slices in blocks):
        return mapped
    if not new_cores:  # whose slices have moved already
        mapped = with_annealed_trees(mapped, options, draft)
    sizes, rates = _sizes_and_rates(mapped, options)
    moved = move_slices(
        sizes,
        blocks,
        mapped.cores,
        rates,
        cores_of(mapped.chip, options.chips),
        new_cores=new_cores,
        fixed=pinned_blocks(mapped.partition, mapped.chip, options),
        seed=options.seed,
        effort=options.effort,
        progress=options.progress,
    )
    return _as_draft(mapped, sizes, moved, options, draft)


def with_moved_neurons(mapped: MappedNetwork, options: MapOptions, draft: Draft) -> MappedNetwork:
    """Single neurons on other cores. Maps with pinned populations keep their neurons where they are."""
    if options.pins or len(mapped.partition.blocks) < 2:
        return mapped
    sizes, rates = _sizes_and_rates(mapped, options)
    moved = move_neurons(
        sizes,
        tuple(b.slices for b in mapped.partition.blocks),
        mapped.cores,
        rates,
        cores_of(mapped.chip, options.chips),
        seed=options.seed,
        effort=options.effort,
        progress=options.progress,
    )
    return _as_draft(mapped, sizes, moved, options, draft)


def with_annealed_trees(mapped: MappedNetwork, options: MapOptions, draft: Draft) -> MappedNetwork:
    """Blocks, but pinned ones, annealed on their exact trees.

    Before moves of slices it is a start for warm runs. These and moves of neurons make other blocks, so it comes after
    them, too.
    """
    cores = annealed_on_trees(
        traffic(mapped.axons, len(mapped.cores)),
        mapped.cores,
        mapped.chip,
        chips=options.chips,
        seed=options.seed,
        effort=options.effort,
        pins=pinned_blocks(mapped.partition, mapped.chip, options),
        progress=options.progress,
    )
    return mapped if cores == mapped.cores else draft(mapped.partition, options, cores)


def _sizes_and_rates(mapped: MappedNetwork, options: MapOptions) -> tuple[CostModel, Mapping[str, Array]]:
    """The network as the cores store it, in the orders of the partition, and its rates in these."""
    partition = mapped.partition
    rates = (options.rates if options.rates is not None else assumed_rates(mapped.network))[0]
    network = ordered_network(mapped.stored_network, partition.orders)
    return cost_model(network, mapped.chip, partition.weight_bits), in_orders(rates, partition.orders)


def _as_draft(
    mapped: MappedNetwork, sizes: CostModel, moved: Moved | None, options: MapOptions, draft: Draft
) -> MappedNetwork:
    """The map with other blocks, where there are any and every one is within every limit, counted in full."""
    if moved is None:
        return mapped
    used, limit = resource_use(sizes, moved.blocks), limits(mapped.chip)
    if any(exceeded(own, limit) for own in used):
        return mapped
    return draft(_repartitioned(mapped.partition, moved, used), options, moved.cores)


def _repartitioned(partition: Partition, moved: Moved, used: Sequence[Mapping[str, int]]) -> Partition:
    """The partition with other blocks; its bounds on the cores of any map still hold."""
    blocks = (Block(BlockId(i), s, u) for i, (s, u) in enumerate(zip(moved.blocks, used, strict=True)))
    report, cores = partition.report, len(moved.blocks)
    lower, sliced = report.cores_lower_bound, report.cores_lower_bound_sliced
    sliced = lower if cores < sliced else sliced  # these blocks are none of the tilings that bound is of
    status = "optimal" if cores == lower else "optimal-sliced" if cores == sliced else "feasible"
    report = replace(report, cores=cores, cores_lower_bound_sliced=sliced, status=status)
    return replace(partition, blocks=tuple(blocks), report=report)


# -- maps ----------------------------------------------------------------------------------------------------------


TIGHT_MAX = 256
"""Cores up to which the bound on hops is tight by default: it takes a second for 229 of PilotNet."""


def map_network(network: Network, chip: Chip, options: MapOptions | None = None) -> MappedNetwork:
    """Partition, place, route and cost a network as it will run, and let the independent checker pass the result.

    Raises:
        DoesNotFit: it does not fit; every reason, the limit that proves it, and changes that fit.
        ModelError: what the chip cannot run, unless ``placement_only`` is requested; ``retime`` is 'always', and there
            are no delays that hold the hops.
        IllegalMapping: the checker found a fault, which is a bug of nirbridge.
        UsageError: an option that makes no sense.
    """
    settings = _checked(options)
    return replace(_mapped(prepare_network(network, chip, settings), network, chip, settings), model=network)


def map_retimed(
    retimed: RetimedNetwork,
    chip: Chip,
    options: MapOptions | None = None,
    integers: QuantizedNetwork | None = None,
) -> MappedNetwork:
    """The map of a network that is already retimed, as in ``map_network``; ``integers``: those that will run, if known.

    Raises DoesNotFit.
    """
    settings = _checked(options)
    prepared = prepare_retimed(retimed, chip, settings, integers)
    return _mapped(prepared, retimed.reference, chip, settings, integers)


def _checked(options: MapOptions | None) -> MapOptions:
    settings = options or MapOptions()
    if settings.objective not in OBJECTIVES:
        hint = did_you_mean(settings.objective, OBJECTIVES) or "choose one of these"
        raise UsageError.of("--objective", quoted(settings.objective), f"there are {', '.join(OBJECTIVES)}", hint)
    if settings.bound not in BOUNDS:
        hint = did_you_mean(settings.bound, BOUNDS) or "choose one of these"
        raise UsageError.of("--bound", quoted(settings.bound), f"there are {', '.join(BOUNDS)}", hint)
    return settings


def _mapped(
    prepared: PreparedNetwork,
    model: Network,
    chip: Chip,
    options: MapOptions,
    integers: QuantizedNetwork | None = None,
) -> MappedNetwork:
    if prepared.unsupported:
        raise_unfit(prepared, chip, options, model)
    with_rates = replace(options, rates=prepared.rates)
    best = _best_placed(prepared, chip, partitions(prepared, chip, with_rates, model), with_rates)
    best = replace(best, latency=prepared.latency, placement_only=prepared.placement_only, early_spikes=prepared.early)
    best = replace(best, quantized=integers)
    with_rates.progress("check", None)
    _, is_interrupted = finished(options.keep_best, check_mapping, best)
    return _marked(best) if is_interrupted else best


def _best_placed(
    prepared: PreparedNetwork, chip: Chip, candidates: Sequence[Partition], options: MapOptions
) -> MappedNetwork:
    """The best map of some partitions; Ctrl-C gives the best so far, marked, where the options want it."""
    is_interrupted = any(p.report.interrupted for p in candidates)
    quick = replace(options, effort="fast")  # for a user who waits
    settings, score = quick if is_interrupted else options, _score(options)
    draft = partial(place_partition, prepared.network, chip, draft=True, stored=prepared.stored)
    best: MappedNetwork | None = None
    try:
        for p in candidates:
            placed = draft(p, settings)
            if options.objective == "traffic":  # which partition is best shows only then
                placed = _better(placed, _of_slices(), settings, draft)
            best = placed if best is None else min(best, placed, key=score)
        for better in _improvements(options):
            if best is not None:
                best = _better(best, (better,), settings, draft)
    except KeyboardInterrupt:
        if not options.keep_best:
            raise
        is_interrupted = True
    if best is None:
        best = draft(candidates[0], quick)
    return _bounded(best, options, is_interrupted)


def _bounded(best: MappedNetwork, options: MapOptions, is_interrupted: bool) -> MappedNetwork:
    """A draft as a map, marked where it was interrupted: then, or where an interrupt comes now, with a quick bound."""
    options.progress("bounds", None)
    is_small = len(best.cores) <= TIGHT_MAX
    is_tight = options.bound == "tight" or (options.bound == "auto" and (is_small or options.effort == "max"))
    if not is_interrupted:
        try:
            return _completed(best, quick=not is_tight)
        except KeyboardInterrupt:
            if not options.keep_best:
                raise
    last = partial(_completed, best, quick=not (is_tight and is_small))
    return _marked(finished(options.keep_best, last)[0])


Improvement = Callable[..., MappedNetwork]
"""A draft, its options and the function that makes drafts -> a draft."""


def _better(
    placed: MappedNetwork, improvements: Sequence[Improvement], options: MapOptions, draft: Improvement
) -> MappedNetwork:
    """The map after some improvements, each kept where it is one."""
    for better in improvements:
        placed = min(better(placed, options, draft), placed, key=_score(options))
    return placed


def _of_slices() -> tuple[Improvement, ...]:
    return with_moved_slices, with_annealed_trees


def _improvements(options: MapOptions) -> tuple[Improvement, ...]:
    """What makes the best placed map better, in order."""
    if options.objective == "traffic":
        return with_slices_on_new_cores, with_moved_neurons, with_annealed_trees
    return _of_slices()


def _marked(mapped: MappedNetwork) -> MappedNetwork:
    return replace(mapped, partition=as_interrupted(mapped.partition))


def _score(options: MapOptions) -> Callable[[MappedNetwork], tuple[float, ...]]:
    def score(mapped: MappedNetwork) -> tuple[float, ...]:
        cores, costs = len(mapped.cores), mapped.costs
        if options.objective == "traffic":
            return (costs.multicast_hops_per_step, costs.unicast_spikes_per_step, cores)
        if options.objective == "latency":
            return (math.inf if costs.time_per_step_s is None else costs.time_per_step_s, cores)
        return (cores, costs.multicast_hops_per_step)

    return score


def place_partition(
    network: Network,
    chip: Chip,
    partition: Partition,
    options: MapOptions | None = None,
    cores: tuple[CoreId, ...] | None = None,
    stored: Mapping[int, Operator] = MappingProxyType({}),
    *,
    draft: bool = False,
) -> MappedNetwork:
    """Place (unless ``cores`` says where each block sits), route and cost one partition, without the checker.

    ``stored``: as of ``MappedNetwork``. ``draft``: of a map that is still to be improved; trees are not annealed, the
    bound on traffic is 0, and notes on the blocks are left out (``_completed``).

    Raises:
        DoesNotFit: more blocks than cores.
        UsageError: pins that cannot be.
    """
    options = options or MapOptions()
    rates, origin = options.rates if options.rates is not None else assumed_rates(network)
    sizes = cost_model(ordered_network(with_operators(network, stored), partition.orders), chip, partition.weight_bits)
    rates = in_orders(rates, partition.orders)
    table = axon_table(sizes, blocks := tuple(b.slices for b in partition.blocks), rates)
    nets = traffic(table, len(blocks))
    cores = _placed(table, nets, partition, chip, options, trees=not draft) if cores is None else cores
    counts = [b.used["neurons"] for b in partition.blocks], spikes_per_block(sizes, blocks, rates)
    settings = {"chips": options.chips, "spikes_per_block": counts[1], "nets": nets, "bounded": not draft}
    paid = costs(table, cores, chip, counts[0], **settings)
    network = network if draft else _noted(network, sizes, partition)
    splits = tuple(options.splits.items())
    placed = (partition, cores, table, paid, options.objective, origin, splits)
    return MappedNetwork(network, chip, options.chips, *placed, stored=stored)


def _completed(draft: MappedNetwork, *, quick: bool) -> MappedNetwork:
    """A draft as a map: with the lower bound on its multicast hops (``quick``: as of that) and notes on its blocks."""
    partition, chip, cores = draft.partition, draft.chip, len(draft.cores)
    sizes = cost_model(ordered_network(draft.stored_network, partition.orders), chip, partition.weight_bits)
    bound = traffic_lower_bound(draft.axons, cores, chip, chips=draft.chips, quick=quick)
    network, paid = _noted(draft.network, sizes, partition), replace(draft.costs, traffic_lower_bound=bound)
    return replace(draft, network=network, costs=paid)


def _noted(network: Network, sizes: CostModel, partition: Partition) -> Network:
    """The network with the notes on its blocks."""
    notes = (*network.notes, *_full_runs(sizes, partition), *_other_orders(partition))
    return replace(network, notes=notes)


def _placed(
    table: AxonTable, nets: Traffic, partition: Partition, chip: Chip, options: MapOptions, *, trees: bool
) -> tuple[CoreId, ...]:
    """The core of each block."""
    return place(
        table,
        len(partition.blocks),
        chip,
        chips=options.chips,
        seed=options.seed,
        effort=options.effort,
        pins=pinned_blocks(partition, chip, options),
        progress=options.progress,
        nets=nets,
        trees=trees,
    )


def _other_orders(partition: Partition) -> tuple[str, ...]:
    """A note that slices do not count neurons as the model does, where that is so."""
    if not partition.orders:
        return ()
    found = f"slices of {first_names(set(partition.orders))} are ranges of another order of the neurons"
    return (
        f"{found}, which the map file lists; mapped.where(population, neuron) is the core of a neuron of the model",
    )


def _full_runs(sizes: CostModel, partition: Partition) -> tuple[str, ...]:
    """Synaptic memory of the map with full runs, as a note of every map that cuts runs freely."""
    words = full_run_words(sizes, tuple(b.slices for b in partition.blocks))
    fmt = sizes.chip.synapses
    if words is None or fmt.words is None or sum(words) == sum(b.used["synapse_words"] for b in partition.blocks):
        return ()
    over = sum(w > fmt.words for w in words)
    return (
        f"with full runs of {fmt.run_targets_max} targets instead of runs of free length this map would take "
        f"{sum(words):,} words, and {over} of {len(words)} cores would hold too many",
    )

"""A placed map made better: slices, neurons and blocks moved to where their spikes take fewer links.

Each step takes a draft (``pipeline.map.place_partition``), its options and the function that makes drafts, and gives a
draft: the same one where nothing better was found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from nirbridge.chips import cores_of
from nirbridge.pipeline.options import MapOptions
from nirbridge.pipeline.partitioning import pinned_blocks

if TYPE_CHECKING:
    from nirbridge.arrays import Array
    from nirbridge.mapping.model import MappedNetwork
    from nirbridge.mapping.placement.neuron_moves import Moved
    from nirbridge.partitioner.cost.sizing import CostModel
    from nirbridge.partitioner.model import Partition

    Draft = Callable[..., MappedNetwork]


def with_moved_slices(mapped: MappedNetwork, options: MapOptions, draft: Draft) -> MappedNetwork:
    """Slices on other cores, and their blocks. Those of pinned blocks stay where they are."""
    return _with_moved_slices(mapped, options, draft, new_cores=False)


def with_slices_on_new_cores(mapped: MappedNetwork, options: MapOptions, draft: Draft) -> MappedNetwork:
    """The same with free cores: after the search without them, which often finds more than this one alone."""
    return _with_moved_slices(mapped, options, draft, new_cores=True)


def _with_moved_slices(mapped: MappedNetwork, options: MapOptions, draft: Draft, *, new_cores: bool) -> MappedNetwork:
    from nirbridge.mapping.placement.slice_moves import move_slices

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
    from nirbridge.mapping.placement.neuron_moves import move_neurons

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
    from nirbridge.mapping.placement.place import annealed_on_trees
    from nirbridge.mapping.traffic import traffic

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
    from nirbridge.mapping.rates import assumed_rates
    from nirbridge.partitioner.cost.sizing import cost_model
    from nirbridge.partitioner.ordering import in_orders, ordered_network

    partition = mapped.partition
    rates = (options.rates if options.rates is not None else assumed_rates(mapped.network))[0]
    network = ordered_network(mapped.stored_network, partition.orders)
    return cost_model(network, mapped.chip, partition.weight_bits), in_orders(rates, partition.orders)


def _as_draft(
    mapped: MappedNetwork, sizes: CostModel, moved: Moved | None, options: MapOptions, draft: Draft
) -> MappedNetwork:
    """The map with other blocks, where there are any and every one is within every limit, counted in full."""
    from nirbridge.partitioner.cost.resources import exceeded, limits
    from nirbridge.partitioner.cost.usage import resource_use

    if moved is None:
        return mapped
    used, limit = resource_use(sizes, moved.blocks), limits(mapped.chip)
    if any(exceeded(own, limit) for own in used):
        return mapped
    return draft(_repartitioned(mapped.partition, moved, used), options, moved.cores)


def _repartitioned(partition: Partition, moved: Moved, used: Sequence[Mapping[str, int]]) -> Partition:
    """The partition with other blocks; its bounds on the cores of any map still hold."""
    from nirbridge.partitioner.model import Block, BlockId

    blocks = (Block(BlockId(i), s, u) for i, (s, u) in enumerate(zip(moved.blocks, used, strict=True)))
    report, cores = partition.report, len(moved.blocks)
    lower, sliced = report.cores_lower_bound, report.cores_lower_bound_sliced
    sliced = lower if cores < sliced else sliced  # these blocks are none of the tilings that bound is of
    status = "optimal" if cores == lower else "optimal-sliced" if cores == sliced else "feasible"
    report = replace(report, cores=cores, cores_lower_bound_sliced=sliced, status=status)
    return replace(partition, blocks=tuple(blocks), report=report)

"""``--objective traffic``: neurons moved between the cores of a placed map, then its blocks on their exact trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from nirbridge.chips import cores_of
from nirbridge.pipeline.options import MapOptions

if TYPE_CHECKING:
    from nirbridge.chips.model import CoreId
    from nirbridge.mapping.model import MappedNetwork
    from nirbridge.mapping.placement.neuron_moves import Moved
    from nirbridge.network.model import Network
    from nirbridge.partitioner.cost.sizing import CostModel
    from nirbridge.partitioner.model import Partition

WITHOUT_NUMBA = "neurons stay on the cores of their block: moving them takes the compiled search (extra 'fast')"


def with_moved_neurons(
    mapped: MappedNetwork, network: Network, options: MapOptions, place: Callable[..., MappedNetwork]
) -> MappedNetwork | None:
    """The map of ``network`` with neurons moved to where their spikes take fewer links; None: there is no such map.

    ``place``: ``pipeline.map.place_partition``. Maps with pinned populations keep their neurons where they are.
    """
    from nirbridge.mapping.placement.compiled import is_available
    from nirbridge.mapping.placement.neuron_moves import move_neurons
    from nirbridge.mapping.rates import assumed_rates
    from nirbridge.partitioner.cost.sizing import cost_model
    from nirbridge.partitioner.ordering import in_orders, ordered_network
    from nirbridge.partitioner.search.methods import is_within

    partition = mapped.partition
    if options.pins or len(partition.blocks) < 2:
        return None
    if not is_available():
        notes = (*mapped.network.notes, WITHOUT_NUMBA)
        return replace(mapped, network=replace(mapped.network, notes=notes))
    rates = (options.rates if options.rates is not None else assumed_rates(mapped.network))[0]
    sizes = cost_model(ordered_network(mapped.stored_network, partition.orders), mapped.chip, partition.weight_bits)
    moved = move_neurons(
        sizes,
        tuple(b.slices for b in partition.blocks),
        mapped.cores,
        in_orders(rates, partition.orders),
        cores_of(mapped.chip, options.chips),
        seed=options.seed,
        effort=options.effort,
        progress=options.progress,
    )
    if moved is None or not is_within(sizes, moved.blocks):
        return None
    return place(network, mapped.chip, _repartitioned(partition, sizes, moved), options, moved.cores, mapped.stored)


def with_annealed_trees(
    mapped: MappedNetwork,
    network: Network,
    options: MapOptions,
    place: Callable[..., MappedNetwork],
    pins: Mapping[int, CoreId],
) -> MappedNetwork:
    """The map of ``network`` with its blocks, but those of ``pins``, annealed on their exact trees.

    This comes after moves of neurons: they make it useless for the blocks that were before. ``place``:
    ``pipeline.map.place_partition``.
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
        pins=pins,
        progress=options.progress,
    )
    if cores == mapped.cores:
        return mapped
    return place(network, mapped.chip, mapped.partition, options, cores, mapped.stored)


def _repartitioned(partition: Partition, sizes: CostModel, moved: Moved) -> Partition:
    """The partition with other blocks; its bounds on the cores of any map still hold."""
    from nirbridge.partitioner.cost.usage import resource_use
    from nirbridge.partitioner.model import Block, BlockId

    used = resource_use(sizes, moved.blocks)
    blocks = (Block(BlockId(i), s, u) for i, (s, u) in enumerate(zip(moved.blocks, used, strict=True)))
    report, cores = partition.report, len(moved.blocks)
    lower, sliced = report.cores_lower_bound, min(report.cores_lower_bound_sliced, cores)
    status = "optimal" if cores == lower else "optimal-sliced" if cores == sliced else "feasible"
    report = replace(report, cores=cores, cores_lower_bound_sliced=max(sliced, lower), status=status)
    return replace(partition, blocks=tuple(blocks), report=report)

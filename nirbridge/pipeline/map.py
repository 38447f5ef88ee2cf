"""A network on the cores of a chip, and nothing that the checker refuses."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from nirbridge.errors import UsageError, quoted
from nirbridge.pipeline.fit import Ready, prepare, prepare_retimed
from nirbridge.pipeline.options import OBJECTIVES, MapOptions
from nirbridge.pipeline.partitioning import partitions, refuse
from nirbridge.pipeline.placing import complete

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip
    from nirbridge.mapping.model import Mapped
    from nirbridge.network.model import Network
    from nirbridge.passes import Retimed


def map_network(network: Network, chip: Chip, options: MapOptions | None = None) -> Mapped:
    """Partition, place, route and cost a network as it will run, and let the independent checker pass the result.

    Raises:
        DoesNotFit: it does not fit; every reason, what proves it, and what would fit.
        ModelError: what the chip cannot run, unless ``placement_only`` is requested; ``retime`` is 'always', and there
            are no delays that hold the hops.
        IllegalMapping: the checker found a fault, which is a bug of nirbridge.
        UsageError: an option that makes no sense.
    """
    chosen = _checked(options)
    return _mapped(prepare(network, chip, chosen), network, chip, chosen)


def map_retimed(retimed: Retimed, chip: Chip, options: MapOptions | None = None) -> Mapped:
    """The map of a retimed network: what ``map_network`` makes of the network that was retimed. Raises DoesNotFit."""
    chosen = _checked(options)
    return _mapped(prepare_retimed(retimed, chip, chosen), retimed.reference, chip, chosen)


def _checked(options: MapOptions | None) -> MapOptions:
    chosen = options or MapOptions()
    if chosen.objective not in OBJECTIVES:
        raise UsageError.of(
            "--objective", quoted(chosen.objective), f"there are {', '.join(OBJECTIVES)}", "choose one of these"
        )
    return chosen


def _mapped(ready: Ready, model: Network, chip: Chip, options: MapOptions) -> Mapped:
    from nirbridge.mapping.checker import check

    if ready.unsupported:
        refuse(ready, chip, options, model)
    chosen = replace(options, rates=ready.rates)
    found = partitions(ready, chip, chosen, model)
    best = min((complete(ready.network, chip, p, chosen) for p in found), key=_score(chosen))
    best = replace(best, latency=ready.latency, placement_only=ready.placement_only, early_spikes=ready.early)
    chosen.progress("check", None)
    check.verify(best)
    return best


def _score(options: MapOptions) -> Callable[[Mapped], tuple[float, ...]]:
    def score(mapped: Mapped) -> tuple[float, ...]:
        cores, costs = len(mapped.cores), mapped.costs
        if options.objective == "traffic":
            return (costs.multicast_hops_per_step, costs.unicast_spikes_per_step, cores)
        if options.objective == "latency":
            return (math.inf if costs.time_per_step_s is None else costs.time_per_step_s, cores)
        return (cores, costs.multicast_hops_per_step)

    return score

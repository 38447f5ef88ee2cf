"""A network on the cores of a chip, and nothing that the checker refuses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from nirbridge.errors import UsageError, quoted
from nirbridge.pipeline.fit import fit_to_chip, rates_of_copies, split_sources
from nirbridge.pipeline.options import OBJECTIVES, MapOptions
from nirbridge.pipeline.partitioning import partitions
from nirbridge.pipeline.placing import complete

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip
    from nirbridge.mapping.model import Mapped
    from nirbridge.network.model import Network


def map_network(network: Network, chip: Chip, options: MapOptions | None = None) -> Mapped:
    """Partition, place, route and cost a network, and let the independent checker pass the result.

    Raises:
        DoesNotFit: it does not fit; every reason, what proves it, and what would fit.
        IllegalMapping: the checker found a fault, which is a bug of nirbridge.
        UsageError: an option that makes no sense.
    """
    from nirbridge.mapping import check

    chosen = options or MapOptions()
    if chosen.objective not in OBJECTIVES:
        raise UsageError.of(
            "--objective", quoted(chosen.objective), f"there are {', '.join(OBJECTIVES)}", "choose one of these"
        )
    ready = fit_to_chip(network, chip, relays=chosen.relays)
    chosen = rates_of_copies(ready, chosen)
    ready = split_sources(ready, chosen.splits)
    best = min((complete(ready, chip, p, chosen) for p in partitions(ready, chip, chosen)), key=_score(chosen))
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

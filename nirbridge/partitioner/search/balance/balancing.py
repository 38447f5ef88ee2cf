"""Few cores by balanced fillings: fillings with the output axons of those before, repair, then few cores at a time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array, weighted_sum
from nirbridge.partitioner.cost.axons import Blocks
from nirbridge.partitioner.cost.connectivity import Explicit, synapses
from nirbridge.partitioner.cost.sizing import CostModel
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search.balance.filling import Content, Near, fill, share
from nirbridge.partitioner.search.balance.ragged import ragged_columns, with_ragged
from nirbridge.partitioner.search.balance.swaps import core_slots
from nirbridge.partitioner.search.balance.ways import Stretch, StretchCosts, Way, ways_of
from nirbridge.partitioner.search.cores import Work
from nirbridge.partitioner.search.interruption import interrupted
from nirbridge.partitioner.search.packing import in_core_order
from nirbridge.partitioner.search.slicing import UNLIMITED

LISTED_MAX = 300_000
"""Synapses of projections without a closed form, at most: their stretches are listed one by one."""
WEIGHTS = (0.05, 0.95)
"""Of neurons and of words, where ways are compared: a neuron takes one place in any of them."""
POWER = 4.0
"""How much more the scarcer resource counts in a filling."""
POWERS = (2.0, 4.0, 8.0)
"""The same where few cores are filled anew."""
PASSES = 3
"""Fillings, each with the output axons of those before."""
REPAIRS = 8
"""Rounds in which cores with too many output axons, and as many with few, are filled anew."""
FREED = (4, 16)
"""Cores that are filled anew at a time, beside the two that are least full: from, to before."""
NEAR_SHARE = 0.7
"""How much less a stretch is worth to a core of a far population (``filling.Near``)."""
NOISE = 0.5
"""Spread of the order of stretches in these fillings (of the logarithm of words per neuron)."""


@dataclass(frozen=True, slots=True)
class BalanceBudget:
    """Work (``ways.COST_WORK``), at least ``of_neuron`` for each neuron, and how often few cores are filled anew."""

    work: int
    tries: int
    of_neuron: int = 0


def balanced(
    sizes: CostModel,
    cap: Array,
    groups: Mapping[str, int],
    enough: int,
    budget: BalanceBudget,
    seed: int,
    near: Near | None = None,
) -> Blocks | None:
    """Cores by balanced fillings; stops at ``enough`` cores. None: no filling is legal, or the work was spent.

    With columns that leave channels out where that saves words (``ragged``), without them where none is legal then.
    """
    forms = [edge.form for edges in sizes.incoming.values() for edge in edges]
    if sum(synapses(form) for form in forms if isinstance(form, Explicit)) > LISTED_MAX:
        return None
    left = ragged_columns(sizes)
    for columns in (left, {}) if left else ({},):
        costs = StretchCosts(sizes, cap, Work(max(budget.work, budget.of_neuron * sizes.network.neurons)))
        ways = with_ragged(costs, ways_of(costs, WEIGHTS, groups), columns)
        cores = _filled(costs, ways, near) if ways else None
        if cores is not None:
            cores = _improved(costs, ways, cores, enough, budget.tries, seed, near)
            return tuple(_block(sizes, content) for content in cores)
    return None


def nearer(
    sizes: CostModel, cap: Array, groups: Mapping[str, int], blocks: Blocks, budget: BalanceBudget, seed: int
) -> Blocks | None:
    """As many cores as ``balanced`` found, which populations near each other in the network share; None: not found.

    Such a preference costs cores, which more tries win back.
    """
    places = {name: place for place, name in enumerate(sizes.shapes)}
    found = balanced(sizes, cap, groups, len(blocks), budget, seed, Near(places, NEAR_SHARE))
    return found if found is not None and len(found) <= len(blocks) else None


def completed(
    costs: StretchCosts, ways: list[Way], cores: Sequence[Content], rest: Content, enough: int, tries: int, seed: int
) -> Blocks | None:
    """The cores and further ones with the rest, repaired and then few filled anew. None: nothing legal was found."""
    costs.charge(ways, _slots(costs, cores))
    more = fill(costs, _freed([rest], [0]), POWER)
    found = None if more is None else _repaired(costs, ways, [*cores, *more])
    if found is None:
        return None
    return tuple(_block(costs.sizes, content) for content in _improved(costs, ways, found, enough, tries, seed))


def _block(sizes: CostModel, content: Content) -> tuple[Slice, ...]:
    slices = [s for way, start, stop in content for s in way.slices(start, stop)]
    return in_core_order(slices, tuple(sizes.shapes))


def _filled(costs: StretchCosts, ways: list[Way], near: Near | None) -> list[Content] | None:
    """Fillings that charge the output axons of all those before; the last one is repaired."""
    slots = {name: np.zeros(shape, np.int64) for name, shape in costs.sizes.shapes.items()}
    cores: list[Content] | None = None
    for _ in range(PASSES):
        costs.charge(ways, slots)
        cores = fill(costs, [Stretch(way, 0, way.size) for way in ways], POWER, near)
        if cores is None:
            return None
        found = _slots(costs, cores)
        costs.charge(ways, found)
        if not _over(costs, cores):
            return cores
        slots = {name: np.maximum(slots[name], n) for name, n in found.items()}
    return None if cores is None else _repaired(costs, ways, cores, near)


def _slots(costs: StretchCosts, cores: Sequence[Content]) -> dict[str, Array]:
    """Output axons of each neuron, by population; none where they are not limited."""
    limited = costs.cap[5] < UNLIMITED
    return core_slots(costs.sizes, tuple(_block(costs.sizes, content) for content in cores) if limited else ())


def _output_axons(costs: StretchCosts, content: Content) -> int:
    return sum(costs.cost(*part)[5] for part in content)


def _over(costs: StretchCosts, cores: Sequence[Content]) -> list[int]:
    """The cores with more output axons than they may have, as they are charged."""
    return [i for i, content in enumerate(cores) if _output_axons(costs, content) > costs.cap[5]]


def _repaired(
    costs: StretchCosts, ways: list[Way], cores: list[Content], near: Near | None = None
) -> list[Content] | None:
    """Fill cores with too many output axons anew, with as many that have few; None: some are left."""
    for _ in range(REPAIRS):
        costs.charge(ways, _slots(costs, cores))
        over = _over(costs, cores)
        if not over:
            return cores
        by_use = sorted(range(len(cores)), key=lambda i: _output_axons(costs, cores[i]))
        freed = {*over, *by_use[: len(over)]}
        again = fill(costs, _freed(cores, freed), POWER, near)
        if again is None:
            return None
        cores = [*(c for i, c in enumerate(cores) if i not in freed), *again]
    return None


def _freed(cores: Sequence[Content], chosen: Collection[int]) -> list[Stretch]:
    """The stretches of some cores, those that touch joined."""
    parts = [part for i in chosen for part in cores[i]]
    found: list[Stretch] = []
    for way, start, stop in sorted(parts, key=lambda p: (p[0].population, p[0].first_channel, p[1])):
        if found and found[-1].way is way and found[-1].stop == start:
            found[-1].stop = stop
        else:
            found.append(Stretch(way, start, stop))
    return found


def _improved(
    costs: StretchCosts,
    ways: list[Way],
    cores: list[Content],
    enough: int,
    tries: int,
    seed: int,
    near: Near | None = None,
) -> list[Content]:
    """Fill few cores anew, some tries: kept where there are fewer cores, or the same number less evenly filled.

    What is left of a core then collects in one, until it is empty.
    """
    rng = np.random.default_rng(seed)
    total = np.sum([share(costs, content) for content in cores], axis=0)
    weights = (total / total.max()) ** POWER
    slots = _slots(costs, cores)
    for _ in range(tries):
        if len(cores) <= max(enough, 2) or costs.work.left <= 0:
            break
        try:
            costs.charge(ways, slots)
            found = _refilled(costs, cores, weights, rng, near)
            if found is None:
                continue
            other = _slots(costs, found)
            costs.charge(ways, other)
            if not _over(costs, found):
                cores, slots = found, other
        except KeyboardInterrupt as error:
            raise interrupted(error, tuple(_block(costs.sizes, content) for content in cores)) from error
    return cores


def _refilled(
    costs: StretchCosts, cores: Sequence[Content], weights: Array, rng: np.random.Generator, near: Near | None
) -> list[Content] | None:
    """The cores after the two least full ones and some others were filled anew; None: that is no better."""
    full = [float(weighted_sum(share(costs, content), weights)) for content in cores]
    most = int(rng.integers(*FREED))
    chosen = {*np.argsort(full, kind="stable")[:2].tolist(), *rng.integers(len(cores), size=most).tolist()}
    stretches = _freed(cores, chosen)
    for stretch in stretches:
        stretch.rank = NOISE * float(rng.normal())
    again = fill(costs, stretches, POWERS[int(rng.integers(len(POWERS)))], near)
    if again is None or len(again) > len(chosen):
        return None
    after = sum(float(weighted_sum(share(costs, content), weights)) ** 2 for content in again)
    if len(again) == len(chosen) and after < sum(full[i] ** 2 for i in chosen):
        return None
    return [*(c for i, c in enumerate(cores) if i not in chosen), *again]

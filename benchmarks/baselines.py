"""Rules of existing tools for comparison: cores that each needs for a network, or why it finds no legal map.

All use nirbridge's cost vector of a slice, but not its search. Sums over the slices of a core count a source shared by
two slices twice, so ``round_robin`` and ``random_first_fit`` may need one core more than with an exact count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from nirbridge.chips import Chip
from nirbridge.network.model import Network
from nirbridge.partitioner.cost.sizing import CostModel, cost_model
from nirbridge.partitioner.model import Slice
from nirbridge.partitioner.search.slicing import (
    NoTiling,
    PackingItems,
    Tilings,
    best_grid,
    capacity,
    first_fit,
    largest_slices,
    output_slots,
    tile_all,
    vector,
)

SEED = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Cores used, or None and the reason."""

    cores: int | None
    reason: str = ""


def layer_per_core(network: Network, chip: Chip) -> Outcome:
    """Each population cut into the largest pieces that fit, one piece a core; no core is shared."""
    return _on(network, chip, lambda sizes: len(_largest(sizes).slices))


def nengo_loihi(network: Network, chip: Chip) -> Outcome:
    """Each population split evenly on its own limits, one piece a core, full runs; then the output axons are checked.

    The splits do not look at each other: where splitting the targets multiplies the output axons of a source beyond
    its core, the rule fails.
    """
    fixed = replace(chip, synapses=replace(chip.synapses, run_free=False))
    return _on(network, fixed, _even_splits)


def round_robin(network: Network, chip: Chip) -> Outcome:
    """The pieces of ``layer_per_core`` dealt to n cores in turn; the least n that is legal."""
    return _on(network, chip, lambda sizes: _least_deal(_largest(sizes), capacity(chip)))


def random_first_fit(network: Network, chip: Chip) -> Outcome:
    """The pieces of ``layer_per_core`` in random order (seeded), each to the first core where it fits."""

    def cores(sizes: CostModel) -> int:
        pieces = _largest(sizes)
        order = np.random.default_rng(SEED).permutation(len(pieces.slices))
        return len(first_fit(pieces, capacity(chip), order))

    return _on(network, chip, cores)


BASELINES: dict[str, Callable[[Network, Chip], Outcome]] = {
    "layer-per-core": layer_per_core,
    "nengo-loihi rule": nengo_loihi,
    "round-robin": round_robin,
    "random": random_first_fit,
}


def _on(network: Network, chip: Chip, rule: Callable[[CostModel], int | Outcome]) -> Outcome:
    try:
        result = rule(cost_model(network, chip, chip.synapses.weight_bits_default))
        return result if isinstance(result, Outcome) else Outcome(result)
    except NoTiling as error:
        what = f"{error.output_axons:,} output axons of one neuron" if error.output_axons else "no split fits"
        return Outcome(None, f"{error.population}: {what}")


def _even_splits(sizes: CostModel) -> Outcome:
    cap = capacity(sizes.chip)
    tilings: Tilings = {name: best_grid(sizes, name, None, cap) for name in sizes.shapes}
    slots = output_slots(sizes, tilings)
    for name, boxes in tilings.items():
        most = max(int(vector(sizes, name, box, slots[name])[-1]) for box in boxes)
        if most > cap[-1]:
            return Outcome(None, f"{name}: a piece with {most:,} output axons, a core holds {int(cap[-1]):,}")
    return Outcome(sum(len(boxes) for boxes in tilings.values()))


def _largest(sizes: CostModel) -> PackingItems:
    tilings, slots = tile_all(sizes, capacity(sizes.chip), largest_slices)
    slices = tuple(Slice(name, box) for name, boxes in tilings.items() for box in boxes)
    vectors = np.array([vector(sizes, s.population, s.box, slots[s.population]) for s in slices])
    return PackingItems(slices, vectors, (0,) * len(slices))


def _least_deal(pieces: PackingItems, cap: np.ndarray) -> int:
    count = len(pieces.slices)
    for cores in range(1, count + 1):
        used = np.zeros((cores, len(cap)), np.int64)
        np.add.at(used, np.arange(count) % cores, pieces.vectors)
        if np.all(used <= cap):
            return cores
    return count

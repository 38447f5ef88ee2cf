"""Lists that may as well be whole rows: a closed form for the search, whose maps the lists themselves then pay for.

Where a source's list takes about the words of a whole row, zeros included, the rows of a projection are all alike, and
the search for dense projections is quick. A map that it finds is legal for the lists: a list never takes more than the
row, and a source without a target in a core takes no axon there.
"""

from __future__ import annotations

import math

import numpy as np

from nirbridge.chips.model import Chip
from nirbridge.network.compose import whole_rows
from nirbridge.network.model import Network, Projection, with_operators
from nirbridge.network.operators import Operator, Sparse
from nirbridge.partitioner.cost.listing import flat_indices
from nirbridge.partitioner.cost.resources import axon_list_words, delay_on_chip_steps, run_words

SAVED_LEAST = 16
"""Lists that save at least one word in this number are no rows."""


def with_whole_rows(network: Network, chip: Chip, weight_bits: int) -> Network | None:
    """The network with whole rows for its lists; None: no lists are as long."""
    if chip.synapses.words is None:
        return None
    populations = {p.name for p in network.populations}
    rows: dict[int, Operator] = {}
    for k, p in enumerate(network.projections):
        if p.target in populations and isinstance(p.operator, Sparse) and _as_long(p, p.operator, chip, weight_bits):
            rows[k] = whole_rows(np.unique(p.operator.indices), p.operator.input_shape, p.operator.output_shape)
    return with_operators(network, rows) if rows else None


def _as_long(p: Projection, lists: Sparse, chip: Chip, weight_bits: int) -> bool:
    """True where lists in the order of the model save hardly a word."""
    shape = lists.output_shape
    rows, delayed = math.prod(shape), delay_on_chip_steps(p) > 0
    # a stretch takes a word at least, an index more bits than a weight: these lists are shorter in any case
    if 4 * len(lists.indices) < rows * len(np.unique(lists.indices)) or not len(lists.indices):
        return False
    place = np.empty(rows, np.int64)
    place[flat_indices(shape, tuple((0, n) for n in shape))] = np.arange(rows)
    at = np.repeat(place, np.diff(lists.indptr))
    order = np.lexsort((at, lists.indices))
    how = {"delayed": delayed, "filled": True}
    sources, words = axon_list_words(lists.indices[order], at[order], chip.synapses, weight_bits, **how)
    whole = len(sources) * run_words(rows, chip.synapses, weight_bits, delayed=delayed)
    return (whole - int(words.sum())) * SAVED_LEAST < whole

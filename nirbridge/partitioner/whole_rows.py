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
from nirbridge.partitioner.cost.resources import delay_on_chip_steps, run_words, words_in_order

SAVED_LEAST = 16
"""Lists that save at least one word in this number are no rows."""
THIN = 4
"""Lists of fewer than one target in this number are no rows either, without a count of their words."""


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
    """True if lists in the order of the model save hardly a word."""
    rows, sources = math.prod(lists.output_shape), len(np.unique(lists.indices))
    if not sources or THIN * len(lists.indices) < rows * sources:
        return False
    fmt, delayed = chip.synapses, delay_on_chip_steps(p) > 0
    how = {"delayed": delayed, "filled": True}
    words = words_in_order(lists.indptr, lists.indices, lists.output_shape, fmt, weight_bits, **how)
    whole = sources * run_words(rows, fmt, weight_bits, delayed=delayed)
    return (whole - words) * SAVED_LEAST < whole

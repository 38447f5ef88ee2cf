"""Random: the neurons in a seeded random order, each core filled until the next neuron does not fit."""

from __future__ import annotations

import numpy as np

from benchmarks.rivals.accounting import Accounts
from benchmarks.rivals.filling import Cores, best, fill

SEED = 0


def shuffled(accounts: Accounts) -> Cores | None:
    """Cores of neurons; None: the map is not legal."""
    order = np.random.default_rng(SEED).permutation(accounts.neurons)
    return best(accounts, (fill(accounts, order),))

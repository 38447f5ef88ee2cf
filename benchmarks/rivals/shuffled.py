"""Random: the neurons in a random order (seeded), each core filled to the last neuron that fits."""

from __future__ import annotations

import numpy as np

from benchmarks.rivals.accounting import Accounts
from benchmarks.rivals.filling import Cores, best, fill

SEED = 0


def shuffled(accounts: Accounts) -> Cores | None:
    """Cores of neurons; None: the map is not legal."""
    order = np.random.default_rng(SEED).permutation(accounts.neurons)
    return best(accounts, (fill(accounts, order),))

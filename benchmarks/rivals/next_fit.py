"""Next-fit: the neurons in the order of the network, each core filled until the next neuron does not fit.

Both ends are tried: from the first population (output axons are then only checked at the end) and from the last.
"""

from __future__ import annotations

import numpy as np

from benchmarks.rivals.accounting import Accounts
from benchmarks.rivals.filling import Cores, best, fill


def next_fit(accounts: Accounts) -> Cores | None:
    """Cores of neurons, the fewer of both directions; None: neither is legal."""
    order = np.arange(accounts.neurons)
    return best(accounts, (fill(accounts, order), fill(accounts, order[::-1])))

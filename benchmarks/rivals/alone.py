"""Layer by layer: every population on cores of its own, each filled until the next neuron does not fit."""

from __future__ import annotations

import numpy as np

from benchmarks.rivals.accounting import Accounts
from benchmarks.rivals.filling import Cores, best, fill


def alone(accounts: Accounts) -> Cores | None:
    """Cores of neurons, the fewer of both directions through the network; None: neither is legal."""
    order = np.arange(accounts.neurons)
    last = np.cumsum([p.size for p in accounts.network.populations])
    return best(accounts, (fill(accounts, order, last), fill(accounts, order[::-1], accounts.neurons - last)))

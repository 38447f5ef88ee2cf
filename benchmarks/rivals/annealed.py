"""Annealed: neurons on the cores of a mesh in a random order, swaps of two places at a falling temperature.

Each swap is weighed by the multicast trees (X-Y) of the neurons whose spikes it moves, all counted anew. Places without
a neuron take part as empty ones. Steps are counted, so a seed gives the same result on any machine.
"""

from __future__ import annotations

import math

import numpy as np

from nirbridge.arrays import Array

STEPS = 40_000


def annealed(reaches: Array, rate: Array, side: int, room: int, seed: int = 0, steps: int = STEPS) -> float:
    """Spikes times links of the map found; ``reaches[i, j]``: neuron j sends to i; ``room`` neurons on each core."""
    rng, n = np.random.default_rng(seed), len(rate)
    at = rng.permutation(side * side * room) // room
    targets = [np.flatnonzero(reaches[:, j]) for j in range(n)]
    sources = [np.flatnonzero(reaches[i]) for i in range(n)]

    def hops(j: int) -> float:
        y, x = divmod(int(at[j]), side)
        rows, columns = np.divmod(at[targets[j]], side)
        along = max(x, *columns) - min(x, *columns) if len(columns) else 0
        spans = (rows[columns == c] for c in set(columns.tolist()))
        return rate[j] * (along + sum(max(y, *r) - min(y, *r) for r in spans))

    costs = np.array([hops(j) for j in range(n)])
    heat = costs.mean() * 0.5 * (0.01 ** (np.arange(steps) / steps))
    for t in range(steps):
        a, b = int(rng.integers(n)), int(rng.integers(len(at)))
        at[a], at[b] = at[b], at[a]
        touched = {k for neuron in (a, b) if neuron < n for k in (neuron, *sources[neuron].tolist())}
        after = {j: hops(j) for j in touched}
        change = sum(after[j] - costs[j] for j in touched)
        if change <= 0 or rng.random() < math.exp(-change / heat[t]):
            for j, cost in after.items():
                costs[j] = cost
        else:
            at[a], at[b] = at[b], at[a]
    return float(costs.sum())

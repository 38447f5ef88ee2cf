"""Networks on a grid on which float64 is exact, and a retimed network compared with its original."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nirbridge.arrays import Array, compact, freeze
from nirbridge.network.model import Network, Population, Projection
from nirbridge.passes.retiming.retime import RetimedNetwork
from nirbridge.simulators.simulate import Probe, Recording, simulate

GRID = 16


def on_grid(network: Network, seed: int) -> Network:
    """Decays of 0, 1/2 and 1, gains of 1/2, 1 and 2, all else in sixteenths: so few steps have no rounding."""
    rng = np.random.default_rng(seed)
    populations = tuple(_exact(p, rng) for p in network.populations)
    projections = tuple(
        p if p.bias is None else replace(p, bias=freeze(np.round(p.bias * GRID) / GRID)) for p in network.projections
    )
    return replace(network, populations=populations, projections=projections)


def _exact(p: Population, rng: np.random.Generator) -> Population:
    def some(values: list[float]) -> Array:
        return compact(rng.choice(values, size=p.shape if rng.random() < 0.3 else ()))

    def rounded(values: Array, least: float = -4.0) -> Array:
        return compact(np.maximum(np.round(np.asarray(values, float) * GRID) / GRID, least))

    n = p.neuron
    drawn = {
        "a_mem": some([0.0, 0.5, 0.5, 1.0]),
        "g_mem": some([0.5, 1.0]),
        "a_syn": some([0.5]) if n.a_syn.any() else n.a_syn,
        "g_syn": some([1.0, 2.0]),
        "theta": None if n.theta is None else rounded(n.theta, 1 / GRID),
    }
    same = {name: rounded(getattr(n, name)) for name in ("bias", "v_reset", "v_init", "i_init")}
    return replace(p, neuron=replace(n, **drawn, **same, reset_amount=rounded(n.reset_amount, 1 / GRID)))


def both_runs(retimed: RetimedNetwork, steps: int, seed: int) -> tuple[Recording, Recording]:
    """Everything the reference does in ``steps`` steps, and the retimed network in as many more as it is late."""
    rng = np.random.default_rng(seed)
    longer = steps + max(retimed.latency.values())
    inputs = {p.name: rng.integers(0, 2, size=(longer, *p.shape)) for p in retimed.reference.inputs}
    record = [Probe("*", ("s", "v", "u", "i"))]
    a = simulate(retimed.reference, inputs, steps=steps, record=record, dtype="float64", backend="reference").recording
    b = simulate(retimed.network, inputs, steps=longer, record=record, dtype="float64", backend="reference").recording
    return a, b


def differing(retimed: RetimedNetwork, a: Recording, b: Recording) -> list[tuple[str, str]]:
    """(node, variable) that are not the same ``latency`` steps later; an i without memory is no state, and left out."""
    steps = next(iter(a.arrays.values())).shape[0]
    wrong = []
    for (node, variable), x in a.arrays.items():
        if variable == "i" and not retimed.reference.population(node).neuron.a_syn.any():
            continue
        late = retimed.latency[node]
        if not np.array_equal(x, b.arrays[node, variable][late : late + steps]):
            wrong.append((node, variable))
    return wrong


def fired_early(retimed: RetimedNetwork, b: Recording) -> list[str]:
    """Populations that sent anything before their first step."""
    names = {p.name for p in retimed.reference.populations}
    return [
        node
        for (node, variable), x in b.arrays.items()
        if variable == "s" and node in names and x[: retimed.latency[node]].any()
    ]


def shortest_hops(retimed: RetimedNetwork) -> list[Projection]:
    """Projections into populations that are quicker than a hop."""
    inside = {p.name for p in retimed.network.populations}
    return [p for p in retimed.network.projections if p.target in inside and p.delay_steps.min() < 1]

"""Random neurons on the dyadic grid, alone in a network."""

from __future__ import annotations

from typing import Any

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import Compare, Neuron, Reset, neuron
from nirbridge.network.operators import Identity

TIMING = Timing(1e-3, "euler", "to-value", ">", "per-second")
NEURONS = 3


def alone(record: Neuron) -> Network:
    """A network of one population, whose input is a graded value per neuron."""
    population = Population("p", (NEURONS,), record)
    edges = (Projection("in", "p", Identity((NEURONS,))), Projection("p", "out", Identity((NEURONS,))))
    return Network(1e-3, TIMING, (population,), edges, (Port("in", (NEURONS,)),), (Port("out", (NEURONS,)),))


def random_neuron(rng: np.random.Generator, shape: tuple[int, ...] = (NEURONS,)) -> Neuron:
    """A record of any class, some with values per neuron; every coefficient is a small multiple of 1/8."""
    decays = (0.75, 0.5, 0.5, 1.0, 1.0, 0.0)

    def pick(*options: Any) -> Any:
        return options[rng.integers(len(options))]

    def some(*values: float) -> Any:
        """One value for all, or sometimes one per neuron."""
        return freeze(rng.choice(values, shape if rng.random() < 0.2 else ()))

    kind, a = pick("LIF", "LIF", "IF", "CubaLIF", "LI", "CubaLI"), some(*decays)
    leak = some(0.0, 0.0, 0.25, -0.5)
    options: dict[str, Any] = {"a_mem": a, "g_mem": pick(1.0 - a, some(1.0, 0.5, 2.0)), "theta": None}
    options |= {"bias": pick((1.0 - a) * leak, some(0.0, 0.125)), "v_init": pick(leak, 0.0, 0.25), "reset": "none"}
    options |= {"a_syn": some(0.5, 0.75), "g_syn": some(1.0, 0.5)} if kind.startswith("Cuba") else {}
    if kind.endswith("F"):
        options |= {"reset": pick("to-value", "subtract", "none"), "v_reset": some(0.0, 0.0, -0.25)}
        options |= {"compare": pick(">", ">="), "theta": some(1.0, 0.5), "reset_amount": pick(None, some(0.75, 1.0))}
        options["refractory_steps"] = some(1, 2, 0) if rng.random() < 0.2 else 0
        options["v_min"] = some(0.0, 0.0, 0.0, -1.0) if rng.random() < 0.25 else None
        options["v_init"] = pick(options["v_init"], options["v_reset"])
    return neuron(kind, **options)


def plain_neuron(rng: np.random.Generator, compare: Compare) -> Neuron:
    """A record that frameworks have: no drive, floor or refractory time of its own, a start from 0."""
    a, kind = float(rng.choice([0.75, 0.5, 1.0])), str(rng.choice(["LIF", "LIF", "CubaLIF"]))
    a, kind = (0.75, kind) if kind == "CubaLIF" else (a, "IF" if a == 1.0 else kind)
    reset: Reset = "subtract" if rng.random() < 0.4 and kind != "CubaLIF" else "to-value"
    theta = rng.choice([0.5, 1.0, 2.0])
    a_syn = 0.5 if kind == "CubaLIF" else 0.0
    return neuron(kind, a_mem=a, g_mem=rng.choice([1 - a or 1.0, 1.0]), a_syn=a_syn, theta=theta, reset=reset,
                  compare=compare)  # fmt: skip


def eighths(rng: np.random.Generator, network: Network, steps: int = 8, batch: int = 2) -> dict[str, Array]:
    """Graded inputs in eighths."""
    shapes = {p.name: (steps, batch, *p.shape) for p in network.inputs}
    return {name: rng.integers(-6, 10, shape).astype(np.float32) / 8 for name, shape in shapes.items()}

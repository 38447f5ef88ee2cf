"""The random graphs, networks and chips of ``nirbridge.testing``: one drawn number gives the same one everywhere.

A failing seed of a report is of use only as long as it makes the same graph, and a property test is worth what its
random graphs hold; so both are written down here. After an intended change the new numbers are copied in.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import nir
import numpy as np
import pytest

from nirbridge import testing
from nirbridge.chips import read_chip
from nirbridge.network import Network
from nirbridge.network.operators import Sparse

SEED = "integers(min_value=0, max_value=4_294_967_295)"


def drawn(strategy: Any, values: list[Any]) -> tuple[Any, list[str]]:
    """The example of a composite strategy whose draws give ``values``, and the strategies that were drawn from."""
    asked: list[str] = []

    def draw(inner: Any) -> Any:
        asked.append(repr(inner))
        return values[len(asked) - 1]

    composite = strategy.wrapped_strategy
    return composite.definition(draw, *composite.args, **composite.kwargs), asked


def graph(seed: int, *, inputs: int = 2, layers: int = 4, outputs: int = 2, **options: Any) -> Any:
    return drawn(testing.nir_graphs(**options), [seed, inputs, layers, outputs])[0]


def plain(value: Any) -> Any:
    """A graph, network or part of one as plain JSON, numbers rounded below what could differ between machines."""
    if isinstance(value, nir.NIRGraph):
        nodes = [[name, type(node).__name__, plain(vars(node))] for name, node in value.nodes.items()]
        return [nodes, value.edges, value.metadata]
    if isinstance(value, np.ndarray | np.generic):
        array: Any = np.asarray(value)
        return [array.dtype.str, array.shape, (array.round(9) + 0 if array.dtype.kind == "f" else array).tolist()]
    if isinstance(value, dict):
        return {key: plain(own) for key, own in value.items() if key not in ("input_type", "output_type")}
    if isinstance(value, tuple | list):
        return [plain(own) for own in value]
    if hasattr(value, "__slots__") and not isinstance(value, str | int | float):
        return [type(value).__name__, {name: plain(getattr(value, name)) for name in value.__slots__}]
    return value


def digest(values: Iterator[Any]) -> str:
    return hashlib.sha256(json.dumps([plain(value) for value in values]).encode()).hexdigest()[:16]


def network(seed: int, other: int) -> Network:
    return drawn(testing.networks(), [graph(seed), other])[0]


SAME: dict[str, tuple[Callable[[], Iterator[Any]], str]] = {
    "graphs": (lambda: (graph(seed) for seed in range(200)), "f4530603562e9418"),
    "small graphs": (lambda: (graph(seed, inputs=1, layers=1, outputs=1) for seed in range(100)), "cfd2b9811618463d"),
    "flat graphs": (lambda: (graph(seed, nested=False) for seed in range(20)), "24c162b33989a914"),
    "networks": (
        lambda: ((n.populations, n.projections) for n in (network(s, s + 1) for s in range(60))),
        "6ad038f5292d9b3c",
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_a_seed_makes_the_same_on_every_machine(name: str) -> None:
    make, wanted = SAME[name]
    assert digest(make()) == wanted


def test_counts_are_drawn_from_their_ranges() -> None:
    for most in (4, 7):
        options: dict[str, Any] = {"max_populations": most} if most != 4 else {}
        _, asked = drawn(testing.nir_graphs(**options), [0, 1, 1, 1])
        assert asked == [
            SEED,
            "integers(min_value=1, max_value=2)",
            f"integers(min_value=1, max_value={most})",
            "integers(min_value=1, max_value=2)",
        ]
        _, asked = drawn(testing.networks(**options), [graph(0), 0])
        assert asked == ["nir_graphs()" if most == 4 else f"nir_graphs(max_populations={most})", SEED]


GRAPHS = {
    **{"Input": 800, "Output": 800, "NIRGraph": 316, "Linear": 1524, "Affine": 432, "Scale": 237, "Delay": 605},
    **{"Flatten": 437, "Conv1d": 287, "Conv2d": 153, "SumPool2d": 34, "AvgPool2d": 57},
    **{"LIF": 619, "IF": 104, "CubaLIF": 115, "LI": 99, "CubaLI": 104, "I": 108, "Threshold": 135},
    **{"options": 207, "floor": 71, "own loop": 161, "read twice": 121, "time step": 329},
}


def test_the_graphs_hold_every_kind_of_node_and_way() -> None:
    """Of 400 graphs: nodes by kind, and how many have a subgraph, a loop, a time step, two ways into an output."""
    kinds: Counter[str] = Counter()
    for seed in range(400):
        made = graph(seed)
        kinds.update(type(node).__name__ for node in made.nodes.values())
        outputs = Counter(target for _, target in made.edges if isinstance(made.nodes[target], nir.Output))
        kinds["read twice"] += max(outputs.values()) > 1
        kinds["own loop"] += any(a == b for a, b in made.edges)
        kinds["time step"] += "nirbridge:dt" in made.metadata
        kinds["options"] += any(any(key.startswith("nirbridge:") for key in n.metadata) for n in made.nodes.values())
        kinds["floor"] += any("nirbridge:v_min" in n.metadata for n in made.nodes.values())
    assert kinds == GRAPHS


def test_the_networks_hold_what_no_graph_has() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(100):
        made = network(seed, seed)
        kinds["sparse"] += any(isinstance(p.operator, Sparse) for p in made.projections)
        kinds["negative decay"] += any((p.neuron.a_mem < 0).any() for p in made.populations)
        kinds["synapse"] += any(p.neuron.has_synapse for p in made.populations)
        kinds["uneven delays"] += any(p.delay_steps.size > 1 and np.ptp(p.delay_steps) > 0 for p in made.projections)
        kinds["floor"] += any(p.neuron.v_min is not None for p in made.populations)
    assert kinds == {"sparse": 48, "negative decay": 67, "synapse": 77, "uneven delays": 97, "floor": 49}


UNLIMITED = "just('unlimited')"
DRAWN_OF_CHIPS: list[tuple[str, int]] = [
    ("integers(min_value=1, max_value=4)", 3),
    ("integers(min_value=1, max_value=4)", 2),
    ("integers(min_value=1, max_value=2)", 1),
    ("integers(min_value=1, max_value=3)", 3),
    (f"one_of(integers(min_value=1, max_value=40), {UNLIMITED})", 31),
    (f"one_of(integers(min_value=2, max_value=80), {UNLIMITED})", 32),
    (f"one_of(integers(min_value=1, max_value=80), {UNLIMITED})", 33),
    (f"one_of(integers(min_value=1, max_value=4), {UNLIMITED})", 2),
    (f"one_of(integers(min_value=1, max_value=4), {UNLIMITED})", 4),
    (f"one_of(integers(min_value=4, max_value=400), {UNLIMITED})", 35),
    ("integers(min_value=1, max_value=64)", 36),
    ("booleans()", True),
    ("sampled_from([10, 'none'])", 10),
    ("booleans()", True),
]


def test_chips_are_drawn_from_their_ranges() -> None:
    chip, asked = drawn(testing.chips(), [value for _, value in DRAWN_OF_CHIPS])
    assert asked == [name for name, _ in DRAWN_OF_CHIPS]
    mesh, core, words = chip.mesh, chip.core, chip.synapses
    assert (mesh.width_tiles, mesh.height_tiles, mesh.cores_per_tile, mesh.chips_max) == (3, 2, 1, 3)
    assert (core.neurons, core.input_axons, core.output_axons) == (31, 32, 33)
    assert (core.decay_profiles, core.threshold_profiles) == (2, 4)
    assert (words.words, words.run_targets_max, words.run_free, words.index_bits, words.shared_kernels) == (
        35,
        36,
        True,
        10,
        True,
    )
    assert chip.neuron == read_chip("loihi1").neuron


def test_chips_without_a_limit_of_words() -> None:
    chip, asked = drawn(testing.chips(words=False), [v for name, v in DRAWN_OF_CHIPS if "400" not in name])
    assert asked == [name for name, _ in DRAWN_OF_CHIPS if "400" not in name]
    assert chip.synapses.words is None

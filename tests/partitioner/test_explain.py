"""Reasons why a network does not fit: each limit, at the limit and one beyond, in full."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from nirbridge.errors import Diagnostic
from nirbridge.network.model import Network, Projection
from nirbridge.network.operators import Conv, Dense, Operator, Sparse
from nirbridge.partitioner import explain
from nirbridge.partitioner.cost.sizing import cost_model
from nirbridge.partitioner.searches import PartitionOptions
from tests.partitioner.cases import chip, network, population

SPLIT = "split the source (--split), or place its targets in fewer cores"
FEWER_INPUTS = "give the layer fewer inputs (split the source over several layers, or prune it)"
FEWER_BITS = "use fewer weight bits (--bits), or fewer inputs"


def said(problems: Iterable[Diagnostic]) -> list[tuple[str, dict[str, Any]]]:
    return [(str(p), dict(p.ids)) for p in problems]


def one(operator: Operator, **options: Any) -> Network:
    """Population p fed by the host."""
    projection = Projection("in", "p", operator, **options)
    return network({"in": operator.input_shape}, [population("p", operator.output_shape)], [projection])


def dense(targets: int, sources: int) -> Dense:
    return Dense(np.broadcast_to(np.float32(1), (targets, sources)))


def rows(lengths: list[int], sources: int, shape: tuple[int, ...]) -> Sparse:
    """A sparse operator whose targets have so many sources each, target k from source k on."""
    indices = np.concatenate([np.arange(k, k + n) for k, n in enumerate(lengths)])
    return Sparse(np.concatenate(([0], np.cumsum(lengths))), indices, np.ones(len(indices)), (sources,), shape)


# -- delays -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "is_back", "most", "found"),
    [
        (62, False, 62, None),
        (63, False, 62, 63),
        (63, True, 62, None),
        (64, True, 62, 63),
        (2000, False, None, None),
        (2001, False, 2000, 2001),
    ],
)
def test_delays_of_synapses(steps: int, is_back: bool, most: int | None, found: int | None) -> None:
    late = Projection("p", "p", dense(2, 2), delay_steps=np.array(steps), is_back=is_back)
    net = network({"in": (2,)}, [population("p", (2,))], [Projection("in", "p", dense(2, 2)), late])
    step = "shorten the delay, use a longer dt, or another chip"
    text = f"projection 'p' -> 'p': a delay of {found or 0:,} time steps, a loihi1 synapse holds {most or 0:,}; {step}"
    ids = {"projection": ("p", "p"), "resource": "delay_steps"}
    problems = said(explain.delay_problems(net, chip(core={"delay_steps": most})))
    assert problems == ([(text, ids)] if found else [])


# -- one neuron ---------------------------------------------------------------------------------------------------


def far(stop: int, groups: int = 1) -> Conv:
    """Two channels and a row: the middle of the outputs lies in the padding, the second output has two inputs."""
    return Conv(np.ones((2, 2 // groups, 2)), (1,), ((1, stop),), (1,), groups, (2, 5))


@pytest.mark.parametrize(
    ("operator", "core", "words", "found"),
    [
        (dense(5, 9), {"input_axons": 9}, 9, []),
        (dense(5, 9), {"input_axons": 8}, 9, [("p', neuron (2)", 9, "input_axons", 8)]),
        (dense(5, 9), {"input_axons": 9}, 8, [("p', neuron (2)", 9, "synapse_words", 8)]),
        (dense(5, 9), {"input_axons": None}, None, []),
        (dense(1, 2000), {"input_axons": 1999}, 1500,
         [("p'", 2000, "input_axons", 1999), ("p'", 2000, "synapse_words", 1500)]),
        (rows([1, 2, 1, 1], 6, (2, 2)), {"input_axons": 1}, None, [("p', neuron (0, 1)", 2, "input_axons", 1)]),
        (rows([1, 2, 2, 1], 6, (4,)), {"input_axons": 1}, None, [("p', neuron (2)", 2, "input_axons", 1)]),
        (rows([3, 2, 2, 1], 6, (4,)), {"input_axons": 1}, None, [("p', neuron (2)", 2, "input_axons", 1)]),
        (rows([3, 2, 2, 1], 6, (4,)), {"input_axons": 2}, None, [("p', neuron (0)", 3, "input_axons", 2)]),
        (far(12), {"input_axons": 3}, None, [("p', neuron (0, 1)", 4, "input_axons", 3)]),
        (far(12), {"input_axons": 4}, None, []),
        (far(12, 2), {"input_axons": 1}, None, [("p', neuron (0, 1)", 2, "input_axons", 1)]),
        (far(0, 2), {"input_axons": 1}, None, [("p', neuron (1, 2)", 2, "input_axons", 1)]),
    ],
)  # fmt: skip
def test_a_neuron_that_is_too_much_for_a_core(operator: Operator, core: Any, words: Any, found: list[Any]) -> None:
    sizes = cost_model(one(operator), chip(core=core, words=words), 8)
    names = {"input_axons": ("input axons", FEWER_INPUTS), "synapse_words": ("words of synaptic memory", FEWER_BITS)}
    assert said(explain.oversized_neurons(sizes)) == [
        (
            f"population '{place}: {n:,} {names[r][0]} for one neuron, a loihi1 core holds {most:,}; {names[r][1]}",
            {"population": "p", "resource": r, "found": n, "limit": most},
        )
        for place, n, r, most in found
    ]


def test_words_of_the_widest_neuron_of_a_convolution() -> None:
    """Four sources; a list of one target is 18 bits and one of two 26: 3 and 4 words."""
    net = one(far(12))
    assert list(explain.oversized_neurons(cost_model(net, chip(words=12, word_bits=8), 8))) == []
    (problem,) = explain.oversized_neurons(cost_model(net, chip(words=11, word_bits=8), 8))
    assert str(problem).startswith("population 'p', neuron (0, 1): 12 words of synaptic memory for one neuron")


def test_every_population_with_such_a_neuron_is_named() -> None:
    inputs = [Projection("in", name, dense(2, n)) for name, n in (("a", 9), ("b", 9))]
    net = network({"in": (9,)}, [population(n, (2,)) for n in ("a", "c", "b")], inputs)
    found = explain.oversized_neurons(cost_model(net, chip(core={"input_axons": 8}), 8))
    assert [p.ids["population"] for p in found] == ["a", "b"]


# -- targets of one neuron ----------------------------------------------------------------------------------------


def fan(p: tuple[int, ...], *ways: tuple[str, Operator]) -> Network:
    """Population p, which sends to q and r."""
    shapes = {target: operator.output_shape for target, operator in ways}
    names = [population("p", p), *(population(name, shape) for name, shape in shapes.items())]
    return network({"in": (2,)}, names, [Projection("p", target, operator) for target, operator in ways])


WIDE = Sparse(np.array([0, 1, 2, 3]), np.array([1, 1, 0]), np.ones(3), (2,), (3,))
"""Of two sources the second has two targets, the first one."""


@pytest.mark.parametrize(
    ("net", "core", "found"),
    [
        (fan((3,), ("q", dense(10, 3))), (4, 3), None),
        (fan((3,), ("q", dense(10, 3))), (4, 2), ("p', neuron (0)", 10, 3)),
        (fan((3,), ("q", dense(10, 3))), (5, 2), None),
        (fan((1,), ("q", dense(5000, 1))), (2, 2000), ("p'", 5000, 2500)),
        (fan((2,), ("q", dense(6, 2)), ("r", dense(4, 2))), (2, 4), ("p', neuron (0)", 10, 5)),
        (fan((2,), ("q", dense(3, 2)), ("q", WIDE)), (1, 2), ("p', neuron (0)", 3, 3)),
        (fan((2,), ("q", dense(3, 2)), ("q", WIDE)), (1, 3), None),
        (fan((2,), ("q", WIDE)), (1, 1), ("p', neuron (1)", 2, 2)),
        (fan((2,), ("q", WIDE)), (1, None), None),
        (fan((2,), ("q", WIDE)), (None, 0), None),
        (fan((2,), ("q", WIDE)), (1, 0), ("p', neuron (1)", 2, 2)),
    ],
)
def test_a_neuron_that_reaches_more_cores_than_it_may(net: Network, core: Any, found: Any) -> None:
    neurons, most = core
    sizes = cost_model(net, chip(core={"neurons": neurons, "output_axons": most}), 8)
    expected = []
    if found:
        place, targets, cores = found
        text = f"{targets:,} targets, which fill {cores:,} cores and take as many output axons"
        ids = {"population": "p", "resource": "output_axons", "found": cores, "limit": most}
        expected = [(f"population '{place}: {text}, a loihi1 core holds {most:,}; {SPLIT}", ids)]
    assert said(explain.fan_out_problems(sizes)) == expected


def test_the_place_in_an_image_of_a_neuron_with_many_targets() -> None:
    flat = Sparse(np.array([0, 1, 2]), np.array([4, 4]), np.ones(2), (2, 3), (2,))
    sizes = cost_model(fan((2, 3), ("q", flat)), chip(core={"neurons": 1, "output_axons": 1}), 8)
    (problem,) = explain.fan_out_problems(sizes)
    assert problem.subject == "population 'p', neuron (1, 1)"


# -- the whole network --------------------------------------------------------------------------------------------

NET = one(dense(5000, 2))


@pytest.mark.parametrize(
    ("chips", "available", "cores", "limit", "step"),
    [
        (1, 128, 129, "1 x loihi1 has 128", "use at least --chips 2"),
        (2, 256, 257, "2 x loihi1 have 256", "use at least --chips 3"),
        (1, 128, 4096, "1 x loihi1 has 128", "use at least --chips 32"),
        (1, 128, 4097, "1 x loihi1 has 128", "use another chip, or a smaller network"),
        (20, 2560, 5000, "20 x loihi1 have 2,560", "use another chip, or a smaller network"),
        (20, 2560, 5001, "more cores than neurons: no number of cores is enough",
         "use another chip, or let each neuron reach fewer others"),
    ],
)  # fmt: skip
def test_more_cores_than_there_are(chips: int, available: int, cores: int, limit: str, step: str) -> None:
    reasons = ("input_axons", "synapse_words")
    problem = explain.too_many_cores(NET, chip(), chips, available, cores, reasons, {"q": 1233, "p": 1234, "r": 1234})
    why = f"network of 5,000 neurons: at least {cores:,} cores in any map (population 'p' alone 1,234), proved by"
    why += " the limit per core of 4,096 input axons and 16,384 words of synaptic memory"
    assert str(problem) == f"{why}, {limit}; {step}"
    ids = {"reasons": reasons, "found": cores, "limit": available, "population": "p"}
    assert dict(problem.ids) == ids


@pytest.mark.parametrize(
    ("chips", "best", "found", "has", "step"),
    [
        (-1, None, "no map was found", "1 x loihi1 has 1,280", "--chips 2, or another chip"),
        (-32, None, "no map was found", "32 x loihi1 have 1,280", "another chip"),
        (1, None, "no map was found", "1 x loihi1 has 1,280", "--chips 2, or --effort max"),
        (2, 1300, "the best map found needs 1,300 cores", "2 x loihi1 have 1,280", "--chips 3, or --effort max"),
        (31, None, "no map was found", "31 x loihi1 have 1,280", "--chips 32, or --effort max"),
        (32, None, "no map was found", "32 x loihi1 have 1,280", "--effort max, or another chip"),
    ],
)
def test_no_map_found_and_none_ruled_out(chips: int, best: int | None, found: str, has: str, step: str) -> None:
    effort = "max" if chips < 0 else "fast"  # as the search was
    problem = explain.not_found(NET, chip(), PartitionOptions(chips=abs(chips), effort=effort), 1280, best, 1100)
    why = f"{found} (not proved impossible: at least 1,100 are needed)"
    assert str(problem) == f"network of 5,000 neurons: {why}, {has}; {step}"
    assert dict(problem.ids) == {"found": best, "limit": 1280}


def test_of_a_quick_method_the_search_is_the_way_out() -> None:
    problem = explain.not_found(NET, chip(), PartitionOptions(method="packed"), 1280, None, 1100)
    assert str(problem).endswith("; --method cp-sat, or --chips 2")


@pytest.mark.parametrize(
    ("reasons", "why"),
    [
        ((), "the number of cores per core rule it out"),
        (("neurons",), "1,024 neurons per core rule it out"),
        (("neurons", "output_axons"),
         "the limits 1,024 neurons and 4,096 output axons per core rule it out together"),
    ],
)  # fmt: skip
def test_every_map_ruled_out(reasons: tuple[str, ...], why: str) -> None:
    problem = explain.ruled_out(NET, chip(), 2000, reasons)
    text = f"network of 5,000 neurons: no map onto 2,000 cores exists (proved by CP-SAT, neuron by neuron), {why}"
    assert str(problem) == f"{text}; use more chips (--chips), or another chip"
    assert dict(problem.ids) == {"reasons": reasons, "limit": 2000}


def test_no_core_is_left() -> None:
    text = "3 x loihi1: no core is left, every one is masked out; name fewer cores, or more chips (--chips)"
    assert str(explain.no_core_left(chip(), 3)) == text

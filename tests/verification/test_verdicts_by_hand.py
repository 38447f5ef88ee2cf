"""Verdicts on handmade runs of two populations and a readout: positions, ties and membranes, value by value."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.network.model import Network, Population, Timing
from nirbridge.network.neurons import neuron
from nirbridge.verification.matching import LAST, STEPWISE, SUM, MatchedValues
from nirbridge.verification.rounding import COMPUTED, ModuleConstants
from nirbridge.verification.verdicts import RunEvidence, ValueDifference, Verdict

STEPS, BATCH, CELLS = 4, 2, 3
SHAPE = (STEPS, BATCH, CELLS)
TIMING = Timing(1e-4, "euler", "subtract", ">", "per-second")
ERROR = 2.0**-20
Place = tuple[int, int, int]


def matched(name: str, *wrong: Place, over_time: str = STEPWISE, steps: int = STEPS) -> MatchedValues:
    """Ones on both sides; the import holds 5 at ``wrong``."""
    ones = np.ones((steps, BATCH, CELLS))
    imported = ones.copy()
    for place in wrong:
        imported[place] = 5.0
    return MatchedValues(name, over_time, ones, imported, np.full(ones.shape, 0.5))


def cells(**options: Any) -> Network:
    """A readout first, then two populations of neurons that fire, in causal order."""
    fires = neuron("IF", **options)
    populations = (
        Population("m", (CELLS,), neuron("LI", theta=None)),
        Population("a", (CELLS,), fires),
        Population("b", (CELLS,), fires),
    )
    return Network(1e-4, TIMING, populations, (), (), ())


def verdict(
    outputs: list[MatchedValues] | None = None,
    spikes: list[MatchedValues] | None = None,
    membranes: list[MatchedValues] | None = None,
    *,
    near: dict[str, list[Place]] | None = None,
    shapes: dict[str, tuple[int, ...]] | None = None,
) -> Verdict:
    """``near``: places at which the membrane of a population is the threshold, 1; it is 3 elsewhere."""
    values: dict[tuple[str, str], Any] = {}
    for name in "mab":
        values[name, "u"] = np.full(SHAPE, 3.0)
        values[name, "s"] = np.zeros(SHAPE, bool)
        for place in (near or {}).get(name, []):
            values[name, "u"][place] = 1.0
    limits: Any = SimpleNamespace(before_reset=dict.fromkeys("mab", np.full(SHAPE, ERROR)))
    outputs = [matched("out")] if outputs is None else outputs
    shown = outputs, spikes or [], membranes or []
    return RunEvidence(cells(), values, limits, ModuleConstants([]), *shown, BATCH, shapes or {}).verdict()


def said(subject: str, step: int, sample: int, neuron_: tuple[int, ...], over: str = "") -> ValueDifference:
    return ValueDifference(subject, step, sample, neuron_, f"{over}the module gives 1, the import 5")


# -- counts --------------------------------------------------------------------------------------------------------


def test_counts_of_values_and_of_neurons_that_fired() -> None:
    found = verdict([matched("out", (0, 0, 1)), matched("end", (0, 1, 2), over_time=LAST, steps=1)])
    total = STEPS * BATCH * CELLS + BATCH * CELLS
    assert (found.share_equal, found.overlap, found.busy) == (1 - 2 / total, 1 - 2 / total, total)
    assert (found.populations, found.fired, found.neurons) == (0, 0, 2 * CELLS)
    assert found.outputs == 0 + (STEPS - 1) * CELLS, "up to the first difference; none of the end of either sample"
    assert verdict([matched("end", over_time=LAST, steps=1)]).outputs == BATCH * CELLS


def test_one_wrong_value_alone_and_none_at_all() -> None:
    wrong = MatchedValues("out", STEPWISE, np.ones((1, 1, 1)), np.zeros((1, 1, 1)), np.zeros((1, 1, 1)))
    network = Network(1e-4, TIMING, (), (), (), ())
    limits: Any = SimpleNamespace(before_reset={})
    values = {("in", "s"): np.zeros((1, 1, 1))}
    found = RunEvidence(network, values, limits, ModuleConstants([]), [wrong], [], [], 1).verdict()
    assert (found.share_equal, found.overlap, found.busy, found.outputs) == (0.0, 0.0, 1, 0)
    nothing = RunEvidence(network, values, limits, ModuleConstants([]), [], [], [], 1).verdict()
    assert (nothing.share_equal, nothing.overlap, nothing.busy, nothing.outputs) == (1.0, 1.0, 0, 0)


def test_a_neuron_that_fires_in_one_sample_counts_once() -> None:
    values: dict[tuple[str, str], Any] = {(n, k): np.zeros(SHAPE) for n in "mab" for k in "su"}
    values["a", "s"][2, 1, 0] = values["a", "s"][3, 1, 0] = values["b", "s"][0, 0, 2] = 1
    values["m", "s"][:] = 1
    found = RunEvidence(
        cells(), values, SimpleNamespace(), ModuleConstants([]), [matched("out")], [], [], BATCH
    ).verdict()  # type: ignore[arg-type]
    assert (found.fired, found.neurons) == (2, 2 * CELLS)


# -- places --------------------------------------------------------------------------------------------------------

PLACES: list[tuple[str, dict[str, Any], ValueDifference, ValueDifference | None]] = [
    (
        "the earlier of two outputs",
        {"outputs": [matched("x", (3, 0, 0)), matched("y", (1, 0, 2))]},
        said("output 'y'", 1, 0, (2,)),
        None,
    ),
    (
        "the first of two outputs in one time step",
        {"outputs": [matched("x"), matched("y", (1, 0, 2)), matched("z", (1, 0, 0))]},
        said("output 'y'", 1, 0, (2,)),
        None,
    ),
    (
        "the lower sample of one time step",
        {"outputs": [matched("x", (1, 1, 0), (1, 0, 1))]},
        said("output 'x'", 1, 0, (1,)),
        None,
    ),
    (
        "the earlier time step of a later sample",
        {"outputs": [matched("x", (2, 0, 0), (1, 1, 1))]},
        said("output 'x'", 1, 1, (1,)),
        None,
    ),
    (
        "a value over time is of the last time step",
        {"outputs": [matched("x", (0, 1, 1), over_time=SUM, steps=1)]},
        said("output 'x'", 3, 1, (1,), "the sum over time: "),
        None,
    ),
    (
        "values of each time step come before those over time",
        {"outputs": [matched("x", (0, 1, 1), over_time=LAST, steps=1), matched("y", (2, 1, 0))]},
        said("output 'y'", 2, 1, (0,)),
        None,
    ),
    (
        "a population alone",
        {"spikes": [matched("a"), matched("b", (2, 1, 0), (3, 1, 0))]},
        said("population 'b'", 2, 1, (0,)),
        said("population 'b'", 2, 1, (0,)),
    ),
    (
        "an output after its population",
        {"outputs": [matched("x", (3, 0, 2))], "spikes": [matched("a", (1, 0, 1)), matched("b", (1, 0, 0))]},
        said("output 'x'", 3, 0, (2,)),
        said("population 'a'", 1, 0, (1,)),
    ),
    (
        "a membrane, where nothing else differs",
        {"membranes": [matched("a", (2, 0, 1)), matched("b", (1, 1, 2))]},
        said("membrane of population 'b'", 1, 1, (2,)),
        said("membrane of population 'b'", 1, 1, (2,)),
    ),
    (
        "the first cell of a membrane in its first time step, of all samples",
        {"membranes": [matched("a", (3, 0, 0), (2, 1, 2), (2, 1, 1))]},
        said("membrane of population 'a'", 2, 1, (1,)),
        said("membrane of population 'a'", 2, 1, (1,)),
    ),
    (
        "a membrane of the last time step",
        {"membranes": [matched("a", (0, 1, 2), over_time=LAST, steps=1)]},
        said("membrane of population 'a'", 3, 1, (2,), "the last time step: "),
        said("membrane of population 'a'", 3, 1, (2,), "the last time step: "),
    ),
    (
        "no membrane where spikes differ",
        {"spikes": [matched("a", (3, 0, 0))], "membranes": [matched("b", (0, 0, 0))]},
        said("population 'a'", 3, 0, (0,)),
        said("population 'a'", 3, 0, (0,)),
    ),
]


@pytest.mark.parametrize("case", PLACES, ids=lambda case: case[0])
def test_the_first_difference(case: Any) -> None:
    _, given, place, population = case
    found = verdict(**given)
    assert (found.difference, found.first_population, found.ties) == (place, population, [])


def test_neurons_are_named_in_the_shape_of_their_population() -> None:
    wrong = [matched("x", (1, 0, 2))]
    for shape, place in (((3, 1), (2, 0)), ((1, 3), (0, 2)), ((3,), (2,))):
        found = verdict(wrong, shapes={"x": shape}).difference
        assert found is not None
        assert found.neuron == place
    alone = MatchedValues("x", STEPWISE, np.ones((4, 2, 1)), np.full((4, 2, 1), 5.0), np.zeros((4, 2, 1)))
    found = verdict([alone], shapes={"x": ()}).difference
    assert found is not None
    assert found.neuron == ()


# -- ties ----------------------------------------------------------------------------------------------------------

A, B = "population 'a'", "population 'b'"
TIES: list[tuple[str, dict[str, Any], bool]] = [
    ("every cell that differs is near", {"a": [(1, 0, 1), (1, 0, 2)]}, True),
    ("one of two is not near", {"a": [(1, 0, 1)]}, False),
    ("near a time step before", {"a": [(0, 0, 1), (0, 0, 2)]}, False),
    ("near in another sample", {"a": [(1, 1, 1), (1, 1, 2)]}, False),
    ("another population is near", {"b": [(1, 0, 1), (1, 0, 2)], "m": [(1, 0, 1), (1, 0, 2)]}, False),
]


@pytest.mark.parametrize("case", TIES, ids=lambda case: case[0])
def test_cells_that_differ_decide_whether_a_difference_is_a_tie(case: Any) -> None:
    _, near, is_tie = case
    found = verdict(spikes=[matched("a", (1, 0, 1), (1, 0, 2)), matched("b", (2, 0, 0))], near=near)
    assert (found.difference is None, len(found.ties)) == (is_tie, int(is_tie))
    if is_tie:
        assert found.ties == [said(A, 1, 0, (1,))]


HIDDEN: list[tuple[str, dict[str, list[Place]], bool]] = [
    ("near in the time step itself", {"a": [(2, 0, 0)]}, True),
    ("near before", {"a": [(0, 0, 0)]}, True),
    ("near one time step later", {"a": [(3, 0, 0)]}, False),
    ("near in another sample", {"a": [(1, 1, 0)]}, False),
    ("the readout alone is near", {"m": [(1, 0, 0)]}, False),
    ("the population that differs", {"b": [(2, 0, 0)]}, True),
]


@pytest.mark.parametrize("case", HIDDEN, ids=lambda case: case[0])
def test_a_population_without_spikes_to_compare_may_hide_a_tie(case: Any) -> None:
    _, near, is_tie = case
    assert (verdict(spikes=[matched("b", (2, 0, 0))], near=near).difference is None) is is_tie


def test_a_tie_in_one_sample_and_a_difference_in_another() -> None:
    found = verdict(
        [matched("x", (1, 0, 0), (3, 1, 0))],
        [matched("a", (1, 0, 0)), matched("b", (3, 1, 0))],
        [matched("a", (0, 1, 0))],
        near={"a": [(1, 0, 0)]},
    )
    assert found.ties == [said(A, 1, 0, (0,))]
    assert (found.difference, found.first_population) == (said("output 'x'", 3, 1, (0,)), said(B, 3, 1, (0,)))
    assert found.outputs == (1 + 3) * CELLS


def test_membranes_after_a_tie_are_not_compared_and_those_before_are() -> None:
    tie: dict[str, Any] = {"spikes": [matched("a", (2, 0, 0))], "near": {"a": [(2, 0, 0)]}}
    for step, differs in ((1, True), (2, False), (3, False)):
        found = verdict(membranes=[matched("b", (step, 0, 1))], **tie)
        assert (found.difference is not None) is differs
        assert len(found.ties) == 1
    assert verdict(membranes=[matched("b", (0, 0, 1), over_time=LAST, steps=1)], **tie).difference is None
    other = verdict(membranes=[matched("b", (0, 1, 1), over_time=LAST, steps=1)], **tie).difference
    assert other == said("membrane of population 'b'", 3, 1, (1,), "the last time step: ")


# -- nearness ------------------------------------------------------------------------------------------------------


def near(membranes: list[float], known: list[float], **options: Any) -> list[bool]:
    p = Population("p", (len(membranes),), neuron("IF", **options))
    u = np.array(membranes)
    limits: Any = SimpleNamespace(before_reset={"p": np.full(u.shape, ERROR)})
    network = Network(1e-4, TIMING, (p,), (), (), ())
    return (
        RunEvidence(network, {("p", "u"): u}, limits, ModuleConstants([np.array(known)]), [], [], [], 1)
        ._near(p)
        .tolist()
    )


def test_near_is_within_the_bound_of_the_threshold_on_both_sides() -> None:
    bit = 2.0**-40
    around = [3 - ERROR - bit, 3 - ERROR, 3.0, 3 + ERROR, 3 + ERROR + bit]
    assert near(around, [3.0], theta=3.0) == [False, True, True, True, False]
    own = ERROR + 3 * COMPUTED  # a threshold that the importer computed
    around = [3 - own - bit, 3 - own, 3 + own, 3 + own + bit, -3.0]
    assert near(around, [], theta=3.0) == [False, True, True, False, False]
    assert near([-x for x in around], [], theta=-3.0) == [False, True, True, False, False]


def test_near_a_multiple_of_the_threshold_where_several_spikes_count() -> None:
    """Each spike is one more rounded threshold; beyond the most spikes and below the first nothing is near."""
    bit = 2.0**-40
    levels = [2.0, 4.0, 6.0]
    for k, level in enumerate(levels):
        own = (k + 1) * ERROR
        around = [level - own - bit, level - own, level, level + own, level + own + bit]
        assert near(around, [2.0], theta=2.0, max_spikes=3) == [False, True, True, True, False], level
    assert near([0.0, -2.0, 1.0, 3.0, 8.0, 1e6], [2.0], theta=2.0, max_spikes=3) == [False] * 6
    assert near([2.0, 4.0], [2.0], theta=2.0, max_spikes=2) == [True, True]
    assert near([2.0, 4.0], [2.0], theta=2.0, max_spikes=1) == [True, False]

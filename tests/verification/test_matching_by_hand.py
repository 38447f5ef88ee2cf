"""Matching of recorded values, on handmade recordings of a module."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.importers.neuron_specs import NeuronSpec
from nirbridge.network.model import Network, Population, Port, Timing
from nirbridge.network.neurons import neuron
from nirbridge.verification.matching import (
    LAST,
    MEAN,
    STEPWISE,
    SUM,
    MatchedValues,
    _options,
    _sizes_before_time,
    _without_offset,
    matched_membranes,
    matched_outputs,
    matched_spikes,
    population_names,
)
from nirbridge.verification.original_runs import NeuronObservation, OriginalRun
from nirbridge.verification.rounding import RoundingBounds

STEPS, BATCH, CELLS = 2, 2, 3
SHAPE = (STEPS, BATCH, CELLS)
VALUES = np.random.default_rng(0).normal(size=SHAPE)
SPIKES = (np.arange(12).reshape(SHAPE) % 5 < 2).astype(float)
TIMING = Timing(1e-4, "euler", "subtract", ">", "per-second")


def network(populations: str = "", outputs: tuple[str, ...] = ("output",)) -> Network:
    cells = [Population(n, (CELLS,), neuron("IF", theta=None if n == "m" else 1.0)) for n in populations]
    return Network(1e-4, TIMING, tuple(cells), (), (), tuple(Port(name, (CELLS,)) for name in outputs))


def limits(value: float = 2.0**-40, names: str = "abcm") -> RoundingBounds:
    before, after = ({n: np.full(SHAPE, k * value) for n in names} for k in (1, 2))
    outputs: dict[str, Any] = {name: np.full(SHAPE, value) for name in ("output", "output_0", "output_spk")}
    return RoundingBounds(before, after, outputs)


# -- outputs -------------------------------------------------------------------------------------------------------


def best(returned: list[list[tuple[str, Any]]], names: tuple[str, ...] = ("output",)) -> list[Any]:
    """(name, how, share) of what was matched with ``VALUES``, for each output."""
    found = matched_outputs(
        OriginalRun(returned, {}), BATCH, network(outputs=names), {(name, "s"): VALUES for name in names}, limits()
    )
    return [(m.name, m.over_time, m.share_equal) for m in found]


def test_of_all_values_that_fit_the_one_that_agrees_best_is_taken() -> None:
    near = VALUES.copy()
    near[0, 0, 0] += 1
    for order in ([("a", near), ("b", VALUES)], [("b", VALUES), ("a", near)]):
        assert best([order]) == [("output", STEPWISE, 1.0)]
    assert best([[("a", near)]]) == [("output", STEPWISE, 11 / 12)]
    assert best([[("a", np.zeros(5))]]) == []
    assert best([[("a", np.zeros(5)), ("b", VALUES[-1])]]) == [("output", LAST, 1.0)]


def test_a_value_that_holds_spikes_of_the_module_is_taken_in_their_order() -> None:
    """An import that deviates may agree better with the spikes in another order."""
    sent = np.zeros(SHAPE)
    sent[1, 0] = 1
    spikes = np.zeros(SHAPE)
    spikes[0, 1] = 1  # in the other order of time and batch these are the spikes that were sent
    probe = NeuronObservation(SimpleNamespace(layout=None), None, list(spikes))  # type: ignore[arg-type]
    ways = {"output": ("a", "0", STEPWISE)}
    for probes, share, way in (({}, 1.0, "batch first"), ({"p": probe}, 0.5, STEPWISE)):
        run = OriginalRun([[("a", spikes)]], probes)
        (found,) = matched_outputs(run, BATCH, network(), {("output", "s"): sent}, limits())
        assert (found.share_equal, found.way[-1]) == (share, way)
        (found,) = matched_outputs(run, BATCH, network(), {("output", "s"): sent}, limits(), ways)
        assert (found.share_equal, found.way) == (0.5, ways["output"])
    sent[1, 0, 0] = 0
    run = OriginalRun([[("a", sent), ("z", spikes)]], {"p": probe})
    (found,) = matched_outputs(run, BATCH, network(), {("output", "s"): sent}, limits())
    assert found.way == ways["output"], "a returned state with spikes of a neuron is no reason to leave out another"
    for way, order in ((("a", "0", "x"), [STEPWISE]), (("a", "1", STEPWISE), []), (("b", "0", STEPWISE), [])):
        shown = matched_outputs(run, BATCH, network(), {("output", "s"): sent}, limits(), {"output": way})
        assert [m.over_time for m in shown] == order
    summed = OriginalRun([[("a", spikes.sum(axis=0))]], {"p": probe})
    (found,) = matched_outputs(summed, BATCH, network(), {("output", "s"): sent}, limits())
    assert found.over_time == SUM, "the last time step of the module is silent"
    assert matched_outputs(run, BATCH, network(), {("output", "s"): sent}, limits(), {}) == []


def test_each_output_is_compared_with_the_value_of_its_name() -> None:
    names = ("output_0", "output_spk")
    assert best([[("0", VALUES), ("spk", VALUES)]], names) == [(name, STEPWISE, 1.0) for name in names]
    assert best([[("0", VALUES), ("mem", VALUES)]], names) == [("output_0", STEPWISE, 1.0)]
    found = best([[("0", VALUES + 1), ("spk", VALUES)]], names)
    assert found == [("output_0", STEPWISE, 0.0), ("output_spk", STEPWISE, 1.0)]
    assert best([[("anything", VALUES)]], ("output_spk",)) == [("output_spk", STEPWISE, 1.0)]


def test_values_of_calls_per_time_step_are_stacked() -> None:
    calls = [[("a", step[:, :1]), ("b", step)] for step in VALUES]
    assert best(calls) == [("output", STEPWISE, 1.0)]
    assert best([calls[1], calls[0]])[0][2] < 1
    assert best([calls[0], [("a", VALUES[1][:, :1])]]) == [], "the second call returns one value less"
    assert best([[("b", VALUES[0])], [("b", VALUES[1, :1])]]) == [], "of another shape"
    assert best([[("b", VALUES[0])], calls[1]]) == [], "the first call has one alone, of another shape"


def shapes(steps: int, batch: int, size: int) -> list[tuple[str, tuple[int, ...]]]:
    values = np.ones((steps, batch, 2, size // 2))
    found = []
    for tensor in (np.ones(steps * batch * size), np.ones(batch * size)):
        found += [(m.over_time, m.original.shape) for m in _options("o", tensor, values, np.zeros(()), batch)]
    assert all(m.imported.shape == m.original.shape for m in _options("o", tensor, values, np.zeros(()), batch))
    return found


def test_every_way_of_holding_values_is_tried_and_no_other() -> None:
    over = [LAST, SUM, MEAN]
    whole, late = (STEPWISE, (2, 2, 6)), (1, 2, 6)
    assert shapes(2, 2, 6) == [whole] * 4 + [(o, late) for o in over]
    whole, late = (STEPWISE, (2, 1, 6)), (1, 1, 6)
    assert shapes(2, 1, 6) == [whole] * 3 + [(o, late) for o in over]
    assert shapes(1, 2, 6) == [(STEPWISE, (1, 2, 6))] * 2, "the second tensor is of the same size"


def test_time_after_every_axis_of_values_is_recognized() -> None:
    values = np.random.default_rng(1).normal(size=(2, 2, 3, 5))
    for axis in (1, 2, 3):
        tensor = np.ascontiguousarray(np.moveaxis(values, 0, axis))
        equal = [m for m in _options("o", tensor, values, np.array(1e-9), 2) if m.share_equal == 1]
        assert len(equal) == 1


def test_sizes_before_a_time_axis() -> None:
    table: dict[tuple[int, ...], list[int]] = {
        (): [], (1,): [], (1, 1): [], (3, 8): [3, 24], (1, 3, 8): [3, 24], (2, 1, 3): [2, 6], (5,): [5],
    }  # fmt: skip
    assert {shape: _sizes_before_time(shape) for shape in table} == table


def test_the_bound_of_a_sum_grows_with_the_size_of_its_terms() -> None:
    values = np.array([[[3.0]], [[-5.0]]])
    found = {m.over_time: m.bound for m in _options("o", np.zeros(1), values, np.array([[[1.0]], [[2.0]]]), 1)}
    rounding = 2.0**-50 * 8
    assert {how: bound.tolist() for how, bound in found.items()} == {
        LAST: [[[2.0]]],
        SUM: [[[3.0 + rounding]]],
        MEAN: [[[(3.0 + rounding) / 2]]],
    }


def test_shares_of_one_value_and_of_none() -> None:
    def share(*wrong: float) -> float:
        size = (1, 1, len(wrong))
        return MatchedValues("a", STEPWISE, np.array(wrong).reshape(size), np.zeros(size), np.zeros(size)).share_equal

    assert (share(), share(0.0), share(1.0), share(0.0, 1.0)) == (1.0, 1.0, 0.0, 0.5)


def test_an_offset_widens_the_bound_by_the_largest_one_and_its_own_rounding() -> None:
    bound = np.linspace(0.5, 1.0, 12).reshape(SHAPE)
    for offset in (4.0, -4.0):
        found = _without_offset(MatchedValues("a", LAST, VALUES + offset, VALUES, bound))
        np.testing.assert_allclose(found.bound, bound + 1.0 + 2.0**-48, rtol=1e-15)
        np.testing.assert_allclose(found.imported, VALUES + offset)
        assert (found.name, found.over_time) == ("a", LAST)


# -- populations ---------------------------------------------------------------------------------------------------


def test_populations_are_named_after_the_paths_of_their_modules() -> None:
    assert population_names(["a", "b.c.0", ""]) == {"a": "a", "b.c.0": "b_c_0", "": "neuron"}


def probe(spikes: list[Any], layout: Any = None, membranes: list[Any] | None = None, **own: Any) -> NeuronObservation:
    form = NeuronSpec(read=lambda *_: None, layout=layout)  # type: ignore[arg-type, return-value]
    return NeuronObservation(
        form, SimpleNamespace(**own), spikes, [None] * len(spikes) if membranes is None else membranes
    )


def of_spikes(one: NeuronObservation, values: Any = SPIKES) -> list[MatchedValues]:
    run = OriginalRun([], {"a": probe([]), "b": one, "c": probe(list(SPIKES)), "gone": one})
    imported = {("b", "s"): values.astype(bool), ("c", "s"): SPIKES.astype(bool), ("m", "v"): SPIKES}
    found = matched_spikes(run, network("mabc"), imported)
    assert found[-1].name == "c", "the populations after it are compared too"
    assert all(m.over_time == STEPWISE and set(m.bound.ravel()) == {0.5} for m in found)
    return found[:-1]


BATCH_FIRST = SPIKES.swapaxes(0, 1).copy()
IN_TIME: list[tuple[str, NeuronObservation]] = [
    ("a call per time step", probe([SPIKES[0], SPIKES[1].reshape(-1)])),
    ("one call, time first", probe([SPIKES], ("time", "batch"))),
    ("one call, batch first", probe([BATCH_FIRST], ("batch", "time"))),
    ("one call, a layout of the module's", probe([BATCH_FIRST], lambda module: module.order, order=("batch", "time"))),
    ("spikes of 4", probe([SPIKES * 4], ("time", "batch"), graded_spikes_factor=4.0)),
    ("calls with spikes of 4 each", probe(list(SPIKES * 4), graded_spikes_factor=np.full(3, 4.0))),
]
NOT_IN_TIME: list[tuple[str, NeuronObservation]] = [
    ("neurons whose spikes differ in worth", probe(list(SPIKES), graded_spikes_factor=np.array([1.0, 1.0, 2.0]))),
    ("spikes of no worth", probe(list(SPIKES), graded_spikes_factor=0.0)),
    ("a call more than time steps", probe([*SPIKES, SPIKES[0]])),
    ("calls of other sizes", probe([SPIKES[0], SPIKES[1, :1]])),
    ("the first call of another size", probe([SPIKES[0, :1], SPIKES[1]])),
    ("one call with more values", probe([np.ones((2, 2, 4))], ("time", "batch"))),
    ("two calls of a sequence", probe([SPIKES[:1], SPIKES[1:, :1]], ("time", "batch"))),
]


@pytest.mark.parametrize("case", IN_TIME, ids=lambda case: case[0])
def test_spikes_go_where_their_time_step_and_sample_are(case: Any) -> None:
    (found,) = of_spikes(case[1])
    assert (found.name, found.original.shape, found.imported.dtype) == ("b", SHAPE, np.float64)
    np.testing.assert_array_equal(found.original, SPIKES)
    np.testing.assert_array_equal(found.imported, SPIKES)


@pytest.mark.parametrize("case", NOT_IN_TIME, ids=lambda case: case[0])
def test_spikes_that_are_not_one_of_each_time_step_are_not_compared(case: Any) -> None:
    assert of_spikes(case[1]) == []


def test_two_sequences_of_one_time_step_each_are_two_time_steps() -> None:
    (found,) = of_spikes(probe([SPIKES[:1], SPIKES[1:]], ("time", "batch")))
    np.testing.assert_array_equal(found.original, SPIKES)


# -- membranes -----------------------------------------------------------------------------------------------------


def of_membranes(one: NeuronObservation, before: Any, after: Any) -> list[MatchedValues]:
    run = OriginalRun([], {"a": probe([]), "b": one, "c": probe(list(SPIKES), None, list(VALUES))})
    imported = {("b", "u"): before, ("b", "v"): after, ("c", "u"): VALUES, ("c", "v"): VALUES}
    found = matched_membranes(run, network("mabc"), imported, limits())
    assert found[-1].name == "c", "the populations after it are compared too"
    return found[:-1]


def test_the_membrane_before_or_after_the_reset_is_the_one_that_agrees() -> None:
    calls, other = list(VALUES), VALUES * 3
    for before, after, bound in ((VALUES, other, 1), (other, VALUES, 2), (VALUES, VALUES, 1)):
        (found,) = of_membranes(probe(list(SPIKES), None, calls), before, after)
        assert (found.name, found.over_time, found.share_equal) == ("b", STEPWISE, 1.0)
        np.testing.assert_array_equal(found.imported, VALUES)
        assert set(found.bound.ravel()) == {bound * 2.0**-40}
    (found,) = of_membranes(probe(list(SPIKES), None, calls), VALUES - 0.25, other)
    assert found.share_equal == 1.0, "measured from another zero"
    np.testing.assert_allclose(found.imported, VALUES)


def test_a_membrane_that_is_known_after_the_last_time_step_alone() -> None:
    (found,) = of_membranes(probe([SPIKES], ("time", "batch"), [VALUES[-1]]), VALUES, VALUES * 3)
    assert (found.over_time, found.original.shape, found.share_equal) == (LAST, (1, BATCH, CELLS), 1.0)
    assert (found.imported.shape, found.bound.shape) == ((1, BATCH, CELLS), (1, BATCH, CELLS))
    for step in (0, 1):
        wrong = VALUES.copy()
        wrong[step] += [[1.0, 0, 0], [0, 0, 0]]
        (found,) = of_membranes(probe([SPIKES], ("time", "batch"), [VALUES[-1]]), wrong, wrong)
        assert (found.share_equal == 1.0) is (step == 0)


UNKNOWN: list[tuple[str, NeuronObservation]] = [
    ("none", probe(list(SPIKES), None, [])),
    ("one of them is unknown", probe(list(SPIKES), None, [VALUES[0], None])),
    ("the first is unknown", probe(list(SPIKES), None, [None, VALUES[1]])),
    ("of another size", probe([SPIKES], ("time", "batch"), [VALUES[-1, :1]])),
    ("of another number of time steps", probe([SPIKES[:1]], ("time", "batch"), [VALUES[-1]])),
]


@pytest.mark.parametrize("case", UNKNOWN, ids=lambda case: case[0])
def test_membranes_that_the_module_does_not_show_are_not_compared(case: Any) -> None:
    assert of_membranes(case[1], VALUES, VALUES) == []

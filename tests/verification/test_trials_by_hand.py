"""Selected reading of a sample and scale of its inputs, with artificial runs."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.verification import trials as module_of_trials
from nirbridge.verification.original_runs import NeuronObservation, OriginalRun
from nirbridge.verification.sample_axes import TrialReading
from nirbridge.verification.trials import (
    MERGED,
    MERGED_BATCH_FIRST,
    STATIC,
    STEPS,
    Trial,
    Trials,
    _best,
    _everything,
    _is_equal_on_little,
)
from tests.verification.made_up import READING, recorded, trial, trials

# -- the best of several readings ----------------------------------------------------------------------------------

GOOD = trial()
ORDER = [
    GOOD,
    trial(size=90),
    trial(busy=40),
    trial(overlap=0.5),
    trial(populations=0),
    trial(equal=False, populations=1, size=201),
    trial(equal=False, populations=1, size=90),
    trial(equal=False, populations=0, overlap=0.9),
    trial(equal=False, populations=0, overlap=0.2),
    trial(populations=0, busy=9, overlap=0.1),
]
"""From the best to the worst, wherever no larger trial contradicts one of them."""


def test_equal_trials_come_first_then_those_that_agree_more() -> None:
    for better, worse in itertools.combinations(ORDER[:5], 2):
        assert _best([better, worse]) is _best([worse, better]) is better
    for better, worse in itertools.combinations(ORDER[6:], 2):
        assert _best([better, worse]) is _best([worse, better]) is better
    assert _best([ORDER[4], ORDER[8]]) is ORDER[4], "equal on many values is better than unequal on a population"


def test_a_trial_that_a_much_larger_one_contradicts_comes_last() -> None:
    little = trial(size=100)
    for size, is_more in ((200, False), (201, True)):
        large = trial(equal=False, size=size)
        assert _is_equal_on_little(little, [little, large]) is is_more
        assert _best([little, large]) is _best([large, little]) is (large if is_more else little)
    large = trial(equal=False, size=1000)
    assert not _is_equal_on_little(trial(populations=2), [large]), "the larger compared fewer populations"
    assert _is_equal_on_little(trial(populations=0), [large])
    assert not _is_equal_on_little(trial(populations=0), [trial(equal=False, populations=0, size=1000)])
    assert not _is_equal_on_little(trial(equal=False), [large]), "it differs itself"
    assert not _is_equal_on_little(little, [trial(size=1000)]), "the larger is equal"


def tried(table: dict[tuple[bool, int], list[Trial]]) -> Trials:
    made = trials()
    made._tried = lambda reading, number: iter(table.get((made.wide, reading.steps), []))  # type: ignore[method-assign]
    return made


def readings(*steps: int) -> list[TrialReading]:
    return [TrialReading(None, 0, ((3,),), n, 4) for n in steps]


def chosen(made: Trials, options: list[TrialReading]) -> Trial | None:
    return next(made.candidates(options), None)


def test_the_first_reading_that_compares_all_that_fires_is_chosen() -> None:
    full, later, part, wrong = trial(populations=2), trial(populations=2), trial(), trial(equal=False, populations=2)
    assert chosen(tried({(True, 1): [wrong, part], (True, 2): [full, later]}), readings(1, 2)) is full
    assert chosen(tried({(True, 1): [part], (True, 2): [wrong]}), readings(1, 2)) is part
    assert chosen(tried({(True, 1): [wrong]}), readings(1, 2)) is wrong
    assert chosen(tried({}), readings(1, 2)) is None
    large = trial(equal=False, populations=2, size=1000)
    assert chosen(tried({(True, 1): [large], (True, 2): [full]}), readings(1, 2)) is large
    nothing = trials(firing="")
    nothing._tried = lambda reading, number: iter([part, full])  # type: ignore[method-assign]
    assert chosen(nothing, readings(1)) is full, "where nothing fires all readings are tried"


def test_after_a_reading_that_is_refuted_the_next_one_that_is_equal_counts() -> None:
    full, later, wrong = trial(populations=2), trial(populations=2), trial(equal=False, populations=2)
    made = tried({(True, 1): [full, wrong], (True, 2): [later], (False, 1): [trial(populations=2)]})
    assert list(made.candidates(readings(1, 2))) == [full, later]
    candidates = made.candidates(readings(1, 2))
    assert next(candidates) is full
    made.refuted.append(trial(equal=False, populations=2, size=1000))
    assert next(candidates, None) is None, "it is equal on little, and a larger trial differs"


def test_a_module_that_does_not_run_in_float64_runs_as_it_is() -> None:
    narrow = trial(populations=2)
    made = tried({(False, 1): [narrow]})
    assert chosen(made, readings(1)) is narrow
    assert made.wide is False
    made = tried({(True, 1): [narrow], (False, 1): [trial()]})
    assert chosen(made, readings(1)) is narrow
    assert made.wide is True


def test_a_chosen_reading_is_tried_again_in_its_form() -> None:
    asked: list[tuple[Any, int, bool]] = []
    made = trials()

    def again(reading: Any, number: int) -> Any:
        asked.append((reading, number, made.wide))
        return iter([trial(form=STATIC), trial(form=MERGED, busy=7)])

    made._tried = again  # type: ignore[method-assign]
    found = made.again(trial(form=MERGED), 5)
    assert found is not None
    assert found.verdict.busy == 7
    assert made.again(trial(form=STEPS), 6) is None
    assert made.in_own_precision(trial(form=STATIC)) is not None
    assert asked == [(READING, 5, True), (READING, 6, True), (READING, 0, False)]
    assert made.wide is True

    def fails(reading: Any, number: int) -> Any:
        raise ValueError

    made._tried = fails  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="^$"):
        made.in_own_precision(trial())
    assert made.wide is True


# -- noise ---------------------------------------------------------------------------------------------------------


def test_all_that_a_run_shows() -> None:
    found = _everything(recorded([1.0, 2.0], [3.0, 4.0], [None, 5.0]))
    assert [float(a) for a in found] == [1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize("form", [STEPS, STATIC])
def test_runs_of_two_seeds_tell_noise(form: str) -> None:
    plain = recorded([1.0, 2.0], [3.0], [np.nan])
    runs = {
        "the same": (plain, recorded([1.0, 2.0], [3.0], [np.nan]), False),
        "one output": (plain, recorded([1.0, 2.5], [3.0], [np.nan]), True),
        "a spike": (plain, recorded([1.0, 2.0], [4.0], [np.nan]), True),
        "a membrane": (plain, recorded([1.0, 2.0], [3.0], [1.0]), True),
        "the first failed": (None, plain, False),
        "the second failed": (plain, None, False),
    }
    for name, (one, other, is_noisy) in runs.items():
        asked: list[tuple[int, bool]] = []

        def ran(
            reading: Any, arrays: Any, seed: int, *, stops: bool, both: Any = (one, other), log: Any = asked
        ) -> Any:
            assert (reading, arrays) == (READING, "arrays of 0")
            log.append((seed, stops))
            return both[seed - 1]

        made = trials(_ran=ran, _drawn=lambda reading, number: f"arrays of {number}")
        assert made.is_noisy(trial(form=form)) is is_noisy, name
        assert asked == [(1, form != STEPS), (2, form != STEPS)]


# -- inputs --------------------------------------------------------------------------------------------------------


def loudness(counts: dict[float, tuple[int, int]], firing: str = "ab", steps: int = 32) -> tuple[float, float]:
    """With ``counts`` neurons of the two populations that fire at each factor."""
    asked: list[float] = []

    def random(reading: Any, number: int, *, derived: bool, gain: float) -> float:
        assert (reading.steps, number, derived) == (min(16, steps), 0, False)
        asked.append(gain)
        return gain

    def simulated(gain: Any, variables: Any) -> Any:
        assert variables == ("s",)
        values = {}
        for name, count in zip("ab", counts[gain], strict=True):
            values[name, "s"] = np.zeros((2, 2, 12), bool)
            values[name, "s"][0, 0, :count] = values[name, "s"][1, 1, :count] = True  # each neuron counts once
        return values

    made = trials(firing, _random=random, _simulated=simulated)
    found = made._loudness(TrialReading(None, 0, ((3,),), steps, 4))
    assert asked == ([1.0, 4.0, 16.0, 64.0, 256.0] if firing else [])
    return found


def test_inputs_are_as_loud_as_most_neurons_need() -> None:
    assert loudness({1.0: (0, 0), 4.0: (4, 5), 16.0: (5, 5), 64.0: (5, 5), 256.0: (0, 9)}) == (4.0, 16.0)
    assert loudness({1.0: (0, 0), 4.0: (4, 4), 16.0: (5, 5), 64.0: (5, 6), 256.0: (0, 9)}, steps=8) == (16.0, 64.0)
    assert loudness(dict.fromkeys((1.0, 4.0, 16.0, 64.0, 256.0), (0, 0)), steps=16) == (1.0, 1.0)
    assert loudness({}, firing="") == (1.0, 1.0)


def test_inputs_go_from_the_samples_own_kind_to_derived_ones_to_plain_ones() -> None:
    asked: list[Any] = []
    made = trials(_random=lambda reading, number, derived, gain: asked.append((number, derived, gain)) or [])
    made._loudness = lambda reading: (4.0, 64.0)  # type: ignore[method-assign]
    for number in range(5):
        made._drawn(READING, number)
    assert asked == [(0, False, 4.0), (1, True, 64.0), (2, False, 1.0), (3, False, 4.0), (4, True, 64.0)]
    made._loudness = lambda reading: pytest.fail("asked twice")  # type: ignore[method-assign]
    made._drawn(READING, 0)


def test_each_input_has_random_numbers_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(module_of_trials, "draw_values", lambda *args, **options: asked.append((*args, options)))
    made = trials(samples=["one", "two"])
    made._random(TrialReading(None, 0, ((2, 3), (4,)), 5, 7), 3, derived=True, gain=2.0)
    options = {"derived": True, "gain": 2.0}
    assert asked == [("one", (5, 7, 6), 291, options), ("two", (5, 7, 4), 292, options)]


# -- forms of a run ------------------------------------------------------------------------------------------------


def forms(samples: int, iterations: int) -> list[tuple[str, list[list[float]]]]:
    """(form, steps of samples) of a call that stopped after ``iterations`` time steps; the first step holds 0, 1, 2
    …"""
    arrays = [np.stack([np.arange(float(samples)), np.full(samples, 99.0)])[:, :, None]]
    judged: list[tuple[str, Any]] = []
    made = trials(
        _judged=lambda reading, form, values, run: iter([judged.append((form, values[0][:, :, 0].tolist()))]),
        _ran=lambda reading, values, seed, stops: run if stops else None,
        _drawn=lambda reading, number: arrays,
    )
    probe = NeuronObservation(SimpleNamespace(layout=None), None, [np.zeros(1)] * iterations)  # type: ignore[arg-type]
    run = OriginalRun([], {"p": probe}, is_stopped=True)
    list(made._tried(TrialReading(None, 0, ((1,),), 2, samples, is_stepwise=True), 0))
    return judged


def test_a_loop_inside_of_forward_hears_one_input_or_time_and_batch_together() -> None:
    assert forms(6, 3) == [
        (MERGED, [[0.0, 1], [2, 3], [4, 5]]),
        (MERGED_BATCH_FIRST, [[0.0, 3], [1, 4], [2, 5]]),
        (STATIC, [[0.0, 1, 2, 3, 4, 5]] * 3),
    ]
    assert [form for form, _ in forms(6, 4)] == [STATIC]


def test_a_run_that_stopped_is_run_again_whole() -> None:
    asked: list[Any] = []
    stopped, whole = OriginalRun([], {}, is_stopped=True), OriginalRun([], {})

    def made(first: Any, second: Any) -> Trials:
        return trials(
            _ran=lambda reading, values, seed, stops: asked.append((seed, stops)) or (first if stops else second),
            _loops=lambda reading, values, run: iter([("loops", run)]),
            _judged=lambda reading, form, values, run: iter([(form, run)]),
            _drawn=lambda reading, number: "values",
        )

    stepwise, once = READING, TrialReading(0, 1, ((3,),), 32, 4)
    assert list(made(stopped, whole)._tried(stepwise, 7)) == [("loops", stopped), (STEPS, whole)]
    assert list(made(stopped, None)._tried(stepwise, 7)) == [("loops", stopped)]
    assert list(made(None, whole)._tried(stepwise, 7)) == []
    assert list(made(whole, stopped)._tried(stepwise, 7)) == [(STEPS, whole)]
    assert list(made(stopped, whole)._tried(once, 7)) == [(STEPS, whole)]
    assert asked == [(7, True), (7, False), (7, True), (7, False), (7, True), (7, True), (7, False)]


def test_why_nothing_was_run() -> None:
    assert trials().why() == "no reading of the sample's shape fits the network's inputs"
    one, two, three = "[batch, 3], one call", "[time, batch, 3], one call", "[batch, time, 3], one call"
    assert trials(failures={one: "E: a"}).why() == f"as {one}: E: a"
    made = trials(failures={one: "E: a", two: "E: b"}, unmatched={three: "odd"})
    assert made.why() == f"as {three}: odd; as {one}: E: a; and 1 other reading"
    assert (
        made.why("the sample was read as [time, batch, 3]") == f"as {two}: E: b; as {three}: odd; and 1 other reading"
    )
    made.failures.pop(one)
    assert made.why() == f"as {three}: odd; as {two}: E: b"


def test_the_first_failure_of_each_reading_is_kept_in_one_line() -> None:
    for error, words in ((ValueError("bad\nmore"), "ValueError: bad"), (KeyError(), "KeyError: ")):
        made = trials()

        def private(error: Exception = error) -> Any:
            raise error

        made.private = private
        assert made._ran(READING, [np.zeros((32, 4, 3))], 0, stops=False) is None
        assert made.failures == {READING.words: words}
        made.failures = {READING.words: "the first"}
        assert made._ran(READING, [np.zeros((32, 4, 3))], 0, stops=False) is None
        assert made.failures == {READING.words: "the first"}


def test_of_unequal_trials_those_with_the_shapes_of_the_network_come_first() -> None:
    """Few time steps of another reading may agree better with an import that deviates."""
    exact, other = (trial(equal=False, overlap=overlap) for overlap in (0.5, 0.9))
    other = replace(other, is_exact=False)
    assert _best([exact, other]) is _best([other, exact]) is exact
    more = replace(trial(equal=False, populations=2), is_exact=False)
    assert _best([exact, more]) is more, "it compares more"
    same = replace(trial(overlap=0.4), is_exact=False)
    assert _best([trial(equal=False), same]) is same, "it is equal"

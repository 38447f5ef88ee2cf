"""Outcomes of the self-check in words, the order of its decisions, and its effort."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from nirbridge.errors import UnequalImport
from nirbridge.network.model import Port
from nirbridge.verification.sample_axes import EFFORTS, TrialReading
from nirbridge.verification.self_check import (
    AFFORDABLE,
    CALL,
    INPUTS,
    SelfCheck,
    _copies,
    _effort,
    outcome_of,
)
from nirbridge.verification.trials import STEPS, Trial
from nirbridge.verification.verdicts import ValueDifference, Verdict

READING = TrialReading(None, 0, ((3,),), 8, 4, is_stepwise=True)
WORDS = "[batch, 3], one call per time step"
PLACE = ValueDifference("output 'o'", 7, 2, (1, 0), "the module gives 1, the import 0")
FIRST = ValueDifference("population 'p'", 5, 2, (4,), "the module gives 0, the import 1")
TIES = [replace(PLACE, step=k) for k in range(3)]


def trial(outputs: int = 1000, **changes: Any) -> Trial:
    options: dict[str, Any] = {
        "share_equal": 1.0,
        "populations": 1,
        "overlap": 1.0,
        "busy": 9,
        "fired": 0,
        "neurons": 0,
    }
    return Trial(READING, STEPS, Verdict(outputs, **{**options, **changes}), 1)


class Runs:
    """Trials whose results are given; ``asked`` are the numbers of the inputs."""

    def __init__(self, *results: Any, own: Any = None, noisy: bool = False, wide: bool = True) -> None:
        self.results, self.own, self.noisy, self.wide = results, own, noisy, wide
        self.asked: list[Any] = []
        self.refuted: list[Any] = []

    def why(self, notes: str) -> str:
        return f"because of {notes}"

    def candidates(self, options: Any) -> Any:
        assert options == "readings"
        yield from self.results[:1] if self.results[0] is not None else ()

    def again(self, chosen: Any, number: int) -> Any:
        assert chosen is self.results[0]
        self.asked.append(number)
        return self.results[number] if number < len(self.results) else None

    def in_own_precision(self, chosen: Any) -> Any:
        assert chosen is self.results[0]
        self.asked.append("own")
        return self.own

    def is_noisy(self, chosen: Any) -> bool:
        assert chosen is self.results[0]
        return self.noisy


def outcome(runs: Runs, inputs: int = 2, accepted: tuple[str, ...] = ()) -> SelfCheck:
    return outcome_of(runs, "readings", inputs, accepted, "notes")  # type: ignore[arg-type]


def test_equal_runs_in_words() -> None:
    runs = Runs(trial(), trial(234), own=trial(1))
    assert outcome(runs) == SelfCheck("identical", f"identical on 1,235 outputs (2 random inputs, {WORDS})", 1235, 2)
    assert runs.asked == [1, "own"]
    single = outcome(Runs(trial(5), own=trial(6), wide=False), 1)
    assert single == SelfCheck("identical", f"identical on 5 outputs (1 random input, {WORDS})", 5, 1)
    one, other = trial(fired=3, neurons=9000), trial(fired=1200, neurons=9000)
    found = outcome(Runs(one, other, one), 3)
    assert found.text == f"identical on 3,000 outputs (3 random inputs, {WORDS}; 1,200 of 9,000 neurons fired)"
    assert found.document() == {
        "outcome": "identical",
        "text": found.text,
        "outputs": 3000,
        "inputs": 3,
        "ties": [],
    }


def test_ties_are_counted_and_the_first_is_shown() -> None:
    found = outcome(Runs(trial(ties=TIES[:1]), trial(ties=TIES[1:]), own=trial()))
    text = (
        f"identical on 3,000 outputs (2 random inputs, {WORDS}); rounding decides the first difference of 3 samples: "
    )
    assert found.text == text + str(TIES[0])
    assert found.ties == tuple(str(tie) for tie in TIES)
    assert found.document()["ties"] == [str(tie) for tie in TIES]


def test_a_module_that_cannot_be_run_is_said() -> None:
    text = "not run: the module and the import could not be compared on any random input (because of notes)"
    assert outcome(Runs(None)) == SelfCheck("not-run", text)


@pytest.mark.parametrize("place", ["first", "second", "own precision"])
def test_a_difference_in_any_run_is_an_error_with_the_place(place: str) -> None:
    wrong = trial(difference=PLACE, first_population=FIRST, share_equal=0.25)
    right = trial()
    runs = Runs(
        wrong if place == "first" else right,
        wrong if place == "second" else right,
        own=wrong if place == "own precision" else right,
    )
    with pytest.raises(UnequalImport) as caught:
        outcome(runs)
    assert str(caught.value) == (
        "self-check: output 'o', time step 7, sample 2, neuron (1, 0): the module gives 1, the import 0; "
        f"25.00% of the outputs are equal; the first population that differs: {FIRST}, "
        f"the import must compute the same as the module (random input, {WORDS}); "
        "report the module as a fault of the importer, or import with check=0 (--no-check) at your own risk"
    )


class TwoReadings(Runs):
    """Two candidates: the results, and ``other`` on every input."""

    def __init__(self, *results: Any, other: Any) -> None:
        super().__init__(*results, wide=False)
        self.other = other

    def candidates(self, options: Any) -> Any:
        yield self.results[0]
        assert self.refuted == [result for result in self.results if result.verdict.difference is not None]
        yield self.other

    def again(self, chosen: Any, number: int) -> Any:
        return self.other if chosen is self.other else super().again(chosen, number)


def test_a_reading_that_another_input_refutes_gives_way_to_one_that_is_equal_on_every_input() -> None:
    right, wrong = trial(7), trial(difference=PLACE, first_population=FIRST, share_equal=0.25)
    assert outcome(TwoReadings(trial(), wrong, other=right)).outputs == 14
    with pytest.raises(UnequalImport, match=r"25.00% of the outputs are equal; the first population"):
        outcome(TwoReadings(trial(), wrong, other=trial(difference=PLACE, share_equal=0.5)))


@pytest.mark.parametrize("population", [None, PLACE])
def test_a_population_is_not_named_twice(population: Any) -> None:
    with pytest.raises(UnequalImport) as caught:
        outcome(Runs(trial(difference=PLACE, first_population=population), own=trial()))
    assert "the first population" not in str(caught.value)


def test_noise_comes_before_what_was_accepted_and_that_before_an_error() -> None:
    wrong = trial(difference=PLACE, share_equal=0.5)
    noise = "not compared: the module itself gives different outputs for the same input"
    for accepted in ((), ("a",)):
        assert outcome(Runs(wrong, own=trial(), noisy=True), 1, accepted) == SelfCheck("noise", noise)
    found = outcome(Runs(trial(), wrong, own=trial(share_equal=0.75)), 2, ("a", "b"))
    text = "50.00% of the outputs are equal, with the deviations accepted: a, b"
    assert found == SelfCheck("accepted", text, 3000, 2)
    assert outcome(Runs(trial(), own=trial(), noisy=True), 1, ("a",)).outcome == "identical"


# -- effort --------------------------------------------------------------------------------------------------------


def effort(neurons: int, *, leaves: int = 0, inputs: int = 1, ports: tuple[int, ...] = (7,)) -> Any:
    network: Any = SimpleNamespace(projections=[], neurons=neurons)
    module = SimpleNamespace(modules=lambda: [SimpleNamespace(children=lambda: [])] * leaves)
    return _effort(network, module, [(7,)], [ports], inputs)


def test_the_most_thorough_effort_that_is_affordable() -> None:
    assert (AFFORDABLE, CALL, INPUTS) == (10**8, 10**4, 2)
    first, second, third = EFFORTS
    assert effort(390_625) == (first, 2 * 32 * 4 * 390_625)
    assert effort(390_626) == (second, 2 * 16 * 2 * 390_626)
    assert effort(1_562_500) == (second, 10**8)
    assert effort(1_562_501) == (third, 2 * 8 * 1_562_501)
    assert effort(10**9) == (third, 2 * 8 * 10**9)
    assert effort(10, leaves=3) == (first, 2 * 32 * (4 * 10 + 3 * 10**4))
    assert effort(10, inputs=5) == (first, 6 * 32 * 4 * 10)
    assert effort(10**9, ports=(8,)) == (first, 0.0), "nothing to run"


def test_copies_in_words() -> None:
    network: Any = SimpleNamespace(inputs=[Port("a", (2,)), Port("b", (3, 5))])
    assert str(_copies(network, (1, 1))) == (
        "self-check: input 'b': the import holds 5 copies of its neurons, one for each part of axis 1, "
        "one time step was read as (3, 5); "
        "say which axes of the sample are batch and time, or import with check=0 (--no-check)"
    )

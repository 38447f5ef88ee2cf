"""Parts of the self-check on arrays of a few numbers: matching of values, bounds, verdicts, reports."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Chain, Conv, Dense, Reshape, Scale, Sparse, SumPool
from nirbridge.verification.matching import LAST, MEAN, STEPWISE, SUM, MatchedValues, _options, _without_offset
from nirbridge.verification.module_facts import network_multiplications
from nirbridge.verification.random_inputs import draw_values, finite_samples
from nirbridge.verification.rounding import COMPUTED, ModuleConstants, _late, _terms
from nirbridge.verification.sample_axes import TrialReading
from nirbridge.verification.self_check import copied_axis
from nirbridge.verification.verdicts import RunEvidence, ValueDifference, Verdict

TIMING = Timing(1e-4, "euler", "subtract", ">", "per-second")
STEPS, BATCH, SIZE = 3, 2, 4
FLAT = np.random.default_rng(0).standard_normal((STEPS, BATCH, SIZE))
LAYOUTS = {
    "time, batch, values": FLAT,
    "batch, time, values": FLAT.swapaxes(0, 1),
    "batch, values, time": np.moveaxis(FLAT, 0, 2),
    LAST: FLAT[-1],
    SUM: FLAT.sum(axis=0),
    MEAN: FLAT.mean(axis=0),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_of_returned_values_is_recognized(name: str) -> None:
    bound = np.full(FLAT.shape, 2.0**-30)
    found = list(_options("out", np.ascontiguousarray(LAYOUTS[name]), FLAT, bound, BATCH))
    equal = [m for m in found if m.share_equal == 1.0]
    assert [m.over_time for m in equal] == [name if name in (LAST, SUM, MEAN) else STEPWISE]
    assert len(found) == 3
    assert all(m.original.shape == m.imported.shape == m.bound.shape for m in found)


def test_bounds_of_sums_and_means_over_time() -> None:
    one, bound = np.ones((3, 1, 1)), np.full((3, 1, 1), 0.25)
    found = {m.over_time: float(m.bound[0, 0, 0]) for m in _options("out", np.ones((1, 1)), one, bound, 1)}
    assert found == {LAST: 0.25, SUM: 0.75 + 3 * 2.0**-50, MEAN: (0.75 + 3 * 2.0**-50) / 3}


def test_a_value_at_its_bound_is_equal_and_one_above_it_or_without_a_number_is_not() -> None:
    m = MatchedValues(
        "a", STEPWISE, np.array([[[1.0, 1.5, 1.75, np.nan]]]), np.ones((1, 1, 4)), np.full((1, 1, 4), 0.5)
    )
    assert m.differs.ravel().tolist() == [False, False, True, True]
    assert m.share_equal == 0.5


def test_membranes_that_are_measured_from_another_zero() -> None:
    m = MatchedValues("a", STEPWISE, FLAT + 2.0, FLAT, np.full(FLAT.shape, 1e-9))
    assert m.differs.all()
    moved = _without_offset(m)
    assert not moved.differs.any()
    np.testing.assert_allclose(moved.bound, 2e-9 + 2.0**-49, rtol=1e-12)
    one_off = FLAT + 2.0
    one_off[1, 1, 2] += 1.0
    other = _without_offset(MatchedValues("a", STEPWISE, one_off, FLAT, np.full(FLAT.shape, 1e-9)))
    assert np.argwhere(other.differs).tolist() == [[1, 1, 2]]


# -- which numbers are the module's own -----------------------------------------------------------------------------


def test_numbers_of_the_module_are_known_up_to_their_sign() -> None:
    known = ModuleConstants([np.array([0.5, -0.25]), np.array(3.0)])
    for values in (0.0, 1.0, -1.0, 0.5, -0.5, 0.25, [3.0, -0.25, 1.0], [-0.25, 0.5]):
        assert known.holds(np.array(values)), values
    for values in (2.0, [0.5, 0.3], 0.5 + 1e-12):
        assert not known.holds(np.array(values)), values


def test_large_tensors_are_known_as_a_whole_alone() -> None:
    large = np.arange(2.0, 100_003.0)
    known = ModuleConstants([large])
    assert known.holds(large.copy())
    assert not known.holds(np.array([2.0]))
    assert not known.holds(large[::-1])
    small = np.arange(2.0, 100_002.0)
    assert ModuleConstants([small]).holds(small[::-1])
    assert ModuleConstants([small]).holds(np.array([100_001.0]))


KERNEL = np.ones((2, 3, 2, 2), np.float32)
CONV = Conv(KERNEL, (1, 1), ((0, 0), (0, 0)), (1, 1), 1, (3, 4, 4))
ROWS = Sparse(np.array([0, 3, 4]), np.array([0, 1, 2, 0]), np.ones(4, np.float32), (3,), (2,))


@pytest.mark.parametrize(
    ("operator", "terms", "products"),
    [
        (Dense(np.ones((5, 7), np.float32)), 7, 35),
        (CONV, 12, 18 * 12),
        (SumPool((2, 3), (1, 1), ((0, 0), (0, 0)), (1, 4, 4), 1.0), 6, 0),
        (ROWS, 3, 4),
        (Scale(np.ones(4)), 1, 0),
        (Chain((Reshape((48,), (3, 4, 4)), CONV)), 13, 18 * 12),
    ],
)
def test_terms_of_a_sum_and_multiplications(operator: Any, terms: int, products: int) -> None:
    assert _terms(operator) == terms
    network: Any = SimpleNamespace(projections=[SimpleNamespace(operator=operator)] * 2, neurons=9)
    assert network_multiplications(network) == 2 * products + 9


def test_bounds_arrive_late_as_the_values_do() -> None:
    values = np.array([1.0, 3.0, 2.0, 0.0])

    def late(source: list[int], target: list[int]) -> list[float]:
        p = Projection("a", "b", Scale(values), None, np.array(source), np.array(target))
        return _late(values, p).tolist()

    assert late([0], [0]) == [1.0, 3.0, 2.0, 0.0]
    assert late([1], [0]) == [0.0, 1.0, 3.0, 2.0]
    assert late([1], [1]) == [0.0, 0.0, 1.0, 3.0]
    assert late([1, 1], [2]) == [0.0, 0.0, 0.0, 1.0]
    assert late([9], [0]) == [0.0] * 4
    assert late([0, 1], [0]) == late([0], [1, 0]) == [1.0, 3.0, 3.0, 3.0]
    assert COMPUTED == 2.0**-22


# -- arguments of the module -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("time", "batch", "order", "words"),
    [
        (0, 1, (0, 1, 2, 3), "[time, batch, 4, 5], one call"),
        (1, 0, (1, 0, 2, 3), "[batch, time, 4, 5], one call"),
        (-1, 0, (1, 2, 3, 0), "[batch, 4, 5, time], one call"),
        (2, 0, (1, 2, 0, 3), "[batch, 4, time, 5], one call"),
    ],
)
def test_time_and_batch_go_where_the_argument_has_them(
    time: int, batch: int, order: tuple[int, ...], words: str
) -> None:
    values = np.arange(2.0 * 3 * 20).reshape(2, 3, 20)
    reading = TrialReading(time, batch, ((4, 5),), 2, 3)
    ((argument,),) = reading.calls([values])
    np.testing.assert_array_equal(argument, values.reshape(2, 3, 4, 5).transpose(order))
    assert reading.words == words


def test_arguments_without_time_or_batch() -> None:
    values = np.arange(6.0).reshape(2, 3, 1)
    steps = list(TrialReading(None, 0, ((1,),), 2, 3, is_stepwise=True).calls([values]))
    assert [a.ravel().tolist() for (a,) in steps] == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert TrialReading(None, 0, ((1,),), 2, 3, is_stepwise=True).words == "[batch, 1], one call per time step"
    ((alone,),) = TrialReading(0, None, ((1,),), 2, 1).calls([values[:, :1]])
    assert alone.tolist() == [[0.0], [3.0]]
    single = TrialReading(None, None, ((1,),), 2, 1, is_stepwise=True)
    assert [a.tolist() for (a,) in single.calls([values[:, :1]])] == [[0.0], [3.0]]


# -- random inputs ---------------------------------------------------------------------------------------------------


def test_spikes_have_the_density_of_the_sample() -> None:
    def share(sample: Any) -> float:
        found = draw_values(np.asarray(sample), (50, 20, 10), 1, derived=False, gain=4.0)
        assert set(np.unique(found)) <= {0.0, 4.0}
        return float(np.mean(found > 0))

    assert share([0, 0, 0, 1]) == pytest.approx(0.25, abs=0.02)
    assert share([0, 0]) == pytest.approx(0.3, abs=0.02)
    assert share([1, 1]) == pytest.approx(0.3, abs=0.02)


def test_values_are_those_of_the_sample_and_derived_ones_lie_between() -> None:
    found = draw_values(np.array([-2.0, 0.0, 3.0]), (20, 5, 4), 1, derived=False, gain=2.0)
    assert set(np.unique(found)) == {-4.0, 0.0, 6.0}
    derived = draw_values(np.array([-2.0, 3.0]), (200, 5, 40), 1, derived=True, gain=2.0)
    assert -12.0 <= derived.min() < -4.0
    assert 6.0 < derived.max() <= 18.0
    assert np.array_equal(derived, derived.astype(np.float32))
    spikes = draw_values(np.array([0.0]), (200, 5, 40), 1, derived=True, gain=1.0)
    assert (spikes.min(), spikes.max() > 1.0) == (0.0, True)
    assert spikes.max() <= 3.0


def test_numbers_of_a_sample() -> None:
    (found,) = finite_samples([np.array([1.0, np.nan, -np.inf])])
    assert (found.tolist(), found.dtype) == ([1.0, 0.0, 0.0], np.float64)


# -- verdicts --------------------------------------------------------------------------------------------------------


def network(size: int = 2) -> Network:
    population = Population("r", (size,), neuron("IF", theta=1.0, reset="subtract"))
    weight = np.eye(size, dtype=np.float32)
    back = Projection("r", "out", Dense(weight))
    return Network(
        1e-4, TIMING, (population,), (Projection("in", "r", Dense(weight)), back), (Port("in", (size,)),),
        (Port("out", (size,)),),
    )  # fmt: skip


def evidence(changes: list[tuple[int, int, int]], *, near: bool = False, populations: bool = True) -> Verdict:
    """Four steps of two samples of two neurons, all spikes 1; the import lacks those of ``changes``."""
    spikes = np.ones((4, 2, 2))
    spikes[0, 0] = 0.0
    wrong = spikes.copy()
    for change in changes:
        wrong[change] = 1.0 - wrong[change]
    pair = (spikes, wrong, np.full(spikes.shape, 0.5))
    membranes = np.full(spikes.shape, 1.0 + 1e-9 if near else 3.0)
    values = {("r", "s"): wrong.astype(bool), ("r", "u"): membranes}
    limits: Any = SimpleNamespace(before_reset={"r": np.full(spikes.shape, 1e-8)})
    outputs, shown = (
        [MatchedValues("out", STEPWISE, *pair)],
        [MatchedValues("r", STEPWISE, *pair)] if populations else [],
    )
    return RunEvidence(network(), values, limits, ModuleConstants([]), outputs, shown, [], 2).verdict()


def test_equal_runs() -> None:
    found = evidence([])
    assert (found.outputs, found.share_equal, found.populations) == (16, 1.0, 1)
    assert (found.overlap, found.busy, found.fired, found.neurons) == (1.0, 14, 2, 2)
    assert (found.ties, found.difference, found.first_population) == ([], None, None)
    assert found.agreement == (True, 1, 1.0, 14)


def test_a_verdict_without_populations_is_a_proof_from_ten_busy_values_on() -> None:
    found = evidence([], populations=False)
    assert found.agreement == (True, 0, 1.0, 14)
    for busy, is_proof in ((10, True), (9, False)):
        assert Verdict(1, 1.0, 0, 1.0, busy, 0, 0).agreement == (is_proof, 0, 1.0, busy)
    assert Verdict(1, 1.0, 0, 1.0, 51, 0, 0).agreement[-1] == 50
    assert not Verdict(1, 1.0, 3, 1.0, 51, 0, 0, difference=ValueDifference("", 0, 0, (), "")).agreement[0]


def test_the_first_difference_in_time_and_the_values_before_it() -> None:
    found = evidence([(3, 0, 0), (2, 1, 1)])
    text = "the module gives 1, the import 0"
    assert found.difference == ValueDifference("output 'out'", 2, 1, (1,), text)
    assert found.first_population == ValueDifference("population 'r'", 2, 1, (1,), text)
    assert str(found.difference) == f"output 'out', time step 2, sample 1, neuron (1,): {text}"
    assert (found.outputs, found.share_equal, found.busy) == (3 * 2 + 2 * 2, 1 - 2 / 16, 14)
    assert found.overlap == 1 - 2 / 14
    assert found.agreement[0] is False


def test_a_value_that_only_the_import_has_counts_as_busy() -> None:
    found = evidence([(0, 0, 1)])
    assert (found.busy, found.overlap) == (15, 1 - 1 / 15)
    assert found.difference == ValueDifference("output 'out'", 0, 0, (1,), "the module gives 0, the import 1")


@pytest.mark.parametrize("populations", [True, False])
def test_membranes_at_the_threshold_make_a_difference_a_tie(populations: bool) -> None:
    found = evidence([(2, 1, 1)], near=True, populations=populations)
    assert found.difference is None
    (tie,) = found.ties
    assert (tie.subject, tie.step, tie.sample) == ("population 'r'" if populations else "output 'out'", 2, 1)
    assert found.outputs == 4 * 2 + 2 * 2


# -- copies ----------------------------------------------------------------------------------------------------------


def pair(first: Any) -> Network:
    population = Population("r", (3, 2), neuron("IF", theta=1.0, reset="subtract"))
    ports = (Port("in", (3, 2)),), (Port("out", (3, 2)),)
    back = Projection("r", "out", Reshape((3, 2), (3, 2)))
    return Network(1e-4, TIMING, (population,), (Projection("in", "r", first), back), *ports)


def rows(blocks: Any) -> Sparse:
    """Weights that join the values of one row alone: ``blocks[row]``."""
    matrix = np.zeros((6, 6), np.float32)
    for k in range(3):
        matrix[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = blocks[k]
    post, pre = np.nonzero(matrix)
    counts = np.concatenate([[0], np.cumsum(np.bincount(post, minlength=6))])
    return Sparse(counts, pre, matrix[post, pre], (3, 2), (3, 2))


def test_rows_with_the_same_weights_are_copies_and_others_are_not() -> None:
    block = np.array([[0.05, 0.025], [0.03, 0.07]])
    assert copied_axis(pair(rows([block] * 3))) == (0, 0)
    assert copied_axis(pair(rows([block, block, 2 * block]))) is None
    assert copied_axis(pair(rows([block, block, block.T]))) is None

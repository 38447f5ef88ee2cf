"""Real-valued inputs of a population, and the bound on the integers' distance from them: sums in plain loops."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.quantization.folding import fold_population
from nirbridge.quantization.options import QuantizationOptions
from nirbridge.quantization.quantize import quantize
from nirbridge.verification.bounds import PopulationDrive, SourceOutput, input_output
from tests.quantization.nets import layer, lif

RNG = np.random.default_rng(0)
WEIGHT, LOOP = RNG.normal(size=(2, 3)), RNG.normal(size=(2, 2))
STEPS = 9


def whole(values: Any) -> Any:
    return freeze(np.asarray(values, np.int64))


LATE = [(whole(1), whole(0)), (whole([1, 3, 2]), whole([0, 2])), (whole([2, 2, 4]), whole([3, 3]))]


def made(late: tuple[Any, Any], exponents: tuple[int, int], graded: bool) -> tuple[Any, dict[str, SourceOutput]]:
    """in -> p with these delays, p -> p two steps later; and what both sent."""
    cell = lif(a_mem=0.5, g_mem=0.7, theta=1.0)
    own = QuantizationOptions(weight_bits=4, graded={"in": (1.0, 5)}) if graded else QuantizationOptions(weight_bits=4)
    q = quantize(layer(WEIGHT, cell, loop=LOOP), read_chip("loihi2"), own)
    links = [
        replace(p, weight_exp=exponent, delay_steps=source, target_delay_steps=target)
        for p, exponent, (source, target) in zip(q.projections, exponents, (late, (whole(2), whole(0))), strict=True)
    ]
    given = RNG.uniform(-1, 1, (STEPS, 2, 3)) if graded else RNG.integers(0, 2, (STEPS, 2, 3))
    fired = RNG.integers(0, 2, (STEPS, 2, 2))
    sent = {"in": input_output(q.inputs[0], given, STEPS), "p": SourceOutput(fired, fired, 1.0)}
    return replace(q, projections=tuple(links)), sent


@pytest.mark.parametrize("late", LATE, ids=["one", "each", "targets"])
@pytest.mark.parametrize("exponents", [(0, 0), (-1, 2), (-2, -3)], ids=str)
@pytest.mark.parametrize("graded", [False, True])
def test_drives_are_sums_of_what_arrives_and_of_what_rounding_lost(late: Any, exponents: Any, graded: bool) -> None:
    q, sent = made(late, exponents, graded)
    n = q.populations[0].neuron
    folded = fold_population(q.network, q.network.populations[0], 0)
    scale, gain = float(n.scale), float(np.broadcast_to(folded.gain, (2,))[0])
    assert gain != 1.0
    drive = PopulationDrive(q, q.populations[0], folded, sent)
    weights = (WEIGHT * gain, LOOP * gain)
    real, off = np.zeros((STEPS, 2, 2)), np.zeros((STEPS, 2, 2))
    for link, weight in zip(q.projections, weights, strict=True):
        source, unit = sent[link.source], 64 * 2.0**link.weight_exp / scale
        exact = weight * source.unit * float(link.scale)
        lost = np.abs(np.asarray(link.operator.weight) - exact) * unit
        delays = np.broadcast_to(link.delay_steps, (weight.shape[1],))
        behind = np.broadcast_to(link.target_delay_steps, (2,))
        cuts = len(set(delays.tolist())) * len(set(behind.tolist())) * 64 / scale if link.weight_exp < 0 else 0.0
        for t, b, k in product(range(STEPS), range(2), range(2)):
            off[t, b, k] += cuts
            for j, delay in enumerate(delays):
                at = t - delay - behind[k]
                if at >= 0:
                    number, value = float(source.integers[at, b, j]), float(source.real[at, b, j])
                    real[t, b, k] += weight[k, j] * value
                    off[t, b, k] += lost[k, j] * abs(number) + abs(weight[k, j]) * abs(value - number * source.unit)
    for start, stop in ((0, STEPS), (0, 1), (3, 7), (STEPS - 1, STEPS)):
        found = drive.between(start, stop)
        for values, wanted in zip(found, (real, off), strict=True):
            np.testing.assert_allclose(values, wanted[start:stop], rtol=1e-9, atol=1e-12)


def test_a_population_hears_only_what_leads_to_it() -> None:
    q, sent = made(LATE[0], (0, 0), False)
    folded = fold_population(q.network, q.network.populations[0], 0)
    elsewhere = replace(q, projections=(q.projections[0], replace(q.projections[1], target="other")))
    both, one = (PopulationDrive(x, q.populations[0], folded, sent).between(0, STEPS)[0] for x in (q, elsewhere))
    assert len(PopulationDrive(elsewhere, q.populations[0], folded, sent).projections) == 1
    assert not np.allclose(both, one)
    nothing = PopulationDrive(replace(q, projections=()), q.populations[0], folded, sent).between(2, 5)
    assert [x.tolist() for x in nothing] == [0.0, 0.0]

"""Runs that are cut, continued elsewhere, saved and taken step by step have the bits of one run, on every back end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import Array, freeze
from nirbridge.emitters.c.emit import C
from nirbridge.emitters.c.run import find_compiler
from nirbridge.emitters.c.session import CRunner, open_program
from nirbridge.errors import DoesNotFit, ModelError, ToolMissing
from nirbridge.network import Network
from nirbridge.simulators.backends import EXACT
from nirbridge.simulators.continued import Continued, RunByRun
from nirbridge.simulators.fixed.simulate import FixedSimulator
from nirbridge.simulators.mapped.simulate import MappedSimulator
from nirbridge.simulators.simulate import prepare_simulator
from nirbridge.simulators.state_file import read_state, write_state
from nirbridge.simulators.types import Probe, SimulationResult
from tests.emitters.c.programs import random_networks
from tests.emitters.sessions import HALF, STEPS, assert_bits, assert_values, check_cuts, given, part
from tests.fuzz.random_cases import Case, cases, inputs, made

GROUPS = range(6)
"""Of 10 networks each."""
EVERY = [Probe("*", ("s", "u", "v"))]


def assert_same(a: SimulationResult, b: SimulationResult, first: int, place: str) -> None:
    """The recording of ``b`` from a time step on, and its state."""
    assert_values(a.recording.arrays, {key: x[first:] for key, x in b.recording.arrays.items()}, place)
    assert_values(a.state.arrays, b.state.arrays, place)
    assert a.state.step == b.state.step, place


def check(models: Mapping[str, Continued], source: Any, x: Mapping[str, Array], folder: Path) -> int:
    """Every model alone, and each continued by the next one from a state in a file; the spikes and values of it all."""
    whole = next(iter(models.values())).run(**part(x, 0, STEPS), record=EVERY)
    for name, model in models.items():
        result = model.run(**part(x, 0, STEPS), record=EVERY)
        assert_same(result, whole, 0, name)
        check_cuts(model, x, result, EVERY, [(1,), (7,)])
    names = [*models, next(iter(models))]
    for first, second in pairwise(names):
        head = models[first].run(**part(x, 0, HALF))
        write_state(folder / "state.npz", head.state, source)
        state = read_state(folder / "state.npz", source)
        assert state.step == HALF
        assert_bits(state.arrays, head.state.arrays, f"{first}, from a file")
        tail = models[second].run(**part(x, HALF, STEPS), state=state, record=EVERY)
        assert_same(tail, whole, HALF, f"{first}, then {second}")
    return sum(int(np.count_nonzero(values)) for values in whole.recording.arrays.values())


def of_reals(network: Network) -> dict[str, Continued]:
    return {name: prepare_simulator(network, backend=name) for name in EXACT}


@pytest.mark.parametrize("group", GROUPS)
def test_reals_run_on(group: int, tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="the compiled back ends")
    total = 0
    for case in cases(10, 4400 + group):
        x = inputs(case.network, STEPS, case.batch, case.seed)
        total += check(of_reals(case.network), case.network, x, tmp_path)
    assert total > 0


def fitting(count: int, seed: int) -> Iterator[tuple[Case, Any, Any]]:
    for case in cases(5 * count, seed):
        try:
            _, quantized, mapped = made(case)
        except (ModelError, DoesNotFit):
            continue
        yield case, quantized, mapped
        count -= 1
        if not count:
            return
    raise AssertionError("too few networks fit")


def program(quantized: Any) -> Continued:
    try:
        find_compiler()
    except ToolMissing as error:
        pytest.skip(str(error))
    return open_program(C.emit(quantized))


@pytest.mark.parametrize("group", GROUPS)
def test_integers_run_on(group: int, tmp_path: Path) -> None:
    total = 0
    for case, quantized, mapped in fitting(10, 4500 + group):
        models: dict[str, Continued] = {
            "fixed": FixedSimulator(quantized),
            "reference": FixedSimulator(quantized, "reference"),
            "mapped": MappedSimulator(quantized, mapped),
            "c": program(quantized),
        }
        x = inputs(case.network, STEPS, case.batch, case.seed)
        total += check(models, quantized, x, tmp_path)
    assert total > 0


@pytest.mark.parametrize("seed", [0, 6, 12])
def test_programs_run_on_whatever_their_numbers_are(seed: int, tmp_path: Path) -> None:
    """Values and several spikes of an input, delays per source, sums of 64 bits, floors, outputs of delayed reads."""
    quantized = random_networks(range(seed, seed + 6))
    models = {"fixed": FixedSimulator(quantized), "c": program(quantized)}
    x = given(quantized, seed)
    assert check(models, quantized, x, tmp_path) > 0


def test_a_plain_runner_takes_each_time_step_as_a_run() -> None:
    case = next(case for case in cases(20, 46) if case.network.inputs)
    model = prepare_simulator(case.network, backend="reference")
    x = inputs(case.network, STEPS, 2, 0)
    quick, plain = model.runner(2), RunByRun(model, model.blank(2))
    for t in range(STEPS):
        values = {name: v[t] for name, v in x.items()}
        assert_bits(quick.step(values), plain.step(values), t)
    assert_bits(quick.state().arrays, plain.state().arrays)


@pytest.mark.parametrize("delays", [2, None])
def test_outputs_that_come_late_are_stepped_in_chunks(delays: int | None, tmp_path: Path) -> None:
    """The program does not remember what the reads of the host need."""
    made = random_networks([3])
    reads = [replace(r, delay_steps=freeze(np.full(r.operator.input_shape, delays or 0))) for r in made.reads]
    quantized = replace(made, reads=tuple(reads))
    models = {"fixed": FixedSimulator(quantized), "c": program(quantized)}
    assert (type(models["c"].runner(1)) is CRunner) == (delays is None)
    x = given(quantized, batch=3)
    assert check(models, quantized, x, tmp_path) > 0


def test_the_longest_refractory_time_of_a_file_goes_through_states(tmp_path: Path) -> None:
    made = random_networks([3])
    longest = freeze(np.int64(2**31 - 1))
    populations = [replace(p, neuron=replace(p.neuron, refractory_steps=longest)) for p in made.populations]
    quantized = replace(made, populations=tuple(replace(p, process="custom") for p in populations))
    models = {"fixed": FixedSimulator(quantized), "c": program(quantized)}
    assert check(models, quantized, given(quantized), tmp_path) > 0
    left = models["c"].run(**part(given(quantized), 0, STEPS)).state.arrays
    assert max(int(a.max()) for (_, name), a in left.items() if name == "refractory") > 2**31 - 1 - STEPS

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
from nirbridge.simulators.types import Probe, SimulationResult, SimulationState
from tests.emitters.c.programs import random_networks
from tests.fuzz.random_cases import Case, cases, inputs, made

STEPS, CUT = 16, 5
GROUPS = range(6)
"""Of 10 networks each."""
EVERY = [Probe("*", ("s", "u", "v"))]


def same(a: Mapping[Any, Array], b: Mapping[Any, Array], place: str) -> None:
    assert a.keys() == b.keys(), place
    for key, values in a.items():
        assert values.dtype == b[key].dtype, (place, key)
        assert np.array_equal(values, b[key], equal_nan=values.dtype.kind == "f"), (place, key)


def same_state(a: SimulationState, b: SimulationState, place: str) -> None:
    assert a.step == b.step, place
    same(dict(a.arrays), dict(b.arrays), place)


def part(x: Mapping[str, Array], start: int, stop: int) -> dict[str, Array]:
    return {name: values[start:stop] for name, values in x.items()}


def advance(model: Continued, x: Mapping[str, Array], start: int, stop: int, state: Any = None) -> SimulationResult:
    return model.run(part(x, start, stop), steps=stop - start, state=state, record=EVERY)


def check_chunks(model: Continued, x: Mapping[str, Array], whole: SimulationResult, place: str) -> None:
    for size in (1, 7, STEPS):
        state, found = None, list[Mapping[Any, Array]]()
        for start in range(0, STEPS, size):
            result = advance(model, x, start, min(start + size, STEPS), state)
            state = result.state
            found.append(result.recording.arrays)
        joined = {key: np.concatenate([arrays[key] for arrays in found]) for key in found[0]}
        same(joined, whole.recording.arrays, f"{place}, chunks of {size}")
        assert state is not None
        same_state(state, whole.state, f"{place}, chunks of {size}")


def check_steps(model: Continued, x: Mapping[str, Array], batch: int | None, whole: Any, place: str) -> None:
    """Half of the steps on one runner, the others on one that takes over its state."""
    outputs = model.run(x, steps=STEPS).recording
    runner, found = model.runner(batch or 1), list[Mapping[str, Array]]()
    for t in range(STEPS):
        if t == STEPS // 2:
            runner = model.runner(batch or 1, runner.state())
        found.append(runner.step({name: v[t] if batch else v[t][None] for name, v in x.items()}))
    for port in model.outputs:
        stepped = np.stack([one[port.name] for one in found])
        assert np.array_equal(stepped if batch else stepped[:, 0], outputs[port.name], equal_nan=True), place
    same_state(runner.state(), whole.state, f"{place}, steps")


def check(models: Mapping[str, Continued], source: Any, x: Mapping[str, Array], batch: int | None, folder: Path) -> int:
    """Every model alone, and each continued by the next one from a state in a file; the spikes and values of it all."""
    whole = next(iter(models.values())).run(x, steps=STEPS, record=EVERY)
    for name, model in models.items():
        result = model.run(x, steps=STEPS, record=EVERY)
        same(result.recording.arrays, whole.recording.arrays, name)
        same_state(result.state, whole.state, name)
        check_chunks(model, x, whole, name)
        check_steps(model, x, batch, whole, name)
    names = [*models, next(iter(models))]
    for first, second in pairwise(names):
        head = advance(models[first], x, 0, CUT)
        write_state(folder / "state.npz", head.state, source)
        state = read_state(folder / "state.npz", source)
        same_state(state, head.state, f"{first}, from a file")
        tail = advance(models[second], x, CUT, STEPS, state)
        rest = {key: values[CUT:] for key, values in whole.recording.arrays.items()}
        same(tail.recording.arrays, rest, f"{first}, then {second}")
        same_state(tail.state, whole.state, f"{first}, then {second}")
    return sum(int(np.count_nonzero(values)) for values in whole.recording.arrays.values())


def of_reals(network: Network) -> dict[str, Continued]:
    return {name: prepare_simulator(network, backend=name) for name in EXACT}


@pytest.mark.parametrize("group", GROUPS)
def test_reals_run_on(group: int, tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="the compiled back ends")
    total = 0
    for case in cases(10, 4400 + group):
        x = inputs(case.network, STEPS, case.batch, case.seed)
        total += check(of_reals(case.network), case.network, x, case.batch if x else None, tmp_path)
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
        total += check(models, quantized, x, case.batch if x else None, tmp_path)
    assert total > 0


@pytest.mark.parametrize("seed", [0, 6, 12])
def test_programs_run_on_whatever_their_numbers_are(seed: int, tmp_path: Path) -> None:
    """Values and several spikes of an input, delays per source, sums of 64 bits, floors, outputs of delayed reads."""
    quantized = random_networks(range(seed, seed + 6))
    models = {"fixed": FixedSimulator(quantized), "c": program(quantized)}
    rng = np.random.default_rng(seed)
    x = {
        p.name: rng.integers(-p.value_max, p.value_max + 1, (STEPS, 2, *p.shape)) * p.scale
        if p.graded
        else (rng.random((STEPS, 2, *p.shape)) < 0.4)
        for p in quantized.inputs
    }
    assert check(models, quantized, x, 2, tmp_path) > 0


def test_a_plain_runner_takes_each_time_step_as_a_run() -> None:
    case = next(case for case in cases(20, 46) if case.network.inputs)
    model = prepare_simulator(case.network, backend="reference")
    x = inputs(case.network, STEPS, 2, 0)
    quick, plain = model.runner(2), RunByRun(model, 2)
    for t in range(STEPS):
        values = {name: v[t] for name, v in x.items()}
        same(quick.step(values), plain.step(values), str(t))
    same_state(quick.state(), plain.state(), "state")


@pytest.mark.parametrize("delays", [2, None])
def test_outputs_that_come_late_are_stepped_in_chunks(delays: int | None, tmp_path: Path) -> None:
    """The program does not remember what the reads of the host need."""
    made = random_networks([3])
    reads = [replace(r, delay_steps=freeze(np.full(r.operator.input_shape, delays or 0))) for r in made.reads]
    quantized = replace(made, reads=tuple(reads))
    models = {"fixed": FixedSimulator(quantized), "c": program(quantized)}
    assert (type(models["c"].runner(1)) is CRunner) == (delays is None)
    x = inputs(quantized, STEPS, 3, 1)  # type: ignore[arg-type]
    assert check(models, quantized, x, 3, tmp_path) > 0

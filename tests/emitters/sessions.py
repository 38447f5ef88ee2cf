"""Checks of sessions: chunks of a run have the bits of one run, and states go on in the simulators and back."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.fixed.simulate import FixedSimulator
from nirbridge.simulators.simulate import prepare_simulator
from nirbridge.simulators.types import Probe, SimulationResult, SimulationState
from tests.emitters.c.programs import random_inputs

STEPS, HALF = 20, 7
Model = Network | QuantizedNetwork


def given(model: Model, seed: int = 1, batch: int = 2) -> dict[str, Array]:
    """Spikes, and values where an input is graded: ``[steps, batch, *shape]`` by input."""
    if isinstance(model, QuantizedNetwork):
        return random_inputs(model, STEPS, batch, seed)
    rng = np.random.default_rng(seed)
    return {p.name: (rng.random((STEPS, batch, *p.shape)) < 0.4).astype(np.float32) for p in model.inputs}


def part(inputs: Mapping[str, Array], start: int, stop: int) -> dict[str, Any]:
    """The time steps from start to stop as arguments of a run, of a network without input too."""
    return {"inputs": {name: x[start:stop] for name, x in inputs.items()}, "steps": stop - start}


def batch_of(inputs: Mapping[str, Array], model: Any) -> int | None:
    """The samples of inputs; None: they have no batch axis, or there are none."""
    axes = {port.name: len(port.shape) for port in model.signature.inputs}
    return next((x.shape[1] if x.ndim - axes[name] == 2 else None for name, x in inputs.items()), None)


def assert_bits(found: Mapping[Any, Array], expected: Mapping[Any, Array], place: object = "") -> None:
    """The same keys, types, shapes and bits."""
    assert set(found) == set(expected), place
    for key, array in expected.items():
        assert (found[key].dtype, found[key].shape) == (array.dtype, array.shape), (place, key)
        assert found[key].tobytes() == array.tobytes(), (place, key)


def assert_values(found: Mapping[Any, Array], expected: Mapping[Any, Array], place: object = "") -> None:
    """The same types and values; zeros of either sign are equal."""
    assert set(found) == set(expected), place
    for key, array in expected.items():
        assert found[key].dtype == array.dtype, (place, key)
        assert np.array_equal(found[key], array, equal_nan=array.dtype.kind == "f"), (place, key)


def check_cuts(
    model: Any, inputs: Mapping[str, Array], whole: SimulationResult, record: Any, chunks: Sequence[Sequence[int]]
) -> None:
    """Runs of these sizes, in turn to the end, and single time steps, have the bits of one run and end in its state."""
    for sizes in chunks:
        parts, start = [], 0
        state: Any = None
        for size in itertools.cycle(sizes):
            result = model.run(**part(inputs, start, min(STEPS, start + size)), state=state, record=record)
            parts.append(result.recording.arrays)
            state, start = result.state, start + size
            if start >= STEPS:
                break
        assert_bits({key: np.concatenate([p[key] for p in parts]) for key in parts[0]}, whole.recording.arrays, sizes)
        assert_bits(state.arrays, whole.state.arrays, sizes)
        assert state.step == STEPS
    batch, default = batch_of(inputs, model), model.run(**part(inputs, 0, STEPS)).recording.arrays
    runner, rows = model.runner(batch or 1), []
    for t in range(STEPS):
        if t == HALF:
            runner = model.runner(batch or 1, runner.state())
        rows.append(runner.step({name: x[t] if batch else x[t][None] for name, x in inputs.items()}))
    stepped = {key: np.stack([row[key[0]] if batch else row[key[0]][0] for row in rows]) for key in default}
    assert_bits(stepped, default, "steps")
    assert_bits(runner.state().arrays, whole.state.arrays, "steps")
    assert runner.state().step == STEPS


def check_session(
    session: Any, model: Model, inputs: Mapping[str, Array], chunks: Sequence[Sequence[int]] = ((1,), (7,), (STEPS,))
) -> None:
    """A run in chunks, single time steps, and runs that simulators begin or end, against one run."""
    is_fixed = isinstance(model, QuantizedNetwork)
    simulator = FixedSimulator(model, "reference") if is_fixed else prepare_simulator(model, backend="numpy")
    record = [Probe("*", ("s", "u", "v") if is_fixed else ("s", "v"))]
    expected = simulator.run(**part(inputs, 0, STEPS), record=record)
    whole = session.run(**part(inputs, 0, STEPS), record=record)
    assert_values(whole.recording.arrays, expected.recording.arrays)
    check_cuts(session, inputs, whole, record, chunks)
    for first, then in ((simulator, session), (session, simulator)):
        half = first.run(**part(inputs, 0, HALF)).state
        rest = then.run(**part(inputs, HALF, STEPS), state=half, record=record).recording
        assert rest.meta["first_step"] == HALF
        assert_values(rest.arrays, {key: a[HALF:] for key, a in expected.recording.arrays.items()})
    blank: SimulationState = session.blank(batch_of(inputs, session) or 1)
    again = simulator.run(**part(inputs, 0, STEPS), state=blank, record=record).recording
    assert_values(again.arrays, expected.recording.arrays)

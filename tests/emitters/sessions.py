"""Checks of sessions: chunks of a run have the bits of one run, and states go on in the simulators and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.fixed.simulate import FixedSimulator
from nirbridge.simulators.simulate import prepare_simulator
from nirbridge.simulators.types import Probe, SimulationState
from tests.emitters.c.programs import random_inputs

STEPS, HALF = 28, 7
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


def in_chunks(model: Any, inputs: Mapping[str, Array], sizes: Sequence[int], record: Any) -> tuple[Any, Any]:
    """Recorded arrays of a run in chunks of these sizes, in turn to the end, and the state after it."""
    parts, state, start, turn = [], None, 0, 0
    while start < STEPS:
        stop = min(STEPS, start + sizes[turn % len(sizes)])
        result = model.run(**part(inputs, start, stop), state=state, record=record)
        parts.append(result.recording.arrays)
        state, start, turn = result.state, stop, turn + 1
    return {key: np.concatenate([p[key] for p in parts]) for key in parts[0]}, state


def assert_bits(found: Mapping[Any, Array], expected: Mapping[Any, Array]) -> None:
    """The same keys, types, shapes and bits."""
    assert set(found) == set(expected)
    for key, array in expected.items():
        assert (found[key].dtype, found[key].shape) == (array.dtype, array.shape), key
        assert found[key].tobytes() == array.tobytes(), key


def assert_values(found: Mapping[Any, Array], expected: Mapping[Any, Array]) -> None:
    """The same values; zeros of either sign are equal."""
    assert set(found) == set(expected)
    for key, array in expected.items():
        assert np.array_equal(found[key], array, equal_nan=True), key


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
    for sizes in chunks:
        arrays, state = in_chunks(session, inputs, sizes, record)
        assert_bits(arrays, whole.recording.arrays)
        assert_bits(state.arrays, whole.state.arrays)
        assert state.step == STEPS
    _check_single_steps(session, inputs)
    for first, then in ((simulator, session), (session, simulator)):
        half = first.run(**part(inputs, 0, HALF)).state
        rest = then.run(**part(inputs, HALF, STEPS), state=half, record=record).recording
        assert rest.meta["first_step"] == HALF
        assert_values(rest.arrays, {key: a[HALF:] for key, a in expected.recording.arrays.items()})
    batch = next(iter(inputs.values())).shape[1] if inputs else 1
    blank: SimulationState = session.blank(batch)
    again = simulator.run(**part(inputs, 0, STEPS), state=blank, record=record).recording
    assert_values(again.arrays, expected.recording.arrays)


def _check_single_steps(session: Any, inputs: Mapping[str, Array]) -> None:
    batch = next(iter(inputs.values())).shape[1] if inputs else 1
    default = session.run(**part(inputs, 0, STEPS))
    start = session.run(**part(inputs, 0, HALF)).state
    for first, runner in ((0, session.runner(batch)), (HALF, session.runner(batch, start))):
        rows = [runner.step({name: x[t] for name, x in inputs.items()}) for t in range(first, STEPS)]
        shown = {key: a[first:] for key, a in default.recording.arrays.items()}
        batched = {key: np.stack([row[key[0]] for row in rows]) for key in shown}
        assert_bits(batched if inputs else {key: a[:, 0] for key, a in batched.items()}, shown)
        assert_bits(runner.state().arrays, default.state.arrays)
        assert runner.state().step == STEPS

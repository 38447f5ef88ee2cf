"""The fixed-point simulator against plain Python integers, and its two backends against each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.arrays import freeze
from nirbridge.errors import UsageError
from nirbridge.network.apply import matrix
from nirbridge.network.model import Port, Projection
from nirbridge.network.operators import Conv, Dense, Identity, Sparse
from nirbridge.quantization import FixedInput, FixedNeuron, FixedPopulation, FixedProjection, QuantizedNetwork
from nirbridge.simulators.fixed.simulate import FixedSimulator, simulate_fixed
from nirbridge.simulators.simulate import Probe

ALL = [Probe("*", ("s", "u", "v"))]


def whole(values: object) -> Any:
    return freeze(np.asarray(values, np.int64))


def real(value: float = 1.0) -> Any:
    return freeze(np.float64(value))


def random_neuron(rng: np.random.Generator, shape: tuple[int, ...], *, fires: bool = True) -> FixedNeuron:
    """Any neuron of the rule; large inputs and starts, so that wrapping and clipping happen."""

    def some(low: int, high: int) -> Any:
        return whole(rng.integers(low, high, shape if rng.random() < 0.5 else ()))

    several = int(rng.choice([1, 1, 3]))
    threshold = some(1, 2**17) if rng.random() < 0.7 else some(-5, 2**22)
    return FixedNeuron(
        du=some(0, 4096) if rng.random() < 0.5 else whole(4095),
        dv=some(0, 4097),
        bias_mant=some(-4095, 4096),
        bias_exp=int(rng.integers(0, 8)),
        fires_above=threshold if fires else None,
        reset=str(rng.choice(["zero", "subtract", "none"])),  # type: ignore[arg-type]
        reset_amount=some(0, 2**18),
        spike_size=some(1, 2**18),
        max_spikes=several,
        refractory_steps=some(0, 4),
        v_init=some(-(2**23) + 1, 2**23),
        u_init=some(-(2**23) + 1, 2**23),
        scale=real(64.0),
        v_offset=real(0.5),
        v_min=some(-(2**22), 2**12) if fires and rng.random() < 0.3 else None,
    )


def python_dec(x: int, k: int) -> int:
    size = (abs(x) * (4096 - k)) // 4096
    return size if x >= 0 else -size


def python_step(n: Any, u: int, v: int, wait: int, a_in: int, k: int) -> tuple[int, int, int, int]:
    """(u, v, steps to wait, spikes) of neuron k; ``n`` gives a field as a list."""
    u = python_dec(u, n("du")[k] + 1) + a_in * 64
    u -= 2**24 if u > 2**23 else 0
    u += 2**24 if u <= -(2**23) else 0
    v = python_dec(v, n("dv")[k]) + u + n("bias_mant")[k] * 2 ** n("bias_exp")[k]
    v = max(-(2**23) + 1, min(2**23 - 1, v))
    least = -(2**30) if n("v_min") is None else n("v_min")[k]
    if wait > 0:
        return u, max(0, least), wait - 1, 0
    if v <= n("fires_above")[k]:
        return u, max(v, least), 0, 0
    most, reset = n("max_spikes")[k], n("reset")
    spikes = min(most, v // n("spike_size")[k]) if most > 1 else 1
    if reset == "subtract":
        v -= spikes * n("reset_amount")[k]
    after = max(least, 0 if reset == "zero" and spikes > 0 else v)
    return u, after, n("refractory_steps")[k] if spikes > 0 else 0, spikes


def python_input(p: FixedProjection, rows: list[list[int]], sent: list[list[int]], t: int) -> list[int]:
    """What a projection adds at step t."""
    late = [int(d) for d in np.broadcast_to(p.delay_steps.ravel(), (len(rows[0]),))]
    arriving = [sent[t - d][j] if t >= d else 0 for j, d in enumerate(late)]
    totals = [sum(w * s for w, s in zip(row, arriving, strict=True)) for row in rows]
    return [x * 2**p.weight_exp if p.weight_exp >= 0 else x // 2**-p.weight_exp for x in totals]


def fields_of(p: FixedPopulation) -> Any:
    def field(name: str) -> Any:
        value = getattr(p.neuron, name)
        return (
            value
            if value is None or isinstance(value, str)
            else [int(x) for x in np.broadcast_to(value, p.shape).ravel()]
        )

    return field


def python_run(q: QuantizedNetwork, values: list[list[int]], steps: int) -> dict[tuple[str, str], list[list[int]]]:
    """The rule of the design text in Python's own whole numbers, neuron by neuron; nothing shared with the library."""
    rows = [matrix(p.operator).toarray().astype(int).tolist() for p in q.projections]
    found: dict[tuple[str, str], list[list[int]]] = {(p.name, x): [] for p in q.populations for x in "suv"}
    state = {p.name: [fields_of(p)("u_init"), fields_of(p)("v_init"), [0] * p.size] for p in q.populations}
    for t in range(steps):
        now = {}
        for p in q.populations:
            a_in = [0] * p.size
            for k, projection in enumerate(q.projections):
                if projection.target == p.name:
                    sent = values if projection.source == "in" else found[projection.source, "s"]
                    a_in = [x + y for x, y in zip(a_in, python_input(projection, rows[k], sent, t), strict=True)]
            cells = zip(*state[p.name], a_in, range(p.size), strict=True)
            now[p.name] = [python_step(fields_of(p), *cell) for cell in cells]
        for name, cells in now.items():
            u, v, wait, spikes = (list(x) for x in zip(*cells, strict=True))
            state[name] = [u, v, wait]
            for variable, got in (("s", spikes), ("u", u), ("v", v)):
                found[name, variable].append(got)
    return found


def random_network(seed: int) -> tuple[QuantizedNetwork, Any]:
    """Two populations, a convolution, a sparse loop, delays per source, exponents of both signs."""
    rng = np.random.default_rng(seed)
    big = int(rng.choice([4, 2000]))
    conv = Conv(whole(rng.integers(-big, big, (2, 1, 2, 2))), (1, 2), ((1, 0), (0, 1)), (1, 1), 1, (1, 2, 3))
    first, second = conv.output_shape, (3,)
    size = int(np.prod(first))
    mask = rng.random((3, 3)) < 0.6
    ends = np.concatenate(([0], np.cumsum(mask.sum(1))))
    loop = Sparse(whole(ends), whole(np.nonzero(mask)[1]), whole(rng.integers(-big, big, mask.sum())), second, second)
    dense = Dense(whole(rng.integers(-big, big, (3, size))))
    late = whole(rng.integers(1, 4, size))
    populations = (
        FixedPopulation("a", first, random_neuron(rng, first), "custom"),
        FixedPopulation("b", second, random_neuron(rng, second), "custom"),
    )
    projections = (
        FixedProjection("in", "a", conv, 8, int(rng.integers(-2, 4)), delay_steps=whole(rng.integers(1, 3))),
        FixedProjection("a", "b", dense, 8, int(rng.integers(-2, 4)), delay_steps=late.reshape(first)),
        FixedProjection("b", "b", loop, 8, 0, delay_steps=whole(2)),
    )
    reads = (Projection("b", "out", Identity(second)),)
    latency = {"in": 0, "a": 1, "b": 2, "out": 2}
    graded = FixedInput("in", (1, 2, 3), 7, 0.5) if rng.random() < 0.5 else FixedInput("in", (1, 2, 3))
    q = QuantizedNetwork("loihi2", 1.0, populations, projections, (graded,), (Port("out", second),), reads, latency, {})
    low, high = (-7, 8) if graded.graded else (0, 2)
    return q, rng.integers(low, high, (12, 2, 1, 2, 3))


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_both_backends_are_the_rule_in_python_numbers(seed: int) -> None:
    q, values = random_network(seed)
    given_values = values * q.inputs[0].scale if q.inputs[0].graded else values
    plain = simulate_fixed(q, given_values, record=ALL, backend="reference")
    fast = simulate_fixed(q, given_values, record=ALL, backend="fast")
    for b in range(2):
        wanted = python_run(q, values[:, b].reshape(12, -1).tolist(), 12)
        for (name, variable), rows in wanted.items():
            got = plain.recording.arrays[name, variable][:, b].reshape(12, -1)
            assert got.tolist() == rows, (name, variable)
    for key, array in plain.recording.arrays.items():
        np.testing.assert_array_equal(array, fast.recording.arrays[key])
    for key, array in plain.state.arrays.items():
        np.testing.assert_array_equal(array, fast.state.arrays[key])


@pytest.mark.parametrize("backend", ["reference", "fast"])
@pytest.mark.parametrize("seed", range(4))
def test_a_cut_changes_nothing(backend: str, seed: int) -> None:
    q, values = random_network(seed)
    values = values * q.inputs[0].scale if q.inputs[0].graded else values
    made = FixedSimulator(q, backend)
    whole_run = made.run(values, record=ALL)
    first = made.run(values[:5], record=ALL)
    second = made.run(values[5:], record=ALL, state=first.state)
    for key, array in whole_run.recording.arrays.items():
        np.testing.assert_array_equal(array, np.concatenate([r.recording.arrays[key] for r in (first, second)]))
    assert second.state.step == 12


def test_batch_axis_and_recording_types() -> None:
    q, _ = random_network(3)
    q = replace(q, inputs=(FixedInput("in", (1, 2, 3)),))
    one = np.random.default_rng(0).integers(0, 2, (6, 1, 2, 3))
    alone = simulate_fixed(q, one, record=ALL).recording
    both = simulate_fixed(q, np.stack([one, one], axis=1), record=ALL).recording
    for key, array in alone.arrays.items():
        np.testing.assert_array_equal(both.arrays[key][:, 1], array)
    assert alone.arrays["a", "u"].dtype == np.int32
    assert alone.meta["latency"] == {"in": 0, "a": 1, "b": 2, "out": 2}
    counted = simulate_fixed(q, one, record=[Probe("a", ("count",))]).recording
    np.testing.assert_array_equal(counted.arrays["a", "count"], alone.arrays["a", "s"].sum(0, dtype=np.int64))


def test_values_that_an_input_does_not_take_are_refused() -> None:
    q, _ = random_network(3)
    spikes = replace(q, inputs=(FixedInput("in", (1, 2, 3)),))
    values = np.zeros((4, 1, 2, 3))
    values[2, 0, 1, 1] = 0.5
    with pytest.raises(UsageError, match="0.5 at time step 2, it takes spikes, 0 and 1; quantize it as graded"):
        simulate_fixed(spikes, values)
    graded = replace(q, inputs=(FixedInput("in", (1, 2, 3), 3, 0.5),))
    with pytest.raises(UsageError, match="it takes -1.5 to 1.5"):
        simulate_fixed(graded, values * 4)


@pytest.mark.parametrize("backend", ["reference", "fast"])
def test_an_output_of_a_graded_input_is_in_its_own_unit(backend: str) -> None:
    q, _ = random_network(0)
    ports, read = (*q.outputs, Port("raw", (1, 2, 3))), Projection("in", "raw", Identity((1, 2, 3)))
    q = replace(q, inputs=(FixedInput("in", (1, 2, 3), 7, 0.5),), outputs=ports, reads=(*q.reads, read))
    values = np.random.default_rng(0).integers(-7, 8, (5, 1, 2, 3)) * 0.5
    found = simulate_fixed(replace(q, latency={**q.latency, "raw": 0}), values, backend=backend)
    np.testing.assert_array_equal(found.recording.arrays["raw", "s"], values)


def test_wrong_state_backend_and_record_are_refused() -> None:
    q, values = random_network(1)
    values = np.zeros_like(values)
    state = simulate_fixed(q, values).state
    with pytest.raises(UsageError, match="this run needs int64"):
        simulate_fixed(q, values[:, :1], state=state)
    with pytest.raises(UsageError, match="backend 'gpu'"):
        simulate_fixed(q, values, backend="gpu")
    with pytest.raises(UsageError, match="record .u., the synaptic current in integers"):
        simulate_fixed(q, values, record=[Probe("a", ("i",))])
    hop = (replace(q.projections[0], delay_steps=whole(0)), *q.projections[1:])
    with pytest.raises(UsageError, match="a delay below 1"):
        simulate_fixed(replace(q, projections=hop), values)


def test_a_read_out_gives_its_membrane_in_reals() -> None:
    rng = np.random.default_rng(5)
    neuron = replace(
        random_neuron(rng, (2,), fires=False),
        v_init=whole([640, -64]),
        bias_mant=whole(0),
        dv=whole(0),
        u_init=whole(0),
    )
    population = FixedPopulation("p", (2,), neuron, "lif")
    link = FixedProjection("in", "p", Dense(whole([[2], [4]])), 8)
    reads = (Projection("p", "out", Dense(freeze(np.array([[1.0, 2.0]])))),)
    q = QuantizedNetwork(
        "loihi1", 1.0, (population,), (link,), (FixedInput("in", (1,)),), (Port("out", (1,)),), reads, {}, {}
    )
    got = simulate_fixed(q, np.array([[1], [0], [0]])).recording.arrays["out", "v"]
    start = np.array([10.5, -0.5]) @ [1, 2]
    assert got[0, 0] == start
    assert got[1, 0] == start + 2 + 8

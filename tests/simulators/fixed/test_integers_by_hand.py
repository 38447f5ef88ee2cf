"""Edge cases of the fixed-point simulators: host inputs and outputs, types, blocks, states, refusals."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.errors import UsageError
from nirbridge.network.model import Port, Projection
from nirbridge.network.operators import Dense, Identity
from nirbridge.quantization import FixedInput, FixedNeuron, FixedPopulation, FixedProjection, QuantizedNetwork
from nirbridge.simulators.fixed import runs
from nirbridge.simulators.fixed import simulate as fixed
from nirbridge.simulators.fixed.host_io import (
    fixed_channels,
    fixed_meta,
    integer_inputs,
    integer_values,
    readout_values,
    signature_network,
)
from nirbridge.simulators.fixed.simulate import FixedSimulator, simulate_fixed
from nirbridge.simulators.simulate import Probe
from nirbridge.simulators.types import SimulationState
from tests.quantization.cells import cell as fixed_cell
from tests.quantization.cells import ints as whole


def cell(**own: Any) -> FixedNeuron:
    small = {"fires_above": whole(64), "spike_size": whole(64), "scale": freeze(np.float64(64))}
    return fixed_cell(**(small | own))


def net(
    graded: FixedInput | None = None, outputs: Any = (("out", 2),), reads: Any = None, **own: Any
) -> QuantizedNetwork:
    """Input in (3) -> p (2) -> out."""
    population = FixedPopulation("p", (2,), cell(**own), "custom")
    link = FixedProjection("in", "p", Dense(whole([[1, 2, -1], [3, 0, 1]])), 8)
    ways = reads or (Projection("p", "out", Identity((2,))),)
    ports = tuple(Port(name, (size,)) for name, size in outputs)
    latency, chip = {"in": 0, "p": 1, "out": 1}, "loihi2"
    return QuantizedNetwork(
        chip, 1.0, (population,), (link,), (graded or FixedInput("in", (3,)),), ports, ways, latency, {}
    )


# -- inputs ----------------------------------------------------------------------------------------------------------

GRADED = FixedInput("in", (3,), 5, 0.5)
STEP = (
    "quantize it as graded where the chip can (quantize --graded 'in={:g}:8'), encode values as spikes, or count "
    "events of a time step as one (--events clip)"
)


@pytest.mark.parametrize(("port", "wrong", "limit"), [
    (FixedInput("in", (3,)), 2, "it takes spikes, 0 and 1"), (FixedInput("in", (3,)), -1, "it takes spikes, 0 and 1"),
    (FixedInput("in", (3,)), 0.5, "it takes spikes, 0 and 1"), (GRADED, 2.76, "it takes -2.5 to 2.5"),
    (GRADED, -2.8, "it takes -2.5 to 2.5"), (GRADED, 100, "it takes -2.5 to 2.5"),
])  # fmt: skip
@pytest.mark.parametrize("place", [(0, 0, 0), (2, 1, 1), (3, 1, 2)])
def test_one_value_that_an_input_does_not_take(port: FixedInput, wrong: float, limit: str, place: Any) -> None:
    values = np.ones((4, 2, 3))
    values[place] = wrong
    values[3, 1, 2] = wrong
    step = STEP.format(max(1, abs(wrong)))
    with pytest.raises(UsageError) as caught:
        integer_values(port, values, 10)
    assert str(caught.value) == f"input 'in': {wrong:g} at time step {10 + place[0]}, {limit}; {step}"
    with pytest.raises(UsageError) as caught:
        integer_inputs(net(port), values, None)
    assert str(caught.value) == f"input 'in': {wrong:g} at time step {place[0]}, {limit}; {step}"


def test_values_become_the_nearest_integers_of_the_inputs_scale() -> None:
    values = np.array([[[-2.7, 0.3, 0.75]], [[2.6, 2.5, -0.24]]])
    wanted = [[[-5, 1, 2]], [[5, 5, 0]]]
    found = integer_values(GRADED, values, 0)
    assert (found.tolist(), found.dtype) == (wanted, np.int64)
    again, batched = integer_inputs(net(GRADED), values, None)
    assert (again["in"].tolist(), again["in"].dtype, batched) == (wanted, np.int64, True)
    spikes = integer_values(FixedInput("in", (3,)), np.ones((2, 1, 3)), 0)
    assert (spikes.tolist(), spikes.dtype) == (np.ones((2, 1, 3)).tolist(), np.int8)
    again, batched = integer_inputs(net(), np.ones((2, 3)), 3)
    assert (again["in"].tolist(), batched) == ([[[1, 1, 1]], [[1, 1, 1]], [[0, 0, 0]]], False)
    nothing, batched = integer_inputs(replace(net(), inputs=(), projections=()), {}, 4)
    assert (nothing[""].shape, nothing[""].dtype, batched) == ((4, 1, 0), np.int64, False)
    assert FixedInput("in", (3,), 2).graded
    assert not FixedInput("in", (3,), 1).graded


# -- what is recorded ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("u_bits", "v_bits", "kind"), [(24, 24, "int32"), (32, 24, "int32"), (24, 33, "int64"),
                                                        (33, 24, "int64")])  # fmt: skip
def test_integers_are_kept_in_32_bits_where_they_fit(u_bits: int, v_bits: int, kind: str) -> None:
    q = net(GRADED, u_bits=u_bits, v_bits=v_bits)
    asked = [Probe("*", ("s", "u", "v", "count")), Probe("in", ("s",))]
    found = {(c.node, c.variable): c.dtype for c in fixed_channels(q, signature_network(q), asked)}
    assert found == {("p", "s"): "uint8", ("p", "u"): kind, ("p", "v"): kind, ("p", "count"): "int64",
                     ("out", "s"): "uint8", ("out", "v"): "float64", ("out", "count"): "int64",
                     ("in", "s"): "float64"}  # fmt: skip
    spikes = net(u_bits=u_bits)
    assert fixed_channels(spikes, signature_network(spikes), [Probe("in", ("s",))])[0].dtype == "uint8"


def test_outlines_fire_where_integers_do() -> None:
    for own, fires, most in (({}, True, 1), ({"fires_above": None}, False, 1), ({"max_spikes": 7}, True, 7)):
        shown = signature_network(net(GRADED, **own))
        cells = [(p.name, p.shape, p.neuron.fires, p.neuron.max_spikes) for p in shown.populations]
        assert cells == [("p", (2,), fires, most)]
        assert [(port.name, port.shape) for port in (*shown.inputs, *shown.outputs)] == [("in", (3,)), ("out", (2,))]
        assert (shown.dt, len(shown.projections)) == (1.0, 1)


def test_currents_are_u_here_and_every_wrong_record_is_told() -> None:
    q = net()
    with pytest.raises(UsageError) as caught:
        fixed_channels(q, signature_network(q), [Probe("p", ("v", "i")), Probe("p", ("v",)), Probe("out", ("i",))])
    lines = [f"record '{name}': no variable 'i'; record 'u', the synaptic current in integers" for name in ("p", "out")]
    assert str(caught.value).splitlines() == lines


def test_meta_is_what_the_network_says() -> None:
    q = replace(net(scale=freeze([1.5, 2.0]), v_offset=freeze(0.25)), notes=("one",))
    found = fixed_meta(q, 7, 3, None, kernel="fast")
    versions = found.pop("versions")
    assert set(versions) == {"nirbridge", "numpy", "scipy"}
    assert found == {
        "dt": 1.0, "steps": 7, "first_step": 3, "batch": None, "chip": "loihi2", "seed": None, "notes": ["one"],
        "latency": {"in": 0, "p": 1, "out": 1}, "outputs": ["out"], "scale": {"p": [1.5, 2.0]},
        "v_offset": {"p": 0.25}, "v": "integers, after the reset", "u": "integers, the synaptic current",
        "kernel": "fast",
    }  # fmt: skip


@pytest.mark.parametrize("fires", [True, False])
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_outputs_are_sums_of_late_spikes_and_of_potentials_in_reals(fires: bool, scale: float) -> None:
    """Two reads of p with delays of their own and a bias, and one of a graded input; every value by the definition."""
    own = {} if fires else {"fires_above": None, "scale": freeze([4.0, 8.0]), "v_offset": freeze(0.5)}
    weights = [np.array([[1.0, 2.0], [0.5, -1.0]]), np.array([[3.0, 0.0], [0.0, 1.0]]), np.eye(2, 3)]
    late = [np.array([2, 0]), np.array(1), np.array(0)]
    bias = freeze([10.0, 20.0])
    reads = tuple(
        Projection(source, "out", Dense(freeze(w)), b, delay_steps=whole(d))
        for source, w, d, b in zip(("p", "p", "in"), weights, late, (bias, None, None), strict=True)
    )
    q = net(replace(GRADED, scale=scale), reads=reads, **own)
    rng = np.random.default_rng(0)
    sent, given = rng.integers(-9, 9, (5 + 2, 3, 2)), rng.integers(-5, 6, (4 + 5, 3, 3))
    found = readout_values(q, q.outputs[0], 5, {"p": sent, "in": given}, {"p": 2, "in": 4})
    real = sent if fires else sent / np.array([4.0, 8.0]) + 0.5
    for t, b in product(range(5), range(3)):
        first = weights[0] @ [real[2 + t - d, b, k] for k, d in enumerate((2, 0))] + bias
        total = first + weights[1] @ real[2 + t - 1, b] + weights[2] @ (given[4 + t, b] * scale)
        np.testing.assert_allclose(found[t, b], total, rtol=1e-12)


# -- how it is run ---------------------------------------------------------------------------------------------------


def test_stretches_are_whole_blocks_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    made = FixedSimulator(net(), "reference")  # 5 elements of 8 bytes
    for bytes_max, batch, steps in ((32 * 2**20, 1, 1024), (40 * 700, 1, 672), (40 * 700, 7, 96), (40 * 64, 1, 64),
                                    (40 * 65, 1, 64), (40 * 63, 1, 63), (40 * 95, 1, 64), (40 * 96, 1, 96),
                                    (40, 1, 1), (39, 1, 1), (80, 1, 2)):  # fmt: skip
        monkeypatch.setattr(runs, "CHUNK_BYTES", bytes_max)
        assert made.stretch(batch) == steps


@pytest.mark.parametrize(("reach", "weights", "exponent", "backend", "kind"), [
    (2**31 - 1, 2**15 - 1, 0, "fast", np.int32), (2**31, 1, 0, "fast", np.int64), (0, 2**15, 0, "fast", np.int64),
    (0, -(2**15), 0, "fast", np.int64), (0, 2**13, 2, "fast", np.int64), (0, 2**13 - 1, 2, "fast", np.int32),
    (0, 2**15 - 1, -3, "fast", np.int32), (0, 1, 0, "reference", np.int64),
])  # fmt: skip
def test_sums_of_32_bits_are_for_what_is_proved_to_fit(
    reach: int, weights: int, exponent: int, backend: str, kind: type
) -> None:
    """The largest weight of any projection counts."""
    q = net()
    link = replace(q.projections[0], operator=Dense(whole([[1, weights, 0]])), weight_exp=exponent)
    for both in ((link, q.projections[0]), (q.projections[0], link)):
        made = replace(q, projections=both)
        assert fixed._kind(made, SimpleNamespace(name=backend), reach) is kind  # type: ignore[arg-type]
    assert fixed._kind(replace(q, projections=()), SimpleNamespace(name="fast"), 0) is np.int32  # type: ignore[arg-type]


def test_spikes_are_bytes_and_all_else_is_wide() -> None:
    one, many, read = net(), net(GRADED, max_spikes=2), net(fires_above=None)
    assert runs.sent_types(one) == {"in": np.int8, "p": np.int8}
    assert runs.sent_types(many) == {"in": np.int64, "p": np.int64}
    assert runs.sent_types(read) == {"in": np.int8, "p": np.int64}


@pytest.mark.parametrize("backend", ["reference", "fast"])
def test_a_step_by_hand(backend: str) -> None:
    """u = 64 times the weights that arrive, a step late; above 64 it spikes and is 0."""
    values = np.array([[1, 0, 0], [0, 1, 1], [0, 0, 0], [1, 1, 0]])
    told: list[Any] = []
    found = simulate_fixed(
        net(), values, steps=5, record=[Probe("p", ("s", "u", "v"))], backend=backend,
        progress=lambda *own: told.append(own),
    )  # fmt: skip
    arrays = found.recording.arrays
    assert arrays["p", "u"].tolist() == [[0, 0], [64, 192], [64, 64], [0, 0], [192, 192]]
    assert arrays["p", "s"].tolist() == [[0, 0], [0, 1], [1, 0], [0, 0], [1, 1]]
    assert arrays["p", "v"].tolist() == [[0, 0], [64, 0], [0, 64], [0, 64], [0, 0]]
    assert told == [("simulate", 1.0)]
    assert found.state.step == 5
    assert {k: a.tolist() for k, a in found.state.arrays.items()} == {
        ("p", "u"): [[192, 192]], ("p", "v"): [[0, 0]], ("p", "refractory"): [[0, 0]], ("in", "past"): [[[0, 0, 0]]],
    }  # fmt: skip
    meta = found.recording.meta
    assert (meta["backend"], meta["kernel"], meta["every"], meta["batch"]) == ("fixed", backend, {}, None)
    some = simulate_fixed(net(), values, record=[Probe("p", ("u",), 3)], backend=backend).recording
    assert some.arrays["p", "u"].tolist() == [[64, 64]]
    assert (some.meta["every"], some.meta["first_step"], some.meta["steps"]) == ({"p/u": 3}, 0, 4)


def test_wrong_states_are_told_part_by_part() -> None:
    q = net()
    good = simulate_fixed(q, np.zeros((2, 3))).state
    wrong = dict(good.arrays)
    del wrong["p", "u"]
    wrong["p", "v"] = freeze(np.zeros((1, 2), np.int32))
    wrong["in", "past"] = freeze(np.zeros((2, 1, 3), np.int64))
    with pytest.raises(UsageError) as caught:
        simulate_fixed(q, np.zeros((2, 3)), state=SimulationState(2, wrong))
    step = "give the state of a run of this network, with the same batch and dtype"
    assert str(caught.value).splitlines() == [
        f"state, 'v' of 'p': int32 of shape (1, 2), this run needs int64 of (1, 2); {step}",
        f"state, 'u' of 'p': is missing, this run needs int64 of (1, 2); {step}",
        f"state, 'past' of 'in': int64 of shape (2, 1, 3), this run needs int64 of (1, 1, 3); {step}",
    ]


@pytest.mark.parametrize(("change", "wrong"), [
    ({"delay_steps": whole([1, 0, 1])}, True), ({"target_delay_steps": whole([0, 1])}, True),
    ({"delay_steps": whole([1, 2, 1])}, False),
])  # fmt: skip
def test_every_hop_takes_a_step(change: Any, wrong: bool) -> None:
    q = net()
    made = replace(q, projections=(replace(q.projections[0], **change),))
    if not wrong:
        FixedSimulator(made)
        return
    with pytest.raises(UsageError) as caught:
        FixedSimulator(made)
    said = "a delay below 1, or one per target, every hop takes one time step; retime the network"
    assert str(caught.value) == f"projection 'in' -> 'p': {said}"


def test_backends_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError) as caught:
        FixedSimulator(net(), "gpu")
    said = "backend 'gpu': unknown, of the integer simulator; choose one of auto, reference, fast"
    assert str(caught.value) == said
    assert [fixed._parts(name).name for name in ("auto", "reference", "fast")] == ["fast", "reference", "fast"]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert fixed._parts("auto").name == "reference"
    with pytest.raises(UsageError) as caught:
        FixedSimulator(net(), "fast")
    step = "install numba, or choose the backend 'reference'"
    assert str(caught.value) == f"backend 'fast': numba is not installed; {step}"

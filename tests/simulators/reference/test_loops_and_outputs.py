"""Self-recurrent populations with further sources, unrecorded outputs, batches that change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Dense, Identity, Sparse
from nirbridge.simulators.reference.engine import Engine
from nirbridge.simulators.reference.state import Delay, SpikeHistory
from nirbridge.simulators.simulate import Probe, prepare_simulator

TIMING = Timing(1e-3, "euler", "to-value", ">", "per-second")
RNG = np.random.default_rng(0)
SIZE = 20
INPUTS = {f"in{k}": (np.random.default_rng(k).random((12, 2, 5)) < 0.5).astype(np.uint8) for k in range(4)}
ALL = [Probe("*", ("s", "v", "u", "i"))]


def decimal(*shape: int) -> Any:
    return freeze(RNG.integers(-8, 13, shape) * 0.05)


def own(form: str, steps: int = 1) -> Projection:
    weight = decimal(SIZE, SIZE)
    ends, at = freeze(np.arange(0, SIZE * SIZE + 1, SIZE)), freeze(np.tile(np.arange(SIZE), SIZE))
    sparse = Sparse(ends, at, freeze(np.asarray(weight).reshape(-1)), (SIZE,), (SIZE,))
    bias = freeze(RNG.integers(-3, 4, SIZE) * 0.01)
    late = freeze(np.int64(steps))
    return Projection("p", "p", Dense(weight) if form == "dense" else sparse, bias, late, is_back=True)


def net(before: int, owns: list[Projection], after: int, **cell: Any) -> Network:
    """So many inputs in front of the own projections, and so many behind them in the order of sums."""
    ways = [Projection(f"in{k}", "p", Dense(decimal(SIZE, 5)), decimal(SIZE)) for k in range(before + after)]
    population = Population("p", (SIZE,), neuron("CubaLIF", **{"a_mem": 0.9, "a_syn": 0.6, "theta": 0.9, **cell}))
    projections = (*ways[:before], *owns, *ways[before:], Projection("p", "out", Identity((SIZE,))))
    ports = tuple(Port(f"in{k}", (5,)) for k in range(before + after))
    return Network(1e-3, TIMING, (population,), projections, ports, (Port("out", (SIZE,)),))


def bits(values: Any) -> Any:
    return (np.asarray(values) + 0).tobytes()


def same(network: Network, loops: bool) -> None:
    """Bit for bit, and by the kernel for loops where it suits."""
    quick, slow = (prepare_simulator(network, backend=b) for b in ("event", "reference"))
    given = {port.name: INPUTS[port.name] for port in network.inputs}
    found, wanted = (made.run(given, steps=12, record=ALL) for made in (quick, slow))
    for key, values in wanted.recording.arrays.items():
        assert bits(found.recording.arrays[key]) == bits(values), key
    for key, values in wanted.state.arrays.items():
        assert bits(found.state.arrays[key]) == bits(values), key
    assert wanted.recording.arrays["p", "s"].any()
    kernels = [part["kernel"] for log in found.recording.meta["choices"].values() for part in log]
    assert ("event, all steps in one call" in kernels) is loops


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize(("before", "after", "loops"), [
    (1, 0, True), (2, 0, True), (3, 0, True), (0, 1, True), (1, 1, True), (2, 1, True), (0, 2, False), (1, 2, False),
    (0, 3, False),
])  # fmt: skip
def test_currents_are_added_in_the_order_of_projections(form: str, before: int, after: int, loops: bool) -> None:
    """With two currents or more behind the own one the steps are run one by one."""
    same(net(before, [own(form)], after), loops)


@pytest.mark.parametrize(("owns", "cell", "loops"), [
    ([("dense", 1), ("dense", 1)], {}, False), ([("dense", 2)], {}, False), ([("sparse", 1), ("sparse", 3)], {}, False),
    ([("dense", 1)], {"max_spikes": 3, "theta": 0.3}, False), ([("dense", 1)], {"refractory_steps": 2}, True),
    ([("sparse", 1)], {"reset": "subtract", "compare": ">="}, True), ([("dense", 1)], {"theta": 30.0}, True),
])  # fmt: skip
def test_other_loops_run_step_by_step(owns: list[tuple[str, int]], cell: Any, loops: bool) -> None:
    if cell.get("theta") == 30.0:
        cell = {**cell, "v_init": 31.0}
    same(net(1, [own(*x) for x in owns], 1, **cell), loops)


# -- outputs and delays --------------------------------------------------------------------------------------------


def late_net() -> Network:
    """The output gets p three and one steps late, per target, and a second time as it is."""
    late, sure = freeze(np.array([3, 1, 0, 2, 3])), freeze(np.int64(2))
    ways = (
        Projection("in0", "p", Identity((5,)), delay_steps=freeze(np.array([0, 1, 2, 0, 3]))),
        Projection("p", "out", Identity((5,)), target_delay_steps=late),
        Projection("p", "same", Identity((5,)), delay_steps=sure),
    )
    cells = (Population("p", (5,), neuron("IF", theta=0.5)),)
    return Network(1e-3, TIMING, cells, ways, (Port("in0", (5,)),), (Port("out", (5,)), Port("same", (5,))))


@pytest.mark.parametrize("backend", ["reference", "event", "numpy"])
@pytest.mark.parametrize("cut", [1, 2, 5])
def test_what_is_on_its_way_to_an_output_is_kept_whether_recorded_or_not(backend: str, cut: int) -> None:
    made, given = prepare_simulator(late_net(), backend=backend), INPUTS["in0"]
    record = [Probe("out", ("s",)), Probe("same", ("s",)), Probe("p", ("s",))]
    whole = made.run(given, record=record)
    sent = whole.recording.arrays["p", "s"].astype(int)
    for k, late in enumerate((3, 1, 0, 2, 3)):
        shown = whole.recording.arrays["out", "s"][:, :, k]
        assert shown.tolist() == np.concatenate([np.zeros((late, 2), int), sent[: 12 - late, :, k]]).tolist()
    assert whole.recording.arrays["same", "s"].dtype == np.uint8
    assert whole.recording.arrays["same", "s"][2:].tolist() == sent[:-2].tolist()
    quiet = made.run(given[:cut], record=[Probe("p", ("v",))])
    rest = made.run(given[cut:], record=record, state=quiet.state)
    for key, values in whole.recording.arrays.items():
        assert np.array_equal(rest.recording.arrays[key], values[cut:]), key
    end = made.run(given[cut:], record=[], state=quiet.state).state
    assert set(end.arrays) == {("p", "v"), ("p", "i"), ("p", "refractory"), ("in0", "past"), ("p", "past"),
                               ("out", "past of projection 1")}  # fmt: skip
    for key, values in whole.state.arrays.items():
        assert (end.arrays[key].tolist(), end.arrays[key].dtype) == (values.tolist(), values.dtype), key
    assert [whole.state.arrays[k].shape for k in (("in0", "past"), ("p", "past"))] == [(3, 2, 5), (2, 2, 5)]


def test_beginnings_are_kept_for_the_last_batch() -> None:
    made = prepare_simulator(late_net(), backend="reference")
    engine: Engine = made._engine
    first = engine.blank(2)
    assert engine.blank(2) is first
    assert engine.blank(3) is not first
    assert engine.blank(3).arrays["p", "v"].shape == (3, 5)
    assert engine.begin(2, None) is engine.begin(2, None)
    assert engine.begin(4, None).states["p"]["v"].shape == (4, 5)
    alone = made.run(INPUTS["in0"][:, 0]).recording.arrays["same", "s"]
    both = made.run(INPUTS["in0"]).recording.arrays["same", "s"]
    again = made.run(INPUTS["in0"][:, 0]).recording.arrays["same", "s"]
    assert alone.tolist() == both[:, 0].tolist() == again.tolist()
    state = made.run(INPUTS["in0"]).state
    assert engine.start(2, state).step == 12
    waits = engine.start(2, None).state().arrays["p", "refractory"]
    assert waits is engine.blank(2).arrays["p", "refractory"]


def test_a_trail_gives_back_the_piece_itself_where_it_can() -> None:
    space: Any = prepare_simulator(late_net(), backend="reference")._engine.parts.space
    none, one = Delay(np.array(0), space), Delay(np.array(1), space)
    line, piece = SpikeHistory(space, None), np.arange(8.0).reshape(4, 2)
    line.add(piece)
    assert line.window(0, 4, none) is piece
    assert np.shares_memory(line.window(1, 3, none), piece)
    assert line.close() is None
    held = SpikeHistory(space, np.zeros((1, 2)))
    held.add(piece)
    assert held.window(0, 4, none) is piece
    assert held.window(0, 4, one).tolist() == [[0, 0], *piece[:3].tolist()]
    assert held.window(0, 1, one).tolist() == [[0, 0]]
    assert held.close().tolist() == piece[3:].tolist()
    assert held.window(0, 1, one).tolist() == piece[3:].tolist()

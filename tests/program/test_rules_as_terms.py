"""Rules of neurons against the oracles, the proofs of their widths, and their printed forms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import Array
from nirbridge.emitters.c.emit import C
from nirbridge.emitters.lava.emit import LAVA, LavaOptions
from nirbridge.emitters.lava.runtime.environment import find_python
from nirbridge.emitters.modules.emit import TORCH
from nirbridge.emitters.onnx.emit import ONNX
from nirbridge.errors import UsageError
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import Neuron
from nirbridge.network.neurons import neuron as real_neuron
from nirbridge.network.operators import Dense, Identity
from nirbridge.program import rules
from nirbridge.program.evaluate import Evaluator
from nirbridge.program.interval import first_values, fits, intervals, settled
from nirbridge.program.printing import Printer
from nirbridge.program.rewrites import in_halves, inlined
from nirbridge.program.rules import canonical, loihi, traced, traced_step
from nirbridge.program.terms import Stepped, Term, Tracing, in_order
from nirbridge.quantization.model import FixedInput, FixedNeuron, QuantizedNetwork
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.reference.array_namespace import array_namespace
from nirbridge.simulators.reference.semantics import ReferenceNeurons
from nirbridge.simulators.types import Probe
from tests.cases import cases
from tests.emitters.c.programs import whole
from tests.emitters.hand_made import _step, dense, neuron, population, projection, quantized, random_neuron

SHAPE = (3, 4)
TYPES: dict[Any, Any] = {"int": np.int64, "count": np.int64, "bool": np.bool_}


def steps_of(step: Stepped, drives: Array, state: dict[str, Array], types: Any, xp: Any = np) -> Iterator[Any]:
    """Time steps one after the other."""
    computed = Evaluator(step, xp, types)
    for drive in drives:
        args = {"drive": drive, **{f"state.{name}": values for name, values in state.items()}}
        found = computed(args)
        state = {**state, **found.state}
        yield found


def random_real_neuron(rng: np.random.Generator) -> Neuron:
    """A canonical neuron: values for all or for each, every reset, several spikes, refractory periods, floors."""

    def some(low: float, high: float) -> Any:
        return rng.uniform(low, high, SHAPE if rng.random() < 0.5 else ())

    if rng.random() < 0.15:
        return real_neuron("LI", a_mem=some(0, 1), g_mem=some(0, 2), bias=some(-1, 1), theta=None, reset="none")
    return real_neuron(
        "CubaLIF",
        a_mem=some(-1, 1) * rng.integers(2),
        g_mem=some(0, 2) if rng.random() < 0.6 else 1.0,
        bias=some(-1, 1) * rng.integers(2),
        theta=some(0.2, 1),
        a_syn=some(0, 1) * rng.integers(2),
        g_syn=some(0, 2) if rng.random() < 0.6 else 1.0,
        v_reset=some(-1, 0) * rng.integers(2),
        reset=str(rng.choice(["to-value", "subtract", "none"])),  # type: ignore[arg-type]
        compare=str(rng.choice([">", ">="])),  # type: ignore[arg-type]
        max_spikes=int(rng.choice([1, 1, 3])),
        refractory_steps=rng.integers(0, 4, SHAPE) * rng.integers(2),
        v_min=some(-2, -1) if rng.random() < 0.4 else None,
    )


@pytest.mark.parametrize("first", cases(range(0, 60, 20), range(0, 1000, 20)))
def test_reals_are_those_of_the_reference(first: int) -> None:
    for seed in range(first, first + 20):
        rng = np.random.default_rng(seed)
        n, dtype = random_real_neuron(rng), ("float32", "float64")[seed % 2]
        drives = rng.normal(0.3, 1, (30, 2, *SHAPE)).astype(dtype)
        state = {"v": np.full((2, *SHAPE), 0.25, dtype), "i": np.full((2, *SHAPE), -0.5, dtype)}
        state["refractory"] = np.zeros((2, *SHAPE), np.int64)
        oracle = ReferenceNeurons(Population("p", SHAPE, n), array_namespace("numpy", dtype))
        expected = oracle.run(drives, dict(state), frozenset("vui"))
        types = {"real": dtype, **TYPES}
        for t, found in enumerate(steps_of(traced_step(n), drives, state, types)):
            assert np.array_equal(found.sent, expected.sent[t]), (seed, t)
            for name in ("v", "u", "i"):
                assert np.array_equal(found.variables[name], expected.traces[name][t]), (seed, t, name)


def plain_run(n: FixedNeuron, drives: Array) -> dict[str, Array]:
    """What the neurons send, and their u and v, by plain Python integers."""
    p, size = population("p", SHAPE, n), int(np.prod(SHAPE))
    starts = [np.broadcast_to(x, SHAPE).reshape(-1) for x in (n.u_init, n.v_init)]
    states = [[int(starts[0][i]), int(starts[1][i]), 0] for i in range(size)]
    found: dict[str, list[Any]] = {"s": [], "u": [], "v": []}
    for drive in drives.reshape(len(drives), size):
        sent = [_step(p, i, state, int(drive[i])) for i, state in enumerate(states)]
        u, v = [state[0] for state in states], [state[1] for state in states]
        found["u"].append(u)
        found["v"].append(v)
        found["s"].append(sent if n.fires else v)
    return {name: np.array(values).reshape(len(drives), 1, *SHAPE) for name, values in found.items()}


@pytest.mark.parametrize("first", cases(range(0, 60, 20), range(0, 1000, 20)))
def test_integers_are_those_of_plain_numbers_and_within_their_proved_bounds(first: int) -> None:
    for seed in range(first, first + 20):
        rng = np.random.default_rng(seed)
        n, reach = random_neuron(rng, SHAPE), int(rng.choice([100, 1 << 14, 1 << 20]))
        drives = rng.integers(-reach, reach + 1, (40, 1, *SHAPE))
        expected = plain_run(n, drives)
        state = {"u": np.broadcast_to(n.u_init, (1, *SHAPE)), "v": np.broadcast_to(n.v_init, (1, *SHAPE))}
        state["refractory"] = np.zeros((1, *SHAPE), np.int64)
        step = traced_step(n)
        bounds = settled(step, first_values(n, (-reach, reach)))
        for t, found in enumerate(steps_of(step, drives, state, TYPES)):
            for name in ("s", "u", "v"):
                assert np.array_equal(found.variables[name], expected[name][t]), (seed, t, name)
            for name, values in found.state.items():
                low, high = bounds[f"state.{name}"]
                assert low <= values.min(), (seed, t, name)
                assert values.max() <= high, (seed, t, name)


def test_widths() -> None:
    """A plain LIF needs 32 bits with its decays in halves, and 37 without; wide registers and inputs need 64."""
    n, small = neuron(du=100), (-1000, 1000)
    step = traced_step(n)
    assert not fits(intervals(step, first_values(n, small)), 32)
    assert fits(intervals(step, first_values(n, small)), 37)
    assert fits(intervals(in_halves(step), first_values(n, small)), 32)
    assert not fits(intervals(in_halves(step), first_values(n, (0, 1 << 26))), 32)
    wide = replace(n, u_bits=40, v_bits=40)
    assert not fits(intervals(in_halves(traced_step(wide)), first_values(wide, small)), 32)
    assert fits(intervals(in_halves(traced_step(wide)), first_values(wide, small)), 64)


def test_bounds_hold_under_the_condition_of_their_branch() -> None:
    xp, x = Tracing("int"), Term("arg", "int", (), None, "drive")
    cut = xp.let("cut", xp.where(x > 10, x - 100, x))
    step = Stepped(cut, {}, {})
    assert intervals(step, {"drive": (-5, 40)})[id(cut)] == (-89, 10)
    assert intervals(step, {"drive": (-5, 10)})[id(cut)] == (-5, 10)
    both = xp.let("both", xp.where((x > 3) & ~(x > 7), x, 5))
    assert intervals(Stepped(both, {}, {}), {"drive": (-50, 50)})[id(both)] == (4, 7)


def test_what_changes_nothing_vanishes() -> None:
    """Coefficients of 1 and 0 cost nothing; a population without a refractory period has no counter."""
    step = traced(canonical, real_neuron("IF", theta=1.0), "real")
    assert [t.op for t in in_order(step.ends) if t.args] == ["add", "gt", "where", "where"]
    step = traced(loihi, neuron(), "int")
    assert "refractory" not in step.state
    assert not any(t.name == "state.u" for t in in_order(step.ends))
    assert not any(t.op == "call" for t in in_order(inlined(step).ends))


class Words:
    """A language of words, for the order of statements."""

    table = {"add": ("{} + {}", 5), "sub": ("{} - {}", 5), "mul": ("{} * {}", 6)}  # noqa: RUF012

    @staticmethod
    def leaf(term: Term) -> str:
        return term.name or str(term.value)

    def special(self, term: Term, args: Any) -> None:
        return None

    def statement(self, name: str, text: str, term: Term, is_first: bool) -> str:
        return f"{'let ' if is_first else ''}{name} = {text}"


def test_a_name_that_is_still_needed_keeps_its_value() -> None:
    xp, x = Tracing("int"), Term("arg", "int", (), None, "x")
    old = xp.let("v", x + 1)
    new = xp.let("v", old * 2)
    printer = Printer(Words())
    assert printer.write([new, xp.let("z", old + new)]) == ["v2", "z"]
    assert printer.lines == ["let v = x + 1", "let v2 = v * 2", "let z = v + v2"]
    printer = Printer(Words())
    assert printer.write([xp.let("v", new - (old - 3))]) == ["v"]
    assert printer.lines == ["let v = x + 1", "let v2 = v * 2", "v = v2 - (v - 3)"]


def leaking(xp: Tracing, n: Any, drive: Term, state: Any) -> Stepped:
    """Loihi's rule with a leak of v on its way to the threshold, by a shift of numbers of both signs."""
    return loihi(xp, n, drive, {**state, "v": state["v"] - (state["v"] >> 5)})


def adapting(xp: Tracing, n: Any, drive: Term, state: Any) -> Stepped:
    """Loihi's rule with one more state: spikes raise ``b``, which decays and holds v down."""
    step = loihi(xp, n, drive, {**state, "v": state["v"] - (state["b"] >> 3)})
    b = xp.minimum(state["b"] - (state["b"] >> 4) + step.sent * 900, 1 << 14)
    return replace(step, state={**step.state, "b": xp.let("b", b)})


def remembering(xp: Tracing, n: Any, drive: Term, state: Any) -> Stepped:
    """Loihi's rule with one more state, what v was before: no state is stored before another one is read."""
    step = loihi(xp, n, drive, {**state, "v": state["v"] - (state["b"] >> 2)})
    return replace(step, state={**step.state, "b": state["v"]})


def assert_follows_a_changed_rule(
    emitter: Any, monkeypatch: pytest.MonkeyPatch, rule: Any = leaking, **first: int
) -> None:
    """Programs of a target compute another rule without another edit; ``first``: first values of states it adds."""
    rng = np.random.default_rng(3)
    n = neuron(du=300, dv=70, refractory_steps=rng.integers(0, 3, 20), reset="subtract", reset_amount=5000)
    p = population("p", (20,), n)
    net = whole(quantized([FixedInput("in", (9,))], [p], [projection("in", "p", dense(rng, 20, 9))], ["p"]))
    spikes = (rng.random((50, 1, 9)) < 0.4).astype(np.uint8)
    usual = emitter.run(emitter.emit(net), {"in": spikes}, record=[Probe("p", ("s", "v"))]).arrays
    monkeypatch.setitem(rules.RULES, FixedNeuron, (rule, "int"))
    for name, value in first.items():
        monkeypatch.setattr(FixedNeuron, f"{name}_init", np.int64(value), raising=False)
    step = rules.traced(rule, n, "int")
    drives = np.concatenate([np.zeros((1, 1, 20), int), (spikes[:-1] @ net.projections[0].operator.weight.T)])  # type: ignore[union-attr]
    state = {name: np.full((1, 20), first.get(name, 0)) for name in ("u", "v", "refractory", *first)}
    expected = list(steps_of(step, drives, state, TYPES))
    found = emitter.run(emitter.emit(net), {"in": spikes}, record=[Probe("p", ("s", "v"))]).arrays
    for name in ("s", "v"):
        assert np.array_equal(found["p", name], [x.variables[name] for x in expected]), name
    for backend in ("reference", "auto"):
        run = simulate_fixed(net, {"in": spikes}, record=[Probe("p", ("s", "v"))], backend=backend).recording.arrays
        assert all(np.array_equal(run["p", name], found["p", name]) for name in ("s", "v")), backend
    assert not np.array_equal(found["p", "v"], usual["p", "v"])
    assert found["p", "s"].any()


@pytest.mark.parametrize("emitter", [C, ONNX, LAVA], ids=lambda e: e.name)
def test_a_changed_rule_is_what_programs_compute(emitter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    need(emitter)
    assert_follows_a_changed_rule(emitter, monkeypatch)


def need(emitter: Any) -> None:
    """Skips a test whose target is not installed."""
    if emitter is TORCH:
        pytest.importorskip("torch", reason="torch is not installed")
    try:
        if emitter is LAVA:
            find_python()
    except UsageError:
        pytest.skip("Lava is not installed")


def test_a_changed_rule_is_what_the_compiled_simulator_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="numba is not installed")
    from nirbridge.simulators.fixed.kernels import FAST

    monkeypatch.setitem(rules.RULES, FixedNeuron, (leaking, "int"))
    n, drives = neuron(du=300, dv=70), np.random.default_rng(3).integers(-90, 200, (50, 1, 100))
    state = {name: np.zeros((1, 100), np.int64) for name in ("u", "v", "refractory")}
    expected = list(steps_of(traced_step(n), drives, state, TYPES))
    sent, v = np.zeros(drives.shape, np.int8), np.zeros(drives.shape, np.int64)
    FAST.steps(population("p", (100,), n), 200)(drives, state, sent, {"v": v})
    assert np.array_equal(sent, [x.variables["s"] for x in expected])
    assert np.array_equal(v, [x.variables["v"] for x in expected])
    assert sent.any()


def tiring(xp: Tracing, n: Any, drive: Term, state: Any) -> Stepped:
    """The canonical rule with a leak of v on its way to the threshold, and a state of its own that spikes feed."""
    tired = Term("arg", "real", (), None, "state.b")
    step = canonical(xp, n, drive - tired, {**state, "v": state["v"] - state["v"] * (1 / 32)})
    return Stepped(step.sent, step.variables, {**step.state, "b": xp.let("b", tired * 0.5 + step.sent * 0.25)})


@pytest.mark.parametrize(("emitter", "dtype"), [(TORCH, np.float32), (LAVA, np.float64)], ids=["torch", "lava"])
def test_a_changed_rule_of_reals_is_what_programs_compute(
    emitter: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(emitter)
    n = real_neuron("CubaLIF", a_mem=0.75, a_syn=0.5, theta=1.0, refractory_steps=[0, 1, 2, 0], reset="subtract")
    rng = np.random.default_rng(3)
    weights = (rng.integers(-8, 9, (4, 9)) / 16).astype(dtype)
    net = real_network(Population("p", (4,), n), Projection("in", "p", Dense(weights), delay_steps=np.asarray(1)))
    spikes = (rng.random((30, 1, 9)) < 0.5).astype(dtype)

    def ran() -> Any:
        made = TORCH.emit(net) if emitter is TORCH else LAVA.emit(as_quantized(net), LavaOptions(floating=True))
        return emitter.run(made, {"in": spikes}, record=[Probe("p", ("s", "v"))]).arrays

    usual = ran()
    monkeypatch.setitem(rules.RULES, Neuron, (tiring, "real"))
    state: dict[str, Array] = {name: np.zeros((1, 4), dtype) for name in ("v", "i", "b")}
    state["refractory"] = np.zeros((1, 4), np.int64)
    drives = np.concatenate([np.zeros((1, 1, 4), dtype), spikes[:-1] @ weights.T])
    expected = list(steps_of(traced_step(n), drives, state, {"real": dtype, **TYPES}))
    found = ran()
    for name in ("s", "v"):
        assert np.array_equal(found["p", name], [x.variables[name] for x in expected]), name
    assert not np.array_equal(found["p", "v"], usual["p", "v"])
    assert found["p", "s"].any()


def as_quantized(net: Network) -> QuantizedNetwork:
    """A quantized network of which only the real one matters."""
    return replace(quantized([FixedInput("in", (9,))], [], [], []), network=net)


def real_network(p: Population, projection: Projection) -> Network:
    """An input, a population and its output."""
    timing = Timing(dt=1e-3, integrator="euler", reset="to-value", compare=">", if_gain="per-second")
    ends = (Port("in", projection.operator.input_shape),), (Port("out", p.shape),)
    return Network(1e-3, timing, (p,), (projection, Projection(p.name, "out", Identity(p.shape))), *ends)


@pytest.mark.parametrize("rule", [adapting, remembering])
@pytest.mark.parametrize("emitter", [C, ONNX, LAVA], ids=lambda e: e.name)
def test_a_state_that_a_rule_adds_is_carried(emitter: Any, rule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    need(emitter)
    assert_follows_a_changed_rule(emitter, monkeypatch, rule, b=700)

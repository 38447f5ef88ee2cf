"""Pictures, comparisons and text of ``verify`` on handmade recordings."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.errors import UsageError
from nirbridge.network.model import Port
from nirbridge.passes import Retime
from nirbridge.pipeline.quantize import CalibrationPlan, quantize_with_data
from nirbridge.quantization.options import QuantizationOptions
from nirbridge.simulators.simulate import Probe, Recording
from nirbridge.verification import verify as ways
from nirbridge.verification.program import Program
from nirbridge.verification.verify import (
    ComparedPair,
    Verification,
    all_probes,
    draw_inputs,
    verification_failures,
    verification_verdict,
)
from tests.quantization.nets import layer, lif, one


def ports(*own: tuple[str, tuple[int, ...]]) -> Any:
    return SimpleNamespace(inputs=tuple(Port(name, shape) for name, shape in own))


TWO = ports(("a", (2,)), ("b", (3, 1)))
PROGRAM = Program("lava", print)


def test_inputs_are_drawn_port_by_port_and_said() -> None:
    drawn, said = draw_inputs(TWO, 50, 7)
    rng = np.random.default_rng(7)
    for name, shape in (("a", (50, 2)), ("b", (50, 3, 1))):
        assert drawn[name].dtype == np.uint8
        assert drawn[name].tolist() == (rng.random(shape) < 0.1).astype(int).tolist()
    assert said == "random spikes, 0.1 per time step and element, seed 7"
    drawn, said = draw_inputs(TWO, 50, 7, 0.25, {"a": (2.5, 4)})
    rng = np.random.default_rng(7)
    a = (rng.random((50, 2)) < 0.25) * rng.uniform(-1, 1, (50, 2)) * 2.5
    assert drawn["a"].tolist() == a.tolist()
    assert drawn["b"].tolist() == (rng.random((50, 3, 1)) < 0.25).astype(int).tolist()
    assert said == "random spikes and graded values, 0.25 per time step and element, seed 7"


def test_inputs_by_name_are_cut_to_the_steps() -> None:
    given = {"a": np.ones((5, 2)), "b": np.ones((5, 3, 1))}
    found, steps = ways.input_arrays(TWO, given, 3)
    assert ({k: len(x) for k, x in found.items()}, steps) == ({"a": 3, "b": 3}, 3)
    found, steps = ways.input_arrays(TWO, given, None)
    assert ({k: len(x) for k, x in found.items()}, steps) == ({"a": 5, "b": 5}, 5)
    with pytest.raises(UsageError, match="inputs are finite numbers of float32"):
        ways.input_arrays(TWO, {**given, "a": np.full((5, 2), 1e39)}, 3)
    longer = ways._padded({"a": given["a"], "b": np.arange(3)}, 4)
    assert {k: x.tolist() for k, x in longer.items()} == {"a": np.ones((4, 2)).tolist(), "b": [0, 1, 2, 0]}


def population(name: str, fires: bool) -> Any:
    return SimpleNamespace(name=name, neuron=SimpleNamespace(fires=fires))


def quantized(**own: Any) -> Any:
    fields = {
        "populations": [population("p", True), population("q", True), population("r", False)], "early": (),
        "outputs": [Port("out", (2,))], "latency": {"p": 1, "q": 3, "r": 2, "out": 2},
    }  # fmt: skip
    return SimpleNamespace(**{**fields, **own})


def recording(arrays: Any, **meta: Any) -> Recording:
    return Recording({tuple(k.split("/")): np.asarray(x) for k, x in arrays.items()}, {"dt": 1e-3, **meta})  # type: ignore[misc]


def test_everything_is_what_integers_compute() -> None:
    assert all_probes(quantized()) == [
        Probe("p", ("s", "u", "v")), Probe("q", ("s", "u", "v")), Probe("r", ("u", "v")), Probe("out", ("s",)),
    ]  # fmt: skip


def test_early_spikes_are_those_before_the_first_step() -> None:
    spikes = np.array([[2, 1], [1, 0], [0, 4], [8, 8]])
    fixed = recording({"p/s": spikes, "q/s": spikes})
    assert dict(ways.early_spikes(quantized(), fixed)) == {}
    assert dict(ways.early_spikes(quantized(early=("q",)), fixed)) == {"p": 3, "q": 8}
    silent = recording({"p/s": spikes * 0, "q/s": spikes * 0})
    assert dict(ways.early_spikes(quantized(early=("q",)), silent)) == {"q": 0}


@pytest.mark.parametrize(("off", "taken"), [(0.9e-12, True), (-0.9e-12, True), (1.1e-12, False), (0.5, False)])
def test_sums_of_the_host_are_equal_but_for_their_last_digits(off: float, taken: bool) -> None:
    """Relative to the largest value; integers, and what one of the two lacks, stay as they are."""
    expected = np.array([[-8.0, 0.0], [1.0, 2.0]])
    own = expected.copy()
    own[0, 1] += 8 * off
    fixed = recording({"out/s": expected, "p/v": [3], "far/s": expected, "odd/s": expected})
    found = recording({"out/s": own, "p/v": [4], "odd/s": own[:1], "more/s": own})
    settled = ways._settled(fixed, found)
    assert list(settled.arrays) == list(found.arrays)
    assert (settled.arrays["out", "s"] is fixed.arrays["out", "s"]) is taken
    assert all(settled.arrays[k] is found.arrays[k] for k in found.arrays if k != ("out", "s"))
    assert settled.meta is found.meta


def test_pairs_are_compared_at_the_latency_of_each_node() -> None:
    rng = np.random.default_rng(0)
    p, out = (rng.integers(0, 2, (6, 2)) for _ in range(2))

    def late(values: Any, steps: int) -> Any:
        return np.concatenate([np.zeros((steps, 2), int), values, np.ones((3 - steps, 2), int)])

    reference = recording({"p/s": p, "out/s": out, "z/s": p}, batch=None, latency={"p": 0, "out": 0})
    fixed = recording({"p/s": late(p, 1), "out/s": late(out, 2), "p/v": late(p, 1)}, batch=None)
    found = {"reference": reference, "fixed": fixed, "mapped": fixed, "lava": recording({"p/s": late(p, 2)})}
    pairs = list(ways._pairs(found, quantized(), 6, 1, PROGRAM))
    assert [(x.a, x.b, x.required, x.comparison.equal) for x in pairs] == [
        ("reference", "fixed", False, True), ("fixed", "mapped", True, True), ("fixed", "lava", True, False),
    ]  # fmt: skip
    rows = {row.node: row for row in pairs[0].comparison.rows}
    assert {n: (row.latency_steps, row.steps) for n, row in rows.items()} == {"out": (2, 6), "p": (1, 6)}
    assert rows["out"].decisions is not None
    assert rows["out"].decisions.samples == 1
    assert rows["out"].decisions.right_a == int(out[:, 1].sum() > out[:, 0].sum())
    retimed = list(ways._pairs({**found, "retimed": fixed}, quantized(), 6, None, PROGRAM))
    assert [(x.a, x.b, x.required) for x in retimed[:2]] == [
        ("reference", "fixed", False), ("reference", "retimed", False),
    ]  # fmt: skip


@pytest.mark.parametrize(("records", "equals", "wanted"), [
    (("s", "u", "v"), "fixed", [Probe("p", ("s", "u", "v")), Probe("r", ("u", "v")), Probe("out", ("s",))]),
    (("s",), "fixed", [Probe("p", ("s",)), Probe("out", ("s",))]),
    (("v",), "fixed", [Probe("p", ("v",)), Probe("r", ("v",)), Probe("out", ("s",))]),
    (("s", "v"), None, [Probe("*", ("s",))]),
    (("s", "v"), "reference", [Probe("*", ("s", "v"))]),
])  # fmt: skip
def test_a_program_is_asked_for_what_it_records(records: Any, equals: Any, wanted: list[Probe]) -> None:
    asked: list[Any] = []

    def ran(inputs: Any, **own: Any) -> Any:
        asked.append((inputs, own))
        return recording({"p/s": [1]}, steps=9)

    given, told = {"in": np.zeros(3)}, lambda stage, done: None
    every = [Probe("p", ("s", "u", "v")), Probe("r", ("u", "v")), Probe("out", ("s",))]
    found = Program("x", ran, records, equals).recording(every, {"out"}, given, 5, told)
    assert found.meta["steps"] == 9
    assert asked == [(given, {"steps": 5, "record": wanted, "progress": told})]


def test_a_program_called_as_another_way_has_a_name_of_its_own() -> None:
    assert [Program(name, print).way for name in ("x", "fixed", "mapped")] == ["x", "fixed program", "mapped program"]


def test_a_program_is_compared_in_what_it_records() -> None:
    fixed = recording({"p/s": [[1], [0]], "p/u": [[5], [6]], "p/v": [[7], [8]], "out/s": [[1], [0]]}, batch=None)
    reference = recording({"p/s": [[1], [1]], "out/s": [[1], [0]]}, batch=None)

    def compared(own: dict[str, Any], program: Program) -> tuple[Any, ...]:
        found = {"reference": reference, "fixed": fixed, "x": recording(own, batch=None)}
        pair = list(ways._pairs(found, quantized(outputs=(Port("out", (1,)),)), 2, None, program))[-1]
        return pair.a, pair.b, pair.required, pair.variables, pair.comparison.equal

    spikes = Program("x", print, ("s",))
    same = {"p/s": [[1], [0]], "out/s": [[1], [0]]}
    assert compared(same, spikes) == ("fixed", "x", True, ("s",), True)
    assert compared({**same, "p/s": [[1], [1]]}, spikes) == ("fixed", "x", True, ("s",), False)
    assert compared({"p/s": same["p/s"]}, spikes)[-1] is False, "the output is missing"
    assert compared(same, Program("x", print))[-1] is False, "u and v are missing"
    reals = Program("x", print, ("s", "v"), None)
    assert compared(same, reals) == ("reference", "x", False, ("s",), False)
    assert compared({**same, "p/s": [[1], [1]]}, reals) == ("reference", "x", False, ("s",), True)
    equal = Program("x", print, ("s", "v"), "reference")
    assert compared(same, equal)[-1] is False
    assert compared({**same, "p/s": [[1], [1]]}, equal) == ("reference", "x", True, ("s", "v"), True)


# -- what is said ----------------------------------------------------------------------------------------------------


def made(*pairs: tuple[str, bool, bool], far: tuple[str, ...] = (), wide: float = 1.0, **own: Any) -> Verification:
    """Pairs (b, required, equal) with fixed."""
    found = tuple(ComparedPair("fixed", b, required, SimpleNamespace(equal=equal)) for b, required, equal in pairs)  # type: ignore[arg-type]
    bounds = {"p": (2.0, 2.0), "q": (2.0 * wide, 2.0), "r": (9.0, None)}  # of r, a readout, no thresholds
    layers = tuple(
        SimpleNamespace(population=name, holds=name not in far, bound=bound, theta=theta)
        for name, (bound, theta) in bounds.items()
    )
    fields = {"chip": "c", "steps": 3, "input_said": "", "latency": {}, "pairs": found, "layers": layers}
    return Verification(**{**fields, "recordings": {}, "left_out": {}, "notes": (), **own})


NEAR = "reference ~ fixed: within the bound in every population"
EARLY = "retimed ~ fixed: within the bound in every population; not the reference: early spikes are kept"


@pytest.mark.parametrize(("verification", "said"), [
    (made(), f"no equality is required: only the fixed simulator ran; {NEAR}"),
    (made(("reference", False, False)), f"no equality is required: only the fixed simulator ran; {NEAR}"),
    (made(("reference", False, False), ("mapped", True, True), ("lava", True, True)),
     f"fixed == mapped == lava: every spike, u and v; {NEAR}"),
    (made(("mapped", True, True), left_out={"lava": "why", "x\n": "because"}),
     f"fixed == mapped: every spike, u and v; {NEAR}; 'lava' left out: why; 'x\\n' left out: because"),
    (made(("mapped", True, True), early_spikes={"p": 1}), f"fixed == mapped: every spike, u and v; {EARLY}"),
    (made(("mapped", True, True), wide=5),
     "fixed == mapped: every spike, u and v; reference ~ fixed: within the bound, which is wide (5 thresholds in 'q'), "
     "in every population"),
    (made(("mapped", True, False), ("lava", True, True)), "not as required: fixed and mapped differ"),
    (made(("mapped", True, True), far=("q",)), "not as required: 'q' is beyond its bound"),
    (made(("mapped", True, False), ("lava", True, False), far=("p", "r")),
     "not as required: fixed and mapped differ; fixed and lava differ; 'p' is beyond its bound; 'r' is beyond its "
     "bound"),
])  # fmt: skip
def test_the_verdict_word_by_word(verification: Verification, said: str) -> None:
    assert verification_verdict(verification) == said
    assert verification.holds is not said.startswith("not as required")
    assert bool(verification_failures(verification)) is not verification.holds


def test_a_verification_holds_what_ran() -> None:
    late = layer(np.diag([1.0, 0.5]), lif(a_mem=0.5, theta=0.75))
    net = replace(late, projections=(replace(late.projections[0], delay_steps=one(0)), late.projections[1]))
    q = quantize_with_data(Retime().retimed(net), read_chip("loihi2"), QuantizationOptions(), None, CalibrationPlan())
    spikes = np.array([[1, 1], [1, 0], [0, 1], [1, 1]], np.uint8)
    told: list[Any] = []
    found = ways.verify(net, q, {"in": spikes}, steps=4, progress=lambda *own: told.append(own))
    longest = max(q.latency.values())
    assert longest == 1
    assert (found.chip, found.steps, found.input_said, dict(found.left_out)) == ("loihi2", 4, "", {})
    assert (dict(found.latency), found.notes, dict(found.early_spikes)) == ({"out": 1}, q.notes, {})
    assert {k: len(r.arrays["p", "s"]) for k, r in found.recordings.items()} == {"reference": 4, "fixed": 5}
    assert set(found.recordings["reference"].arrays) == {(node, x) for node in ("p", "out") for x in ("s", "v")}
    assert [(p.a, p.b, p.comparison.equal) for p in found.pairs] == [("reference", "fixed", True)]
    assert [x.population for x in found.layers] == ["p"]
    assert [stage for stage, _ in told] == ["simulate", "simulate"]
    named = ways.verify(net, q, {"in": spikes}, steps=2, input_said="said", left_out={"lava": "no"})
    assert (named.input_said, dict(named.left_out), named.steps) == ("said", {"lava": "no"}, 2)
    assert freeze(named.recordings["fixed"].arrays["p", "s"]).shape == (3, 2)

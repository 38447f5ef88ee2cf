"""Proofs that neurons in Verilog are their rule: every kind proved, wrong ones refuted with an example."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nirbridge.emitters.verilog.neuron import NeuronModule, neuron_module
from nirbridge.emitters.verilog.proof import problems, proof_file, prove_neuron
from nirbridge.errors import ToolMissing
from nirbridge.network.neurons import Adaptation
from nirbridge.quantization.model import FixedNeuron
from tests.emitters.hand_made import ints, neuron, population
from tests.tools import needs

SEVERAL = {"max_spikes": 3, "spike_size": 1734, "reset": "subtract", "reset_amount": 1700}
ADAPTED = replace(neuron(dv=500), adaptation=Adaptation(ints(4000), ints(130), ints(0), in_reset=True))
KINDS: dict[str, FixedNeuron] = {
    "decays": neuron(du=1000, dv=125),
    "decay of one digit": neuron(dv=512),
    "no memory": neuron(dv=4096),
    "readout": neuron(dv=333, fires_above=None),
    "no decay, saturated": neuron(dv=0, reset="none"),
    "refractory, subtract": neuron(dv=125, refractory_steps=3, reset="subtract", reset_amount=4000),
    "several spikes, floor": neuron(dv=700, v_min=-900, **SEVERAL),
    "several spikes, soft": neuron(dv=700, **{**SEVERAL, "reset_amount": 1734}),
    "several spikes of each": neuron(**{**SEVERAL, "spike_size": [900, 901, 5, 7], "reset_amount": [900, 901, 5, 7]}),
    "adaptation": ADAPTED,
    "coefficients of each": neuron(dv=[1, 125, 4096, 30], bias_mant=[-5, 0, 7, 9], fires_above=[400, 900, 901, 902]),
    "wrap": neuron(du=0, dv=4095),
}


@pytest.fixture(autouse=True)
def _tools() -> None:
    needs("yosys")
    pytest.importorskip("bitwuzla", reason="bitwuzla is not installed: pip install nirbridge[prove]")


def module(n: FixedNeuron) -> NeuronModule:
    return neuron_module("p0_neuron", population("p", (4,), n), (-300, 500))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_proved(kind: str) -> None:
    found = prove_neuron(module(KINDS[kind]))
    assert found.status == "proved"
    assert not found.counterexample


MUTANTS = {
    "threshold": ("decays", "fires_above = 14'sd4096", "fires_above = 14'sd4097"),
    "comparison": ("decays", "fires_above - v_sum", "fires_above - v_sum - 2'sd1"),
    "shift": ("decays", ">>> 12", ">>> 11"),
    "cut": ("decays", "v_cut = v_side_1 & v_rest", "v_cut = v_rest"),
    "reset": ("decays", "? 2'sd0 : v_sum", "? v_sum : v_sum"),
    "alignment": ("decays", "(drive_1 <<< 6)", "(drive <<< 6)"),
    "width": ("decays", "wire signed [22:0] v_sum", "wire signed [21:0] v_sum"),
    "saturation": ("no decay, saturated", "? v_sum_1 : 24'sd8388607", "? v_sum_1 : v_sum_1"),
    "digit": ("several spikes, floor", "bit_0}", "bit_1}"),
    "refractory": ("refractory, subtract", "refractory_steps = 3'sd3", "refractory_steps = 3'sd2"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_every_mutant_is_refuted(mutant: str) -> None:
    kind, old, new = MUTANTS[mutant]
    m = module(KINDS[kind])
    assert old in m.text
    found = prove_neuron(replace(m, text=m.text.replace(old, new)))
    assert found.status == "refuted"
    assert set(found.counterexample) == {"drive", *(s.name for s in m.states)}
    for name, value in found.counterexample.items():
        low, high = m.intervals[name if name == "drive" else f"state.{name}"]
        assert low <= value <= high


def test_bounds_that_a_time_step_leaves_are_refuted() -> None:
    m = module(KINDS["decays"])
    low, high = m.intervals["state.v"]
    tight = replace(m, intervals={**m.intervals, "state.v": (low // 2, high)})
    assert prove_neuron(tight).status == "refuted"


def test_a_proof_without_time_is_unknown() -> None:
    n = neuron(du=1000, dv=[125, 126, 127, 128], reset="none")
    assert prove_neuron(module(n), seconds=0.001).status == "unknown"


def test_the_file_asks_every_question_that_is_decided() -> None:
    """Each answer of a solver that runs the whole file is that of one of ``problems``."""
    text = proof_file(module(KINDS["decays"]))
    assert text.count("(check-sat)") == len(list(problems(text)))
    assert text.count("\n%%\n") == 1


def test_absent_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolMissing, match="yosys is not installed"):
        prove_neuron(module(KINDS["decays"]))

"""Neurons in Verilog: every kind computed by Icarus as the rule says, the text read by other tools, what is refused."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import Array
from nirbridge.emitters.verilog.neuron import Field, NeuronModule, neuron_module
from nirbridge.errors import ModelError
from nirbridge.network.neurons import Adaptation
from nirbridge.program.evaluate import Evaluator
from nirbridge.quantization.model import FixedNeuron
from tests.cases import cases
from tests.emitters.hand_made import ints, neuron, population
from tests.program.test_rules_as_terms import TYPES
from tests.tools import needs

SHAPE = (6,)
SAMPLES = 40


def drawn(rng: np.random.Generator) -> FixedNeuron:
    """A neuron of any kind: decays up to their extremes, values for all or for each."""

    def some(low: int, high: int) -> Any:
        return rng.integers(low, high, SHAPE) if rng.random() < 0.3 else int(rng.integers(low, high))

    dv = int(rng.choice([0, 4095, 4096])) if rng.random() < 0.3 else some(1, 4096)
    common = {
        "du": int(rng.choice([0, 4094, 4095])) if rng.random() < 0.5 else some(0, 4096),
        "dv": dv,
        "bias_mant": some(-100, 400) if rng.random() < 0.5 else 0,
        "bias_exp": int(rng.integers(0, 3)),
        "v_init": some(-500, 300),
        "u_init": some(-50, 50),
        "v_min": some(-6000, 1) if rng.random() < 0.4 else None,
    }
    if rng.random() < 0.15:
        return neuron(**{**common, "fires_above": None, "v_min": None})
    several = rng.random() < 0.4
    n = neuron(
        **common,
        fires_above=some(0, 6000),
        reset=("zero", "subtract", "none")[int(rng.integers(3))],
        reset_amount=some(500, 4000),
        refractory_steps=some(0, 9) if rng.random() < 0.4 else 0,
        spike_size=some(1, 2000),
        max_spikes=int(rng.choice([2, 3, 5, 16])) if several else 1,
    )
    if several and rng.random() < 0.5:  # a soft reset by what a spike is worth
        n = replace(n, reset="subtract", reset_amount=n.spike_size)
    if rng.random() < 0.3:
        in_reset = n.reset == "subtract" and rng.random() < 0.5
        a = Adaptation(ints(some(0, 4096)), ints(some(0, 900)), ints(0), in_reset)
        n = replace(n, adaptation=a)
    return n


def samples(rng: np.random.Generator, module: NeuronModule) -> dict[str, Array]:
    """Inputs within their bounds, ``[samples, neurons]``, by the names of args: the least, the greatest and others."""
    found = {}
    for name, (low, high) in module.intervals.items():
        values = rng.integers(low, high, (SAMPLES, *SHAPE), endpoint=True)
        values = np.where(rng.random(values.shape) < 0.3, np.clip(values // 512, low, high), values)
        found[name] = np.where(rng.random(values.shape) < 0.2, rng.choice([low, high], values.shape), values)
    return found


def expected(module: NeuronModule, args: dict[str, Array]) -> dict[str, Array]:
    """The outputs of the module by the rule."""
    found = Evaluator(module.step, np, TYPES)(args)
    values = {f"{s.name}_next": found.state[s.name] for s in module.states} | {"sent": found.sent}
    values |= {f.name: found.variables[f.name.removeprefix("value_")] for f in module.variables}
    for s in module.states:
        low, high = module.intervals[f"state.{s.name}"]
        assert low <= values[f"{s.name}_next"].min(), s
        assert values[f"{s.name}_next"].max() <= high, s
    return {name: np.broadcast_to(x, (SAMPLES, *SHAPE)) for name, x in values.items()}


def packed(fields: list[Field], values: dict[str, Array]) -> Iterator[str]:
    """Hexadecimal words of all fields, the first one highest, a line for each sample and neuron."""
    flat = [values[f.name].reshape(-1) for f in fields]
    for row in zip(*flat, strict=True):
        word = 0
        for f, value in zip(fields, row, strict=True):
            word = word << f.bits | int(value) & (1 << f.bits) - 1
        yield f"{word:x}"


def bench(module: NeuronModule, rng: np.random.Generator, folder: Path) -> str:
    """A test bench that says which sample differs; ``enable`` is 0 in some clock cycles."""
    args = samples(rng, module)
    given = {name.removeprefix("state."): x for name, x in args.items()}
    given |= {f.name: np.broadcast_to(module.values[f.name], (SAMPLES, *SHAPE)) for f in module.parameters}
    inputs = [module.drive, *module.states, *module.parameters]
    outputs = [replace(s, name=f"{s.name}_next") for s in module.states] + [module.sent, *module.variables]
    lines = {"in": list(packed(inputs, given)), "out": list(packed(outputs, expected(module, args)))}
    for end, words in lines.items():
        (folder / f"{module.name}.{end}").write_text("\n".join(words))
    wide = {"in": sum(f.bits for f in inputs), "out": sum(f.bits for f in outputs)}
    wires = "".join(f"wire {f'[{f.bits - 1}:0]' if f.bits > 1 else ''} {f.name};\n" for f in [*inputs, *outputs])
    ports = ", ".join(f".{f.name}({f.name})" for f in [*inputs, *outputs])
    return f"""
module {module.name}_bench;
  reg clock = 0, enable = 0;
  reg [{wide["in"] - 1}:0] given [0:{len(lines["in"]) - 1}];
  reg [{wide["out"] - 1}:0] wanted [0:{len(lines["in"]) - 1}];
  {wires}
  assign {{{", ".join(f.name for f in inputs)}}} = given[at];
  {module.name} it (.clock(clock), .enable(enable), {ports});
  integer at = 0, draw = {int(rng.integers(1, 1 << 30))};
  initial begin
    $readmemh("{folder}/{module.name}.in", given);
    $readmemh("{folder}/{module.name}.out", wanted);
    while (at < {len(lines["in"])}) begin
      enable = $random(draw) & 3 ? 1 : 0;
      #1 clock = 1; #1 clock = 0;
      if (enable) at = at + 1;
      if (at >= {module.latency} && {{{", ".join(f.name for f in outputs)}}} !== wanted[at - {module.latency}])
        $display("{module.name} %0d: %h, not %h", at - {module.latency},
                 {{{", ".join(f.name for f in outputs)}}}, wanted[at - {module.latency}]);
    end
  end
endmodule
"""


def icarus(text: str, folder: Path) -> str:
    """What the benches of a text print."""
    source = folder / "all.v"
    source.write_text(text)
    subprocess.run([needs("iverilog"), "-g2005", "-o", folder / "all.vvp", source], check=True)
    return subprocess.run([folder / "all.vvp"], check=True, capture_output=True, text=True).stdout


def modules(rng: np.random.Generator, count: int) -> Iterator[NeuronModule]:
    """Modules of drawn neurons, the refused ones left out."""
    for k in range(count):
        reach = int(rng.choice([1, 100, 1 << 10, 1 << 14, 1 << 19]))
        drive = int(rng.integers(-reach, 1)), int(rng.integers(0, reach))
        yield neuron_module(f"p{k}_neuron", population("p", SHAPE, drawn(rng)), drive)


@pytest.mark.parametrize("first", cases(range(1), range(0, 20)))
def test_every_kind_equals_the_rule(first: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(first)
    found = list(modules(rng, 60))
    text = "\n".join(m.text + bench(m, rng, tmp_path) for m in found)
    assert icarus(text, tmp_path) == ""
    assert {m.sent.bits > 1 for m in found} == {True, False}
    names = {s.name for m in found for s in m.states}
    assert names == {"u", "v", "b", "refractory"}
    assert any(m.parameters for m in found)


def test_a_wrong_circuit_is_seen(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    m = neuron_module("p0_neuron", population("p", SHAPE, neuron(dv=125)), (-300, 500))
    wrong = replace(m, text=m.text.replace("= fires_above - v", "= fires_above + 14'sd3000 - v"))
    assert wrong.text != m.text
    assert "not" in icarus(wrong.text + bench(m, rng, tmp_path), tmp_path)


def test_the_text_is_clean(tmp_path: Path) -> None:
    """No warning of Verilator but those that the text waives."""
    needs("verilator")
    for m in modules(np.random.default_rng(5), 8):
        source = tmp_path / f"{m.name}.v"
        source.write_text(m.text)
        subprocess.run([needs("verilator"), "--lint-only", "-Wall", source], check=True)


def test_proved_intervals_leave_operations_out() -> None:
    """A decaying current of small inputs neither wraps nor saturates the membrane."""
    m = neuron_module("p0_neuron", population("p", SHAPE, neuron(du=1000, dv=500)), (-10, 10))
    assert m.removed == ("wrap of u", "upper saturation of v", "lower saturation of v")
    assert [s.bits for s in m.states] == [13, 16]
    wide = neuron_module("p0_neuron", population("p", SHAPE, neuron(du=1000, dv=0)), (-10, 10))
    assert wide.removed == ("wrap of u", "upper saturation of v")


def test_refusals() -> None:
    several = neuron(max_spikes=3, fires_above=-5)
    with pytest.raises(ModelError, match="Verilog has no negative spikes"):
        neuron_module("p0_neuron", population("p", SHAPE, several), (-3, 5))
    a = Adaptation(ints(4096), ints(5), ints(0))
    with pytest.raises(ModelError, match="nothing bounds its state b"):
        neuron_module("p0_neuron", population("p", SHAPE, replace(neuron(), adaptation=a)), (-3, 500))

"""The proof that a neuron in Verilog is its rule: yosys reads the text, bitwuzla decides for all inputs within bounds.

The rule's side is its terms in numbers so wide that nothing overflows, whatever the bounds say: it shares nothing with
the circuit but the rule. Claimed, too, is that the next states are within the bounds again, so that these always hold.
Solvers of bits cannot tell that two products of different shapes are equal. So a file has four parts, unsat each:

1. Of any number: sums of shifts are its products by constants.
2. The next states by the rule, with these sums, are within the bounds.
3. The products that the circuit computes are those of the rule.
4. All that it sends and keeps is what the rule makes of the circuit's products.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.emitters.artifact import Artifact
from nirbridge.emitters.ended_process import run_to_end
from nirbridge.emitters.verilog.neuron import Field, NeuronModule
from nirbridge.emitters.verilog.operations import signed_bits
from nirbridge.emitters.verilog.run import planned
from nirbridge.emitters.verilog.smt import LOGIC, SmtRule, width_of
from nirbridge.errors import FileError, ToolMissing
from nirbridge.files.atomic import write_new
from nirbridge.files.regular import read_own
from nirbridge.files.scratch import temporary_folder
from nirbridge.program.interval import Interval
from nirbridge.program.rewrites import inlined
from nirbridge.program.terms import Stepped, in_order

SECONDS = 120.0
"""Time for a proof."""
YOSYS_S = 120.0
SCRIPT = (
    "read_verilog {source}; hierarchy -check -top {name}; proc; flatten; opt_clean; "
    "write_smt2 -stbv -wires -tpl {rule} {proof}"
)
"""What yosys does with the text of a module and the template of ``proof_file``; all names are those of files."""


@dataclass(frozen=True, slots=True)
class Proved:
    """The outcome of a proof; ``counterexample``: inputs for which the circuit is not the rule or leaves its bounds."""

    module: str
    status: Literal["proved", "refuted", "unknown"]
    counterexample: Mapping[str, int]
    seconds: float


def prove_neuron(module: NeuronModule, *, seconds: float = SECONDS) -> Proved:
    """Decides whether the text of a module is its rule, for every input within the bounds.

    Raises:
        ToolMissing: yosys or bitwuzla is not installed.
        ModelError: yosys cannot read the text.
    """
    needed()
    start = time.process_time()
    status, found = "proved", {}
    for problem in problems(smt_text(module)):
        if status == "proved":
            status, found = _decided(problem, seconds)
    example = {key: found[key] for key in (f.name for f in _inputs(module)) if key in found}
    return Proved(module.name, status, example, time.process_time() - start)


def prove_program(artifact: Artifact, progress: Progress = no_progress) -> dict[str, str]:
    """By population of an emitted program: "proved", or why its neurons, as ``net.v`` has them, are not.

    Raises as ``prove_neuron``; FileError: a program whose manifest or ``net.v`` is damaged.
    """
    cores, text = planned(artifact).cores, artifact.files["net.v"].decode("utf-8", "replace")
    found: dict[str, str] = {}
    for k, core in enumerate(cores):
        progress(f"prove {core.id}", k / len(cores))
        made = prove_neuron(replace(core.neuron, text=_module_of(text, core.neuron.name)))
        values = ", ".join(f"{name} = {value}" for name, value in made.counterexample.items())
        words = {"unknown": f"not decided within {SECONDS:.0f} s", "refuted": f"refuted by {values}"}
        found[core.population.name] = words.get(made.status, made.status)
    return found


def _module_of(text: str, name: str) -> str:
    """The text of a module in a file of several."""
    found = re.search(rf"^module {re.escape(name)} .*?^endmodule$", text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise FileError.of("net.v", f"has no module {name}", "", "emit it again")
    return found[0] + "\n"


def needed() -> None:
    """Raises ToolMissing where yosys or bitwuzla is not installed."""
    if shutil.which("yosys") is None:
        raise ToolMissing.of("proof of a neuron", "yosys is not installed", "it reads the Verilog", "apt install yosys")
    if importlib.util.find_spec("bitwuzla") is None:
        raise ToolMissing.of("proof of a neuron", "bitwuzla is not installed", "it decides", "install nirbridge[prove]")


def smt_text(module: NeuronModule) -> str:
    """The whole problem, as any solver of bit vectors reads it: unsat is the proof."""
    with temporary_folder("verilog") as scratch:
        folder = Path(scratch)
        write_new(folder / "neuron.v", module.text.encode("ascii"))
        write_new(folder / "rule.smt2", proof_file(module).encode("ascii"))
        script = SCRIPT.format(source="neuron.v", name=module.name, rule="rule.smt2", proof="proof.smt2")
        run_to_end(["yosys", "-q", "-p", script], folder, YOSYS_S)
        return substituted(read_own(folder / "proof.smt2").decode("ascii"), module)


def substituted(text: str, module: NeuronModule) -> str:
    """The problem with registers put in as what the clock cycle before makes of them, where yosys says they are equal.

    Solvers then see the products of both sides as the same. A question of its own is that this is what yosys says.
    """
    name, state = re.escape(module.name), f"|{module.name}_s|"
    (bits,) = re.findall(rf"\(define-sort \|{name}_s\| \(\) \(_ BitVec (\d+)\)\)", text)
    places = {
        k: (int(low), int(high))
        for k, high, low in re.findall(rf"\|{name}#(\d+)\| .* \(\(_ extract (\d+) (\d+)\) state\)\) ;", text)
    }
    pairs = re.findall(rf"\(= \(\|{name}#(\d+)\| state\) \(\|{name}#(\d+)\| next_state\)\)", text)
    for k in range(module.latency):
        parts, end = list[str](), 0
        for (low, high), new in sorted((places[old], new) for new, old in pairs):
            parts += [f"((_ extract {low - 1} {end}) any{k + 1})"] * (low > end)
            parts.append(f"(|{module.name}#{new}| cycle{k})")
            end = high + 1
        parts += [f"((_ extract {int(bits) - 1} {end}) any{k + 1})"] * (int(bits) > end)
        define = f"(declare-const any{k + 1} {state})\n"
        define += f"(define-fun cycle{k + 1} () {state} (concat {' '.join(reversed(parts))}))"
        text = text.replace(f"(declare-const cycle{k + 1} {state})", define)
        text = text.replace(f"(assert (|{module.name}_t| cycle{k} cycle{k + 1}))\n", "")
    return text


def problems(text: str) -> Iterator[str]:
    """The questions of a file, each as a file of its own."""
    *parts, last = text.split(RESET)
    yield from parts
    head, *inner = last.split(PUSH)
    for k, part in enumerate(inner):
        inside, rest = part.split(POP)
        yield head + inside
        head += rest if k + 1 == len(inner) else ""
    yield head


def _decided(text: str, seconds: float) -> tuple[Any, dict[str, int]]:
    bitwuzla: Any = importlib.import_module("bitwuzla")
    options = bitwuzla.Options()
    options.set(bitwuzla.Option.PRODUCE_MODELS, True)
    options.set(bitwuzla.Option.TIME_LIMIT_PER, int(seconds * 1000))
    parser = bitwuzla.Parser(bitwuzla.TermManager(), options)
    parser.parse(text, True, False)
    solver = parser.bitwuzla()
    result = solver.check_sat()
    if result == bitwuzla.Result.UNSAT:
        return "proved", {}
    if result != bitwuzla.Result.SAT:
        return "unknown", {}
    values = {t.symbol(): solver.get_value(t).value(10) for t in parser.get_declared_funs()}
    wide = {t.symbol(): t.sort().bv_size() for t in parser.get_declared_funs() if t.symbol() in values}
    return "refuted", {key: _signed(int(x), wide[key]) for key, x in values.items()}


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


# -- the rule ------------------------------------------------------------------------------------------------------
# The template: the rule's side and the claim; yosys puts the circuit in place of its second line.

RESET, PUSH, POP = "(check-sat)\n(reset)\n", "(push 1)\n", "(check-sat)\n(pop 1)\n"
"""Between the parts of a file."""


def proof_file(module: NeuronModule) -> str:
    """The template of a proof, in SMT-LIB: yosys fills in the circuit (``SCRIPT``), and unsat is the proof."""
    step, states = inlined(module.step), [s.name for s in module.states]
    outputs = {f"{s}_next": step.state[s] for s in states} | {"sent": step.sent}
    outputs |= {f.name: step.variables[f.name.removeprefix("value_")] for f in module.variables}
    ports = [*(Field(f"{s.name}_next", s.bits, s.signed) for s in module.states), module.sent, *module.variables]
    given = {f.name: _bounds(module, f.name) for f in _inputs(module)} | _hidden(step, module)
    following = {s: term for s, term in step.state.items() if s in given}
    bits = {name: signed_bits(x) for name, x in given.items()}
    width = 1 + max(width_of([*following.values(), *outputs.values()], bits), *(f.bits for f in ports))
    rule = SmtRule(width)
    cut = SmtRule(width, {(p.of, p.factor): _port(module, p.wire, p.cycle, width) for p in module.products})
    lines, last = rule.lines([*following.values(), *outputs.values()]), cut.lines(list(outputs.values()))
    left = [f"(not {rule.within(end, given[s])})" for s, end in zip(following, rule.ends, strict=False)]
    seen = [_port(module, f, module.latency, width) for f in ports]
    different = [f"(distinct {end} {port})" for end, port in zip(cut.ends, seen, strict=True)]
    inputs = [f"(assert (= {f.name} {_port(module, f, 0, width)}))" for f in _inputs(module)]
    parts = [
        f"; {module.name} and its rule: the answers are unsat, as no inputs within the bounds tell them apart",
        *("; 1. sums of shifts as products", *rule.lemmas(), RESET),
        *("; 2. bounds of the next states", LOGIC, *rule.given(given), *_same(step, module), *lines, _any(left), RESET),
        *("; the circuit", LOGIC, "%%", *_cycles(module), *rule.given(given), *_same(step, module), *inputs),
        *(PUSH, f"(assert (not (|{module.name}_t| cycle0 cycle1)))", POP),
        *("; 3. its products, each from the one before", *_products(cut.wires, width)),
        *("; 4. its outputs", *last, _any(different), "(check-sat)"),
    ]
    return "\n".join(part.rstrip("\n") for part in parts) + "\n"


def _products(wires: Mapping[tuple[str, int | str], str], width: int) -> Iterator[str]:
    before = SmtRule(width)
    for (x, factor), wire in wires.items():
        product = before.product(x, factor)
        yield from (PUSH, *before.text, f"(assert (distinct {wire} {product}))", POP)
        before.text.clear()
        before.wires[x, factor] = wire


def _any(parts: Sequence[str]) -> str:
    return f"(assert (or false false {' '.join(dict.fromkeys(parts))}))"


def _hidden(step: Stepped, module: NeuronModule) -> dict[str, Interval]:
    """The bounds of what the rule reads and the circuit does not, since no value of it changes what happens."""
    own, found = {f.name for f in _inputs(module)}, {}
    for t in in_order(step.ends):
        name = t.name.removeprefix("state.")
        if t.op == "arg" and name not in own:
            found[name] = module.intervals[t.name]
        if t.op == "param" and name not in own and np.min(t.value) < np.max(t.value):
            found[name] = int(np.min(t.value)), int(np.max(t.value))
    return found


def _same(step: Stepped, module: NeuronModule) -> Iterator[str]:
    """The coefficients that only the rule reads and that are another one in every neuron."""
    for t in in_order(step.ends):
        for name, values in module.values.items():
            if t.op == "param" and t.name not in module.values and np.array_equal(t.value, values):
                yield f"(assert (= {t.name} {name}))"


def _inputs(module: NeuronModule) -> list[Field]:
    return [module.drive, *module.states, *module.parameters]


def _cycles(module: NeuronModule) -> Iterator[str]:
    """The circuit in its clock cycles, from any state of its registers on."""
    yield from (f"(declare-const cycle{k} |{module.name}_s|)" for k in range(module.latency + 1))
    for k in range(module.latency):
        yield f"(assert (|{module.name}_n enable| cycle{k}))"
        yield f"(assert (|{module.name}_t| cycle{k} cycle{k + 1}))"


def _bounds(module: NeuronModule, name: str) -> Interval:
    if name in module.values:
        return int(np.min(module.values[name])), int(np.max(module.values[name]))
    return module.intervals[name if name == "drive" else f"state.{name}"]


def _port(module: NeuronModule, f: Field, cycle: int, bits: int) -> str:
    """A port as a number; yosys makes one bit a truth value."""
    text = f"(|{module.name}_n {f.name}| cycle{cycle})"
    text = f"(ite {text} #b1 #b0)" if f.bits == 1 else text
    return f"((_ {'sign' if f.signed else 'zero'}_extend {bits - f.bits}) {text})"

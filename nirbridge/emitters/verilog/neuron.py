"""The neuron of a population as a pipeline in Verilog-2005, printed from its rule in the widths that are proved."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.emitters.verilog.operations import Operations, signed_bits
from nirbridge.emitters.verilog.pipeline import Pipeline
from nirbridge.errors import ModelError, counted, quoted
from nirbridge.program.interval import WIDEST, Interval, first_values, intervals, settled
from nirbridge.program.printing import ArrayLanguage, Printer
from nirbridge.program.rules import traced_step
from nirbridge.program.terms import LEAVES, Stepped, Term, in_order, is_truth
from nirbridge.quantization.model import FixedPopulation

CLOSER = 4
"""Time steps by which bounds come closer, after powers of two."""


@dataclass(frozen=True, slots=True)
class Field:
    """A signal: whole numbers in two's complement, or without a sign."""

    name: str
    bits: int
    signed: bool


@dataclass(frozen=True, slots=True)
class Product:
    """A wire that is a state times a factor, a number or a coefficient; ``cycle``: the clock cycle that computes it."""

    wire: Field
    of: str
    factor: int | str
    cycle: int


@dataclass(frozen=True, slots=True, eq=False)
class NeuronModule:
    """A module that computes one time step of a neuron of a population, and another one in every clock cycle.

    Attributes:
        name: of the module.
        text: the module in Verilog-2005.
        latency: clock cycles with ``enable`` from inputs to outputs, 1 at least.
        drive: the input, the sum of weighted spikes as the rule takes it.
        states: those that a time step reads: an input of that name and an output ``NAME_next`` each.
        parameters: inputs for coefficients that differ between neurons.
        values: the coefficients by parameter, int64 in the population's shape.
        sent: the output, what targets get: 0 or 1, a number of spikes, or v of a readout.
        variables: the outputs ``value_u`` and ``value_v`` as far as the neuron has them, for traces.
        removed: what the rule has and the proved intervals make superfluous, in words.
        step: the terms of the rule.
        intervals: proved intervals of drive and states, by the names of the args of ``step``.
        products: wires that a proof looks at one by one.
    """

    name: str
    text: str
    latency: int
    drive: Field
    states: tuple[Field, ...]
    parameters: tuple[Field, ...]
    values: Mapping[str, Array]
    sent: Field
    variables: tuple[Field, ...]
    removed: tuple[str, ...]
    step: Stepped
    intervals: Mapping[str, Interval]
    products: tuple[Product, ...]


def neuron_module(name: str, population: FixedPopulation, drive: Interval) -> NeuronModule:
    """The module of a population's neurons, whose summed inputs are within ``drive``.

    Raises:
        ModelError: several spikes with a threshold that can be below 0; a state that nothing bounds.
    """
    n = population.neuron
    rule = traced_step(n)
    bounds = _settled(rule, first_values(n, drive))
    values = intervals(rule, bounds)
    _check(population, bounds, values[id(rule.sent)])
    operations = Operations(values, bounds)
    step = operations.remade(rule)
    states = _read(step)
    traces = {f"value_{v}": step.variables[v] for v in ("u", "v") if v in step.variables}
    outputs = {f"{s}_next": step.state[s] for s in states}
    outputs |= {"sent": step.sent.args[0] if is_truth(step.sent) else step.sent, **traces}
    given = {t.name: t for t in in_order(list(outputs.values())) if t.op == "param"}
    fields = {key: field_of(key, operations.spans[id(t)]) for key, t in (given | outputs).items()}
    fields |= {s: field_of(s, bounds[f"state.{s}"]) for s in states}
    fields |= {f"{s}_next": Field(f"{s}_next", fields[s].bits, fields[s].signed) for s in states}
    fields["drive"] = field_of("drive", drive)
    pipeline = Pipeline(operations.spans, outputs, frozenset(traces))
    inputs = [fields[key] for key in ("drive", *states, *given)]
    writer = Writer(pipeline, {"clock", "enable", *outputs, *(f.name for f in inputs)})
    text = module_text(name, _comments(rule, operations.removed), writer, inputs, [fields[key] for key in outputs])
    coefficients = {key: freeze(np.broadcast_to(t.value, population.shape)) for key, t in given.items()}
    return NeuronModule(
        name, text, pipeline.latency, fields["drive"], tuple(fields[s] for s in states),
        tuple(fields[key] for key in given), coefficients, fields["sent"], tuple(fields[key] for key in traces),
        tuple(operations.removed), rule, bounds, tuple(_products(operations, writer)),
    )  # fmt: skip


def _products(operations: Operations, writer: Writer) -> Iterator[Product]:
    for term, x, factor in operations.products:
        if id(term) in writer.names:
            wire = Field(writer.names[id(term)], writer.pipeline.bits(term), signed=True)
            yield Product(wire, x.name.removeprefix("state."), factor, writer.pipeline.stage[id(term)])


def _settled(rule: Stepped, first: Mapping[str, Interval]) -> dict[str, Interval]:
    """``settled``, and closer: what one time step makes of bounds that none leaves are bounds that none leaves."""
    bounds = settled(rule, first)
    for _ in range(CLOSER):
        values = intervals(rule, bounds)
        reached = {f"state.{name}": values.get(id(t)) for name, t in rule.state.items()}
        for name, span in reached.items():
            if span is not None:  # time steps that are left have none
                low, high = first[name]
                bounds[name] = min(low, span[0]), max(high, span[1])
    return bounds


def _check(population: FixedPopulation, bounds: Mapping[str, Interval], sent: Interval) -> None:
    subject = f"population {quoted(population.name)}"
    if population.neuron.fires and sent[0] < 0:
        found = "several spikes in a time step, and a threshold below 0"
        raise ModelError.of(subject, found, "Verilog has no negative spikes", "raise its threshold")
    for name, bound in bounds.items():
        if max(map(abs, bound)) >= WIDEST:
            found, limit = f"nothing bounds its state {name.removeprefix('state.')}", "a circuit has a fixed width"
            raise ModelError.of(subject, found, limit, "give its threshold's adaptation a decay")


def _read(step: Stepped) -> list[str]:
    """The states that what is sent, the variables and these states read."""
    read: list[str] = []
    ends = [step.sent, *step.variables.values()]
    while True:
        terms = in_order([*ends, *(step.state[s] for s in read)])
        found = {t.name.removeprefix("state.") for t in terms if t.op == "arg" and t.name.startswith("state.")}
        if len(found) == len(read):
            return read
        read = [s for s in step.state if s in found]


def field_of(name: str, span: Interval) -> Field:
    """The narrowest signal that holds an interval."""
    low, high = span
    if low >= 0:
        return Field(name, max(1, high.bit_length()), False)
    return Field(name, signed_bits(span), True)


# -- text ----------------------------------------------------------------------------------------------------------

FORMS = {
    "up": "{} + $signed({{1'b0, {}}})", "carry": "$signed({{{}, 1'b1}}) + $signed({{{}, {}}})",
    "borrow": "$signed({{{}, 1'b0}}) - $signed({{{}, {}}})",
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "shl": "{} <<< {}", "shr": "{} >>> {}", "neg": "-{}",
    "and": "{} & {}", "not": "!{}", "where": "{} ? {} : {}",
}  # fmt: skip
WAIVED = (
    "/* verilator lint_off WIDTH */ // operands take the width of the wire that they make, which is proved",
    "/* verilator lint_off UNUSED */ // the sign of numbers that are never below 0",
)


def module_text(
    name: str, head: Iterable[str], writer: Writer, inputs: Sequence[Field], outputs: Sequence[Field]
) -> str:
    """The module of a pipeline, after lines of comments."""
    ports = ["input wire clock", "input wire enable", *(f"input wire {_declared(f)}" for f in inputs)]
    ports += [f"output reg {_declared(f)}" for f in outputs]
    lines = [f"// One time step of a neuron, in {counted(writer.pipeline.latency, 'clock cycle')} with enable:"]
    lines += head
    lines += [f"module {name} (", ",\n".join(f"    {p}" for p in ports), ");"]
    lines += [f"    {line}" for line in WAIVED]
    lines += [f"    {line}" if line else "" for line in _body(writer, inputs)]
    return "\n".join([*lines, "endmodule", ""])


def _comments(rule: Stepped, removed: Collection[str]) -> Iterator[str]:
    """The rule as it is stated, and what of it is left out."""
    printer = Printer(ArrayLanguage(_value_or_name))
    printer.write(rule.ends)
    yield from (f"//   {line.replace('np.', '')}" for line in printer.lines)
    yield from (f"// {f.name}: {f.doc.replace('`', '')}" for f in printer.functions.values())
    if removed:
        yield f"// Left out, since no input leads there: {', '.join(removed)}."


def _value_or_name(term: Term) -> str:
    is_one = term.op in ("const", "param") and np.size(term.value) == 1
    return str(int(term.value)) if is_one else term.name.removeprefix("state.")


def _declared(f: Field) -> str:
    sign = "signed " if f.signed else ""
    return f"{sign}[{f.bits - 1}:0] {f.name}" if f.bits > 1 or f.signed else f.name


def _body(writer: Writer, inputs: Sequence[Field]) -> Iterator[str]:
    pipeline = writer.pipeline
    yield from writer.constants()
    yield from writer.unsigned_inputs(inputs)
    for stage in range(pipeline.latency):
        yield from ("", f"// clock cycle {stage}")
        yield from writer.registers(stage)
        yield from writer.wires(stage)
    yield from ("", "always @(posedge clock) if (enable) begin")
    yield from (f"    {line}" for line in writer.assigned)
    for key, term in pipeline.outputs.items():
        yield f"    {key} <= {writer.at(term, pipeline.latency - 1)};"
    yield "end"


@dataclass(slots=True)
class Writer:
    """Names and statements of the terms of a pipeline; ``taken``: the names of ports."""

    pipeline: Pipeline
    taken: set[str]
    names: dict[int, str] = field(default_factory=dict)
    assigned: list[str] = field(default_factory=list)

    def _unique(self, base: str) -> str:
        name, number = base, 1
        while name in self.taken:
            number += 1
            name = f"{base}{number}"
        self.taken.add(name)
        return name

    def constants(self) -> Iterator[str]:
        """Coefficients that all neurons share."""
        terms = list(in_order(list(self.pipeline.outputs.values())))
        for t in terms:
            if t.op == "const" and t.name:
                self.names[id(t)] = self._unique(t.name)
                yield f"localparam {_typed(self.pipeline.bits(t), t)}{self.names[id(t)]} = {_literal(t)};"

    def unsigned_inputs(self, inputs: Sequence[Field]) -> Iterator[str]:
        """Names of inputs; those without a sign get one."""
        leaves = {t.name.removeprefix("state."): t for t in self.pipeline.terms if t.op in LEAVES}
        for f in inputs:
            if f.name not in leaves:
                continue
            term = leaves[f.name]
            self.names[id(term)] = f.name
            if not f.signed:
                self.names[id(term)] = name = self._unique(f"{f.name}_now")
                yield f"wire signed [{f.bits}:0] {name} = $signed({{1'b0, {f.name}}});"

    def wires(self, stage: int) -> Iterator[str]:
        """The operations of a stage."""
        for t in self.pipeline.terms:
            if self.pipeline.stage[id(t)] == stage and t.op not in LEAVES and not self.pipeline.is_part(t):
                self.names[id(t)] = self._unique(t.name)
                yield f"wire {_typed(self.pipeline.bits(t), t)}{self.names[id(t)]} = {self._expression(t, stage)};"

    def registers(self, stage: int) -> Iterator[str]:
        """What comes from the stage before."""
        for t in self.pipeline.terms:
            if self.pipeline.stage[id(t)] < stage <= self.pipeline.last_use(t):
                self.assigned.append(f"{self.at(t, stage)} <= {self.at(t, stage - 1)};")
                yield f"reg {_typed(self.pipeline.bits(t), t)}{self.at(t, stage)};"

    def at(self, term: Term, stage: int) -> str:
        """A term as a stage has it."""
        if term.op == "const":
            return self.names.get(id(term)) or _literal(term)
        if self.pipeline.is_part(term):
            return f"({self._expression(term, stage)})"
        later = stage - self.pipeline.stage[id(term)]
        return f"{self.names[id(term)]}_{stage}" if later else self.names[id(term)]

    def _expression(self, term: Term, stage: int) -> str:
        args = [self.at(a, stage) for a in term.args]
        if term.op == "sign":
            return f"{args[0]}[{self.pipeline.bits(term.args[0]) - 1}]"
        if term.op == "any":
            low = min(term.args[1].value, self.pipeline.bits(term.args[0]))  # more would be copies of the sign
            return f"|{args[0]}[{low - 1}:0]"
        if term.op == "bits":
            return f"$signed({{1'b0, {', '.join(args)}}})"
        if term.op in ("shl", "shr"):
            return FORMS[term.op].format(args[0], term.args[1].value)
        return FORMS[term.op].format(*args)


def _typed(bits: int, term: Term) -> str:
    return "" if term.kind == "bool" else f"signed [{bits - 1}:0] "


def _literal(term: Term) -> str:
    value = int(term.value)
    if term.kind == "bool":
        return f"1'b{value}"
    return f"{'-' * (value < 0)}{max(1, abs(value).bit_length()) + 1}'sd{abs(value)}"

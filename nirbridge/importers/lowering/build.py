"""Flow + forms -> Network: neurons by their framework's readers, all between them as linear operators or logic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, compact, freeze
from nirbridge.errors import Diagnostic, ModelError, quoted
from nirbridge.importers.lowering.analysis import (
    delayed,
    folding_text,
    input_notes,
    input_shapes,
    input_term,
    is_idle,
    leftover_states,
    mark_back_edges,
    named_ports,
    place_message,
    potential_alone,
    reshape_problems,
    scale_by,
    shared_timing,
    unknown_operation,
    with_given_start,
    without_spikes,
)
from nirbridge.importers.lowering.levels import STEPS_MAX, Levels, LevelsOf, joined, levels_of, total
from nirbridge.importers.lowering.lifted import (
    Lifted,
    Splits,
    merged_path,
    reshaped_neuron,
    with_logic_in_place,
    with_products_of_sums,
    with_replaced_pools,
    with_written_logic,
)
from nirbridge.importers.lowering.linear_layers import (
    ALL_LAYERS,
    Expression,
    Term,
    add_constant,
    apply_operator,
    concatenate,
    later,
    limit_terms,
    scale_expression,
    sum_expressions,
)
from nirbridge.importers.lowering.membranes import with_membranes
from nirbridge.importers.lowering.spike_logic import KINDS, Logic, is_safe, logic_of, logic_problem
from nirbridge.importers.module_checks import Deviation, sort_deviations
from nirbridge.importers.neuron_specs import (
    DataflowGraph,
    ImportedNeuron,
    NeuronSpec,
    NeuronSpecs,
    Operation,
    ValueRef,
    distinct,
    is_refused,
    neuron_spec_of,
)
from nirbridge.importers.tracing.pointwise import MAX, MIN, OTHER, PAIRS, PRODUCT, SAME
from nirbridge.network import Network, Population, Port, Projection, check_network
from nirbridge.network.graph import in_causal_order
from nirbridge.network.naming import fresh_name


def build_network(flow: DataflowGraph, forms: NeuronSpecs, dt: float, accept: Sequence[str] = ()) -> Network:
    """The network that a flow means.

    Args:
        flow: the data flow of one time step.
        forms: how neuron modules are read.
        dt: seconds per time step.
        accept: names of known deviations to accept (``module_checks.DEVIATIONS``).

    Raises:
        ModelError: every operation that cannot be represented.
    """
    flow = with_several_steps(with_products_of_sums(with_logic_in_place(flow), forms, dt), forms, dt)
    flow, specs = with_membranes(with_replaced_pools(flow, forms, dt, accept), forms, dt)
    return _NetworkBuilder(flow, specs, dt, accept).network()


class _NetworkBuilder:
    """Collects populations, projections, notes and problems of one flow."""

    def __init__(self, flow: DataflowGraph, forms: NeuronSpecs, dt: float, accept: Sequence[str]) -> None:
        self.flow, self.forms, self.dt, self.accept = flow, forms, dt, accept
        self.calls = {c.name: c for c in flow.calls}
        self.problems: list[Diagnostic] = list(flow.problems)
        self.notes: list[str] = [*flow.notes, *input_notes(flow)]
        self.readings: dict[str, ImportedNeuron] = {}
        self.expressions: dict[str, Expression] = {}
        self.spiking: set[str] = set()
        self.logic: dict[str, Logic] = {}
        self.levels = LevelsOf(self.calls, self.readings)
        self.given = input_shapes(flow)
        self.splits = Splits()
        refused = {c.subject for c in flow.calls if c.kind == "neuron" and is_refused(c.target, forms)}
        self._judge(d for d in flow.deviations if d.subject not in refused)  # to accept one would change nothing there

    def network(self) -> Network:
        for stage in (self._read, self._decide, self._check):
            for call in self.flow.calls:
                stage(call)
        ModelError.raise_all(distinct(self.problems))
        projections = [p for call in self.flow.calls if call.name in self.readings for p in self._into(call)]
        ports = self._ports()
        self._silence(ports)
        for port, ref in ports:
            projections += self._projections(self._value(ref), port)
        found = self.splits.lifted(projections, self._shapes(), self.problems)
        ModelError.raise_all(distinct(self.problems))
        return self._finished(found, [port for port, _ in ports])

    def _shapes(self) -> dict[str, Shape]:
        return {**self.given, **{name: self.calls[name].shape for name in self.readings}}

    def _finished(self, found: Lifted, ports: list[Port]) -> Network:
        shapes = {**self._shapes(), **found.shapes}
        populations = tuple(
            Population(name, shapes[name], reshaped_neuron(reading.neuron, shapes[name]))
            for name, reading in self.readings.items()
        )
        inputs = tuple(Port(c.name, shapes[c.name]) for c in self.flow.inputs)
        network = Network(
            self.dt,
            shared_timing(self.dt, populations),
            populations,
            tuple(mark_back_edges(list(found.projections))),
            inputs,
            tuple(ports),
            notes=tuple(dict.fromkeys([*self.notes, *found.notes(self.given)])),
            axes=self.flow.axes,
        )
        network = in_causal_order(network)
        check_network(network)
        return network

    # -- neurons -------------------------------------------------------------------------------------------------

    def _read(self, call: Operation) -> None:
        if call.kind != "neuron":
            return
        try:
            reading = self._form(call).read(call.target, call.shape, self.dt)
        except ModelError as error:
            self.problems += [replace(p, subject=place_message(call, p.subject)) for p in error.problems]
            return
        self.readings[call.name] = with_given_start(call, reading)
        left_over = leftover_states(call.target)
        self._judge(Deviation(name, call.subject, found) for name, found in reading.deviations)
        if left_over:
            names = ", ".join(quoted(name) for name in left_over)
            self.notes.append(f"{call.subject}: its state {names} is left over from a run: imported as after a reset")

    def _decide(self, call: Operation) -> None:
        """Logic of spikes as threshold populations."""
        logic = logic_of(call, self.levels) if call.kind in KINDS and not self._is_idle(call) else None
        if logic is None:
            return
        self.logic[call.name] = logic
        if logic.levels is not None:
            self.levels.decide(call.name, logic.levels)
        if logic.theta is not None:
            self.readings[call.name] = logic.reading()
            self.notes.append(logic.note(call))

    def _is_idle(self, call: Operation) -> bool:
        return call.kind == "relu" and is_idle(call, self.levels)

    def _judge(self, deviations: Iterable[Deviation]) -> None:
        problems, notes = sort_deviations(deviations, self.accept)
        self.problems += problems
        self.notes += notes

    def _form(self, call: Operation) -> NeuronSpec:
        form = neuron_spec_of(call.target, self.forms)
        if form is None:
            raise ModelError.of(
                call.subject, "its class is not supported", "", "replace it by a neuron of the framework"
            )
        return form

    def _check(self, call: Operation) -> None:
        """Kinds that nothing here represents, and states that go elsewhere than back."""
        if call.kind == "unknown":
            self.problems.append(unknown_operation(call))
        elif call.kind in KINDS and call.name not in self.logic and not self._is_idle(call):
            self.problems.append(logic_problem(call, self.levels))
        for ref in call.inputs:
            source = self.calls.get(ref.call)
            if source is not None and source.kind == "neuron" and ref.output:
                text = f"it works on a state of {quoted(source.path)}, not on its spikes"
                self.problems.append(Diagnostic(call.subject, text, "", "let neurons send spikes only"))

    # -- values ------------------------------------------------------------------------------------------------

    def _value(self, ref: ValueRef) -> Expression:
        e = self._value_now(self.calls[ref.call])
        return delayed(e, ref.previous, self.calls, self.readings, self.notes) if ref.previous else e

    def _value_now(self, call: Operation) -> Expression:
        if call.kind == "input":
            return Expression(call.shape, (input_term(call, self.given[call.name]),))
        if call.name in self.readings:
            term = Expression(call.shape, (Term(call.name, 0, call.shape),))
            if call.name in self.logic:
                return self.logic[call.name].value(term, self._operands(call), call.name)
            return scale_by(term, self.readings[call.name].scale_out, call.name)
        if call.name not in self.expressions:
            self.expressions[call.name] = self._computed(call)
        return self.expressions[call.name]

    def _operands(self, call: Operation) -> tuple[Expression, ...]:
        return tuple(self._value(ref) for ref in call.inputs)

    def _computed(self, call: Operation) -> Expression:
        inputs = self._operands(call)
        if call.name in self.logic:
            return self.logic[call.name].sum(inputs)
        if call.kind == "relu":
            return inputs[0]  # of spikes: ``_check`` lets no other pass
        if call.kind == "concat":
            return concatenate(call, inputs)
        if call.kind == "add":
            signed = [
                e if sign == 1 else scale_expression(e, sign, call.name)
                for e, sign in zip(inputs, call.arguments.get("signs", (1.0,) * len(inputs)), strict=True)
            ]
            return limit_terms(call, sum_expressions(signed))
        outcome = ALL_LAYERS[call.kind](call, inputs[0])
        if call.kind == "batch_norm":
            self.notes.append(f"{call.subject}: {folding_text(inputs[0], call, outcome)}")
        return outcome

    # -- projections ---------------------------------------------------------------------------------------------

    def _into(self, call: Operation) -> list[Projection]:
        if call.name in self.logic:
            return self._logic_projections(call)
        reading, e = self.readings[call.name], self._value(call.inputs[0])
        if reading.operator is not None:
            e = apply_operator(e, reading.operator, f"{call.name}_in")
        if reading.input_delay:
            reading = self.readings[call.name] = self._waiting(call, reading, e)
        e = later(add_constant(e, reading.bias), reading.input_delay)
        population = Population(call.name, call.shape, reading.neuron)
        projections = self._projections(e, population)
        for recurrence in reading.recurrences:
            feedback = Expression(call.shape, (Term(call.name, 1 + reading.input_delay, call.shape),))
            feedback = apply_operator(
                scale_by(feedback, reading.scale_out, call.name), recurrence.operator, f"{call.name}_rec"
            )
            projections += self._projections(add_constant(feedback, recurrence.bias), population)
        return projections

    def _waiting(self, call: Operation, reading: ImportedNeuron, e: Expression) -> ImportedNeuron:
        """The neuron with a first state that cancels the constant input of its first time step."""
        n = reading.neuron
        if e.constant is None or not np.any(e.constant):
            return reading
        if reading.input_delay != 1 or (n.has_synapse and bool(np.any(n.a_syn == 0))):
            found = "a constant input that acts a time step later, and a current without memory"
            self.problems.append(Diagnostic(call.subject, found, "", "leave out the bias before it"))
            return reading
        if n.has_synapse:
            return replace(reading, neuron=replace(n, i_init=compact(n.i_init - n.g_syn * e.constant / n.a_syn)))
        return replace(reading, neuron=replace(n, v_init=compact(n.v_init - n.g_mem * e.constant / n.a_mem)))

    def _logic_projections(self, call: Operation) -> list[Projection]:
        """Into a threshold population; a constant of the sum is part of the threshold."""
        e = limit_terms(call, self.logic[call.name].sum(self._operands(call)))
        reading = self.readings[call.name] = self.logic[call.name].reading(e.constant)
        return self._projections(replace(e, constant=None), Population(call.name, call.shape, reading.neuron))

    def _projections(self, e: Expression, target: Population | Port) -> list[Projection]:
        if e.shape != target.shape:
            text = f"values of shape {e.shape} reach neurons of shape {target.shape}"
            self.problems.append(Diagnostic(quoted(target.name), text, "", "make the shapes equal"))
            return []
        projections: list[Projection] = []
        for k, term in enumerate(e.terms):
            operator, nodes = merged_path(term, self.calls, self.given)
            self.splits.defer(term, reshape_problems(operator, nodes, term, self.calls))
            bias = freeze(e.constant, np.float64) if k == 0 and e.constant is not None and np.any(e.constant) else None
            delay = freeze(np.int64(term.delay))
            projections.append(Projection(term.source, target.name, operator, bias, delay, nodes=nodes))
        return projections

    # -- outputs -------------------------------------------------------------------------------------------------

    def _ports(self) -> list[tuple[Port, ValueRef]]:
        """One port for each value returned; states that come with spikes are only noted."""
        port_names: dict[ValueRef, str] = {}
        for output in self.flow.outputs:
            if not self._is_state(output.ref):
                port_names.setdefault(output.ref, output.name)
        for output in self.flow.outputs:
            if self._is_state(output.ref):
                self._state_output(output.name, output.ref, port_names)
        return named_ports(port_names, self.calls)

    def _is_state(self, ref: ValueRef) -> bool:
        return self.calls[ref.call].kind == "neuron" and ref.output > 0

    def _state_output(self, name: str, ref: ValueRef, returned: dict[ValueRef, str]) -> None:
        call = self.calls[ref.call]
        is_potential = ref.output == self._form(call).potential
        word = "membrane potential" if is_potential else "state"
        text = f"output {quoted(name)} of the module is the {word} of {quoted(call.path or call.name)}"
        is_used = any(r.call == ref.call for c in self.flow.calls for r in c.inputs)
        if any(r.call == ref.call for r in returned) or not is_potential or (is_used and returned):
            self.notes.append(f"{text}: not an output of the network, record v of population {quoted(call.name)}")
            return
        returned[ValueRef(ref.call)] = name
        self.spiking.add(call.name)

    def _silence(self, ports: list[tuple[Port, ValueRef]]) -> None:
        """A neuron whose membrane alone is returned, that never resets and sends spikes nowhere, becomes a readout."""
        used = {ref.call for call in self.flow.calls for ref in call.inputs}
        for name in sorted(self.spiking):
            reading = self.readings[name]
            if reading.neuron.reset != "none" or name in used or reading.recurrences:
                self.problems.append(potential_alone(self.calls[name]))
                continue
            self.readings[name] = without_spikes(reading)
            self.notes.append(f"population {quoted(name)}: a readout, its output is the membrane potential")


# -- several steps -------------------------------------------------------------------------------------------------
# Functions of spike counts that switch several times, as sums of functions that switch once each.
#
# Over whole numbers, ``s == 2`` is ``[s > 1.5] - [s > 2.5]``, and ``max(a, b)`` of counts is ``b`` and one step for
# each number that ``a - b`` may pass above 0. Each step becomes a threshold population (``lowering.spike_logic``), so
# the number of steps is the number of neurons per value, and few are taken.


def with_several_steps(flow: DataflowGraph, forms: NeuronSpecs, dt: float) -> DataflowGraph:
    """The flow with functions of few steps as sums of functions of one; all else as it is."""
    return with_written_logic(flow, forms, dt, KINDS, _written)


def _written(call: Operation, levels: LevelsOf, taken: set[str]) -> list[Operation]:
    """The operations that an operation becomes, the last one under its name; empty where it stays as it is."""
    inputs = [levels(ref) for ref in call.inputs]
    known = [one for one in inputs if one is not None]
    if len(known) < len(inputs):
        return []
    writer = Writer(call, taken)
    if call.kind == "max_pool":
        return writer.pooled(known[0], levels.calls[call.inputs[0].call].shape)
    if call.kind != "pair":
        return writer.stepped(known[0], call.inputs[0], call.arguments.get("of", _rectified))
    return _paired(writer, PAIRS[call.arguments["function"]], known[0], known[1])


def _paired(writer: Writer, meaning: str, x: Levels, y: Levels) -> list[Operation]:
    negative = y.scaled(-1.0)
    difference = None if negative is None else total(x, negative)
    a, b = writer.call.inputs
    if meaning in (MAX, MIN, SAME, OTHER) and difference is not None:
        if meaning in (SAME, OTHER):
            of: Any = (lambda d: (d == 0) * 1.0) if meaning == SAME else lambda d: (d != 0) * 1.0
            return writer.stepped(difference, writer.sum((a, b), (1.0, -1.0)), of)
        rest = ((b, 1.0),) if meaning == MAX else ((a, 1.0),)
        sign = 1.0 if meaning == MAX else -1.0
        return writer.stepped(
            difference, writer.sum((a, b), (1.0, -1.0)), lambda d: sign * _rectified(d), rest, joined((x, y))
        )
    if meaning == PRODUCT and (x.are_two or y.are_two):
        return _gated(writer, *((x, a, y, b) if y.are_two else (y, b, x, a)))
    return []


def _gated(writer: Writer, x: Levels, of_x: ValueRef, gate: Levels, of_gate: ValueRef) -> list[Operation]:
    """A count from 0 on times a value of 0 or another: the count above ``high`` where the gate is open, else 0."""
    if x.low != 0.0 or gate.low != 0.0:
        return []
    factor = x.high / gate.high
    opened = gate.scaled(factor)
    both = None if opened is None else total(x, opened)
    if both is None:
        return []
    summed = writer.sum((of_x, of_gate), (1.0, factor))
    return writer.stepped(both, summed, lambda s: gate.high * _rectified(s - x.high))


@dataclass(slots=True)
class Writer:
    """Writes the operations in place of ``call``."""

    call: Operation
    taken: set[str]
    found: list[Operation] = field(default_factory=list)

    def add(
        self, kind: str, inputs: Iterable[ValueRef], arguments: Any, name: str = "", word: str = "step", **more: Any
    ) -> ValueRef:
        """One operation; ``more``: its fields that are not those of the call; ``word``: for a name of its own."""
        name = name or fresh_name(f"{self.call.name}_{word}", self.taken)
        self.taken.add(name)
        self.found.append(replace(self.call, name=name, kind=kind, inputs=tuple(inputs), arguments=arguments, **more))
        return ValueRef(name)

    def sum(self, inputs: Sequence[ValueRef], signs: Sequence[float]) -> ValueRef:
        """A sum with factors."""
        return self.add("add", inputs, {"signs": tuple(signs)})

    def stepped(
        self,
        x: Levels,
        ref: ValueRef,
        of: Callable[[Array], Array],
        rest: Sequence[tuple[ValueRef, float]] = (),
        result: Levels | None = None,
    ) -> list[Operation]:
        """``of(x)`` and ``rest``, values with a factor each; empty where ``of`` has too many steps.

        ``result``: the levels of the sum where there is a rest.
        """
        points, function = np.asarray(of(x.points), np.float64), self.call.arguments.get("function", self.call.kind)
        word = {"function": function, "of": of}
        if not bool(np.all(np.isfinite(points))) or not is_safe(replace(self.call, arguments=word), x, points):
            return []
        slopes = np.diff(points) / x.step
        switches = [(float(s), np.flatnonzero(slopes != s)) for s in (0.0, *np.unique(slopes))]
        slope, places = min(switches, key=lambda pair: len(pair[1]))
        if not (1 if self.call.kind == "pair" else 2) <= len(places) <= STEPS_MAX:
            return []
        parts = [*rest, *([(ref, slope)] if slope else [])]
        shift = float(points[0] - slope * x.low)
        for number, place in enumerate(places, 1):
            border, jump = x.low + x.step * (int(place) + 0.5), float((slopes[place] - slope) * x.step)
            text = f"{function.strip('_')}, step {number} of {len(places)}"
            source, sign = ref, 1.0
            if border < 0:  # the opposite, which is silent where nothing arrives
                source, sign, shift = self.add("scale", (ref,), {"factor": np.asarray(-1.0)}), -1.0, shift + jump
            above = self.add("pointwise", (source,), {"function": text, "of": _above(sign * border)})
            parts.append((above, sign * jump))
        levels = result or levels_of(points)
        self.put_together(parts, shift, {} if levels is None else {"levels": levels})
        return self.found

    def put_together(self, parts: Sequence[tuple[ValueRef, float]], shift: float, known: dict[str, Any]) -> None:
        """The sum of the parts and a constant under the name of the call."""
        (whole, sign), *others = parts
        for k, (ref, factor) in enumerate(others):
            is_last = k == len(others) - 1 and shift == 0.0
            signs = {"signs": (sign, factor), **(known if is_last else {})}
            whole, sign = self.add("add", (whole, ref), signs, name=self.call.name if is_last else ""), 1.0
        if shift:
            constant = freeze(np.asarray(shift))
            self.add("shift", (whole,), {"constant": constant, "sign": sign, **known}, name=self.call.name)
        elif not others:
            self.add("scale", (whole,), {"factor": np.asarray(sign), **known}, name=self.call.name)

    def pooled(self, x: Levels, shape: Shape) -> list[Operation]:
        """A maximum over windows of values of ``shape``: of each step of the values by itself, then their sum."""
        if not 3 <= x.count <= STEPS_MAX + 1 or self.call.arguments.get("function") == "prod":
            return []
        parts: list[tuple[ValueRef, float]] = []
        ref = self.call.inputs[0]
        for number in range(1, x.count):
            step = _above(x.low + x.step * (number - 0.5))
            word = {"function": f"step {number} of {x.count - 1} of a maximum", "of": step}
            above = self.add("pointwise", (ref,), word, shape=shape)
            parts.append((self.add("max_pool", (above,), {**self.call.arguments}), x.step))
        self.put_together(parts, x.low, {"levels": x})
        return self.found


def _rectified(points: Array) -> Array:
    return np.maximum(points, 0.0)


def _above(border: float) -> Callable[[Array], Array]:
    return lambda points: np.asarray(points > border, np.float64)

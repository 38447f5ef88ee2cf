"""Flow + forms -> Network: neurons by their framework's readers, everything between them as linear operators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import freeze
from nirbridge.errors import Diagnostic, ModelError, quoted
from nirbridge.importers.lowering.analysis import (
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
from nirbridge.importers.lowering.levels import LevelsOf
from nirbridge.importers.lowering.lifted import Lifted, Splits, merged_path, reshaped_neuron, with_replaced_pools
from nirbridge.importers.lowering.linear_layers import (
    ALL_LAYERS,
    Expression,
    Term,
    add_constant,
    apply_operator,
    concatenate,
    limit_terms,
    scale_expression,
    sum_expressions,
)
from nirbridge.importers.lowering.several_steps import with_several_steps
from nirbridge.importers.lowering.spike_logic import KINDS, Logic, logic_of, logic_problem
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
from nirbridge.network import Network, Population, Port, Projection, check_network
from nirbridge.network.graph import in_causal_order


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
    flow = with_replaced_pools(with_several_steps(flow, forms, dt), forms, dt, accept)
    return _NetworkBuilder(flow, forms, dt, accept).network()


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
        call = self.calls[ref.call]
        if call.kind == "input":
            return Expression(call.shape, (input_term(call, self.given[call.name], int(ref.previous)),))
        if call.name in self.readings:
            term = Expression(call.shape, (Term(call.name, int(ref.previous), call.shape),))
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
        reading = self.readings[call.name]
        e = self._value(call.inputs[0])
        if reading.operator is not None:
            e = apply_operator(e, reading.operator, f"{call.name}_in")
        e = add_constant(e, reading.bias)
        population = Population(call.name, call.shape, reading.neuron)
        projections = self._projections(e, population)
        for recurrence in reading.recurrences:
            feedback = Expression(call.shape, (Term(call.name, 1, call.shape),))
            feedback = apply_operator(
                scale_by(feedback, reading.scale_out, call.name), recurrence.operator, f"{call.name}_rec"
            )
            projections += self._projections(add_constant(feedback, recurrence.bias), population)
        return projections

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
            self.problems += self.splits.without(term, operator, reshape_problems(operator, nodes, term, self.calls))
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
        spikes = [r for r in returned if r.call == ref.call]
        word = "membrane potential" if is_potential else "state"
        text = f"output {quoted(name)} of the module is the {word} of {quoted(call.path or call.name)}"
        is_used = any(r.call == ref.call for c in self.flow.calls for r in c.inputs)
        if spikes or not is_potential or (is_used and returned):
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

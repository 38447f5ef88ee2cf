"""``lif(pool(conv))`` as ``pool(lif(conv))``: a maximum of currents after its neuron, where the user accepts that.

A maximum of currents is no threshold, a maximum of spikes is one (``lowering.spike_logic``). The replacement computes
something else: every neuron of a window integrates its own current, and the window spikes when one of them does. It is
an accepted deviation (``deviations.REPLACED_MAXPOOL``), which the self-check measures.

The maximum of the spikes takes the name of the neuron, so that all readers of the neuron's output read it, and the
self-check compares it with the neuron of the module.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from nirbridge.errors import Diagnostic, ModelError, counted, quoted
from nirbridge.importers.dataflow import DataflowGraph, Operation, ValueRef
from nirbridge.importers.deviations import REPLACED_MAXPOOL, Deviation
from nirbridge.importers.lowering.analysis import is_idle
from nirbridge.importers.lowering.levels import LevelsOf
from nirbridge.importers.lowering.spike_logic import KINDS, logic_of
from nirbridge.importers.neuron_specs import ImportedNeuron, NeuronSpecs, neuron_spec_of
from nirbridge.network.naming import fresh_name
from nirbridge.network.operators import Scale

_BETWEEN = frozenset({"batch_norm", "scale", "shift"})
"""Operations that may stand between the maximum and its neuron, where they let the largest value be the largest."""


def with_replaced_pools(flow: DataflowGraph, forms: NeuronSpecs, dt: float, accept: Sequence[str]) -> DataflowGraph:
    """The flow with every maximum of currents that can be moved after its neuron, each an accepted deviation.

    A maximum that cannot be moved stays, with a problem that says why. Without ``replaced-maxpool`` among the accepted
    deviations the flow is returned as it is.
    """
    if REPLACED_MAXPOOL not in accept:
        return flow
    problems: dict[str, Diagnostic] = {}
    while True:
        found = _Maxima(flow, forms, dt)
        name = next((name for name in reversed(found.of_currents()) if name not in problems), None)
        if name is None:
            return replace(flow, problems=(*flow.problems, *problems.values()))
        chain = found.to_neuron(name)
        reason = found.problem(chain)
        if reason:
            problems[name] = _refusal(chain, *reason)
        else:
            flow = _moved(flow, chain)


class _Maxima:
    """The maxima of a flow, and what is known of their operands and readers."""

    def __init__(self, flow: DataflowGraph, forms: NeuronSpecs, dt: float) -> None:
        self.flow, self.calls = flow, {c.name: c for c in flow.calls}
        self.readings = dict(readings_of(flow, forms, dt))
        self.levels = LevelsOf(self.calls, self.readings)

    def of_currents(self) -> list[str]:
        """Names of the maxima over values that are not provably 0 or 1."""
        names: list[str] = []
        for call in self.flow.calls:
            does_nothing = call.kind == "relu" and is_idle(call, self.levels)
            logic = logic_of(call, self.levels) if call.kind in KINDS and not does_nothing else None
            if logic is not None and logic.levels is not None:
                self.levels.decide(call.name, logic.levels)
            elif logic is None and call.kind == "max_pool" and not call.arguments.get("is_least"):
                names.append(call.name)
        return names

    def to_neuron(self, name: str) -> tuple[Operation, ...]:
        """The maximum, what stands between, and the first call that is none of these, up to where the way forks."""
        chain = [self.calls[name]]
        while chain[-1].kind in _BETWEEN or len(chain) == 1:
            readers = self._readers(chain[-1])
            if len(readers) != 1 or readers[0] is chain[-1]:
                break
            chain.append(readers[0])
        return tuple(chain)

    def _readers(self, call: Operation) -> list[Operation]:
        """The calls that read a call; itself, once more, where the module returns its value."""
        readers = [c for c in self.flow.calls for ref in c.inputs if ref.call == call.name]
        return readers + [call for output in self.flow.outputs if output.ref.call == call.name]

    def problem(self, chain: Sequence[Operation]) -> tuple[str, str] | None:
        """Why a maximum cannot be moved after its neuron, and what to do; None where it can."""
        last = chain[-1]
        if last.kind in _BETWEEN or len(chain) == 1:
            return "its values are not read by one neuron module alone", "give them to one neuron module only"
        if last.kind != "neuron":
            return "its values reach another layer, not a neuron", "put the pool directly in front of the neuron"
        if any(not _keeps_order(call) for call in chain[1:-1]):
            found = "what is between them has factors that are not above 0, or is not one number per channel"
            return found, "put the pool directly in front of the neuron"
        return self._neuron_problem(last)

    def _neuron_problem(self, neuron: Operation) -> tuple[str, str] | None:
        reading = self.readings.get(neuron.name)
        if reading is None:
            return "its neuron cannot be imported", "see the other problems"
        read = [ref for c in self.flow.calls for ref in c.inputs]
        returned = [output.ref for output in self.flow.outputs]
        has_values = any(not ref.output or self.calls[ref.call].kind != "neuron" for ref in returned)
        if any(_is_state(ref, neuron) for ref in (read if has_values else [*read, *returned])):
            return "a state of its neuron is read, or returned alone", "let the neuron give its spikes"
        is_alone = all(isinstance(recurrence.operator, Scale) for recurrence in reading.recurrences)
        if not is_alone or reading.operator is not None:
            return (
                "its neurons have weights among them or on their input",
                "use a neuron without recurrent or input weights",
            )
        levels = self.levels(ValueRef(neuron.name))
        if levels is None or not levels.are_two:
            return "the outputs of its neuron are not 0 or 1", "use a neuron that spikes at most once per time step"
        return None


def readings_of(flow: DataflowGraph, forms: NeuronSpecs, dt: float) -> Iterator[tuple[str, ImportedNeuron]]:
    """The neurons that can be read; the builder says why others cannot."""
    for call in flow.calls:
        form = neuron_spec_of(call.target, forms) if call.kind == "neuron" else None
        if form is not None:
            try:
                yield call.name, form.read(call.target, call.shape, dt)
            except ModelError:
                continue


def _is_state(ref: ValueRef, neuron: Operation) -> bool:
    return ref.call == neuron.name and ref.output > 0


def _keeps_order(call: Operation) -> bool:
    """True for an operation on each channel by itself, with which larger values stay larger."""
    a = call.arguments
    if call.kind == "batch_norm":
        return a["weight"] is None or bool(np.all(np.asarray(a["weight"]) > 0))
    if call.kind == "scale":
        factor = np.asarray(a["factor"])
        return factor.size == 1 and bool(np.all(factor > 0))
    return np.asarray(a["constant"]).size == 1 and a["sign"] > 0


def _refusal(chain: Sequence[Operation], found: str, step: str) -> Diagnostic:
    place = f" after {quoted(chain[-1].path or chain[-1].name)}" if chain[-1].kind == "neuron" else ""
    limit = "a maximum is moved after one neuron module that reads it alone"
    return Diagnostic(chain[0].subject, f"it cannot be moved{place}: {found}", limit, step)


def _moved(flow: DataflowGraph, chain: Sequence[Operation]) -> DataflowGraph:
    """The flow with the maximum ``chain[0]`` of the spikes of the neuron ``chain[-1]``."""
    pool, neuron = chain[0], chain[-1]
    operand = {c.name: c for c in flow.calls}[pool.inputs[0].call]
    ref, changed = pool.inputs[0], dict[str, tuple[Operation, ...]]({pool.name: ()})
    for call in chain[1:-1]:
        changed[call.name] = (replace(call, inputs=(ref,), shape=operand.shape),)
        ref = ValueRef(call.name)
    name = fresh_name(f"{neuron.name}_unpooled", {c.name for c in flow.calls} | {o.name for o in flow.outputs})
    spikes = replace(neuron, name=name, inputs=(ref,), shape=operand.shape)
    maximum = replace(pool, name=neuron.name, inputs=(ValueRef(name),))
    changed[neuron.name] = (spikes, maximum)
    calls = tuple(new for call in flow.calls for new in changed.get(call.name, (call,)))
    sizes = f"{counted(math.prod(spikes.shape), 'neuron')} in place of {math.prod(neuron.shape):,}"
    states = [replace(o, ref=replace(o.ref, call=name)) if _is_state(o.ref, neuron) else o for o in flow.outputs]
    found = f"its maximum of currents is taken of the spikes of {quoted(neuron.path or neuron.name)}, {sizes}"
    deviations = (*flow.deviations, Deviation(REPLACED_MAXPOOL, pool.subject, found))
    return replace(flow, calls=calls, outputs=tuple(states), deviations=deviations)

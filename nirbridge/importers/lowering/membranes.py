"""Membranes of neurons that fire, as outputs: a readout beside the neurons, whose membrane their spikes reset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.importers.by_hand.spec import OwnNeuron, own_specs
from nirbridge.importers.lowering.analysis import with_given_start, without_spikes
from nirbridge.importers.lowering.lifted import readings_of
from nirbridge.importers.neuron_specs import (
    DataflowGraph,
    ImportedNeuron,
    NeuronSpecs,
    Operation,
    ValueRef,
    neuron_spec_of,
)
from nirbridge.network.naming import fresh_name


def with_membranes(flow: DataflowGraph, forms: NeuronSpecs, dt: float) -> tuple[DataflowGraph, NeuronSpecs]:
    """The flow with a readout for each membrane that is returned without the spikes, and the neuron classes in it.

    With ``v = a v + g x`` and a subtraction of ``c`` per spike, the readout is given ``x - (c / g) z`` (membranes after
    the reset), or ``x - (a c / g) z`` with the spikes z of the previous time step (before it). Membranes that a spike
    sets to a value are products of both, so there is none for them; nor is one needed where spikes are unused.
    """
    calls, readings = {call.name: call for call in flow.calls}, dict(readings_of(flow, forms, dt))
    used = {ref.call for call in flow.calls for ref in call.inputs}
    added: list[Operation] = []
    renamed: dict[ValueRef, ValueRef] = {}
    for ref in _alone(flow, forms, used):
        call, reading = calls[ref.call], readings.get(ref.call)
        if reading is not None and _is_linear(reading) and (reading.neuron.reset != "none" or call.name in used):
            added += _readout(call, reading, {*calls, *(one.name for one in added)})
            renamed[ref] = ValueRef(added[-1].name)
    if not added:
        return flow, forms
    outputs = tuple(replace(output, ref=renamed.get(output.ref, output.ref)) for output in flow.outputs)
    notes = (f"population {ref.call!r}: the readout of the membrane of {old.call!r}" for old, ref in renamed.items())
    return replace(flow, calls=(*flow.calls, *added), outputs=outputs, notes=(*flow.notes, *notes)), own_specs(forms)


def _alone(flow: DataflowGraph, forms: NeuronSpecs, used: set[str]) -> Iterator[ValueRef]:
    """Membranes that are returned without the spikes; of neurons in front of others, as the only output."""
    refs = dict.fromkeys(output.ref for output in flow.outputs)
    neurons = {call.name: neuron_spec_of(call.target, forms) for call in flow.calls if call.kind == "neuron"}
    for ref in refs:
        form = neurons.get(ref.call)
        is_alone = ValueRef(ref.call) not in refs and not (ref.call in used and len(refs) > 1)
        if form is not None and ref.output > 0 and ref.output == form.potential and is_alone:
            yield ref


def _is_linear(reading: ImportedNeuron) -> bool:
    """True if the membrane is a sum of inputs and spikes."""
    n = reading.neuron
    more = (reading.operator, reading.bias, reading.scale_out, n.v_min, n.adaptation)
    is_plain = all(part is None for part in more) and not (reading.recurrences or reading.input_delay)
    is_summed = n.reset == "none" or (n.reset == "subtract" and bool(reading.membrane) and not n.has_synapse)
    return bool(is_plain and is_summed and not np.any(n.refractory_steps) and np.all(n.g_mem != 0))


def _readout(call: Operation, reading: ImportedNeuron, taken: set[str]) -> list[Operation]:
    """The operations of a readout, itself last."""
    n, is_before = reading.neuron, reading.membrane == "u"
    name = fresh_name(f"{call.name}_membrane", taken)
    inputs = call.inputs

    def written(kind: str, number: int, refs: tuple[ValueRef, ...], **arguments: Any) -> Operation:
        shape: Shape = call.shape
        return Operation(f"{name}_{number}", call.path, kind, None, refs, MappingProxyType(arguments), shape)

    operations: list[Operation] = []
    if n.reset == "subtract":
        factor = -n.reset_amount / n.g_mem * (n.a_mem if is_before else 1.0)
        operations = [written("scale", 0, (ValueRef(call.name, 0, is_before),), factor=factor)]
        operations += [written("add", 1, (*call.inputs, ValueRef(f"{name}_0")))]
        inputs = (ValueRef(f"{name}_1"),)
    quiet = replace(without_spikes(with_given_start(call, reading)).neuron, reset="none")
    target = OwnNeuron(call.path, "", quiet)
    return [*operations, Operation(name, call.path, "neuron", target, inputs, shape=call.shape)]

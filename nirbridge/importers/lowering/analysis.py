"""Helpers of the network builder: initial states, ports, back edges, shared timing, values that are never negative."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.errors import Diagnostic, quoted
from nirbridge.importers.dataflow import Operation, ValueRef
from nirbridge.importers.lowering.levels import LevelsOf
from nirbridge.importers.lowering.linear_layers import Expression, per_channel_values, scale_expression
from nirbridge.importers.neuron_specs import ImportedNeuron, as_float64
from nirbridge.importers.torch_apply import torch_apply
from nirbridge.importers.tracing.advice import advice_on
from nirbridge.importers.tracing.run import one_thread
from nirbridge.network import Population, Port, Projection, Timing
from nirbridge.network.graph import closure
from nirbridge.network.naming import fresh_name
from nirbridge.network.operators import Conv, Dense


def place_message(call: Operation, subject: str) -> str:
    """A message of a reader, with the place."""
    return call.subject if not call.path or quoted(call.path) in subject else f"{call.subject} ({subject})"


def scale_by(e: Expression, factor: Array | float | None, name: str) -> Expression:
    """The expression times a factor; unchanged if that is None or 1."""
    if factor is None or bool(np.all(np.asarray(factor) == 1)):
        return e
    return scale_expression(e, factor, f"{name}_scale")


_STATES = ("mem", "syn", "spk", "v", "i", "z", "v_mem", "i_syn", "vmem", "isyn", "spikes")
"""Attributes in which neurons of the frameworks keep their states."""
LEFT_OVER = "_nirbridge_left_over"
"""Attribute that lists such states on a copy from which an importer removed them."""


def leftover_states(module: Any) -> list[str]:
    """States of a neuron module that are not those of a fresh one (which starts at 0, or where its reset leaves it)."""
    fresh = getattr(module, "_memories_rv", None) or {}  # spikingjelly's values after a reset
    names: list[str] = list(getattr(module, LEFT_OVER, ()))
    for name in _STATES:
        value: Any = getattr(module, name, None)
        start = fresh.get(name, 0.0)
        is_state = hasattr(value, "detach") and not (value.is_leaf and value.requires_grad)
        if is_state and isinstance(start, int | float) and bool(np.any(as_float64(value) != start)):
            names.append(name)
    return names


def with_given_start(call: Operation, reading: ImportedNeuron) -> ImportedNeuron:
    """The neuron as forward starts it: from zeros where it passes these, else from its own initial state."""
    if not call.arguments.get("starts_at_zero") or not bool(np.any(reading.neuron.v_init != 0)):
        return reading
    return replace(reading, neuron=replace(reading.neuron, v_init=freeze(np.float64(0))))


def unknown_operation(call: Operation) -> Diagnostic:
    """The problem of a function that a network cannot contain, with a hint."""
    reason, advice = advice_on(call.arguments["function"])
    found = f"{call.arguments['function']}: {call.arguments.get('reason') or reason}"
    return Diagnostic(call.subject, found, "", call.arguments.get("hint") or advice)


def potential_alone(call: Operation) -> Diagnostic:
    """The problem of a neuron that fires and of which the module returns the membrane potential only."""
    found, limit = "the module returns its membrane potential, not its spikes", "a neuron that fires outputs its spikes"
    hint = "return the spikes, alone or beside the potential, or use a readout that never resets and drives no neuron"
    return Diagnostic(call.subject, found, limit, hint)


def without_spikes(reading: ImportedNeuron) -> ImportedNeuron:
    """A neuron that never resets as an integrator whose output is its potential."""
    record = reading.neuron
    kind = "CubaLI" if record.has_synapse else "LI"
    zero = freeze(np.float64(0))
    quiet = replace(record, kind=kind, theta=None, reset_amount=zero, compare=">", max_spikes=1)
    return replace(reading, neuron=quiet, scale_out=None)


def named_ports(port_names: Mapping[ValueRef, str], calls: Mapping[str, Operation]) -> list[tuple[Port, ValueRef]]:
    """A port with a name of its own for each value that is returned."""
    taken = set(calls)
    out: list[tuple[Port, ValueRef]] = []
    for ref, name in port_names.items():
        port = fresh_name("output" if len(port_names) == 1 else f"output_{name}", taken)
        taken.add(port)
        out.append((Port(port, calls[ref.call].shape), ref))
    return out


def mark_back_edges(projections: list[Projection]) -> list[Projection]:
    """Delayed projections that close a cycle become back edges."""
    arcs = [(p.source, p.target) for p in projections]
    return [
        replace(p, is_back=True) if p.max_delay_steps and p.source in closure([p.target], arcs) else p
        for p in projections
    ]


def shared_timing(dt: float, populations: tuple[Population, ...]) -> Timing:
    """The choices that most populations share are the graph's; the others stand at their nodes."""
    firing = [p.neuron for p in populations if p.neuron.fires]
    resets = [n.reset for n in firing] or ["to-value"]
    compares = [n.compare for n in firing] or [">"]
    reset: Any = max(dict.fromkeys(resets), key=resets.count)
    compare: Any = max(dict.fromkeys(compares), key=compares.count)
    return Timing(dt, "euler", reset, compare, "per-second")


_KEEPING = frozenset({"avg_pool", "reshape", "gather", "concat", "relu"})


def is_idle(call: Operation, levels: LevelsOf) -> bool:
    """True for a ReLU of what is never negative."""
    proved = levels(call.inputs[0])
    if proved is not None:
        return proved.low >= 0.0
    return never_negative(call.inputs[0], levels.calls, levels.readings)


def never_negative(ref: ValueRef, calls: Mapping[str, Operation], readings: Mapping[str, ImportedNeuron]) -> bool:
    """True for spikes, and for sums, means and selections of them."""
    call, reading = calls[ref.call], readings.get(ref.call)
    if call.kind == "relu":
        return True
    if reading is not None and call.kind == "neuron":  # logic of spikes may be negative
        worth = 1.0 if reading.scale_out is None else reading.scale_out
        return reading.neuron.fires and ref.output == 0 and bool(np.all(np.asarray(worth) >= 0))
    signs: tuple[float, ...] = call.arguments.get("signs", ()) if call.kind == "add" else ()
    factor = call.arguments["factor"] if call.kind == "scale" else 0.0
    keeps = call.kind in _KEEPING or call.kind in ("add", "scale")
    if not keeps or any(sign < 0 for sign in signs) or bool(np.any(np.asarray(factor) < 0)):
        return False
    return all(never_negative(inner, calls, readings) for inner in call.inputs)


_PROBES = 2
_SEED = 20_240_901


def folding_text(before: Expression, call: Operation, after: Expression) -> str:
    """A note on how a BatchNorm was folded; ``after`` is ``before`` with it."""
    if not any(t.parts and isinstance(t.parts[-1], Dense | Conv) for t in before.terms):
        return "BatchNorm as one factor and one constant per channel"
    largest, share = folding_difference(before, call, after)
    figure = f"on random inputs the result is off by {largest:.1e} at most, {share:.1e} of the largest value"
    return f"BatchNorm folded into the weights before it, rounded to float32: {figure}"


def folding_difference(before: Expression, call: Operation, after: Expression) -> tuple[float, float]:
    """Largest absolute difference between the folded weights' results and the layers', and its share of the largest.

    Both in float32, on numbers from -1 to 1 at the inputs of the weights that were folded.
    """
    source = np.random.default_rng(_SEED)
    layers, folded = np.zeros((_PROBES, *before.shape), np.float32), np.zeros((_PROBES, *after.shape), np.float32)
    for old, new in zip(before.terms, after.terms, strict=True):
        if old.parts and isinstance(old.parts[-1], Dense | Conv):
            probe = source.uniform(-1, 1, (_PROBES, *old.parts[-1].input_shape)).astype(np.float32)
            with one_thread():
                layers += torch_apply(old.parts[-1], probe)
                folded += torch_apply(new.parts[-1], probe)
    target = _normalized(call, layers + _float32(before.constant))
    size = float(np.max(np.abs(target), initial=0.0))
    largest = float(np.max(np.abs(folded + _float32(after.constant) - target), initial=0.0))
    return largest, largest / size if size else 0.0


def _normalized(call: Operation, x: Array) -> Array:
    """The output of the layer itself, in float32."""
    a, shape = call.arguments, x.shape[1:]
    mean, variance = (_float32(per_channel_values(a[name], shape)) for name in ("mean", "variance"))
    weight = np.ones((), np.float32) if a["weight"] is None else _float32(per_channel_values(a["weight"], shape))
    return (x - mean) / np.sqrt(variance + np.float32(a["epsilon"])) * weight + _float32(
        per_channel_values(a["bias"], shape)
    )


def _float32(values: Array | None) -> Array:
    """The values in float32, 0 for None."""
    return np.zeros((), np.float32) if values is None else values.astype(np.float32)

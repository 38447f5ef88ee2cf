"""Helpers of the network builder: initial states, ports, reshapes, back edges, timing, values never negative."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, freeze
from nirbridge.errors import Diagnostic, quoted
from nirbridge.importers.lowering.levels import LevelsOf
from nirbridge.importers.lowering.linear_layers import (
    Expression,
    Term,
    later,
    per_channel_values,
    scale_expression,
)
from nirbridge.importers.neuron_specs import DataflowGraph, ImportedNeuron, Operation, ValueRef, as_float64, place_label
from nirbridge.importers.tracing.arguments import advice_on
from nirbridge.importers.tracing.run import one_thread
from nirbridge.network import Population, Port, Projection, Timing, apply
from nirbridge.network.compose import compose, is_trivial, one_value, parts_of
from nirbridge.network.graph import closure
from nirbridge.network.naming import fresh_name
from nirbridge.network.neurons import neuron
from nirbridge.network.nir.raise_linear import block_weight, merged_axes
from nirbridge.network.nir.raise_sparse import is_image_map
from nirbridge.network.operators import Conv, Dense, Operator, Reshape, Scale, Sparse


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


def delayed(
    e: Expression, steps: int, calls: dict[str, Operation], readings: dict[str, ImportedNeuron], notes: list[str]
) -> Expression:
    """The value, later. A constant becomes spikes of neurons that always fire, which are added to the network."""
    if e.constant is None or not np.any(e.constant):
        return later(e, steps)
    shape = (1,) if len(e.shape) == 1 else e.shape
    name = next((n for n, call in calls.items() if (call.kind, call.shape) == ("always", shape)), "")
    name = name or fresh_name("always", set(calls))
    calls[name] = Operation(name, "", "always", None, (), shape=shape)
    readings[name] = ImportedNeuron(neuron("relay", bias=1.0, theta=0.5))
    constant = np.asarray(e.constant, np.float32)
    weights = Dense(freeze(constant.reshape(-1, 1))) if len(e.shape) == 1 else Scale(freeze(constant))
    notes.append(
        f"constants in front of a delay are late, too: population {quoted(name)}, which always fires, sends them"
    )
    return later(Expression(e.shape, (*e.terms, Term(name, 0, shape, (weights,), (f"{name}_drive",)))), steps)


def unknown_operation(call: Operation) -> Diagnostic:
    """The problem of a function that a network cannot contain, with a hint."""
    reason, advice = advice_on(call.arguments["function"])
    found = f"{call.arguments['function']}: {call.arguments.get('reason') or reason}"
    return Diagnostic(call.subject, found, "", call.arguments.get("hint") or advice)


def potential_alone(call: Operation) -> Diagnostic:
    """The problem of a neuron whose membrane potential alone is returned, and is no sum of inputs and spikes."""
    found, limit = "the module returns its membrane potential, not its spikes", "a neuron that fires outputs its spikes"
    hint = "return the spikes, alone or beside the potential; a reset by subtraction, without a current, has a readout"
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


# -- torch apply ---------------------------------------------------------------------------------------------------
# Linear operators on calibration data, with torch's convolutions (many times faster than ``network.apply``).


AT_ONCE = 2**22
"""Most elements of an intermediate value that are held at once."""


def torch_apply(operator: Operator, x: Array) -> Array:
    """``operator(x)`` for ``x: [..., *input_shape]``; float64 where x is, else float32.

    Weights have that type too. Sums are those of ``network.apply`` in another order.
    """
    dtype = np.dtype(np.float64 if x.dtype == np.float64 else np.float32)
    rows = x.reshape(-1, *operator.input_shape)
    parts = parts_of(operator)
    functions = [_convolution(part, dtype) if isinstance(part, Conv) else partial(apply, part) for part in parts]
    widest = max(math.prod(shape) for part in parts for shape in (part.input_shape, part.output_shape))
    step = max(1, AT_ONCE // widest)
    out = np.empty((len(rows), *operator.output_shape), dtype)
    for start in range(0, len(rows), step):
        batch = rows[start : start + step].astype(dtype, copy=False)
        out[start : start + step] = reduce(lambda value, function: function(value), functions, batch)
    return out.reshape(*x.shape[: x.ndim - len(operator.input_shape)], *operator.output_shape)


def _convolution(part: Conv, dtype: np.dtype[np.floating]) -> Callable[[Array], Array]:
    import torch
    from torch.nn import functional

    run = functional.conv1d if len(part.kernel) == 1 else functional.conv2d
    weight = torch.from_numpy(part.weight.astype(dtype))  # a copy: torch takes no read-only arrays
    even = all(before == after for before, after in part.padding)
    padding = tuple(before for before, _ in part.padding) if even else 0

    def convolve(x: Array) -> Array:
        padded = x if even else np.pad(x, ((0, 0), (0, 0), *part.padding))
        tensor = torch.from_numpy(np.require(padded, dtype, ["C", "W"]))
        return run(tensor, weight, None, part.stride, padding, part.dilation, part.groups).numpy()

    return convolve


# -- inputs --------------------------------------------------------------------------------------------------------
# Inputs whose axes forward splits, and reshapes for which NIR has no node.
#
# An input takes the shape that the first layer sees. A reshape that splits an axis elsewhere becomes one matrix with
# the operators after it, if that is small.


Named = tuple[tuple[Operator, ...], tuple[str, ...]]


def input_shapes(flow: DataflowGraph) -> dict[str, Shape]:
    """The shape in which samples of each input are given: the module's own, unless NIR could not go on from it.

    NIR only merges neighbouring axes. Where forward splits some, the shape after that is taken if every shape that a
    layer sees can be made from it; row-major order is kept, so that no value moves.
    """
    readers: dict[str, list[Operation]] = {}
    for call in flow.calls:
        for ref in call.inputs:
            readers.setdefault(ref.call, []).append(call)
    returned = {output.ref.call for output in flow.outputs}
    return {c.name: _given(c.shape, tuple(dict.fromkeys(_seen(c, readers, returned)))) for c in flow.inputs}


def _given(shape: Shape, layer_shapes: Sequence[Shape]) -> Shape:
    candidates = [
        s for s in layer_shapes if s and math.prod(s) == math.prod(shape)
    ]  # others stem from operations that could not be traced
    fitting = (s for s in (shape, *candidates) if all(merged_axes(s, other) is not None for other in layer_shapes))
    return next(fitting, shape)


def _seen(call: Operation, readers: Mapping[str, Sequence[Operation]], returned: set[str]) -> Iterator[Shape]:
    """Shapes in which layers see a value, after calls that leave every value in its place."""
    if call.name in returned:
        yield call.shape
    for reader in readers.get(call.name, ()):
        if _stays(reader):
            yield from _seen(reader, readers, returned)
        else:
            yield call.shape


def _stays(call: Operation) -> bool:
    if call.kind == "gather":
        indices = np.asarray(call.arguments["indices"]).reshape(-1)
        return np.array_equal(indices, np.arange(len(indices)))
    return call.kind in ("reshape", "scale", "shift")


def input_term(call: Operation, port_shape: Shape) -> Term:
    """An input's values, in the module's shape, from a port of another."""
    if port_shape == call.shape:
        return Term(call.name, 0, call.shape)
    return Term(call.name, 0, port_shape, (Reshape(port_shape, call.shape),), (f"{call.name}_shape",))


def input_notes(flow: DataflowGraph) -> tuple[str, ...]:
    """Notes on ports whose shape differs from that of the module's argument."""
    port_shapes = input_shapes(flow)
    return tuple(
        f"input {quoted(c.name)}: samples of shape {c.shape} are given as {port_shapes[c.name]}, the values in the "
        "same (row-major) order, because NIR cannot split axes"
        for c in flow.inputs
        if port_shapes[c.name] != c.shape
    )


def merge_reshapes(term: Term, calls: Mapping[str, Operation], port_shapes: Mapping[str, Shape]) -> Named:
    """Reshapes after an input of another shape merged into one or none, after the scales among them."""
    parts, names = term.parts, term.names
    if term.source not in port_shapes or port_shapes[term.source] == calls[term.source].shape:
        return parts, names
    count = next((k for k, part in enumerate(parts) if not isinstance(part, Reshape | Scale)), len(parts))
    merged = [(_reshaped(p, term.shape), n) for p, n in zip(parts[:count], names, strict=False) if isinstance(p, Scale)]
    joint = Reshape(term.shape, parts[count - 1].output_shape)
    merged += [] if is_trivial(joint) else [(joint, names[0])]
    return (*(p for p, _ in merged), *parts[count:]), (*(n for _, n in merged), *names[count:])


def _reshaped(part: Any, shape: Shape) -> Scale:
    value = one_value(part.scale)
    scale = part.scale.reshape(shape) if value is None else np.broadcast_to(part.scale.dtype.type(value), shape)
    return Scale(freeze(scale))


def is_unwritable(part: Operator) -> bool:
    """True for a reshape that does more than merge axes, and for a matrix onto axes that no group of nodes writes."""
    if isinstance(part, Reshape):
        return merged_axes(part.input_shape, part.output_shape) is None
    if not isinstance(part, Sparse) or len(part.output_shape) == 1:
        return False
    return not is_image_map(part) and block_weight(part) is None


def reshape_problems(
    operator: Operator, nodes: Sequence[str], term: Term, calls: Mapping[str, Operation]
) -> Iterator[Diagnostic]:
    """Problems of reshapes, and of matrices that hold some, which NIR cannot express; each with its module."""
    names = nodes if len(nodes) == len(parts_of(operator)) else [""] * len(parts_of(operator))
    for part, name in zip(parts_of(operator), names, strict=True):
        if is_unwritable(part):
            place = calls[name].subject if name in calls else place_label("")
            found = f"a reshape from {part.input_shape} to {part.output_shape} after {quoted(term.source)}"
            limit = "NIR has Flatten, which merges neighbouring axes; only the network's inputs can be given reshaped"
            step = (
                "keep the shape from the input on, or flatten before every neuron (small layers then become a matrix)"
            )
            yield Diagnostic(place, found, limit, step)


_WEIGHTS_MAX = 4_000_000
"""Most weights that such a matrix is written with."""


def without_splits(parts: tuple[Operator, ...], names: tuple[str, ...]) -> tuple[tuple[Operator, ...], tuple[str, ...]]:
    """The parts with every split of an axis, up to the next flat value, as one matrix, where that is small."""
    splits = (isinstance(p, Reshape | Sparse) and len(p.output_shape) > len(p.input_shape) for p in parts)
    start = next((k for k, is_split in enumerate(splits) if is_split), None)
    if start is None or len(parts[start].input_shape) != 1:
        return parts, names
    stop = next((k for k in range(start, len(parts)) if len(parts[k].output_shape) == 1), None)
    if stop is None or parts[start].input_shape[0] * parts[stop].output_shape[0] > _WEIGHTS_MAX:
        return parts, names
    joint, _ = compose(parts[start : stop + 1], names[start : stop + 1], parts[start].input_shape)
    columns: Any = apply(joint, np.eye(parts[start].input_shape[0], dtype=np.float32))
    dense = Dense(freeze(np.ascontiguousarray(columns.T), np.float32))
    rest = without_splits(parts[stop + 1 :], names[stop + 1 :])
    return (*parts[:start], dense, *rest[0]), (*names[:start], names[stop], *rest[1])

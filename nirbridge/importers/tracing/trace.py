"""Data-flow graph of a torch module: its own forward is run on a copy, and every operation is recorded."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.errors import Diagnostic, ModelError, NirbridgeError, quoted
from nirbridge.importers.by_hand.spec import formless, reads_own
from nirbridge.importers.module_checks import KEPT_STATES, ROUNDED, check_module, enabled_observers, has_float64
from nirbridge.importers.neuron_specs import (
    DataflowGraph,
    NeuronSpecs,
    Operation,
    distinct,
    graph_multiplications,
    layout_of,
    neuron_spec_of,
)
from nirbridge.importers.sample import (
    STEPS,
    WAY_OUT,
    SampleReading,
    TimeAxis,
    check_axes,
    named_samples,
    roles_of,
    sample_readings,
)
from nirbridge.importers.tracing.consistency import (
    CALLS,
    arguments_left,
    data_dependence,
    ends_early,
    failed_again,
    handed_over,
    is_steady,
    kept_between,
    left_out,
    loops_once,
    reset_in,
    restarted_neurons,
    settle_reads,
    state_arguments,
    with_unreached,
)
from nirbridge.importers.tracing.graph_builder import NOTHING, UNREACHED, GraphBuilder
from nirbridge.importers.tracing.memory import TooLarge
from nirbridge.importers.tracing.recorder import ForwardTrace, TracedCall
from nirbridge.importers.tracing.run import copied, is_loop, run_copy
from nirbridge.importers.tracing.time_loop import FORWARD
from nirbridge.importers.tracing.values import never_handed_on

_MANY_STEPS, _MANY_CALLS = 120, 32
"""Time steps and calls of a longer second trace of cheap modules, to catch behaviour of every 20th time step."""
OWN_CALLS = 12
"""Calls by which neurons written by hand are recognised."""
_CHEAP = 3_000_000
"""Multiplications of one step up to which a module is cheap."""


def trace_module(
    module: Any, sample: Any, forms: NeuronSpecs, *, batched: bool | None = None, time_axis: TimeAxis = None
) -> DataflowGraph:
    """The data flow of ``module`` in one time step.

    Args:
        module: a ``torch.nn.Module``; it is left as it is (a copy in eval mode is run).
        sample: one time step or a single_precision sequence, with or without the batch axis, or a tuple of them.
        forms: the neuron classes that are read.
        batched: whether the sample has a batch axis (None: inferred).
        time_axis: the axis of the sample that is time, "none" if it is one time step (None: inferred).

    Returns:
        The data-flow graph; ``problems`` lists every operation that cannot be traced.

    Raises:
        UsageError: no torch module, no tensor.
        ModelError: its forward fails on the sample.
    """
    check_module(module)
    samples = named_samples(module, sample)
    shapes = {name: tuple(s.shape) for name, s in samples.items()}
    check_axes(batched, time_axis, list(shapes.values()))
    if has_float64(module):
        flow = trace_module(copied(module).float(), sample, forms, batched=batched, time_axis=time_axis)
        return replace(flow, notes=(*flow.notes, ROUNDED))
    search = _ReadingSearch(module, samples, forms, are_axes_given=batched is not None and time_axis is not None)
    layouts, first = _layouts(module, forms), next(iter(shapes.values()))
    readings = sample_readings(list(shapes.values()), batched, time_axis)
    for reading in sorted(readings, key=lambda r: r.lead(first) not in layouts):  # axes of neurons first
        if not search.is_settled(reading):
            search.attempt(reading)
    if search.out_of_room and (search.best is None or search.best[0] != (0, 0)):
        raise search.out_of_room[0]
    if search.best is None:
        found = f"its forward fails on the sample: {(search.failures or ['no interpretation of its axes fits'])[0]}"
        shown_shapes = f"the sample has shape {', '.join(map(str, shapes.values()))}"
        raise ModelError.of("module", found, shown_shapes, f"give one that forward accepts, or {WAY_OUT}")
    _, flow, reading = search.best
    axes = reading.data_axes(first, 0 if flow.loop.follows else flow.loop.iterations)
    flow = _called_again(flow, module, samples, reading, forms)
    flow = _looked_at_longer(flow, module, samples, reading, forms)
    is_given = batched is not None or time_axis is not None
    notes = (reading.note(name, shape, are_axes_given=is_given) for name, shape in shapes.items())
    observing = enabled_observers(module) if flow.problems else ()
    return replace(flow, notes=(*flow.notes, *notes), problems=(*flow.problems, *observing), axes=axes)


class _ReadingSearch:
    """Tries readings of the sample; ``best``: the (score, flow, reading) with the least that is not followed."""

    def __init__(self, module: Any, samples: Mapping[str, Any], forms: NeuronSpecs, *, are_axes_given: bool) -> None:
        self.module, self.samples, self.forms, self.are_axes_given = module, samples, forms, are_axes_given
        self.best: tuple[tuple[int, int], DataflowGraph, SampleReading] | None = None
        self.failures: list[str | TooLarge] = []
        self.out_of_room: list[TooLarge] = []
        self.too_many: float = math.inf
        self.is_one_step = False
        self.time_place: tuple[str, int] | None = None

    def is_settled(self, reading: SampleReading) -> bool:
        """True if the reading need not be tried: a flow without problems is there, or time is known to be elsewhere."""
        is_clean = self.best is not None and self.best[0] == (0, 0)
        is_elsewhere = self.time_place is not None and reading.time_place != self.time_place
        return is_clean or is_elsewhere or (self.is_one_step and reading.has_time)

    def attempt(self, reading: SampleReading) -> None:
        """Runs forward on the sizes of a reading until it does not fail, except on as much as was too large already."""
        shapes = {name: tuple(s.shape) for name, s in self.samples.items()}
        variants, is_exact, likelier = reading.variants(list(shapes.values())), False, len(self.out_of_room)
        while variants:
            variant = variants.pop(0)
            flow = self._flow(variant, shapes)
            if flow is None:
                is_too_large = bool(self.failures) and isinstance(self.failures[-1], TooLarge)
                shorter = variant.shortened()
                variants = [shorter, *variants] if is_too_large and shorter != variant else variants
                continue
            if variant.batch or not flow.problems:  # else the problems may be those of a batch of one
                del self.out_of_room[likelier:]  # fewer time steps or samples were not too large
            copies = [] if self.are_axes_given else copied_axes(flow, shapes)
            flow = replace(flow, problems=(*flow.problems, *copies, *loops_once(flow), *ends_early(flow)))
            score = badness(flow, reading)
            if reads_own(self.forms) and not any(c.kind == "neuron" for c in flow.calls):
                score = (score[0] + _ABSURD, score[1])  # no state is seen where time is not
            is_whole = is_exact and variant.steps is None  # as long as the sample: its problems name the user's numbers
            if self.best is None or score < self.best[0] or (is_whole and score == self.best[0]):
                self.best = score, flow, variant
            has_layout = any(layout is not None for layout in _layouts(self.module, self.forms))
            is_loop = has_layout or flow.loop.iterations > 1
            self.is_one_step = not (is_loop or copies or flow.deviations or reading.has_time)
            if flow.loop.follows and not copies and not any(c.kind == "unknown" for c in flow.calls):
                self.time_place = reading.time_place
            if is_exact or not flow.loop.leaves_steps_out:
                return
            exact = reading.of_length(flow.loop.iterations)  # perhaps the number of time steps is fixed
            variants, is_exact = [replace(exact, batch=variant.batch)], True

    def _flow(self, variant: SampleReading, shapes: Mapping[str, tuple[int, ...]]) -> DataflowGraph | None:
        """The flow, None where forward fails, or would be given as many numbers as were too large before."""
        size = sum(math.prod(variant.fed(shape)[0]) for shape in shapes.values())
        if size >= self.too_many:
            return None
        try:
            flow = _attempt(self.module, self.samples, variant, self.forms, self.failures)
        except RecursionError:  # hundreds of steps that hang on each other
            self.failures.append("its time steps depend on each other in more ways than can be traced")
            return None
        failure = self.failures[-1] if flow is None else None
        if isinstance(failure, TooLarge):
            self.too_many = size
            self.out_of_room += [failure] if self.best is None else []
        return flow


def _layouts(module: Any, forms: NeuronSpecs) -> set[Any]:
    specs = ((neuron_spec_of(inner, forms), inner) for inner in module.modules())
    return {layout_of(form, inner) for form, inner in specs if form is not None}


def _attempt(
    module: Any, samples: Mapping[str, Any], reading: SampleReading, forms: NeuronSpecs, failures: list[str | TooLarge]
) -> DataflowGraph | None:
    """The flow under one guess, or None where forward fails; two runs on different numbers must agree."""
    runs: list[ForwardTrace] = []
    options: dict[str, Any] = {}
    for seed in (1, 2):
        try:
            runs.append(run_copy(module, samples, reading, forms, seed, **options))
            if _waits_for_calls(runs, forms, reading):
                options = {"calls": OWN_CALLS, "handed": state_arguments(module, len(samples))}
                runs = [run_copy(module, samples, reading, forms, seed, **options)]
        except TooLarge as error:
            failures.append(error.with_traceback(None))  # its frames hold the tensors
            return None
        except NirbridgeError:
            raise
        except Exception as error:  # whatever the user's code raises
            failures.append(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            return None
    dependence = data_dependence(*runs)
    if not dependence:
        settle_reads(runs[0], lambda reads: run_copy(module, samples, reading, forms, 1, reads=reads, **options))
    steps = reading.steps_of(tuple(next(iter(samples.values())).shape))
    calls = len(runs[0].returned)
    flow = GraphBuilder(runs[0], forms, roles_of(samples, reading), calls=calls, steps=steps).flow()
    flow = replace(flow, problems=(*flow.problems, *dependence))
    return with_unreached(flow, runs[0], module)


def _waits_for_calls(runs: Sequence[ForwardTrace], forms: NeuronSpecs, reading: SampleReading) -> bool:
    """True if neurons written by hand may show in later calls alone: forward computes one time step."""
    is_first = len(runs) == 1 and len(runs[0].returned) == 1
    return reads_own(forms) and is_first and not reading.has_time and not runs[0].neurons()


def _several(
    module: Any, samples: Mapping[str, Any], reading: SampleReading, forms: NeuronSpecs, calls: int
) -> ForwardTrace:
    """Trace of calls in a row, with outputs handed over to arguments that are None by default where that works."""
    handed = state_arguments(module, len(samples))
    options: dict[str, Any] = {"calls": calls, "handed": handed}
    trace = run_copy(module, samples, reading, forms, 1, **options)
    if trace.failure and handed:
        options = {"calls": calls}
        trace = run_copy(module, samples, reading, forms, 1, **options)
    if not trace.failure:
        settle_reads(trace, lambda reads: run_copy(module, samples, reading, forms, 1, reads=reads, **options))
    return trace


def _called_again(
    flow: DataflowGraph, module: Any, samples: Mapping[str, Any], reading: SampleReading, forms: NeuronSpecs
) -> DataflowGraph:
    """The flow, or that of several calls in a row where the module keeps something from one to the next."""
    calls = OWN_CALLS if reads_own(forms) and not reading.has_time else CALLS
    trace = _several(module, samples, reading, forms, calls)
    if trace.failure:
        return replace(flow, problems=(*flow.problems, failed_again(trace)))
    flow = replace(flow, problems=(*flow.problems, *never_handed_on(trace)))
    if not reading.has_time and not is_loop(trace):
        anew = restarted_neurons(trace, lambda node: _is_sequence(node, forms))
        others = [d for d in flow.deviations if d.name != KEPT_STATES]
        problems = (*flow.problems, *reset_in(trace)[1])
        flow = replace(flow, problems=problems, deviations=(*others, *anew))
        once = [p for p in loops_once(flow) if str(p) not in map(str, flow.problems)]
        flow = replace(flow, problems=(*flow.problems, *once))
    notes = (*flow.notes, *arguments_left(module, len(samples), trace.handed))
    if is_steady(trace):
        problems = [p for p in trace.problems if str(p) not in map(str, flow.problems)]
        return replace(flow, notes=notes, problems=(*flow.problems, *problems))
    if len(trace.returned) < calls or reading.has_time:
        return replace(flow, notes=notes, problems=(*flow.problems, *kept_between(trace)))
    deviations = flow.deviations
    flow = with_unreached(GraphBuilder(trace, forms, roles_of(samples, reading), calls=calls).flow(), trace, module)
    flow = replace(flow, deviations=deviations)
    hint = (handed_over(trace.handed),) if trace.handed and flow.problems else ()
    return replace(flow, problems=(*flow.problems, *hint))


def _looked_at_longer(
    flow: DataflowGraph, module: Any, samples: Mapping[str, Any], reading: SampleReading, forms: NeuronSpecs
) -> DataflowGraph:
    """The flow; for cheap modules, with what shows only in later time steps or calls: problems, and longer delays.

    Delays are those of the module if traces of two lengths agree on them.
    """
    is_late = any(ref.previous > 1 for call in flow.calls for ref in call.inputs)
    is_cheap = graph_multiplications(flow) <= _CHEAP
    others = [p for p in flow.problems if p.found not in (UNREACHED, NOTHING)]  # a delay may be longer than the trace
    if others or any(c.kind == "unknown" for c in flow.calls) or not (is_cheap or is_late):
        return flow
    whole = _MANY_STEPS if reading.has_time else _MANY_CALLS
    lengths = (whole, whole - 4) if is_cheap else (STEPS + 4,)
    before, length = flow, STEPS
    try:
        for length in lengths:
            longer = _longer(flow, module, samples, reading, forms, length)
            if longer is None or (flow.problems and longer.problems):
                return flow
            if longer.problems or _references(longer) == _references(before):
                return replace(before, problems=longer.problems)
            before = longer
    except (RecursionError, TooLarge):  # that many steps hang on each other in too many ways, or take too much memory
        if not is_late:
            return flow
    oldest = max((ref for call in before.calls for ref in call.inputs), key=lambda ref: ref.previous)
    subject = next(call.subject for call in before.calls if call.name == oldest.call)
    found = f"a value of it is carried over {oldest.previous} of {length} time steps"
    hint = "keep the values of a fixed number of time steps, or put a neuron in between"
    return replace(flow, problems=(*flow.problems, Diagnostic(subject, found, "delays have a fixed length", hint)))


def _references(flow: DataflowGraph) -> Any:
    """What each operation is, and what of which time step it reads."""
    return [(c.name, c.kind, c.inputs) for c in flow.calls], flow.outputs and [o.ref for o in flow.outputs]


def _longer(
    flow: DataflowGraph,
    module: Any,
    samples: Mapping[str, Any],
    reading: SampleReading,
    forms: NeuronSpecs,
    length: int,
) -> DataflowGraph | None:
    """The flow of a longer trace, with the notes and deviations of ``flow``; None where there is none."""
    if reading.has_time:
        longer = (
            None if reading.steps != STEPS else _attempt(module, samples, replace(reading, steps=length), forms, [])
        )
        if longer is None:
            return None
        own = formless(call.target for call in longer.calls)
        left = left_out(longer, [tuple(s.shape) for s in samples.values()], reading)
        problems = (*longer.problems, *own, *left)
        return replace(longer, problems=problems, notes=flow.notes, deviations=flow.deviations)
    trace = _several(module, samples, reading, forms, length)
    if not trace.failure and len(trace.returned) < length:
        return None
    own = [failed_again(trace)] if trace.failure else distinct(formless(node.module for node in trace.nodes))
    if own:
        return replace(flow, problems=tuple(own))
    if is_steady(trace) or reset_in(trace)[1]:
        return replace(flow, problems=(*trace.problems, *reset_in(trace)[1]))
    longer = GraphBuilder(trace, forms, roles_of(samples, reading), calls=length).flow()
    return replace(longer, notes=tuple(dict.fromkeys((*flow.notes, *longer.notes))), deviations=flow.deviations)


def _is_sequence(node: TracedCall, forms: NeuronSpecs) -> bool:
    form = neuron_spec_of(node.module, forms)
    return form is not None and layout_of(form, node.module) is not None


# -- copies --------------------------------------------------------------------------------------------------------
# Axes of an input that no layer mixes: read as values, they would become that many copies of the network.
#
# A batch or a time axis that is taken for values shows in this way: every layer with weights works along other axes,
# and the outputs still have it. A ``torch.nn.Linear`` shared by values that are flattened later is no such case.

_MIXED = -1
"""The axis is no longer there: its values were joined."""


def copied_axes(flow: DataflowGraph, sample_shapes: Mapping[str, Shape]) -> list[Diagnostic]:
    """A problem for each input with an axis that only copies the network."""
    return [
        Diagnostic(
            f"input {quoted(call.name)}",
            f"no layer mixes its axis of size {call.shape[axis]}, so all neurons would be duplicated along it",
            f"the sample of shape {sample_shapes.get(call.name, call.shape)} was read as time steps of {call.shape}",
            WAY_OUT,
        )
        for call in flow.inputs
        for axis in [k for k, n in enumerate(call.shape) if n > 1 and _copies(flow, call, k)][:1]
    ]


def has_idle_one(flow: DataflowGraph) -> bool:
    """True if an axis of size one may be a batch that was read as values.

    Layers with weights leave it alone, or forward takes the only row of a matrix.
    """
    if flow.loop.has_only_part and any(len(call.shape) == 2 and call.shape[0] == 1 for call in flow.inputs):
        return True
    ones = ((call, axis) for call in flow.inputs for axis, size in enumerate(call.shape) if size == 1)
    return any(_passed(flow, call, axis)[0] for call, axis in ones)


_ABSURD = 1000
"""A layer without an axis to work on weighs more than any number of problems that can be named."""


def badness(flow: DataflowGraph, reading: SampleReading) -> tuple[int, int]:
    """(Operations that cannot be traced, layers on more axes than they are made for): low for a likely reading."""
    shapes = {c.name: c.shape for c in flow.calls}
    unknown = sum(c.kind == "unknown" for c in flow.calls)
    odd = sum(c.kind == "linear" and len(shapes.get(c.inputs[0].call, ())) != 1 for c in flow.calls)
    odd += sum(c.kind == "matrix" for c in flow.calls)  # a sum over other axes than all positions is rare
    absurd = sum(c.kind == "linear" and shapes.get(c.inputs[0].call) == () for c in flow.calls)
    if any(p.limit == FORWARD for p in flow.problems):
        return 1, odd
    first = len(flow.problems) + unknown + _ABSURD * absurd + sum(d.name == KEPT_STATES for d in flow.deviations)
    if not any(c.kind == "neuron" for c in flow.calls):
        first += has_idle_one(flow)
    is_unlikely = bool(flow.problems) and reading.has_time and flow.loop.iterations == 1
    return first, odd + len(flow.deviations) + 2 * is_unlikely


def _copies(flow: DataflowGraph, source: Operation, axis: int) -> bool:
    passes_weights, ends = _passed(flow, source, axis)
    return passes_weights and bool(ends) and _MIXED not in ends


def _passed(flow: DataflowGraph, source: Operation, axis: int) -> tuple[bool, list[int]]:
    """(Whether a layer with weights works along other axes, where the axis is in each output that it reaches)."""
    places = {source.name: axis}
    passes_weights = False
    shapes = {call.name: call.shape for call in flow.calls}
    for call in flow.calls:
        before = {places[ref.call] for ref in call.inputs if ref.call in places and not ref.previous}
        if not before:
            continue
        place = _MIXED if len(before) > 1 else _after(call, before.pop(), shapes)
        places[call.name] = place
        passes_weights |= call.kind == "linear" and place != _MIXED
    return passes_weights, [places[o.ref.call] for o in flow.outputs if o.ref.call in places]


def _after(call: Operation, place: int, shapes: Mapping[str, Shape]) -> int:
    """Where the axis is after the call."""
    if place == _MIXED or call.kind not in _AFTER:
        return _MIXED
    return _AFTER[call.kind](call, place, shapes[call.inputs[0].call])


def _same(call: Operation, place: int, shape: Shape) -> int:
    return place if place < len(call.shape) and call.shape[place] == shape[place] else _MIXED


def _linear(call: Operation, place: int, shape: Shape) -> int:
    return place if place < len(shape) - 1 else _MIXED


def _neuron(call: Operation, place: int, shape: Shape) -> int:
    if call.shape == shape:
        return place
    return _linear(call, place, shape) if len(call.shape) == len(shape) else _MIXED


def _pool(call: Operation, place: int, shape: Shape) -> int:
    if "rows" in call.arguments:
        return _matrix(call, place, shape)
    return 0 if place == 0 and len(call.shape) == len(shape) else _MIXED


def _factor(name: str) -> Callable[[Operation, int, Shape], int]:
    """Arithmetic with a constant: one that differs along the axis tells its values apart."""

    def after(call: Operation, place: int, shape: Shape) -> int:
        values = np.broadcast_to(np.asarray(call.arguments[name]), call.shape)
        return place if bool(np.all(values == values.take([0], axis=place))) else _MIXED

    return after


def _reshape(call: Operation, place: int, shape: Shape) -> int:
    stride = math.prod(shape[place + 1 :])
    fitting = (k for k, n in enumerate(call.shape) if (n, math.prod(call.shape[k + 1 :])) == (shape[place], stride))
    return next(fitting, _MIXED)


def _gather(call: Operation, place: int, shape: Shape) -> int:
    indices: Any = np.asarray(call.arguments["indices"]).reshape(call.shape)
    positions = indices // math.prod(shape[place + 1 :]) % shape[place]
    for k, n in enumerate(call.shape):
        expected = np.arange(n).reshape(-1, *(1,) * (len(call.shape) - k - 1))
        if n == shape[place] and bool(np.all((positions == expected) | (indices < 0))):
            return k
    return _MIXED


def _matrix(call: Operation, place: int, shape: Shape) -> int:
    """An axis along which every value stays at its place."""
    n, stride = shape[place], math.prod(shape[place + 1 :])
    positions: Any = call.arguments["columns"] // stride % n
    axes = ((k, math.prod(call.shape[k + 1 :])) for k, size in enumerate(call.shape) if size == n)
    return next((k for k, step in axes if np.array_equal(call.arguments["rows"] // step % n, positions)), _MIXED)


_AFTER: Mapping[str, Callable[[Operation, int, Shape], int]] = {
    "linear": _linear,
    "neuron": _neuron,
    "avg_pool": _pool,
    "max_pool": _pool,
    "reshape": _reshape,
    "gather": _gather,
    "pad": _gather,
    "matrix": _matrix,
    "concat": lambda call, place, shape: place if place != call.arguments["axis"] else _MIXED,
    "scale": _factor("factor"),
    "shift": _factor("constant"),
    "add": _same,
    "relu": _same,
    "batch_norm": lambda call, place, shape: place or _MIXED,
}

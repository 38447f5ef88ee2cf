"""Comparison of runs: one call of forward on different data, and successive calls.

A module may keep more than the states of its neurons between calls: a spike that it feeds back in the next time step,
a running mean, a counter. A single call does not show that, since the value of the previous call is a constant there
(zeros, or nothing at all). So the module is called three times in a row. If a later call does not repeat the first, the
calls are read as the iterations of a loop: neuron outputs of the previous time step are traced, all else is refused.
"""

from __future__ import annotations

import inspect
from bisect import bisect_right
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from nirbridge._types import Shape
from nirbridge.errors import Diagnostic, quoted
from nirbridge.importers.module_checks import FULL_PRECISION, KEPT_STATES, Deviation
from nirbridge.importers.neuron_specs import DataflowGraph, place_label
from nirbridge.importers.sample import STEPS, WAY_OUT, SampleReading
from nirbridge.importers.tracing.reads import Reads, decide_nothing
from nirbridge.importers.tracing.recorder import ForwardTrace, TracedCall, TracedValue, values_of
from nirbridge.importers.tracing.structures import match
from nirbridge.importers.tracing.values import first_input, is_zero, passed_states, same_constant, states, uncopied

CALLS = 3
"""Calls in a row: one more than it takes to see a value come back, to tell one step back from all steps back."""

_DATA = "compute with torch functions only; no numpy, no random numbers"
_KEPT = "keep nothing between calls except neuron states and the spikes of the previous time step"


def state_arguments(module: Any, given: int) -> tuple[str, ...]:
    """Arguments of forward after the first ``given`` whose default is None."""
    return tuple(name for name, default in _optional(module, given) if default is None)


def arguments_left(module: Any, given: int, handed: Sequence[str]) -> list[str]:
    """Notes on arguments of forward that stay at their defaults; options (True, False, words) are left out."""
    unset = [(name, d) for name, d in _optional(module, given) if name not in handed and not isinstance(d, bool | str)]
    return [f"forward's argument {quoted(name)} is {str(default)[:40]} in every time step" for name, default in unset]


def handed_over(handed: Sequence[str]) -> Diagnostic:
    """The hint for a module that could not be traced when its outputs were passed back to it."""
    names = ", ".join(quoted(name) for name in handed)
    text = f"its arguments {names} were given its outputs of the previous time step"
    step = "if they are not states, import a wrapper module that omits them"
    return Diagnostic("the module's forward", text, "since they are None by default", step)


def _optional(module: Any, given: int) -> list[tuple[str, Any]]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    try:
        parameters = list(inspect.signature(module.forward).parameters.values())[given:]
    except (TypeError, ValueError):
        return []
    return [(p.name, p.default) for p in parameters if p.kind in kinds and p.default is not inspect.Parameter.empty]


def data_dependence(first: ForwardTrace, second: ForwardTrace) -> list[Diagnostic]:
    """Where two runs on different numbers did different things: a number of the input went around the tracer."""
    for a, b in zip(first.nodes, second.nodes, strict=False):
        if not _same_call(a, b) or not _same((a.args, dict(a.kwargs)), (b.args, dict(b.kwargs)), 0):
            found = f"an argument of {quoted(a.name)} depends on data in a way that cannot be traced, or on chance"
            return [Diagnostic(place_label(a.path), found, "", _DATA)]
    names = [[name for name, _ in run.outputs] for run in (first, second)]
    if len(first.nodes) != len(second.nodes) or names[0] != names[1]:
        return [Diagnostic("the module's forward", "it computes different operations on different data", "", _DATA)]
    for (name, a), (_, b) in zip(first.outputs, second.outputs, strict=True):
        if not _same(a, b, 0):
            found = f"its output {quoted(name)} depends on data in a way that cannot be traced"
            return [Diagnostic("the module's forward", found, "", _DATA)]
    return []


def settle_reads(trace: ForwardTrace, rerun: Callable[[Reads], ForwardTrace]) -> None:
    """Turn the problems of reads of values into a note, where the values decide nothing that is computed."""
    is_same = partial(_is_same_computation, trace)
    if not trace.reads or not decide_nothing(trace.reads, rerun, is_same, len(trace.nodes)):
        return
    settled = {str(read.problem): read.problem for read in trace.reads.values() if read.problem}
    trace.problems = [problem for problem in trace.problems if str(problem) not in settled]
    subjects = ", ".join(dict.fromkeys(problem.subject for problem in settled.values()))
    trace.notes.append(f"{subjects}: values of tensors are read, but nothing that is computed depends on them")


def _is_same_computation(first: ForwardTrace, second: ForwardTrace) -> bool:
    """True if neurons and outputs get the same in both; what is computed beside them (for a log) may differ."""
    one, other = _live_nodes(first), _live_nodes(second)

    def is_same(x: Any, y: Any) -> bool:
        if isinstance(x, TracedValue) and isinstance(y, TracedValue):
            return (one[x.node.index], x.output) == (other[y.node.index], y.output)
        return type(x) is type(y) and same_constant(x, y)

    def facts(trace: ForwardTrace, places: Mapping[int, int]) -> Any:
        calls = [bisect_right(trace.starts, index) for index in places]
        return calls, [index in trace.resets for index in places], [index in trace.stateless for index in places]

    return (
        facts(first, one) == facts(second, other)
        and match(tuple(map(tuple, first.returned)), tuple(map(tuple, second.returned)), is_same)
        and all(
            _same_call(a, b) and match((a.args, dict(a.kwargs)), (b.args, dict(b.kwargs)), is_same)
            for a, b in zip((first.nodes[k] for k in one), (second.nodes[k] for k in other), strict=True)
        )
    )


def _live_nodes(trace: ForwardTrace) -> dict[int, int]:
    """Inputs, neurons and all that they and the outputs depend on: index -> number among them, in order."""
    waiting = [node for node in trace.nodes if node.kind in ("input", "neuron")]
    waiting += [value.node for value in values_of(trace.returned)]
    indices: set[int] = set()
    while waiting:
        node = waiting.pop()
        if node.index not in indices:
            indices.add(node.index)
            waiting += [value.node for value in values_of((node.args, dict(node.kwargs)))]
    return {index: number for number, index in enumerate(sorted(indices))}


def is_steady(trace: ForwardTrace) -> bool:
    """True if every call is the first one over again, and only states of neurons come from the call before."""
    calls = [trace.nodes[a:b] for a, b in zip(trace.starts, (*trace.starts[1:], None), strict=True)]
    return not _foreign_states(trace) and all(
        len(nodes) == len(calls[0])
        and all(_steady(a, b, start) for a, b in zip(calls[0], nodes, strict=True))
        and len(returned) == len(trace.returned[0])
        and all(_same(a, b, start) for (_, a), (_, b) in zip(trace.returned[0], returned, strict=True))
        for nodes, start, returned in zip(calls[1:], trace.starts[1:], trace.returned[1:], strict=True)
    )


def _steady(a: TracedCall, b: TracedCall, start: int) -> bool:
    if not _same_call(a, b):
        return False
    if b.kind != "neuron":
        return _same((a.args, dict(a.kwargs)), (b.args, dict(b.kwargs)), start)
    return _same(first_input(a), first_input(b), start)


def _foreign_states(trace: ForwardTrace) -> list[Diagnostic]:
    """States that are not those that the neuron returned in its previous call."""
    problems: list[Diagnostic] = []
    for path, nodes in trace.neurons().items():
        turns = [bisect_right(trace.starts, node.index) for node in nodes]
        starts = [k == 0 or turn != turns[k - 1] for k, turn in enumerate(turns)]
        problems += foreign_states(path, nodes, starts, frozenset(trace.stateless))
    return problems


def _same_call(a: TracedCall, b: TracedCall) -> bool:
    is_alike = (a.kind, a.name, a.path, a.shapes) == (b.kind, b.name, b.path, b.shapes)
    return is_alike and (a.kind != "neuron" or a.module == b.module)


def _same(a: Any, b: Any, start: int) -> bool:
    """True if two structures hold the same constants, and values as many nodes after ``start`` as after 0."""

    def is_same(x: Any, y: Any) -> bool:
        if isinstance(x, TracedValue) and isinstance(y, TracedValue):
            return (x.node.index, x.output) == (y.node.index - start, y.output)
        return type(x) is type(y) and same_constant(x, y)

    return match(a, b, is_same)


def kept_between(trace: ForwardTrace) -> list[Diagnostic]:
    """The places where a later call differs from the first, of a module that cannot be traced call by call."""
    second = trace.starts[1]
    problems = {str(problem): problem for problem in _foreign_states(trace)}
    for node in trace.nodes[second:]:
        own = states(node) if node.kind == "neuron" else []
        for value in values_of((node.args, dict(node.kwargs))):
            if value.node.index < second and value not in own:
                text = f"an argument of {quoted(node.name.strip('_'))} was kept from the previous call of forward"
                limit = "with a loop over time or a time axis in forward, every call starts a new sequence"
                problem = Diagnostic(place_label(node.path), text, limit, "create such values in forward, from zeros")
                problems.setdefault(str(problem), problem)
    if problems:
        return list(problems.values())
    text = "its second call differs from the first"
    return [Diagnostic("the module's forward", text, "every time step must compute the same", _KEPT)]


def reset_in(trace: ForwardTrace) -> tuple[list[str], list[Diagnostic]]:
    """(Neurons whose state forward sets anew in every later call, those where it does so in some calls only)."""
    left_alone = {path: [n for n in nodes if not states(n)] for path, nodes in trace.neurons(1).items()}
    later = {path: nodes for path, nodes in left_alone.items() if nodes}
    resets = frozenset(trace.resets)
    counts = {path: sum(n.index in resets for n in nodes) for path, nodes in later.items()}
    found = "its state is reset in some calls of forward and not in others"
    some = [
        Diagnostic(place_label(p), found, "", "reset it outside of forward")
        for p, n in counts.items()
        if 0 < n < len(later[p])
    ]
    return [path for path, n in counts.items() if n == len(later[path])], some


def failed_again(trace: ForwardTrace) -> Diagnostic:
    """The problem of a module that can be called once only."""
    text = f"it cannot be called a second time: {trace.failure}"
    return Diagnostic("the module's forward", text, "a network runs one time step at a time", _KEPT)


STARTS_ANEW = "forward resets its state in every time step"


def half_precision_calls(recording: ForwardTrace) -> list[Deviation]:
    """Functions whose results have 16 bits, as under ``torch.autocast``."""
    return [
        Deviation(FULL_PRECISION, place_label(path), f"{quoted(name.strip('_'))} gives {number_format}")
        for path, name, number_format in dict.fromkeys(recording.halves)
    ]


def restarted_neurons(trace: ForwardTrace, is_sequence: Callable[[TracedCall], bool]) -> list[Deviation]:
    """Neurons that get no state of the call before: it was set anew, or the neuron keeps none and is handed none."""
    fresh = frozenset(trace.resets) | frozenset(trace.stateless)
    later = {path: [n for n in nodes if not is_sequence(n)] for path, nodes in trace.neurons(1).items()}
    paths = [path for path, nodes in later.items() if nodes and all(_is_fresh(node, fresh) for node in nodes)]
    return [Deviation(KEPT_STATES, place_label(path), STARTS_ANEW) for path in paths]


def ends_early(flow: DataflowGraph) -> list[Diagnostic]:
    """The problem of a loop over the first time steps only: a network processes every time step."""
    if not flow.loop.leaves_steps_out:
        return []
    found = (
        f"it loops over the first {flow.loop.iterations} of {flow.loop.time_steps} time steps, and leaves the rest out"
    )
    step = "loop over all of them; if their number is fixed, give a sample of that length"
    return [Diagnostic(place_label(""), found, "a network processes every time step of its input", step)]


def left_out(flow: DataflowGraph, shapes: Sequence[Shape], reading: SampleReading) -> list[Diagnostic]:
    """As ``ends_early`` of a longer trace, unless forward takes just as many time steps as it was tried with."""
    sizes = [n for shape in shapes for n, role in zip(shape, reading.roles(len(shape)), strict=True) if role == "time"]
    is_fixed = flow.loop.iterations == STEPS and all(n == STEPS for n in sizes)
    return [] if is_fixed else ends_early(flow)


def loops_once(flow: DataflowGraph) -> list[Diagnostic]:
    """The problem of a flow that may be one iteration of a loop: states are reset, an axis of size one is sliced."""
    if not flow.loop.has_only_part or all(d.name != KEPT_STATES for d in flow.deviations):
        return []
    found = "its states are reset, and it takes the only slice of an axis of size one: that axis may be time"
    return [Diagnostic(place_label(""), found, "", WAY_OUT)]


def _is_fresh(node: TracedCall, fresh: frozenset[int]) -> bool:
    handed = states(node)
    return any(not isinstance(state, TracedValue) for state in handed) if handed else node.index in fresh


def with_unreached(flow: DataflowGraph, recording: ForwardTrace, module: Any) -> DataflowGraph:
    """The flow, with a note of the layers that forward did not call (those inside a neuron module aside)."""
    reached = frozenset(recording.reached)
    neurons = tuple(f"{c.path}." for c in flow.calls if c.kind == "neuron" and c.path in reached)
    layers = [path for path, inner in module.named_modules() if path and not any(True for _ in inner.children())]
    skipped = [path for path in layers if path not in reached and not path.startswith(neurons)]
    if not skipped:
        return flow
    shown = ", ".join(quoted(path) for path in skipped[:5])
    shown += f" and {len(skipped) - 5} more" if len(skipped) > 5 else ""
    return replace(flow, notes=(*flow.notes, f"never called by forward, so not imported: {shown}"))


# -- states --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StateOrigin:
    """Where a state comes from that a neuron is given.

    ``kind``: ``own`` (the same state as the neuron returned it in its previous call), ``input`` (an argument of
    forward), ``zero``, ``absent`` (None), else ``other``. ``text``: what it is, and in place of which state.
    """

    kind: str
    text: str = ""


def foreign_states(
    path: str,
    calls: Sequence[TracedCall],
    starts: Sequence[bool],
    stateless: Container[int],
    original: Callable[[TracedValue], TracedValue] = uncopied,
) -> list[Diagnostic]:
    """The first state given to a neuron that is not its own; empty where there is none.

    Args:
        path: that of the neuron.
        calls: its calls, in order.
        starts: for each of them: it is the first one in a call of forward, so that its states may be new ones.
        stateless: the calls in which a neuron that keeps no state was given none.
        original: finds the original of a copy.
    """
    kinds: set[str] = set()
    for number, (node, is_start) in enumerate(zip(calls, starts, strict=True)):
        absent = "zero" if node.index in stateless else "own"
        given = [
            replace(o, kind=absent) if o.kind == "absent" else o
            for o in origins(node, calls[number - 1] if number else None, original)
        ]
        texts = [f": {o.text}" for o in given if o.kind == "other" or not (is_start or o.kind == "own")]
        if is_start and number:
            before, kinds = kinds, {o.kind for o in given}
            if before not in (set(), kinds) or {"own"} < kinds:
                texts.append(": zeros, for some of its states or in some calls of forward only")
        if texts:
            found = f"the state passed to it in time step {number} is not the one that it returned before{texts[0]}"
            return [Diagnostic(place_label(path), found, "", "pass its state on unchanged, starting at zero")]
    return []


def origins(
    node: TracedCall, before: TracedCall | None, original: Callable[[TracedValue], TracedValue] = uncopied
) -> list[StateOrigin]:
    """The origin of each state of a neuron's call. The states that it takes are the last of those that it returns.

    Args:
        node: the call.
        before: the call before, of the same neuron.
        original: finds the original of a copy.
    """
    passed = passed_states(node.args, node.kwargs)
    outputs: list[Any] = [output for _, output in node.returned] or [*range(len(node.shapes))]
    outputs = [None] * (len(passed) - len(outputs)) + outputs[max(0, len(outputs) - len(passed)) :]
    return [_origin(state, output, node, before, original) for state, output in zip(passed, outputs, strict=True)]


def _origin(
    state: Any, output: Any, node: TracedCall, before: TracedCall | None, original: Callable[[TracedValue], TracedValue]
) -> StateOrigin:
    role = "" if output is None else f" in place of its {_output_name(node, output)}"
    if state is None:
        return StateOrigin("absent", "none, so that it starts anew")
    if not isinstance(state, TracedValue):
        return (
            StateOrigin("zero", f"zeros{role}")
            if is_zero(state)
            else StateOrigin("other", f"values that are not zero{role}")
        )
    value = original(state)
    source = value.node
    if source.kind == "input":
        return StateOrigin("input", f"the input {quoted(source.name)}{role}")
    if source.kind != "neuron":
        return StateOrigin("other", f"a result of {quoted(source.name.strip('_'))}{role}")
    name = _output_name(source, value.output)
    if source.path != node.path:
        return StateOrigin("other", f"the {name} of {place_label(source.path)}{role}")
    if source is not before:
        return StateOrigin("other", f"its {name} of an earlier time step")
    return StateOrigin("own") if value.output == output else StateOrigin("other", f"its {name}{role}")


_OUTPUT_NAMES = {
    **dict.fromkeys(("spk", "z"), "spikes"),
    **dict.fromkeys(("syn", "i"), "synaptic current"),
    **dict.fromkeys(("mem", "v"), "membrane potential"),
    "rho": "refractory counter",
}


def _output_name(node: TracedCall, output: int) -> str:
    """The spikes, the membrane …: by the name of the output in a state, else by that of the argument."""
    forward = getattr(type(node.module), "forward", None)
    arguments = [] if forward is None else list(inspect.signature(forward).parameters)
    returned = [number for _, number in node.returned]
    names = [name for name, number in node.returned if number == output]
    names += [name for name, number in zip(arguments[:1:-1], returned[::-1], strict=False) if number == output]
    word = next((_OUTPUT_NAMES[name] for name in names if name in _OUTPUT_NAMES), None)
    return word or ("spikes" if output == 0 else f"output {output}")

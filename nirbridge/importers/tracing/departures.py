"""Where a recording shows a known deviation: values rounded to 16 bits, states that start anew in every call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nirbridge._types import Shape
from nirbridge.errors import Diagnostic, quoted
from nirbridge.importers.dataflow import DataflowGraph
from nirbridge.importers.deviations import FULL_PRECISION, KEPT_STATES, Deviation
from nirbridge.importers.sample.axes import STEPS, WAY_OUT, SampleReading
from nirbridge.importers.tracing.recorder import ForwardTrace, TracedCall, TracedValue
from nirbridge.importers.tracing.values import label_of, states

STARTS_ANEW = "forward starts its state anew in every time step"


def half_precision_calls(recording: ForwardTrace) -> list[Deviation]:
    """Functions whose results have 16 bits, as under ``torch.autocast``."""
    return [
        Deviation(FULL_PRECISION, label_of(path), f"{quoted(name.strip('_'))} gives {number_format}")
        for path, name, number_format in dict.fromkeys(recording.halves)
    ]


def restarted_neurons(whole: ForwardTrace, is_sequence: Callable[[TracedCall], bool]) -> list[Deviation]:
    """Neurons that get no state of the call before: it was set anew, or the neuron keeps none and is handed none."""
    later: dict[str, list[TracedCall]] = {}
    for node in whole.nodes[whole.starts[1] :] if len(whole.starts) > 1 else ():
        if node.kind == "neuron" and not is_sequence(node):
            later.setdefault(node.path, []).append(node)
    fresh = frozenset(whole.resets) | frozenset(whole.stateless)
    paths = [path for path, nodes in later.items() if all(_is_fresh(node, fresh) for node in nodes)]
    return [Deviation(KEPT_STATES, label_of(path), STARTS_ANEW) for path in paths]


def ends_early(flow: DataflowGraph) -> list[Diagnostic]:
    """The problem of a loop over the first time steps only: a network that runs step by step hears all of them."""
    if not flow.loop.leaves_steps_out:
        return []
    found = (
        f"it loops over the first {flow.loop.iterations} of {flow.loop.time_steps} time steps, "
        "and leaves the others out"
    )
    step = "loop over all of them; where their number is fixed, give a sample of as many"
    return [Diagnostic(label_of(""), found, "a network computes every time step that it is given", step)]


def left_out(flow: DataflowGraph, shapes: Sequence[Shape], reading: SampleReading) -> list[Diagnostic]:
    """As ``ends_early`` of a longer trace, unless forward takes just as many time steps as it was tried with."""
    sizes = [n for shape in shapes for n, role in zip(shape, reading.roles(len(shape)), strict=True) if role == "time"]
    is_fixed = flow.loop.iterations == STEPS and all(n == STEPS for n in sizes)
    return [] if is_fixed else ends_early(flow)


def loops_once(flow: DataflowGraph) -> list[Diagnostic]:
    """The problem of a flow that may be one turn of a loop: states start anew, and an axis of size one is sliced."""
    if not flow.loop.has_only_part or all(d.name != KEPT_STATES for d in flow.deviations):
        return []
    found = "its states start anew, and it takes the only part of an axis of size one: perhaps that axis is time"
    return [Diagnostic(label_of(""), found, "", WAY_OUT)]


def _is_fresh(node: TracedCall, fresh: frozenset[int]) -> bool:
    given = states(node)
    return not any(isinstance(state, TracedValue) for state in given) if given else node.index in fresh

"""What a recording shows besides the data flow: known deviations, time steps left out, layers never called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from nirbridge._types import Shape
from nirbridge.errors import Diagnostic, quoted
from nirbridge.importers.dataflow import DataflowGraph, place_label
from nirbridge.importers.deviations import FULL_PRECISION, KEPT_STATES, Deviation
from nirbridge.importers.sample.axes import STEPS, WAY_OUT, SampleReading
from nirbridge.importers.tracing.recorder import ForwardTrace, TracedCall, TracedValue
from nirbridge.importers.tracing.values import states

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
    """The problem of a loop over the first time steps only: a network that runs step by step hears all of them."""
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
    """The problem of a flow that may be one turn of a loop: states start anew, and an axis of size one is sliced."""
    if not flow.loop.has_only_part or all(d.name != KEPT_STATES for d in flow.deviations):
        return []
    found = "its states are reset, and it takes the only slice of an axis of size one: that axis may be time"
    return [Diagnostic(place_label(""), found, "", WAY_OUT)]


def _is_fresh(node: TracedCall, fresh: frozenset[int]) -> bool:
    handed = states(node)
    return not any(isinstance(state, TracedValue) for state in handed) if handed else node.index in fresh


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

"""Origin of the states that a neuron is given: they have to be those that it returned in the previous time step."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nirbridge.errors import Diagnostic, quoted
from nirbridge.importers.dataflow import place_label
from nirbridge.importers.tracing.recorder import TracedCall, TracedValue
from nirbridge.importers.tracing.values import is_zero, passed_states, uncopied


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

"""One neuron module called with several states of its own in a step: each of them is a use, told apart by its state.

What counts is the state that a call is given. Where it is what the module returned before, the call belongs to the same
use. Where it is zeros (or None, and the module keeps nothing itself), it starts a use: the k-th start within a call of
forward is that of use k. A module that keeps its state shares it between all of its calls: these are one use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nirbridge.errors import Problem
from nirbridge.importers.tracing.recorder import Node, Recording, Value
from nirbridge.importers.tracing.values import is_zero, states, states_in, thing_of, uncopied

_MARK = " (use "
_ADVICE = "hand each use what it returned in the step before, from zeros: take the states as arguments and return them"


def place_of(path: str) -> str:
    """The path of the module itself, of a path that says which use."""
    return path.partition(_MARK)[0]


@dataclass(slots=True)
class Uses:
    """Which use a call is, while a forward runs; ``started``, ``continued``: of each module in this call of forward."""

    started: dict[str, int] = field(default_factory=dict)
    continued: set[str] = field(default_factory=set)
    call: int = -1

    def path(self, path: str, given: tuple[tuple[Any, ...], Mapping[str, Any]], call: int, is_whole: bool) -> str:
        """The path of the use: that of the module for the first one.

        Args:
            path: the module's.
            given: its positional and its named arguments, values in the place of traced tensors.
            call: number of the call of forward.
            is_whole: whether the arguments are all of its state.
        """
        if call != self.call:
            self.started, self.continued, self.call = {}, set(), call
        handed = states_in(*given)
        is_own = any(isinstance(state, Value) for state in handed)
        self.continued |= {path} if is_own else set()
        if is_own and is_whole:
            return _own(path, handed)
        if not is_whole or path in self.continued or not all(is_zero(state) for state in handed):
            return path
        number = self.started[path] = self.started.get(path, 0) + 1
        return path if number == 1 else f"{path}{_MARK}{number})"


def _own(path: str, given: list[Any]) -> str:
    """The use that all states come from; the first where they come from elsewhere, which is refused later."""
    found = {uncopied(state).node.path for state in given if isinstance(state, Value)}
    use = min(found)
    return use if len(found) == 1 and place_of(use) == path else path


def never_handed_on(whole: Recording) -> list[Problem]:
    """Modules of several uses whose states start anew each time: nothing says which use goes on as which."""
    nodes: dict[str, list[Node]] = {}
    for node in whole.nodes:
        if node.kind == "neuron":
            nodes.setdefault(node.path, []).append(node)
    several = {place_of(path) for path in nodes if path != place_of(path)}
    lost = [path for path in nodes if not any(isinstance(s, Value) for node in nodes[path] for s in states(node))]
    places = dict.fromkeys(place_of(path) for path in lost if place_of(path) in several)
    text = "it is called several times in a step, each time with a state that starts anew"
    return [Problem(thing_of(p), text, "uses of one module are told apart by their states", _ADVICE) for p in places]

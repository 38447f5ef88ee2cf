"""Time steps of a population or of a whole network, computed: the one interpreter of terms, on an array library."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge.network.operators import Operator
from nirbridge.program.rewrites import in_halves, inlined
from nirbridge.program.step import Key, Past, StepProgram
from nirbridge.program.terms import Kind, Stepped, Term, in_order

COMPUTED: Mapping[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "neg": operator.neg,
    "floordiv": operator.floordiv, "shl": operator.lshift, "shr": operator.rshift, "and": operator.and_, "abs": abs,
    "not": operator.invert, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
"""Operations that arrays have themselves."""


@dataclass(frozen=True, slots=True)
class SteppedArrays:
    """What one time step of a population gives: see ``Stepped``."""

    sent: Any
    variables: Mapping[str, Any]
    state: Mapping[str, Any]


class Evaluator:
    """The time steps of a population on an array library.

    Args:
        step: the terms of the population.
        xp: the array library as a namespace: ``asarray``, ``where``, ``floor``.
        types: the type of each kind of values, with ``bool``.
        prepared: what becomes of the array of a coefficient, to move it to a device or to flatten it.
    """

    def __init__(
        self,
        step: Stepped,
        xp: Any,
        types: Mapping[Kind, Any],
        prepared: Callable[[Any], Any] = lambda values: values,
    ) -> None:
        self.step = step = inlined(in_halves(step))  # else the product of a large current leaves 64 bits
        self.xp = xp
        self.ends = [step.sent, *step.variables.values(), *step.state.values()]
        self.terms = list(in_order(self.ends))
        self.leaves = leaves(self.terms, xp, types, prepared)

    def __call__(self, args: Mapping[str, Any]) -> SteppedArrays:
        """One time step.

        ``args``: ``drive`` and ``state.u``, ``state.v``, ``state.i``, ``state.refractory`` as far as the step reads
        them: arrays ``[*batch, *shape]``.
        """
        made = dict(self.leaves)
        compute(self.terms, made, self.xp, lambda term, given: args[term.name])
        sent, *found = [made[id(term)] for term in self.ends]
        named = dict(zip(self.step.variables, found, strict=False))
        return SteppedArrays(sent, named, dict(zip(self.step.state, found[len(named) :], strict=True)))


Other = Callable[[Term, list[Any]], Any]
"""The values of an arg or of what is no operation of elements, from those of its arguments."""


def leaves(terms: Iterable[Term], xp: Any, types: Mapping[Kind, Any], prepared: Callable[[Any], Any]) -> dict[int, Any]:
    """The numbers and coefficients of terms as arrays, by ``id``."""
    made: dict[int, Any] = {}
    for term in terms:
        if term.op in ("const", "param"):
            made[id(term)] = prepared(xp.asarray(term.value, dtype=types[term.kind]))
    return made


def compute(terms: Iterable[Term], made: dict[int, Any], xp: Any, other: Other) -> None:
    """Adds the values of terms, each after its arguments, to ``made``."""
    for term in terms:
        if id(term) in made:
            continue
        given = [made[id(a)] for a in term.args]
        if term.op in ("min", "max"):
            a, b = given
            made[id(term)] = xp.where(b < a if term.op == "min" else a < b, b, a)
        elif term.op in ("where", "floor"):
            made[id(term)] = getattr(xp, term.op)(*given)
        elif term.op in COMPUTED:
            made[id(term)] = COMPUTED[term.op](*given)
        else:
            made[id(term)] = other(term, given)


Linear = Callable[[Operator, Kind], Callable[[Any], Any]]
"""An operator and the kind of its values -> its sums, ``[batch, *source shape] -> [batch, *target shape]``."""


@dataclass(frozen=True, slots=True)
class Run:
    """Variables of all time steps, ``[steps, batch, *shape]``, by name and variable, and the state after the last one.

    Variables are ``s`` of inputs, populations and outputs, ``u``, ``v`` and ``i`` of populations.
    """

    arrays: Mapping[tuple[str, str], Any]
    state: Mapping[Key, Any]


class ProgramEvaluator:
    """The time steps of a network on an array library.

    Args:
        program: the network.
        xp, types: as of ``Evaluator``; types with ``real`` for integers, too, where outputs are read.
        linear: see ``Linear``.
    """

    def __init__(self, program: StepProgram, xp: Any, types: Mapping[Kind, Any], linear: Linear) -> None:
        self.program = program = inlined(in_halves(program))
        self.xp, self.types = xp, types
        self.terms = list(in_order(program.ends))
        self.leaves = leaves(self.terms, xp, types, lambda values: values)
        self.linear = {id(t): linear(t.value, t.kind) for t in self.terms if t.op == "linear"}

    def first(self, batch: int) -> dict[Key, Any]:
        """The state before the first time step."""
        found = {}
        for (name, variable), values in self.program.initial.items():
            kind = "count" if variable == "refractory" else self.program.kind
            found[name, variable] = self._full((batch, *values.shape), values, kind)
        for key, h in self.program.histories.items():
            found[key] = self._full((h.depth, batch, *h.shape), np.int64(0), h.term.kind)
        return found

    def _full(self, shape: tuple[int, ...], values: Any, kind: Kind) -> Any:
        return self.xp.asarray(np.array(np.broadcast_to(values, shape)), dtype=self.types[kind])

    def run(self, inputs: Mapping[str, Any], state: Mapping[Key, Any]) -> Run:
        """All time steps of ``inputs``, ``[steps, batch, *shape]`` by name, from ``first`` or a ``Run``."""
        found: dict[Key, list[Any]] = {}
        for t in range(len(next(iter(inputs.values())))):
            variables, state = self.step({name: values[t] for name, values in inputs.items()}, state)
            for key, values in variables.items():
                found.setdefault(key, []).append(values)
        return Run({key: self.xp.stack(values) for key, values in found.items()}, state)

    def step(self, inputs: Mapping[str, Any], state: Mapping[Key, Any]) -> tuple[dict[Key, Any], dict[Key, Any]]:
        """The variables of one time step, and the next state."""

        def other(term: Term, given: list[Any]) -> Any:
            if term.op == "arg":
                return inputs[term.name] if term.value is None else state[term.value]
            if term.op == "past":
                return self._past(term.value, state[term.value.key], given)
            return self.linear[id(term)](given[0]) if term.op == "linear" else self._real(given[0])

        program, made = self.program, dict(self.leaves)
        compute(self.terms, made, self.xp, other)
        shape = {name: made[id(term)].shape for name, term in program.inputs.items()}
        batch = next(iter(shape.values()))[0]
        variables = {(name, v): t for name, step in program.populations.items() for v, t in step.variables.items()}
        variables |= {(name, "s"): t for name, t in {**program.inputs, **program.outputs}.items()}
        values = {key: made[id(t)] for key, t in variables.items()}
        following = dict(state)
        for name, step in program.populations.items():
            for variable, term in step.state.items():
                like = program.initial[name, variable]
                following[name, variable] = self.xp.broadcast_to(made[id(term)], (batch, *like.shape))
        for key, h in program.histories.items():
            now = self.xp.broadcast_to(made[id(h.term)], (batch, *h.shape))
            following[key] = self.xp.concatenate([state[key][1:], now[None]])
        return values, following

    def _past(self, past: Past, remembered: Any, given: list[Any]) -> Any:
        """Values of some time steps before; the latest is the last that is remembered."""
        delays, depth = past.delays, len(remembered)
        total = None
        for delay in np.unique(delays):
            values = given[0] if delay == 0 else remembered[depth - int(delay)]
            here = self.xp.asarray(delays == delay)
            total = values if total is None else self.xp.where(here, values, total)
        return total

    def _real(self, values: Any) -> Any:
        return self.xp.asarray(values, dtype=self.types["real"])

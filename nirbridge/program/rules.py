"""Rules of neurons: one time step of a population, each stated once. All that is printed or evaluated comes from here.

``simulators/reference/semantics.py`` and ``simulators/mapped/core.py`` say the same by hand, on purpose: two oracles.
A rule is a plain function ``(xp, neuron, drive, state) -> Stepped``; it decides by what all neurons of the population
share (no refractory period, no floor, one spike) and leaves products by 1 and sums with 0 to the terms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from nirbridge.network.neurons import Neuron, first_state
from nirbridge.program.terms import Kind, Stepped, Term, Tracing
from nirbridge.quantization.formats import DECAY_ONE, INPUT_SHIFT
from nirbridge.quantization.model import FixedNeuron

State = Mapping[str, Term]
Rule = Callable[[Tracing, Any, Term, State], Stepped]


def canonical(xp: Tracing, n: Any, drive: Term, state: State) -> Stepped:
    """The canonical neuron in reals; equations and order of operations: ``network/neurons.py``."""
    i = xp.let("i", state["i"] * xp.param("a_syn", n.a_syn) + xp.param("g_syn", n.g_syn) * drive)
    potential = xp.param("a_mem", n.a_mem) * state["v"] + xp.param("g_mem", n.g_mem) * i
    u = xp.let("u", potential + xp.param("bias", n.bias))
    if n.theta is None:
        return Stepped(u, {"s": u, "v": u, "u": u, "i": i}, {"v": u, "i": i})
    v_reset, theta, following = xp.param("v_reset", n.v_reset), _raised(xp, n, "theta", state), {"i": i}
    held = _held(xp, n, state)
    if held is not None:
        u = xp.let("u", xp.where(held, v_reset, u))
    fired = u > theta if n.compare == ">" else u >= theta
    fired = xp.let("fired", fired if held is None else fired & ~held)
    if held is not None:
        following["refractory"] = _refractory(xp, n, fired, state)
    several = n.max_spikes > 1
    spikes = xp.let("spikes", xp.where(fired, xp.minimum(xp.floor(u / theta), n.max_spikes) if several else 1, 0))
    v = u
    if n.reset == "subtract":
        v = xp.let("v", u - _amount(xp, n, state) * spikes)
    elif n.reset == "to-value":
        v = xp.let("v", xp.where(fired, v_reset, u))
    v = v if n.v_min is None else xp.let("v", xp.maximum(v, xp.param("v_min", n.v_min)))
    following |= _adapted(xp, n, spikes, state)
    return Stepped(spikes, {"s": spikes, "v": v, "u": u, "i": i}, {**following, "v": v})


def loihi(xp: Tracing, n: Any, drive: Term, state: State) -> Stepped:
    """The integer neuron of Loihi, a superset of Lava's ``fixed_pt`` LIF: ``quantization/model.py``."""
    half, last = 1 << (n.u_bits - 1), (1 << (n.v_bits - 1)) - 1
    kept = _decay(xp, state["u"], DECAY_ONE - 1 - n.du, "keep_u")
    u = xp.let("u", kept + (drive << INPUT_SHIFT))
    u = xp.let("u", xp.where(u > half, u - 2 * half, u))
    u = xp.let("u", xp.where(u <= -half, u + 2 * half, u))
    v = xp.let("v", _decay(xp, state["v"], DECAY_ONE - n.dv, "keep_v") + u + xp.param("bias", n.bias))
    v = xp.let("v", xp.minimum(v, last))
    v = xp.let("v", xp.maximum(v, -last))
    if n.fires_above is None:
        return Stepped(v, {"s": v, "u": u, "v": v}, {"u": u, "v": v})
    held, following = _held(xp, n, state), {"u": u}
    if held is not None:
        v = xp.let("v", xp.where(held, 0, v))
    fired = v > _raised(xp, n, "fires_above", state)
    fired = xp.let("fired", fired if held is None else fired & ~held)
    if n.max_spikes == 1:
        spikes = xp.let("spikes", xp.where(fired, 1, 0))
    else:
        spikes = xp.let("spikes", xp.where(fired, xp.minimum(v // _size(xp, n, state), n.max_spikes), 0))
        fired = xp.let("fired", spikes > 0)
    if held is not None:
        following["refractory"] = _refractory(xp, n, fired, state)
    if n.reset == "subtract":
        v = xp.let("v", v - _amount(xp, n, state) * spikes)
    elif n.reset == "zero":
        v = xp.let("v", xp.where(fired, 0, v))
    v = v if n.v_min is None else xp.let("v", xp.maximum(v, xp.param("v_min", n.v_min)))
    following |= _adapted(xp, n, spikes, state)
    return Stepped(spikes, {"s": spikes, "u": u, "v": v}, {**following, "v": v})


def _raised(xp: Tracing, n: Any, name: str, state: State) -> Term:
    """A threshold, or what follows it, as it is in this time step, an adaptation included."""
    theta = xp.param(name, getattr(n, name))
    printed = {"reset_amount": "amount", "spike_size": "size"}.get(name, "threshold")
    return theta if n.adaptation is None else xp.let(printed, theta + state["b"])


def _amount(xp: Tracing, n: Any, state: State) -> Term:
    """What one spike subtracts."""
    in_reset = n.adaptation is not None and n.adaptation.in_reset
    return _raised(xp, n, "reset_amount", state) if in_reset else xp.param("reset_amount", n.reset_amount)


def _size(xp: Tracing, n: Any, state: State) -> Term:
    """The value of one of several spikes, at least 1."""
    if n.adaptation is None:
        return xp.param("spike_size", np.maximum(n.spike_size, 1))
    return xp.maximum(_raised(xp, n, "spike_size", state), 1)


def _adapted(xp: Tracing, n: Any, spikes: Term, state: State) -> dict[str, Term]:
    """The next state of an adaptation; nothing where there is none."""
    if (a := n.adaptation) is None:
        return {}
    b, jump = state["b"], xp.param("b_jump", a.jump)
    kept = xp.param("b_decay", a.decay) * b if xp.kind == "real" else _decay(xp, b, a.decay, "keep_b")
    return {"b": xp.let("b", kept + jump * spikes)}


def decayed(xp: Tracing, x: Term, keep: Term) -> Term:
    """``sign(x) * ((|x| * keep) >> 12)``: cut towards zero, as Lava does."""
    left = xp.let("left", (abs(x) * keep) >> 12)
    return xp.where(x < 0, -left, left)


def _decay(xp: Tracing, x: Term, keep: Any, name: str) -> Term:
    """What is kept of a state, ``keep`` parts of 4096."""
    if np.all(keep == DECAY_ONE):
        return x
    parts = xp.param(name, keep)
    return x * parts if not np.any(keep) else xp.call("decayed", decayed, x, parts)


def _held(xp: Tracing, n: Any, state: State) -> Term | None:
    """True within a refractory period; None where the population has none."""
    return xp.let("held", state["refractory"] > 0) if np.any(n.refractory_steps > 0) else None


def _refractory(xp: Tracing, n: Any, fired: Term, state: State) -> Term:
    """The time steps that are left of a refractory period."""
    steps = xp.param("refractory_steps", n.refractory_steps, "count")
    return xp.let("refractory", xp.where(fired, steps, xp.maximum(state["refractory"] - 1, 0)))


def traced(
    rule: Rule, n: Any, kind: Kind, drive: Term | None = None, of: str | None = None, *, is_open: bool = False
) -> Stepped:
    """One time step of a neuron record: terms over the arg ``drive`` and those of its state, ``state.v`` and others.

    ``drive``: a term in place of that arg; ``of``: the population, whose state the args are then; ``is_open``: see
    ``Tracing``.
    """
    state = _Args(kind, of)
    arriving = Term("arg", kind, (), None, "drive") if drive is None else drive
    return _stated(rule(Tracing(kind, is_open), n, arriving, state))


def _stated(step: Stepped) -> Stepped:
    """The time step with a statement for all that it sends and keeps: programs store one state after the other."""
    new: dict[int, Term] = {}
    for name, term in (*step.state.items(), ("s", step.sent)):
        if term.op == "arg" and term.name.startswith("state.") and term.name != f"state.{name}":
            new[id(term)] = Term("add", term.kind, (term, Term("const", term.kind, (), 0)), None, name)
        elif not term.name and term.args:
            new[id(term)] = replace(term, name=name)
    return step.replaced({id(t): new.get(id(t), t) for t in step.ends}) if new else step


class _Args(dict[str, Term]):
    """The state of a population: an arg for each name that a rule reads."""

    def __init__(self, kind: Kind, of: str | None) -> None:
        self.kind: Kind = kind
        self.of = of
        for name in ("u", "v", "i", "refractory"):  # so that a rule can unpack them
            self[name] = self[name]

    def __missing__(self, name: str) -> Term:
        kind: Kind = "count" if name == "refractory" else self.kind
        self[name] = arg = Term("arg", kind, (), None if self.of is None else (self.of, name), f"state.{name}")
        return arg


def traced_step(
    n: Neuron | FixedNeuron, drive: Term | None = None, of: str | None = None, *, is_open: bool = False
) -> Stepped:
    """One time step of a neuron by the rule of its numbers; see ``traced``."""
    rule, kind = RULES[type(n)]
    return traced(rule, n, kind, drive, of, is_open=is_open)


def first_value(n: Any, state: str) -> Any:
    """The value of a state before the first time step, by ``first_state``, or as ``v_init`` and the like, else 0."""
    return first_state(n).get(state, getattr(n, f"{state}_init", np.int64(0)))


def states_of(n: Neuron | FixedNeuron) -> dict[str, Any]:
    """The state before the first time step by name: that of the neuron record, and what its rule adds."""
    return first_state(n) | {name: first_value(n, name) for name in traced_step(n).state}


RULES: dict[type, tuple[Rule, Kind]] = {Neuron: (canonical, "real"), FixedNeuron: (loihi, "int")}
"""The rule of each kind of neuron record, and the kind of its numbers."""

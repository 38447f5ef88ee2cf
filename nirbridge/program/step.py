"""One time step of a whole network as terms: projections in their order, delays, cycles, what the host reads. Once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from nirbridge._types import Shape
from nirbridge.arrays import Array, compact
from nirbridge.network.graph import in_causal_order, population_groups
from nirbridge.network.model import Network, Projection
from nirbridge.program.rules import first_value, traced_step
from nirbridge.program.terms import Change, Kind, Stepped, Term, Tracing, in_order
from nirbridge.quantization.model import FixedProjection, QuantizedNetwork

Key = tuple[str, str]
"""A part of the state: of a population ``v``, ``i`` or ``u`` and ``refractory``, of what is delayed its past."""


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """The value of a ``past`` term: which values are remembered, and how many time steps before, for all or each."""

    key: Key
    delays: Array


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Values that are remembered for ``depth`` time steps, oldest first; ``term``: those of this time step."""

    term: Term
    depth: int
    shape: Shape


@dataclass(frozen=True, slots=True, eq=False)
class StepProgram:
    """One time step of a network.

    Attributes:
        inputs: what the inputs send, by name: args of that name, reals or a chip's integers.
        populations: by name, in the order in which a time step computes them.
        outputs: values of the outputs, in reals, by name.
        histories: what delays need, by key.
        initial: the first values of every state that a time step reads or gives, without a batch, by key.
        kind: ``real``, or ``int`` of a chip's integers.

    Terms of the current of projection k are named ``c{k}``, of a read of the host ``r{k}``, and
    ``c{k}_late`` where targets have delays; sums of currents are named ``drive``.
    """

    inputs: Mapping[str, Term]
    populations: Mapping[str, Stepped]
    outputs: Mapping[str, Term]
    histories: Mapping[Key, History]
    initial: Mapping[Key, Array]
    kind: Kind

    @property
    def ends(self) -> list[Term]:
        """Every term of it that a program may need, once."""
        found = [t for step in self.populations.values() for t in step.ends]
        found += [*self.inputs.values(), *self.outputs.values(), *(h.term for h in self.histories.values())]
        return list({id(t): t for t in found}.values())

    @property
    def carried(self) -> dict[Key, Term]:
        """The states that a time step reads, as args."""
        return {t.value: t for t in in_order(self.ends) if t.op == "arg" and t.value is not None}

    @property
    def of_samples(self) -> set[int]:
        """Ids of the terms that have a value for each sample: all but coefficients and what they alone yield."""
        found: set[int] = set()
        for term in in_order(self.ends):
            if term.op in ("arg", "past") or any(id(a) in found for a in term.args):
                found.add(id(term))
        return found

    def remade(self, change: Change) -> StepProgram:
        """The program with other terms in place of ``ends``."""
        new = dict(zip(map(id, self.ends), change(self.ends), strict=True))
        return replace(
            self,
            populations={name: step.replaced(new) for name, step in self.populations.items()},
            outputs={name: new[id(t)] for name, t in self.outputs.items()},
            histories={key: replace(h, term=new[id(h.term)]) for key, h in self.histories.items()},
        )


def step_program(model: Network | QuantizedNetwork) -> StepProgram:
    """One time step of a network in reals, or in a chip's integers (outputs in reals, as the host reads them)."""
    if isinstance(model, Network):
        model = in_causal_order(model)
        return _Builder(model, "real", model.projections, model.projections).program()
    return _Builder(model, "int", model.projections, model.reads).program()


@dataclass(slots=True)
class _Builder:
    model: Network | QuantizedNetwork
    kind: Kind
    projections: Sequence[Projection | FixedProjection]
    reads: Sequence[Projection]
    sent: dict[str, Term] = field(default_factory=dict)
    depths: dict[Key, int] = field(default_factory=dict)
    late: dict[Key, tuple[Term, Shape]] = field(default_factory=dict)

    def program(self) -> StepProgram:
        model, done, outputs = self.model, {}, {}
        self.sent = {p.name: Term("arg", self.kind, (), None, p.name) for p in model.inputs}
        inputs = dict(self.sent)
        for group in population_groups(cast(Network, model)):
            for p in group.populations:
                done[p.name] = traced_step(p.neuron, self._drive(p.name, self.kind, self.projections), p.name)
                self.sent[p.name] = done[p.name].sent
        for port in model.outputs:
            outputs[port.name] = self._drive(port.name, "real", self.reads)
        shapes = {x.name: x.shape for x in (*model.inputs, *model.populations)}
        sources = {(name, "past"): (term, shapes[name]) for name, term in self.sent.items()}
        found = {**sources, **self.late}
        histories = {key: History(found[key][0], depth, found[key][1]) for key, depth in self.depths.items()}
        initial = {
            (p.name, state): np.broadcast_to(first_value(p.neuron, state), p.shape)
            for p in model.populations
            for state in done[p.name].state
        }
        return StepProgram(inputs, done, outputs, histories, initial, self.kind)

    def _drive(self, target: str, kind: Kind, projections: Sequence[Any]) -> Term:
        """The currents of a target, added in the order of the projections."""
        letter = "c" if kind == self.kind else "r"
        currents = [self._current(f"{letter}{k}", p, kind) for k, p in enumerate(projections) if p.target == target]
        total = currents[0] if currents else Term("const", kind, (), 0)
        for current in currents[1:]:
            total = Term("add", kind, (total, current))
        return Tracing(kind).let("drive", total)

    def _current(self, name: str, p: Any, kind: Kind) -> Term:
        arriving = self._past((p.source, "past"), p.delay_steps, self.sent.get(p.source), self.kind)
        if kind != self.kind:
            arriving = self._as_real(p.source, arriving, name)
        xp, bias, current = Tracing(kind), getattr(p, "bias", None), Term("linear", kind, (arriving,), p.operator, name)
        if getattr(p, "weight_exp", 0):
            shift = Term("const", kind, (), abs(p.weight_exp))
            current = Term("shl" if p.weight_exp > 0 else "shr", kind, (current, shift), None, name)
        added = None if bias is None else xp.param(f"{name}.bias", bias)
        if np.any(p.target_delay_steps):
            key, name = (p.target, name), f"{name}_late"
            self.late[key] = current, p.operator.output_shape
            current = self._past(key, p.target_delay_steps, current, kind)
        return xp.let(name, current if added is None else current + added)

    def _past(self, key: Key, delays: Array, now: Term | None, kind: Kind) -> Term:
        """What was there ``delays`` time steps before; ``now``: what is there in this one, if that is known."""
        if not np.any(delays) and now is not None:
            return now
        self.depths[key] = max(self.depths.get(key, 0), int(np.max(delays)))
        args = () if now is None or np.all(delays > 0) else (now,)
        return Term("past", kind, args, Past(key, compact(np.asarray(delays))))

    def _as_real(self, source: str, arriving: Term, name: str) -> Term:
        """What the host takes a chip's integers for: spikes, graded inputs, and the v of readouts."""
        model, xp = cast(QuantizedNetwork, self.model), Tracing("real")
        real = Term("real", "real", (arriving,))
        for port in model.inputs:
            if port.name == source:
                return real * xp.param(f"{name}.scale", port.scale) if port.graded else real
        n = model.population(source).neuron
        if n.fires:
            return real
        return real / xp.param(f"{name}.scale", n.scale) + xp.param(f"{name}.offset", n.v_offset)

"""The stages of a circuit: registers where the next operation would be too late, as few bits of them as may be.

Times are those of an ECP5 of the slowest grade in ns, with the way to the next operation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nirbridge.emitters.verilog.operations import signed_bits
from nirbridge.program.interval import Interval
from nirbridge.program.terms import LEAVES, Term, in_order

MEMORY, REGISTER, GATE = 6.6, 0.6, 1.25
"""When inputs (from block RAM) and registers are there after the clock; one table of four inputs."""
SUM, CARRY, PRODUCT, WIDE = 1.9, 0.035, 6.0, 18
"""A sum, and each of its bits; a product of numbers that are no constants, and the bits that a multiplier takes."""
STAGE = 13.0
"""What a stage may take: 70 MHz with some reserve."""


@dataclass(slots=True)
class Pipeline:
    """The stage of every operation.

    Args:
        spans: intervals of terms by ``id``.
        outputs: terms by the name of the port; they are registers after the last stage.
        traced: those of the outputs that only simulations read.
    """

    spans: Mapping[int, Interval]
    outputs: Mapping[str, Term]
    traced: frozenset[str] = frozenset()
    terms: list[Term] = field(default_factory=list)
    stage: dict[int, int] = field(default_factory=dict)
    users: dict[int, list[Term]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.terms = [t for t in in_order(list(self.outputs.values())) if t.op != "const"]
        times: dict[int, float] = {}
        for t in self.terms:
            self.users[id(t)] = []
            for a in {id(a): a for a in t.args if a.op != "const"}.values():
                self.users[id(a)].append(t)
            self.stage[id(t)] = max((self.stage[id(a)] for a in t.args if a.op != "const"), default=0)
            if self._time(t, times) > STAGE and t.args:
                self.stage[id(t)] += 1
            times[id(t)] = self._time(t, times)
        while any(self._is_moved(t) for t in reversed(self.terms)):
            pass

    def is_part(self, term: Term) -> bool:
        """True for a shift that only stands within the text of a sum."""
        users = self.users[id(term)]
        is_one = len(users) == 1 and users[0].op in ("add", "sub") and term not in self.outputs.values()
        return term.op == "shl" and is_one and self.stage[id(users[0])] == self.stage[id(term)]

    @property
    def latency(self) -> int:
        """Clock cycles from inputs to outputs."""
        return 1 + max(self.stage.values(), default=0)

    def last_use(self, term: Term, *, traces: bool = True) -> int:
        """The last stage that reads a term; outputs are read after all stages."""
        read = [t for key, t in self.outputs.items() if traces or key not in self.traced]
        stages = [self.stage[id(t)] for t in self.users[id(term)]]
        return max([*stages, *(self.latency - 1 for t in read if t is term)], default=0)

    def bits(self, term: Term) -> int:
        """The width of a term as a wire."""
        return 1 if term.kind == "bool" else signed_bits(self.spans[id(term)])

    def _is_moved(self, term: Term) -> bool:
        """Moves an operation one stage on if then fewer bits pass from stage to stage; whether it did."""
        if not term.args or self.stage[id(term)] == self.latency - 1:
            return False
        bits = self._registers()
        self.stage[id(term)] += 1
        if self._registers() < bits and self._is_in_time():
            return True
        self.stage[id(term)] -= 1
        return False

    def _registers(self) -> int:
        """Bits that pass from stage to stage."""
        last = {id(t): self.last_use(t, traces=False) for t in self.terms}
        return sum(self.bits(t) * max(0, last[id(t)] - self.stage[id(t)]) for t in self.terms)

    def _is_in_time(self) -> bool:
        times: dict[int, float] = {}
        for t in self.terms:
            if any(self.stage[id(a)] > self.stage[id(t)] for a in t.args if a.op != "const"):
                return False
            times[id(t)] = self._time(t, times)
            if times[id(t)] > STAGE and times[id(t)] > REGISTER + self.delay(t):
                return False
        return True

    def _time(self, term: Term, times: Mapping[int, float]) -> float:
        """When an operation is done after the clock."""
        if not term.args:
            return MEMORY
        stage, args = self.stage[id(term)], [a for a in term.args if a.op != "const"]
        return max(times[id(a)] if self.stage[id(a)] == stage else REGISTER for a in args) + self.delay(term)

    def delay(self, term: Term) -> float:
        """The time of an operation."""
        if term.op in LEAVES or term.op in ("shl", "shr", "bits", "not", "sign"):
            return 0
        if term.op in ("where", "and"):
            return GATE
        if term.op == "any":
            return GATE * (1 + (term.args[1].value > 4))
        one = SUM + CARRY * max(self.bits(a) for a in (term, *term.args))
        if term.op == "mul":
            return PRODUCT + one * (max(self.bits(a) for a in term.args) > WIDE)
        return one

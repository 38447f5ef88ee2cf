"""The integer neuron, compiled (numba): its rule (``program/rules.py``), printed as a loop for each form that it has.

In 32 bits where these are proved to hold every value for states within their registers, else in 64.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, ClassVar

import numpy as np

from nirbridge.arrays import Array
from nirbridge.files.atomic import write_new
from nirbridge.files.scratch import cache_folder
from nirbridge.program.interval import fits, intervals
from nirbridge.program.printing import ATOM, Printer, Text
from nirbridge.program.rewrites import in_halves, inlined
from nirbridge.program.rules import traced_step
from nirbridge.program.terms import Stepped, Term
from nirbridge.quantization.model import FixedNeuron, FixedPopulation
from nirbridge.simulators.compiled.kernels.jit import jitted
from nirbridge.simulators.fixed.semantics import FixedState

_WORTH = 2048
"""Neurons times steps of a call from which turning the state into 32 bits and back pays."""
_EMPTY = np.zeros((0, 0, 0), np.int64)


@dataclass(frozen=True, slots=True)
class _Language:
    """Expressions of numba in whole numbers of ``kind``, which sums of 32 bits would leave without a cast."""

    leaf: Callable[[Term], str]
    kind: str
    table: ClassVar[Mapping[str, tuple[str, int]]] = {}
    forms: ClassVar[Mapping[str, str]] = {
        "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}", "neg": "-{}", "abs": "abs({})",
        "shl": "{} << {}", "shr": "{} >> {}", "where": "{1} if {0} else {2}", "and": "{} & {}", "not": "not {}",
        "min": "{0} if {0} < {1} else {1}", "max": "{0} if {0} > {1} else {1}",
        "lt": "{} < {}", "le": "{} <= {}", "gt": "{} > {}", "ge": "{} >= {}",
    }  # fmt: skip

    def special(self, term: Term, args: Sequence[Text]) -> tuple[str, int]:
        """See ``Language``: every operation."""
        text = self.forms[term.op].format(*(a.text for a in args))
        kinds = {"int": f"np.{self.kind}", "count": "np.int64"}
        return f"{kinds.get(term.kind, '')}({text})", ATOM

    def statement(self, name: str, text: str, term: Term, is_first: bool) -> str:
        """See ``Language``."""
        return f"{name} = {text}"


_FORM = """import numpy as np


@jitted
def row_NAME(drive, sent, state, values):
    ({arrays},) = state
    {names}values
    for n in range(drive.shape[0]):
        {lines}


@jitted
def run_NAME(a_in, sent, u_trace, v_trace, state, values):
    ({arrays},) = state
    for t in range(a_in.shape[0]):
        for b in range(a_in.shape[1]):
            row_NAME(a_in[t, b], sent[t, b], ({rows},), values)
            if u_trace.shape[0]:
                u_trace[t, b] = all_u[b]
            if v_trace.shape[0]:
                v_trace[t, b] = all_v[b]
"""


def _loop(step: Stepped, kind: str, size: int) -> tuple[Any, tuple[Array, ...]]:
    """The function of a time step in numbers of ``kind`` (int32, int64), and the coefficients that it takes."""
    values: dict[str, Array] = {}

    def leaf(term: Term) -> str:
        wide = "int64" if term.kind == "count" else kind
        if term.op == "param":
            values[term.name] = np.broadcast_to(term.value.reshape(-1), (size,)).astype(wide)
            return f"{term.name}[n]"
        if term.op == "const":
            return f"np.{wide}({term.value})"
        return f"np.{wide}(drive[n])" if term.name == "drive" else f"all_{term.name.removeprefix('state.')}[n]"

    printer = Printer(_Language(leaf, kind))
    sent, *texts = printer.write([step.sent, *step.state.values()])
    stored = [f"all_{name}[n] = {text}" for name, text in zip(step.state, texts, strict=True)]
    text = _FORM.format(
        arrays=", ".join(f"all_{name}" for name in step.state),
        rows=", ".join(f"all_{name}[b]" for name in step.state),
        names=f"({', '.join(values)},) = " if values else "",
        lines="\n        ".join([*printer.lines, *stored, f"sent[n] = {sent}"]),
    )
    return _compiled(text), tuple(values.values())


@cache
def _compiled(text: str) -> Any:
    """The function of a text, which lies in the cache folder so that numba keeps there what it compiles.

    Its functions have names of their own: those of one module, name and type share a symbol, also when they were
    compiled in other processes, and one would be called in place of the other.
    """
    digest = hashlib.sha256(text.encode()).hexdigest()[:24]
    path, text = cache_folder() / "kernels" / f"neuron_{digest}.py", text.replace("NAME", digest)
    with suppress(OSError):  # then it is compiled in each process
        path.parent.mkdir(parents=True, exist_ok=True)
        write_new(path, text.encode())
    place = str(path) if path.is_file() else f"<neuron_{digest}>"  # without a file numba has no cache
    found: dict[str, Any] = {"jitted": jitted, "__name__": __name__}
    exec(compile(text, place, "exec"), found)
    return found[f"run_{digest}"]


@lru_cache(maxsize=32)
def _proved(n: FixedNeuron, reach: int) -> tuple[Stepped, bool]:
    """The time step of neurons whose inputs are at most ``reach``, and whether 32 bits hold all of its values."""
    step = inlined(in_halves(traced_step(n)))
    if not step.state.keys() <= {"u", "v", "refractory"}:  # no register bounds the first value of another state
        return step, False
    args = {name: (-most, most) for name, most in (("state.u", 1 << (n.u_bits - 1)), ("state.v", 1 << (n.v_bits - 1)))}
    args |= {"drive": (-reach, reach), "state.refractory": (0, 1)}
    return step, fits(intervals(step, args), 32)


class FastFixedNeurons:
    """The integer neuron by its loop."""

    def __init__(self, population: FixedPopulation, reach: int) -> None:
        self.size, n = population.size, population.neuron
        self.step, self.is_narrow = _proved(n, reach)
        self.bounds = {"u": 1 << (n.u_bits - 1), "v": 1 << (n.v_bits - 1)}
        self.kept = list(self.step.state.items())
        self.loops: dict[str, tuple[Any, tuple[Array, ...]]] = {}

    def __call__(self, a_in: Array, state: FixedState, sent: Array, traces: Mapping[str, Array]) -> None:
        """See ``FixedNeurons``."""
        kind = "int32" if self.is_narrow and a_in.size >= _WORTH and self._is_held(state) else "int64"
        if kind not in self.loops:
            self.loops[kind] = _loop(self.step, kind, self.size)
        run, values = self.loops[kind]
        own = {n: state[n] if t.kind == "count" else state[n].astype(kind, copy=False) for n, t in self.kept}
        run(a_in, sent, traces.get("u", _EMPTY), traces.get("v", _EMPTY), tuple(own.values()), values)
        for name, changed in own.items() if kind == "int32" else ():
            state[name][:] = changed

    def _is_held(self, state: FixedState) -> bool:
        """False for an initial state that its registers do not hold."""
        return all(int(np.abs(state[name]).max(initial=0)) <= most for name, most in self.bounds.items())

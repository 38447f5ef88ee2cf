"""Values that forward reads out of tensors (``item``, ``bool``, ``numpy``), for logs, losses and assertions.

A value that is read is outside of the trace. It decides nothing if forward computes the same, or raises, whatever the
read answers. So forward is run again with other answers: truth values both ways, in all combinations that lead on;
numbers far up, far down and NaN. A number answers comparisons, which are reads of their own. The place of a read is the
line of the user's code; all reads at one place get the same answer.
"""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from nirbridge.errors import Diagnostic
from nirbridge.importers.tracing.memory import TooLarge

NUMBERS = frozenset(
    {
        "item",
        "tolist",
        "__bool__",
        "__float__",
        "__int__",
        "__index__",
        "__complex__",
        "__contains__",
        "__array__",
        "numpy",
        "equal",
        "allclose",
        "is_nonzero",
    }
)
"""Functions of tensors that return values."""
MOST_PLACES, MOST_RUNS, _KNOWN_MOST = 8, 60, 5
_REPORTED = 100
"""Operations that forward may compute more than it did with the values themselves, for the message that it raises."""
FAR = 2.0**20
OTHER_NUMBERS = (FAR, -FAR, math.nan)
NEAR = (0.0, 0.25, 0.5, 1.0, 2.0)
"""More answers where comparisons of the number go unnoticed."""

_EXACT = frozenset({"__float__", "__int__", "__index__", "__complex__"})
"""Python takes no subclass of a number from these."""
_LIBRARIES = frozenset({"nirbridge", "torch", "numpy"})
_COMPARISONS = ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "__bool__")
_ARITHMETIC = ("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__",
               "__floordiv__", "__rfloordiv__", "__mod__", "__rmod__", "__pow__", "__rpow__", "__neg__", "__pos__",
               "__abs__", "__round__")  # fmt: skip

Place = tuple[str, int, int, str]
"""Where a value is read: file, line and instruction of the user's function, name of the function or operator."""
Answers = Mapping[Place, Any]


class Diverged(BaseException):
    """Forward computes far more than it did with the values. No ``Exception``: user code must not catch it."""


@dataclass(slots=True)
class ReadPlace:
    """``truths``: the answers that were given, if they are truth values; ``problem``: the read, as a problem.

    ``is_silent``: it gives a plain number or an array, whose comparisons go unnoticed; ``near``: more answers,
    the numbers that the user's function knows, and one between each two of them.
    """

    is_truth: bool
    is_silent: bool = False
    near: tuple[float, ...] = ()
    truths: set[bool] = field(default_factory=set)
    problem: Diagnostic | None = None


class Reads:
    """The reads of one run.

    ``forced``: what is answered at a place in place of the value. ``most``: operations after which the run is stopped.
    """

    def __init__(self, forced: Answers | None = None, most: int | None = None) -> None:
        self.forced: Answers = forced or {}
        self.most = most
        self.places: dict[Place, ReadPlace] = {}
        self.is_open = True

    def answer(self, name: str, value: Any, problem: Diagnostic) -> Any:
        """What the function ``name`` returns in place of ``value``."""
        if isinstance(value, bool):
            return self.truth(name, value, problem)
        place = _place(name)
        is_silent = name in _EXACT or isinstance(value, np.ndarray)
        near = _near(_frame()) if is_silent else ()
        self.places.setdefault(place, ReadPlace(False, is_silent, near)).problem = problem
        value = _filled(value, self.forced[place]) if place in self.forced else value
        return value if name in _EXACT else self._guarded(value)

    def truth(self, name: str, value: bool, problem: Diagnostic | None = None) -> bool:
        """The answer of a comparison, or of another read of a truth value."""
        place = _place(name)
        read = self.places.setdefault(place, ReadPlace(True))
        read.problem = read.problem or problem
        answer = bool(self.forced.get(place, value))
        read.truths.add(answer)
        return answer

    def check(self, operations: int) -> None:
        """Nothing, while the run has recorded at most ``most`` operations.

        Raises:
            Diverged: it has recorded more.
        """
        if self.most is not None and operations > self.most:
            raise Diverged

    def _guarded(self, value: Any) -> Any:
        """Numbers that notice comparisons; arrays that cannot be written to, since tensors share their memory."""
        if isinstance(value, list):
            return [self._guarded(inner) for inner in value]
        if isinstance(value, np.ndarray):
            copied = value.copy()
            copied.flags.writeable = False
            return copied
        return noticing(value, self)


def plain(value: Any) -> Any:
    """A number that was read, as Python's own."""
    return value.plain() if isinstance(value, _NoticingFloat | _NoticingInt) else value


def noticing(value: Any, reads: Reads) -> Any:
    """A number whose comparisons are reads of ``reads``; anything else as it is."""
    kinds: dict[type, type] = {float: _NoticingFloat, int: _NoticingInt}
    if type(value) not in kinds or not reads.is_open:
        return value
    number = kinds[type(value)](value)
    number.reads = reads
    return number


def _compared(base: type, name: str) -> Callable[..., Any]:
    def compare(self: Any, *others: Any) -> Any:
        result = getattr(base, name)(self, *others)
        return result if result is NotImplemented or not self.reads.is_open else self.reads.truth(name, bool(result))

    return compare


def _computed(base: type, name: str) -> Callable[..., Any]:
    def compute(self: Any, *others: Any) -> Any:
        return noticing(getattr(base, name)(self, *others), self.reads)

    return compute


def _noticing_class(base: Any) -> Any:
    own = {name: _compared(base, name) for name in _COMPARISONS}
    own |= {name: _computed(base, name) for name in _ARITHMETIC if hasattr(base, name)}
    own |= {"__hash__": base.__hash__, "plain": lambda self: base(base.__pos__(self))}
    return type(f"Noticing{base.__name__}", (base,), own | {"__reduce__": lambda self: (base, (self.plain(),))})


_NoticingFloat, _NoticingInt = _noticing_class(float), _noticing_class(int)


def _frame() -> Any:
    """The innermost function of the user's code."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _LIBRARIES:
        frame = frame.f_back
    return frame


def _near(frame: Any) -> tuple[float, ...]:
    """Numbers that a function may compare with: its constants, variables and attributes; and one between each two."""
    code, values = frame.f_code, tuple(frame.f_locals.values())
    scopes = [frame.f_globals, *(getattr(value, "__dict__", {}) for value in values)]
    named = [scope[name] for name in code.co_names for scope in scopes if name in scope]
    known = [*code.co_consts, *named, *values]
    plain_numbers = [float(n) for n in known if type(n) in (int, float) and abs(n) < FAR]
    few = sorted(set(plain_numbers) - set(NEAR))[:_KNOWN_MOST]
    return (*few, *((a + b) / 2 for a, b in pairwise(few)))


def _place(name: str) -> Place:
    """The innermost instruction of the user's code."""
    frame = _frame()
    return frame.f_code.co_filename, frame.f_code.co_firstlineno, frame.f_lasti, name


def _filled(value: Any, number: float) -> Any:
    """``value`` with every number in it replaced."""
    if isinstance(value, list):
        return [_filled(inner, number) for inner in value]
    if isinstance(value, np.ndarray):
        is_whole = value.dtype.kind in "biu"
        return np.full_like(value, number > 0 if is_whole else number)
    if isinstance(value, bool | int):
        return type(value)(0 if math.isnan(number) else number)
    return type(value)(number)


class _Search:
    """Runs with other answers; ``rerun`` makes one, ``is_same`` tells whether it computed what the first run did."""

    def __init__(self, rerun: Callable[[Reads], Any], is_same: Callable[[Any], bool], most: int) -> None:
        self.rerun, self.is_same, self.most = rerun, is_same, most
        self.runs = 0

    def decide_nothing(self, places: Mapping[Place, ReadPlace]) -> bool:
        """True if no answer at any place changes what is computed."""
        if not self._branches({}, places, ()):
            return False
        numbers = (
            (p, OTHER_NUMBERS + (NEAR + read.near) * read.is_silent) for p, read in places.items() if not read.is_truth
        )
        for forced in ({place: answer} for place, answers in numbers for answer in answers):
            reached = self._run(forced)
            if reached is None or not self._branches(forced, reached, places):
                return False
        return True

    def _branches(self, forced: Answers, places: Mapping[Place, ReadPlace], known: Collection[Place]) -> bool:
        """The same of every combination of truth values at places that are not ``known``."""
        is_open = (p for p, read in places.items() if read.is_truth and p not in forced and p not in known)
        place = next(is_open, None)
        if place is None:
            return True
        for answer in (True, False):
            more = {**forced, place: answer}
            reached = places if places[place].truths == {answer} else self._run(more)
            if reached is None or not self._branches(more, reached, known):
                return False
        return True

    def _run(self, forced: Answers) -> Mapping[Place, ReadPlace] | None:
        """The places that a run reads at, perhaps until it raises; None where it computes something else."""
        self.runs += 1
        if self.runs > MOST_RUNS:
            return None
        reads = Reads(forced, self.most)
        try:
            with _unseen():
                trace = self.rerun(reads)
        except (Diverged, TooLarge):
            return None
        except (Exception, SystemExit):  # whatever the user's assertions raise
            return _few(reads.places)
        return _few(reads.places) if trace.failure or self.is_same(trace) else None


def _few(places: Mapping[Place, ReadPlace]) -> Mapping[Place, ReadPlace] | None:
    return places if len(places) <= MOST_PLACES else None


def decide_nothing(
    places: Mapping[Place, ReadPlace],
    rerun: Callable[[Reads], Any],
    is_same: Callable[[Any], bool],
    operations: int,
) -> bool:
    """True if forward computes the same, or raises, whatever is answered at ``places``.

    Args:
        places: those of a run that got the values themselves.
        rerun: makes the same run with other answers.
        is_same: whether its trace is that of the first run.
        operations: how many the first run recorded.
    """
    return bool(_few(places)) and _Search(rerun, is_same, operations + _REPORTED).decide_nothing(places)


@contextmanager
def _unseen() -> Iterator[None]:
    """Without what the user's code prints on such a run; a debugger or a question finds the end of the input."""
    saved = sys.stdin, sys.breakpointhook
    sys.stdin, sys.breakpointhook = io.StringIO(""), _interrupt
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        sys.stdin, sys.breakpointhook = saved


def _interrupt(*args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError("a breakpoint")

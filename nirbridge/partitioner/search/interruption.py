"""Ctrl-C during a search: the blocks found so far travel with the exception; CP-SAT is run so that it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from nirbridge.partitioner.cost.axons import Blocks

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, CpSolver


P = ParamSpec("P")
T = TypeVar("T")


class SearchInterrupted(KeyboardInterrupt):
    """A search ended by KeyboardInterrupt; ``blocks``: the best legal ones so far, None if there are none."""

    def __init__(self, blocks: Blocks | None) -> None:
        super().__init__()
        self.blocks = blocks


def interrupted(error: KeyboardInterrupt, blocks: Blocks | None) -> SearchInterrupted:
    """The exception with the better of ``blocks`` and what ``error`` brings; fewer cores are better."""
    found = [b for b in (blocks, error.blocks if isinstance(error, SearchInterrupted) else None) if b is not None]
    return SearchInterrupted(min(found, key=len, default=None))


@contextmanager
def keeping(blocks: Blocks | None) -> Iterator[None]:
    """An interrupt within takes the best blocks of before along."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise interrupted(error, blocks) from error


def kept(blocks: Blocks | None, search: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """``search(...)``; an interrupt of it takes the best blocks of before along."""
    with keeping(blocks):
        return search(*args, **kwargs)


def finished(keep_best: bool, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> tuple[T, bool]:
    """``work(...)``, which is short and ends a search, and whether an interrupt came: then it is done once more.

    Without ``keep_best`` the interrupt goes on.
    """
    try:
        return work(*args, **kwargs), False
    except KeyboardInterrupt:
        if not keep_best:
            raise
        return work(*args, **kwargs), True


# -- solver --------------------------------------------------------------------------------------------------------
# CP-SAT with deterministic answers that Ctrl-C can interrupt.

_LOOK_SECONDS = 0.05


def linear_work(nonzeros: int, iterations: int) -> float:
    """About the seconds that a linear program takes: 2 ns for each nonzero in each iteration of the simplex.

    A count, so that it is the same everywhere; measured with HiGHS on programs of 50,000 nonzeros (1.3 to 2.7 ns).
    """
    return 2e-9 * nonzeros * (iterations + 1000)


def solver_for(time: float, seed: int) -> CpSolver:
    """A solver whose answer depends on the model and the seed alone; ``time`` is deterministic time."""
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    solver.parameters.max_deterministic_time = time
    solver.parameters.catch_sigint_signal = False  # else Ctrl-C would pass for a search that ran out of time
    return solver


def solve(solver: CpSolver, model: CpModel) -> Any:
    """The status of ``solver.solve(model)``; an exception in this thread, as of Ctrl-C, ends the search.

    Python acts on a signal only between its own instructions, and a search is one long call; so it runs in a thread
    of its own and this one waits.
    """
    if threading.current_thread() is not threading.main_thread():
        return solver.solve(model)
    outcome: list[Any] = []
    ended = threading.Event()  # a join that is interrupted takes the thread for ended
    searching = threading.Thread(target=_search, args=(solver, model, outcome, ended), daemon=True)
    try:
        searching.start()
        ended.wait()
    except BaseException:
        while searching.is_alive() and not ended.wait(_LOOK_SECONDS):
            solver.stop_search()  # does nothing where the search has not begun
        raise
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def _search(solver: CpSolver, model: CpModel, outcome: list[Any], ended: threading.Event) -> None:
    try:
        outcome.append(solver.solve(model))
    except BaseException as error:
        outcome.append(error)
    finally:
        ended.set()

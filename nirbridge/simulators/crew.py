"""The threads of one run: the caller's own, and others that live as long as the run."""

from __future__ import annotations

from _thread import start_new_thread
from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType

from nirbridge.errors import UsageError

Work = Callable[[int], None]
"""What a thread of that number does; it notes its own errors."""


class Crew:
    """``count`` threads that do pieces of work together: the caller's is the first; the end of the block ends the rest.

    A thread starts with the first work that needs it, and the caller does not wait until it runs: a sleeping core takes
    a third of a millisecond to begin, in which the caller does its own part.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._tasks: list[SimpleQueue[Work | None]] = []
        self._done: SimpleQueue[int] = SimpleQueue()

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for tasks in self._tasks:
            tasks.put(None)

    def run(self, work: Work, count: int, errors: dict[int, BaseException]) -> None:
        """``work`` of the first ``count`` threads; returns when all are done. An interrupt is the first one's error."""
        begun = 0
        try:
            for part in range(1, count):
                self._give(part, work)
                begun += 1
            work(0)
        except RuntimeError:  # of a system that starts no more threads
            limit = f"the system starts no more than {begun + 1:,}"
            errors[0] = UsageError.of("threads", f"{count:,}", limit, "give fewer")
        except BaseException as error:
            errors[0] = error
        while begun:
            try:
                self._done.get()
                begun -= 1
            except BaseException as error:  # an interrupt: the others end their work first
                errors.setdefault(0, error)

    def _give(self, part: int, work: Work) -> None:
        if part > len(self._tasks):
            tasks: SimpleQueue[Work | None] = SimpleQueue()
            start_new_thread(_serve, (part, tasks, self._done))
            self._tasks.append(tasks)
        self._tasks[part - 1].put(work)


def _serve(part: int, tasks: SimpleQueue[Work | None], done: SimpleQueue[int]) -> None:
    while (work := tasks.get()) is not None:
        try:
            work(part)
        finally:
            done.put(part)

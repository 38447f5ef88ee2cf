"""Programs in a process of their own that stays open: a guard ends it with the session, or with this process."""

from __future__ import annotations

import socket
import sys
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters import serve
from nirbridge.emitters.lava.runtime.run import RunLimits, log_text
from nirbridge.emitters.lava.runtime.supervision import begin, start_guard
from nirbridge.errors import ModelError
from nirbridge.files.atomic import write_new
from nirbridge.files.regular import template_bytes


class _Held:
    """A state that the process holds: dropped there by the next call after it is dropped here."""

    def __init__(self, number: int, batch: int, unused: list[int]) -> None:
        self.number, self.batch, self._unused = number, batch, unused

    def __del__(self) -> None:
        self._unused.append(self.number)


class ServedProgram:
    """A program whose ``served.py`` keeps it loaded in another process; see ``LoadedProgram``.

    Args:
        files: of the program, and ``served.py``, whose functions are those of ``LoadedProgram``.
        limits: when a call is ended, and the process with it.
        tool: the name for messages.

    Raises:
        ModelError: of every call: the process failed or did not answer in time; its log is in the message.
    """

    def __init__(self, files: Mapping[str, bytes], limits: RunLimits, tool: str) -> None:
        self._limits, self._tool, self._lock = limits, tool, Lock()
        self._count, self._unused = 0, list[int]()
        stack = ExitStack()
        self.close = weakref.finalize(self, stack.close)
        ours, theirs = socket.socketpair()
        self._link = serve.Link(ours)
        stack.callback(self._link.close)
        with theirs:
            guarding, self._scratch = stack.enter_context(start_guard([theirs.fileno()]))
            folder = self._scratch / "program"
            folder.mkdir()
            for name, content in {**files, "serve.py": template_bytes(Path(serve.__file__))}.items():
                write_new(folder / name, content)
            command = [sys.executable, f"{folder}/serve.py", str(theirs.fileno())]
            begin(guarding, command, self._scratch, descriptors=[theirs.fileno()])
        self._answer(limits.start_s)

    def enter(self, arrays: Mapping[str, Array], batch: int) -> _Held:
        """See ``LoadedProgram``."""
        return self._call(0, batch, ("enter", batch), arrays)[1]

    def leave(self, state: _Held) -> Mapping[str, Array]:
        """See ``LoadedProgram``."""
        return self._call(state.number, state.batch, ("leave",), {})[0]

    def advance(
        self, state: _Held, values: Mapping[str, Array], names: Sequence[str], steps: int
    ) -> tuple[Mapping[str, Array], _Held]:
        """See ``LoadedProgram``."""
        return self._call(state.number, state.batch, ("advance", tuple(names), steps), values, steps)

    def _call(
        self, before: int, batch: int, facts: Any, arrays: Mapping[str, Array], steps: int = 1
    ) -> tuple[dict[str, Array], _Held]:
        """The arrays of an answer, and the state that the call made; ``before``: the number of the one it is given."""
        with self._lock:
            self._count += 1
            made = _Held(self._count, batch, self._unused)
            dropped = [self._unused.pop() for _ in range(len(self._unused))]
            numbers = np.array([before, made.number, *dropped])
            request = facts, {**arrays, "states": numbers}
            return self._answer(self._limits.seconds(steps * batch, 0), *request), made

    def _answer(self, seconds: float, *request: Any) -> dict[str, Array]:
        """The arrays of the answer to a request; without one, of the message that the program is loaded."""
        try:
            self._link.end.settimeout(seconds)
            if request:
                self._link.send(*request)
            error, found = self._link.receive()
        except TimeoutError:
            raise self._ended(f"gave no answer within {seconds:.0f} s and was ended") from None
        except (EOFError, OSError):
            raise self._ended("ended") from None
        except (ValueError, TypeError, RecursionError):
            raise self._ended("gave an answer that is none") from None
        except BaseException:  # interrupted: the next call would get this answer
            self.close()
            raise
        if error:
            raise ModelError.of("program", f"failed in {self._tool}:\n{error.strip()}", log=error)
        return found

    def _ended(self, how: str) -> ModelError:
        """The error of a process that is gone, or that is ended here."""
        log = log_text(self._scratch / "log")
        self.close()
        shown = f"{how}; its log ends with:\n{log}" if log else f"{how}; it wrote no log"
        return ModelError.of("program", f"its process in {self._tool} {shown}", "", "open it again", log=log)

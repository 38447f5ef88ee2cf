"""Programs in a process of their own that stays open: a guard ends it with the session, or with this process."""

from __future__ import annotations

import json
import socket
import struct
import sys
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.lava.runtime.run import RunLimits, log_text
from nirbridge.emitters.lava.runtime.supervision import begin, start_guard
from nirbridge.emitters.program import TEMPLATES
from nirbridge.errors import ModelError
from nirbridge.files.atomic import write_new
from nirbridge.files.json_text import parse_json
from nirbridge.files.regular import template_bytes

_LENGTHS = struct.Struct("<QQ")
_HEAD_BYTES_MAX, _BODY_BYTES_MAX = 2**24, 2**40


class _Held:
    """A state that the process holds: dropped there when it is dropped here."""

    def __init__(self, number: int, batch: int, unused: list[int]) -> None:
        self.number, self.batch = number, batch
        weakref.finalize(self, unused.append, number)


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
        self._link, theirs = socket.socketpair()
        stack.callback(self._link.close)
        with theirs:
            guarding, self._scratch = stack.enter_context(start_guard([theirs.fileno()]))
            folder = self._scratch / "program"
            folder.mkdir()
            for name, content in {**files, "serve.py": template_bytes(TEMPLATES / "serve.py.txt")}.items():
                write_new(folder / name, content)
            command = [sys.executable, f"{folder}/serve.py", str(theirs.fileno())]
            begin(guarding, command, self._scratch, descriptors=[theirs.fileno()])
        self._answer(limits.start_s)

    def enter(self, arrays: Mapping[str, Array], batch: int) -> _Held:
        """See ``LoadedProgram``."""
        return self._call("enter", batch, {"batch": batch}, arrays, 1)[1]

    def leave(self, state: _Held) -> Mapping[str, Array]:
        """See ``LoadedProgram``."""
        return self._call("leave", state.batch, {"state": state.number}, {}, 1)[0]

    def advance(
        self, state: _Held, values: Mapping[str, Array], names: Sequence[str], steps: int
    ) -> tuple[Mapping[str, Array], _Held]:
        """See ``LoadedProgram``."""
        head = {"state": state.number, "names": list(names), "steps": steps}
        return self._call("advance", state.batch, head, values, steps)

    def _call(
        self, call: str, batch: int, head: Mapping[str, Any], arrays: Mapping[str, Array], steps: int
    ) -> tuple[dict[str, Array], _Held]:
        """The arrays of an answer, and the state that the call made."""
        with self._lock:
            self._count += 1
            made = _Held(self._count, batch, self._unused)
            unused, self._unused[:] = list(self._unused), ()
            self._send({**head, "call": call, "into": made.number, "free": unused}, arrays)
            return self._answer(self._limits.seconds(steps * batch, 0)), made

    def _send(self, head: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        given = {name: np.ascontiguousarray(values) for name, values in arrays.items()}
        listed = [(name, values.dtype.str, values.shape) for name, values in given.items()]
        text = json.dumps({**head, "arrays": listed}).encode("ascii")
        body = b"".join(values.tobytes() for values in given.values())
        try:
            self._link.sendall(_LENGTHS.pack(len(text), len(body)) + text + body)
        except OSError:
            raise self._ended("ended") from None

    def _answer(self, seconds: float) -> dict[str, Array]:
        try:
            self._link.settimeout(seconds)
            first, rest = _LENGTHS.unpack(self._received(_LENGTHS.size))
            if first > _HEAD_BYTES_MAX or rest > _BODY_BYTES_MAX:
                raise self._ended("gave an answer that is none")
            data = self._received(first + rest)
        except TimeoutError:
            raise self._ended(f"gave no answer within {seconds:.0f} s and was ended") from None
        except (EOFError, OSError):
            raise self._ended("ended") from None
        head: Any = parse_json(bytes(data[:first]), "answer of a program", bytes_max=_HEAD_BYTES_MAX)
        if head.get("error"):
            raise ModelError.of("program", f"failed in {self._tool}:\n{head['error'].strip()}", log=head["error"])
        found, place = {}, first
        for name, kind, shape in head["arrays"]:
            found[name] = np.frombuffer(data, kind, int(np.prod(shape)), place).reshape(shape)
            place += found[name].nbytes
        return found

    def _received(self, count: int) -> bytearray:
        data = bytearray(count)
        view = memoryview(data)
        while view:
            size = self._link.recv_into(view)
            if not size:
                raise EOFError
            view = view[size:]
        return data

    def _ended(self, how: str) -> ModelError:
        """The error of a process that is gone, or that is ended here."""
        log = log_text(Path(self._scratch) / "log")
        self.close()
        shown = f"{how}; its log ends with:\n{log}" if log else f"{how}; it wrote no log"
        return ModelError.of("program", f"its process in {self._tool} {shown}", "", "open it again", log=log)

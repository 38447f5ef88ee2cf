"""A program kept loaded in a process of its own, which is ``python serve.py DESCRIPTOR``, and the messages to it.

DESCRIPTOR is of a socket, whose other end a ``ServedProgram`` holds. ``served.py`` beside this file is the program,
with the functions of ``LoadedProgram``: its states stay in the process, by number, until they are dropped. Nothing of
nirbridge is imported here: the process runs a copy of this file.
"""

from __future__ import annotations

import json
import math
import socket
import struct
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

_LENGTHS = struct.Struct("<QQ")
_BUFFER_BYTES = 1 << 16
_HEAD_BYTES_MAX, _BODY_BYTES_MAX = 2**24, 2**40


class Link:
    """One end of a socket. A message is two lengths, a head as JSON, and the bytes of the arrays that the head lists.

    A head equal to the one before is left out: single time steps differ in the bytes of arrays alone.
    """

    def __init__(self, end: socket.socket) -> None:
        self.end, self._reader = end, end.makefile("rb", _BUFFER_BYTES)
        self._sent: Any = None
        self._received: Any = None

    def send(self, facts: Any, arrays: Mapping[str, Any]) -> None:
        """Send plain facts, and arrays by name."""
        given = {name: np.ascontiguousarray(values) for name, values in arrays.items()}
        head = facts, [(name, values.dtype.str, values.shape) for name, values in given.items()]
        text = b"" if head == self._sent else json.dumps(head).encode()
        self._sent, body = head, b"".join([values.tobytes() for values in given.values()])
        self.end.sendall(_LENGTHS.pack(len(text), len(body)) + text + body)

    def receive(self) -> tuple[Any, dict[str, Any]]:
        """The facts and arrays of the next message.

        Raises:
            EOFError: the other end is gone.
            ValueError, TypeError: it is no message.
        """
        length, rest = _LENGTHS.unpack(self._exactly(_LENGTHS.size))
        if length > _HEAD_BYTES_MAX or rest > _BODY_BYTES_MAX:
            raise ValueError(f"a message of {length:,} and {rest:,} bytes")
        if length:
            self._received = json.loads(self._exactly(length))
        data, place, arrays = self._exactly(rest), 0, {}
        facts, listed = self._received
        for name, kind, shape in listed:
            arrays[name] = np.frombuffer(data, kind, math.prod(shape), place).reshape(shape)
            place += arrays[name].nbytes
        return facts, arrays

    def close(self) -> None:
        """Close this end."""
        self._reader.close()
        self.end.close()

    def _exactly(self, count: int) -> bytes:
        data = self._reader.read(count)
        if len(data) < count:
            raise EOFError
        return data


def answer(served: Any, states: dict[int, Any], facts: Any, arrays: dict[str, Any]) -> Mapping[str, Any]:
    """The arrays that a request is answered with; it may make a state and drop others."""
    call, *more = facts
    before, after, *dropped = arrays.pop("states").tolist()
    for number in dropped:
        states.pop(number, None)  # a call that failed made none
    if call == "leave":
        return served.leave(states[before])
    if call == "enter":
        found, states[after] = {}, served.enter(arrays, *more)
    else:
        found, states[after] = served.advance(states[before], arrays, *more)
    return found


def main() -> None:
    """Answer requests until the other end is gone; the facts of an answer are the text of an error, else empty."""
    link, states = Link(socket.socket(fileno=int(sys.argv[1]))), {}
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        import served  # pyright: ignore[reportMissingImports]

        link.send("", {})
        while True:
            request = link.receive()
            try:
                found, error = answer(served, states, *request), ""
            except Exception:
                found, error = {}, traceback.format_exc()[-4000:]
            link.send(error, found)


if __name__ == "__main__":
    main()

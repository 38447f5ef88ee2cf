"""Ctrl-C: exit code 130 and one line at any moment, never a traceback.

``nirbridge.cli`` sees to it from its first line on; before that, Python's own start (and the script that pip made)
answers in its own way.

While modules are imported, and after the command has ended, the process leaves at once: an exception raised within an
import is swallowed or turned into another one by some extension modules. While a command works, KeyboardInterrupt
lets it clean up; a second Ctrl-C does not wait for that, since the next run sweeps what is left.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

EXIT_CODE = 130
MESSAGE = "nirbridge: interrupted"


def leave_on_interrupt() -> None:
    """From now on Ctrl-C ends the process at once."""
    _set(_leave)


def raise_on_interrupt() -> None:
    """From now on the first Ctrl-C raises KeyboardInterrupt, except during an import, which it ends at once."""
    _set(_raise)
    sys.unraisablehook = _unraisable


@contextmanager
def exit_on_termination() -> Iterator[None]:
    """Within it SIGTERM ends the process by SystemExit, so that what is open is cleaned up."""

    def terminate(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def leave_after_cleaning() -> NoReturn:
    """Ends a process whose work was cut off, and has been cleaned up.

    Python's own end would call destructors of objects that are half made, and stop threads within C++, which aborts.
    """
    sys.unraisablehook = lambda unraisable: None
    atexit._run_exitfuncs()  # pyright: ignore[reportAttributeAccessIssue]
    os._exit(EXIT_CODE)


def _set(handler: Any) -> None:
    try:
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as under nohup, or in the background of a script
            signal.signal(signal.SIGINT, handler)
    except ValueError:  # not the main thread
        return


def _leave(number: int = 0, frame: FrameType | None = None) -> NoReturn:
    del number, frame
    with suppress(OSError):
        os.write(2, f"{MESSAGE}\n".encode())
    os._exit(EXIT_CODE)


def _raise(number: int, frame: FrameType | None) -> NoReturn:
    if _is_importing(frame):
        _leave()
    _set(_leave)
    raise KeyboardInterrupt(number)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _unraisable(unraisable: Any) -> None:
    """Where Python cannot raise (in a destructor or a callback of C), an interrupt still ends the process."""
    if unraisable.exc_type is not None and issubclass(unraisable.exc_type, KeyboardInterrupt):
        _leave()
    sys.__unraisablehook__(unraisable)

"""The standard streams, including closed and full ones and those without a reader."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any, TextIO

import click

from nirbridge.errors import FileError

STDIN, STDOUT, STDERR = range(3)


def open_missing() -> bool:
    """Opens standard streams that are closed on ``/dev/null``; returns whether stdout was open.

    Else the next file that is opened would be taken for the stream: messages would be written into it.
    """
    was_open = [_is_open(descriptor) for descriptor in (STDIN, STDOUT, STDERR)]
    for descriptor, is_open in enumerate(was_open):
        if not is_open:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
    if sys.stdin is None:
        sys.stdin = open(STDIN, encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(STDOUT, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(STDERR, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    return was_open[STDOUT]


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


class ReaderGone(Exception):
    """The reader of our output closed it, as ``head`` does; that is no error."""


class Stdout:
    """stdout with nirbridge's exceptions where it cannot be written: an OSError would not name its source."""

    def __init__(self, stream: TextIO) -> None:
        """Passes everything on to ``stream``."""
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """As the stream; raises FileError where it is full, ReaderGone where its reader is."""
        try:
            return self._stream.write(text)
        except BrokenPipeError as error:
            raise ReaderGone from error
        except OSError as error:
            raise stdout_fault(error) from error

    def flush(self) -> None:
        """As ``write``."""
        try:
            self._stream.flush()
        except BrokenPipeError as error:
            raise ReaderGone from error
        except OSError as error:
            raise stdout_fault(error) from error


def stdout_fault(error: OSError) -> FileError:
    """The error of ours for a result that stdout did not take."""
    reason = error.strerror or str(error)
    return FileError.of("stdout", f"cannot be written ({reason})", "", "send the result somewhere else")


def closed_stdout() -> FileError:
    """The error of ours for a process that was started without a stdout."""
    return FileError.of("stdout", "is closed", "results are written to it", "send it to a file or /dev/null")


def write_to_stderr(text: str) -> None:
    """A line to stderr, or nowhere if stderr cannot be written."""
    with suppress(OSError):
        click.echo(text, err=True)


def abandon_failing_streams() -> None:
    """Send output that stdout and stderr buffer but cannot write to ``/dev/null``.

    Python would fail again when it flushes them at exit, with a traceback and exit code 120.
    """
    for stream, descriptor in ((sys.stdout, STDOUT), (sys.stderr, STDERR)):
        try:
            stream.flush()
        except (OSError, FileError, ReaderGone):
            redirect_to_null(descriptor)


def redirect_to_null(descriptor: int) -> None:
    """Discard everything written to the descriptor from now on."""
    with suppress(OSError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, descriptor)
        os.close(devnull)

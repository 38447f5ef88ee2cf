"""Unfinished results and temporary files and folders, and the removal of those whose process was killed.

An unfinished result that has a name is ``.NAME.16HEX.part`` beside its target, and its writer holds a lock on it for
as long as it lives: one that is not locked belongs to a killed process, and the next writer of NAME removes it.
Temporary folders have a prefix of ours, and are locked and swept in the same way. Temporary files have no name at all.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import signal
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

CACHE = "NIRBRIDGE_CACHE"
_NAME_MAX = 100
_HEX = re.compile(r"[0-9a-f]{16}")
_RANDOM = re.compile(r"[a-z0-9_]{8}")
_SUFFIX = ".part"


def cache_folder() -> Path:
    """Folder of files that can be made again: ``$NIRBRIDGE_CACHE``, else its folder in the user's cache."""
    override = os.environ.get(CACHE)
    if override:
        return Path(override).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "nirbridge"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "nirbridge"


def unfinished_name(name: str) -> str:
    """A new name for the unfinished form of ``name``."""
    return f"{_prefix(name)}{secrets.token_hex(8)}{_SUFFIX}"


def _prefix(name: str) -> str:
    # 100 characters can be 400 bytes; a file name holds 255.
    return "." + os.fsdecode(os.fsencode(name)[:_NAME_MAX]) + "."


def lock_unfinished(descriptor: int) -> None:
    """Marks an unfinished result as that of a living process; closing the descriptor, or death, ends it.

    On a file system without locks nothing is swept, and nothing fails.
    """
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def sweep(folder: str, name: str) -> None:
    """Removes unfinished results of ``name`` in ``folder`` that belong to this user and to no living process."""
    _sweep(folder, re.compile(re.escape(_prefix(name)) + _HEX.pattern + re.escape(_SUFFIX)))


def sweep_temporary(prefix: str) -> None:
    """Removes temporary folders that a killed process left: those named ``prefix`` and eight characters.

    Only folders of this user, that are no links and that no living process has locked, are removed.
    """
    _sweep(tempfile.gettempdir(), re.compile(re.escape(prefix) + _RANDOM.pattern))


@contextmanager
def temporary_folder(kind: str) -> Iterator[str]:
    """A new folder that is gone afterwards, also where SIGINT or SIGTERM ends the block.

    That of a process that was killed is removed by the next one of its kind.
    """
    prefix = f"nirbridge-{kind}-"
    sweep_temporary(prefix)
    with _unwound_by_sigterm(), contextlib.ExitStack() as stack:
        while True:
            path = tempfile.mkdtemp(prefix=prefix)
            stack.callback(remove_folder, path)
            with contextlib.suppress(FileNotFoundError):  # another process swept it before it was locked
                descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                stack.callback(os.close, descriptor)
                lock_unfinished(descriptor)
                if os.path.isdir(path):
                    break
        yield path


@contextmanager
def unnamed_file(name: str, content: bytes = b"") -> Iterator[str]:
    """The path of a new file in memory, which ends with the process; ``file_name`` of the path is ``name``.

    Where the system has no such files it is in a temporary folder.
    """
    if not hasattr(os, "memfd_create") or not os.path.isdir("/proc/self/fd"):
        with temporary_folder("file") as folder:
            path = os.path.join(folder, name)
            with open(path, "xb") as file:
                file.write(content)
            yield path
        return
    with os.fdopen(os.memfd_create(os.fsdecode(os.fsencode(name)[:_NAME_MAX])), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """One process at a time, by a file of that name, which is made where there is none and never followed.

    The lock goes with the process that holds it. Raises OSError.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def remove_folder(folder: str | os.PathLike[str]) -> None:
    """Remove a folder, even where Ctrl-C interrupts the removal (a second one ends the process at once).

    Of a link to a folder the link alone is removed.
    """
    with contextlib.suppress(OSError):
        os.unlink(folder)
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


class _Terminated(BaseException):
    """SIGTERM, as an exception that unwinds what is to be cleaned up."""


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise _Terminated


@contextmanager
def _unwound_by_sigterm() -> Iterator[None]:
    """Within it SIGTERM unwinds the block, and then ends the process as ever; nothing where others listen to it."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except _Terminated:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
        raise
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _sweep(folder: str, name: re.Pattern[str]) -> None:
    with contextlib.suppress(OSError):
        for entry in filter(name.fullmatch, os.listdir(folder)):
            with contextlib.suppress(OSError):  # locked by a living process, or removed by another one
                _remove_if_dead(os.path.join(folder, entry))


def _remove_if_dead(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid():
            return
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if stat.S_ISDIR(status.st_mode):
            shutil.rmtree(path, ignore_errors=True)
        elif stat.S_ISREG(status.st_mode):
            os.unlink(path)
    finally:
        os.close(descriptor)

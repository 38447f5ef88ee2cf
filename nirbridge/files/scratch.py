"""Unfinished results and temporary folders, and the removal of those whose process was killed.

An unfinished result that has a name is ``.NAME.16HEX.part`` beside its target, and its writer holds a lock on it for
as long as it lives: one that is not locked belongs to a killed process, and the next writer of NAME removes it.
Temporary folders (of the guard of a Lava run) have a prefix of ours, and are locked and swept in the same way.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import stat
import tempfile

_NAME_MAX = 100
_HEX = re.compile(r"[0-9a-f]{16}")
_RANDOM = re.compile(r"[a-z0-9_]{8}")
_SUFFIX = ".part"


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

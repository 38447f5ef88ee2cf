"""Interpreters that Lava can be installed for: Python 3.10 where there is one, else the current one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from nirbridge.errors import UsageError, quoted

OLDEST, NEWEST = (3, 10), (3, 13)
_SECONDS = 30


def base_python() -> Path:
    """A Python 3.10 that really runs, else the current interpreter.

    Raises:
        UsageError: the current one is too old or too new, and no Python 3.10 was found.
    """
    for candidate in _candidates():
        if _version(candidate) == OLDEST:
            return candidate
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        return Path(sys.executable)
    raise UsageError.of("Python for Lava", "none found", _limit(), "name one: nirbridge lava install --python PATH")


def python_version(python: Path) -> tuple[int, int]:
    """Major and minor version of an interpreter. Raises UsageError if it does not run or Lava does not run on it."""
    version = _version(python)
    if version is None:
        raise UsageError.of(f"Python {quoted(python)}", "does not run", "", "name another one with --python")
    if not OLDEST <= version <= NEWEST:
        raise UsageError.of(f"Python {quoted(python)}", f"is {version[0]}.{version[1]}", _limit(), "name another one")
    return version


def _limit() -> str:
    return f"Lava runs on {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"


def _candidates() -> Iterator[Path]:
    """Possible locations of Python 3.10: on the path, and in pyenv versions that are not selected."""
    executable = shutil.which("python3.10")
    if executable is None:
        return
    yield Path(executable)
    root = Path(os.environ.get("PYENV_ROOT") or Path(executable).parent.parent)
    if Path(executable).parent.name == "shims":
        yield from sorted(root.glob("versions/3.10.*/bin/python3.10"), reverse=True)


def _version(python: Path) -> tuple[int, int] | None:
    """None if it does not run, or cannot make environments (Debian without python3-venv)."""
    ask = "import ensurepip, sys, venv; sys.stdout.write('%d %d' % sys.version_info[:2])"
    try:
        done = subprocess.run([str(python), "-I", "-c", ask], capture_output=True, text=True, timeout=_SECONDS)
        major, minor = map(int, done.stdout.split())
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    return major, minor

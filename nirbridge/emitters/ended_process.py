"""A program in a process of its own that is waited for, and ended where it takes too long."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nirbridge.emitters.own_time import hear_own_time
from nirbridge.errors import ModelError

_LOG = 2000
"""Characters of its log that an error shows."""


def run_to_end(
    command: Sequence[str],
    folder: Path,
    seconds: float,
    *,
    stdin: Any = subprocess.DEVNULL,
    stdout: Any = subprocess.DEVNULL,
) -> None:
    """Run a command in a folder; the time that it states for its time steps is told to who listens.

    Raises:
        ModelError: it failed, or did not end in time and was killed.
    """
    process = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, cwd=folder)
    try:
        _, log = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise ModelError.of("program", f"did not end within {seconds:.0f} s and was killed") from None
    finally:
        process.kill()
        process.wait()
    text = log.decode("utf-8", "replace")
    if process.returncode != 0:
        shown = "".join(c for c in text[-_LOG:] if c.isprintable() or c == "\n")
        raise ModelError.of("program", f"failed with exit code {process.returncode}: {shown}", log=shown)
    hear_own_time(text)

"""A guard (``guard.py``) for one run: started before anything of the run exists, told to begin, and waited for."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from nirbridge._types import Progress
from nirbridge.emitters.lava.runtime import guard
from nirbridge.errors import FileError, ModelError
from nirbridge.files.atomic import write_new
from nirbridge.files.json_text import ANSWER_BYTES_MAX, parse_json
from nirbridge.files.regular import read_own
from nirbridge.files.scratch import sweep_temporary

_KEPT_SECONDS = 0.1
_SCRATCH = "nirbridge-lava-"


@contextmanager
def start_guard(descriptors: Sequence[int] = ()) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A guard that waits for orders, and its folder, which is gone at the end, also if this process is killed.

    ``descriptors``: open files that a command may get, as of ``begin``.
    """
    sweep_temporary(_SCRATCH)
    guarding = subprocess.Popen(
        [sys.executable, "-I", guard.__file__, str(os.getpid()), os.path.join(tempfile.gettempdir(), _SCRATCH)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=descriptors,
    )
    assert guarding.stdout is not None
    scratch = ""
    try:
        scratch = os.fsdecode(guarding.stdout.readline()).rstrip("\n")
        if not scratch:
            raise ModelError.of("guard of the program", "did not start", "", "is the temporary folder writable?")
        yield guarding, Path(scratch)
    finally:
        _stop(guarding)
        guarding.stdout.close()
        if scratch:
            shutil.rmtree(scratch, ignore_errors=True)  # where the guard was killed


def run_supervised(
    guarding: subprocess.Popen[bytes],
    command: list[str],
    scratch: Path,
    seconds: float,
    quiet_s: float,
    steps: int,
    progress: Progress | None,
    *,
    tool: str = "Lava",
    folder: str | None = None,
) -> dict[str, Any]:
    """The outcome as the guard saw it; None as code: it was killed.

    ``tool``: its name in the stages of progress; ``folder``: where the command runs, None: where this process does.
    """
    prefix, end = _prefix(), scratch / "end.json"
    try:
        begin(guarding, command, scratch, prefix=prefix, seconds=seconds, quiet_seconds=quiet_s, folder=folder)
        while guarding.poll() is None and not end.exists():
            _say(scratch, steps, progress, tool)
            time.sleep(_KEPT_SECONDS)
    except BaseException:
        _stop(guarding)
        raise
    finally:
        guard.remove_shared(prefix)
    try:
        return parse_json(read_own(end), "end of a process", bytes_max=ANSWER_BYTES_MAX)
    except (OSError, FileError):
        return {"why": "guard", "code": None}


def begin(
    guarding: subprocess.Popen[bytes],
    command: list[str],
    scratch: Path,
    *,
    prefix: str = "",
    seconds: float | None = None,
    quiet_seconds: float | None = None,
    folder: str | None = None,
    descriptors: Sequence[int] = (),
) -> None:
    """Let the guard start its command; see ``guard.py``. Without ``seconds`` it runs until the guard is left."""
    assert guarding.stdin is not None
    orders = {"command": command, "folder": folder, "prefix": prefix, "descriptors": list(descriptors)}
    orders |= {"log": str(scratch / "log"), "end": str(scratch / "end.json")}
    orders |= {"seconds": seconds, "quiet_seconds": quiet_seconds}
    write_new(scratch / "orders.json", json.dumps(orders).encode())
    with suppress(BrokenPipeError):
        guarding.stdin.write(b"\n")
        guarding.stdin.flush()


def _stop(guarding: subprocess.Popen[bytes]) -> None:
    """Tell the guard to end the run, where it has not, and wait for it."""
    assert guarding.stdin is not None
    with suppress(BrokenPipeError):
        guarding.stdin.close()
    guarding.wait()


def _say(scratch: Path, steps: int, progress: Progress | None, tool: str = "Lava") -> None:
    if progress is None:
        return
    try:
        done = int(read_own(scratch / "progress"))
    except (OSError, ValueError):
        progress(f"start {tool}", None)
        return
    progress(f"run in {tool}", min(1.0, done / steps))


def _prefix() -> str:
    """Begins the names of this run's shared memory; says which process it belongs to."""
    return f"nirb.{os.stat('/proc/self/ns/pid').st_ino if _has_proc() else 0}.{os.getpid()}.{secrets.token_hex(4)}."


def _has_proc() -> bool:
    return Path("/proc/self/ns/pid").exists()


def sweep_shared() -> None:
    """Remove leftovers of runs whose guard and caller were both killed."""
    if not _has_proc():
        return
    namespace = f"nirb.{os.stat('/proc/self/ns/pid').st_ino}."
    for file in (*guard.SHARED.glob(f"{namespace}*"), *guard.SHARED.glob(f"sem.{namespace}*")):
        pid = file.name.partition(namespace)[2].partition(".")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            guard.remove_shared(file.name.removeprefix("sem."))

"""Runs one command and sees to its end; run as a program of its own: ``python guard.py PARENT FOLDER``.

It makes a folder for the run, whose name begins with FOLDER, locks it and writes the name to its standard output.
After a line from standard input it starts the command of ``orders.json`` in its own session, and when that ends, takes
too long, makes no progress, or the parent has exited, kills every process of the session and removes the shared memory
of the run. Standard input is a pipe that the parent holds open: EOF means that the parent has exited, or needs the
folder no longer; the guard then removes it. Nothing of nirbridge is imported here, so that it starts at once.

``orders.json``: command, folder (where it runs; none: here), prefix (of shared memory), log, end (a file for the
outcome), seconds, quiet_seconds (without progress; null in place of both: no limit), descriptors (open files that the
command gets from this process).
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
SHARED = Path("/dev/shm")
_LOOK_SECONDS = 0.1
_TRACKER_SECONDS = 3.0


def main(parent: str, beginning: str) -> int:
    """Makes the folder, runs, and removes the folder when it is needed no longer."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the one who holds the pipe decides
    if os.getppid() != int(parent):
        return 1
    scratch = _locked_folder(beginning)
    try:
        os.write(sys.stdout.fileno(), scratch.encode() + b"\n")
        if os.read(sys.stdin.fileno(), 1):
            orders = json.loads(Path(scratch, "orders.json").read_text(encoding="utf-8"))
            _run(orders | {"parent": int(parent), "scratch": scratch})
            while os.read(sys.stdin.fileno(), 1):
                pass
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


def _locked_folder(beginning: str) -> str:
    """A new folder of this process; the lock goes with the process, and tells sweepers that it lives."""
    while True:
        path = beginning + os.urandom(4).hex()
        with contextlib.suppress(FileExistsError, FileNotFoundError):  # a sweeper may have come before the lock
            os.mkdir(path, 0o700)
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.path.isdir(path):
                return path
            os.close(descriptor)


def _run(orders: dict[str, Any]) -> None:
    """Runs, ends, cleans up; the outcome stands in the file ``end``, which is there only when all is clean."""
    _become_subreaper()
    child = _started(orders)
    why, code = "ended", None
    if child is not None:
        why = _watch(child, orders)
        code = child.poll()
        _end_session(child)
    remove_shared(orders["prefix"])
    if why == "parent":
        return
    text = json.dumps({"why": why, "code": code})
    part = Path(orders["end"] + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(orders["end"])


def _started(orders: dict[str, Any]) -> subprocess.Popen[bytes] | None:
    """The command; None where it cannot be started, which the log then says."""
    more = {"LAVA_RUN_PREFIX": orders["prefix"], "LAVA_RUN_SCRATCH": orders["scratch"]}
    with open(orders["log"], "ab") as log:
        try:
            child = subprocess.Popen(
                orders["command"],
                pass_fds=orders["descriptors"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=orders.get("folder"),
                env={**os.environ, **more},
                preexec_fn=_die_with_the_guard,
            )
        except (OSError, ValueError) as error:
            log.write(f"{type(error).__name__}: {error}\n".encode())
            child = None
    for descriptor in orders["descriptors"]:
        os.close(descriptor)  # so that the end of the command is the end of its files
    return child


def remove_shared(prefix: str) -> None:
    """Removes the shared memory and semaphores whose names begin so; the prefix is of one run alone."""
    if not prefix:
        return
    for pattern in (f"{prefix}*", f"sem.{prefix}*"):
        for file in SHARED.glob(pattern):
            with contextlib.suppress(OSError):
                file.unlink()


def _watch(child: subprocess.Popen[bytes], orders: dict[str, Any]) -> str:
    """Reason for the end of a run: ended, parent, seconds or quiet."""
    start = moved = time.monotonic()
    last_progress = b""
    while child.poll() is None:
        ready, _, _ = select.select([sys.stdin.fileno()], [], [], _LOOK_SECONDS)
        if (ready and not os.read(sys.stdin.fileno(), 1)) or os.getppid() != orders["parent"]:
            return "parent"
        now = time.monotonic()
        progress = _progress(orders)
        if progress != last_progress:
            last_progress, moved = progress, now
        if orders["seconds"] is None:
            continue
        if now - start > orders["seconds"]:
            return "seconds"
        if now - moved > orders["quiet_seconds"]:
            return "quiet"
    return "ended"


def _progress(orders: dict[str, Any]) -> bytes:
    try:
        return Path(orders["scratch"], "progress").read_bytes()
    except OSError:
        return b""


def _end_session(child: subprocess.Popen[bytes]) -> None:
    """No process of this session but the guard is left when it returns.

    The command first: its children go with it, and Python's tracker of shared memory then tidies up and leaves.
    """
    with contextlib.suppress(OSError):
        child.kill()
    child.wait()
    until = time.monotonic() + _TRACKER_SECONDS
    while _others() and time.monotonic() < until:
        _reap()
        time.sleep(0.02)
    while others := _others():
        for pid in others:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        _reap()
        time.sleep(0.02)


def _others() -> list[int]:
    """Every other process of this session that is not yet dead (Linux; elsewhere none can be listed)."""
    session, self_pid, processes = os.getsid(0), os.getpid(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and int(folder.name) != self_pid and fields[0] not in "ZX":
            processes.append(int(folder.name))
    return processes


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _become_subreaper() -> None:
    """Grandchildren whose parents are gone become children of the guard."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def _die_with_the_guard() -> None:
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))

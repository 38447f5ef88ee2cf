"""The guard of a run and its callers, part by part, with a simulated clock and child process."""

from __future__ import annotations

import fcntl
import io
import itertools
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nirbridge.emitters.lava.runtime import guard, supervision


class Child:
    """Ends after so many looks."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def poll(self) -> int | None:
        self.left -= 1
        return None if self.left >= 0 else 0


def watched(
    monkeypatch: pytest.MonkeyPatch, looks: int, told: list[bytes | None], steps: list[bytes], **changes: Any
) -> str:
    """Why a run is over: a second passes at each look; ``told`` is what comes from the parent, None: nothing."""
    clock = itertools.count(100)
    heard, moved = iter([*told, *([None] * 99)]), iter([*steps, *([steps[-1]] * 99)])
    waiting: list[bytes] = []

    def select(readers: Any, *_: Any) -> Any:
        new = next(heard)
        waiting.extend([] if new is None else [new])
        return ([] if new is None else readers), [], []

    monkeypatch.setattr(guard.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(guard.select, "select", select)
    monkeypatch.setattr(guard.os, "read", lambda *_: waiting.pop())
    monkeypatch.setattr(guard.sys, "stdin", SimpleNamespace(fileno=lambda: 0))
    monkeypatch.setattr(guard, "_progress", lambda orders: next(moved))
    orders = {"parent": os.getppid(), "seconds": 50, "quiet_seconds": 50, **changes}
    child: Any = Child(looks)
    return guard._watch(child, orders)


@pytest.mark.parametrize(
    ("looks", "told", "steps", "changes", "why"),
    [
        (0, [], [b""], {}, "ended"),
        (3, [], [b""], {}, "ended"),
        (3, [b"\n", b"\n"], [b""], {}, "ended"),
        (3, [None, b""], [b""], {}, "parent"),
        (3, [], [b""], {"parent": -1}, "parent"),
        (5, [], [b""], {"seconds": 5}, "ended"),
        (5, [], [b""], {"seconds": 4}, "seconds"),
        (5, [], [b""], {"quiet_seconds": 5}, "ended"),
        (5, [], [b""], {"quiet_seconds": 4}, "quiet"),
        (9, [], [b"1", b"2", b"3", b"4"], {"quiet_seconds": 5}, "ended"),
        (9, [], [b"1", b"2", b"3", b"4"], {"quiet_seconds": 4}, "quiet"),
        (9, [], [b"1", b"2", b"3", b"4"], {"seconds": 4, "quiet_seconds": 2}, "seconds"),
    ],
)
def test_why_a_run_is_over(
    looks: int, told: Any, steps: Any, changes: Any, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert watched(monkeypatch, looks, told, steps, **changes) == why


def test_progress_is_what_the_program_wrote(tmp_path: Path) -> None:
    orders = {"scratch": str(tmp_path)}
    assert guard._progress(orders) == b""
    (tmp_path / "progress").write_bytes(b"7")
    assert guard._progress(orders) == b"7"


def test_shared_memory_of_one_run_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "SHARED", tmp_path)
    names = ["nirb.1.2.a", "sem.nirb.1.2.b", "nirb.1.3.a", "sem.nirb.1.3.a", "psm_1", "x.nirb.1.2.c"]
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / "nirb.1.2.folder").mkdir()  # cannot be removed as a file: passed over
    guard.remove_shared("")
    assert len(list(tmp_path.iterdir())) == 7
    guard.remove_shared("nirb.1.2.")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["nirb.1.2.folder", *sorted(names[2:])]


@pytest.mark.parametrize("why", ["ended", "quiet", "parent"])
def test_the_outcome_stands_there_when_all_is_clean(why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ended:
        def poll(self) -> int:
            return 3

    done: list[str] = []
    monkeypatch.setattr(guard, "_become_subreaper", lambda: done.append("reaper"))
    monkeypatch.setattr(guard, "_started", lambda orders: Ended())
    monkeypatch.setattr(guard, "_watch", lambda child, orders: why)
    monkeypatch.setattr(guard, "_end_session", lambda child: done.append("session"))
    monkeypatch.setattr(guard, "remove_shared", lambda prefix: done.append(prefix))
    end = tmp_path / "end.json"
    guard._run({"prefix": "p", "end": str(end)})
    assert done == ["reaper", "session", "p"]
    assert [p.name for p in tmp_path.iterdir()] == ([] if why == "parent" else ["end.json"])
    assert why == "parent" or json.loads(end.read_text()) == {"why": why, "code": 3}


def test_a_command_that_can_not_be_started_says_so_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"before\n")
    orders: Any = {"command": [str(tmp_path / "none")], "log": str(log), "prefix": "p", "scratch": str(tmp_path)}
    read, write = os.pipe()
    orders |= {"descriptors": [write]}
    assert guard._started(orders) is None
    assert os.read(read, 1) == b"", "the guard has closed what it gave on"
    os.close(read)
    lines = log.read_text().split("\n")
    assert (lines[0], lines[1][:18], lines[2:]) == ("before", "FileNotFoundError:", [""])


@pytest.mark.parametrize(
    ("text", "told"), [(None, ("start Lava", None)), ("x", ("start Lava", None)), ("3", ("run in Lava", 0.3))]
)
def test_progress_of_a_run(text: str | None, told: Any, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "progress").write_text(text)
    said: list[Any] = []
    supervision._say(tmp_path, 10, lambda *args: said.append(args))
    supervision._say(tmp_path, 10, None)
    assert said == [told]
    (tmp_path / "progress").write_text("12")
    supervision._say(tmp_path, 10, lambda *args: said.append(args))
    assert said[1] == ("run in Lava", 1.0)


class Guarding:
    """A guard that has ended; ``answer`` is what it leaves."""

    def __init__(self, answer: str | None, scratch: Path) -> None:
        self.stdin, self.answer, self.scratch = io.BytesIO(), answer, scratch

    def poll(self) -> int | None:
        if self.answer is not None:
            (self.scratch / "end.json").write_text(self.answer)
        return None if self.answer is not None else 0

    def wait(self) -> int:
        return 0


GONE = {"why": "guard", "code": None}


@pytest.mark.parametrize(
    ("answer", "end"), [('{"why": "ended", "code": 1}', {"why": "ended", "code": 1}), ("{", GONE), (None, GONE)]
)
def test_the_outcome_as_the_guard_saw_it(
    answer: str | None, end: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[str] = []
    monkeypatch.setattr(guard, "remove_shared", removed.append)
    guarding: Any = Guarding(answer, tmp_path)
    assert supervision.run_supervised(guarding, ["a", "b"], tmp_path, 2.5, 1.5, 3, None) == end
    orders = json.loads((tmp_path / "orders.json").read_text())
    assert removed == [orders.pop("prefix")]
    assert guarding.stdin.getvalue() == b"\n"
    own = {"log": str(tmp_path / "log"), "end": str(tmp_path / "end.json"), "descriptors": []}
    assert orders == {"command": ["a", "b"], "folder": None, "seconds": 2.5, "quiet_seconds": 1.5, **own}


def test_what_dead_runs_left_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this space of process numbers alone, and only where the process is gone."""
    monkeypatch.setattr(guard, "SHARED", tmp_path)
    space, gone = os.stat("/proc/self/ns/pid").st_ino, 2**22 + 1
    prefix = supervision._prefix()
    assert prefix.split(".")[:3] == ["nirb", str(space), str(os.getpid())]
    assert (len(prefix.split(".")[3]), prefix[-1], prefix == supervision._prefix()) == (8, ".", False)
    kept = [f"{prefix}a", f"nirb.{space + 1}.{gone}.x", f"nirb.{space}.me.x", f"sem.nirb.{space + 1}.{gone}.x"]
    left = [f"nirb.{space}.{gone}.x", f"sem.nirb.{space}.{gone}.y", f"sem.nirb.{space}.{gone + 1}.z"]
    for name in (*kept, *left):
        (tmp_path / name).touch()
    monkeypatch.setattr(supervision, "_has_proc", lambda: False)
    supervision.sweep_shared()
    assert supervision._prefix().startswith(f"nirb.0.{os.getpid()}.")
    assert len(list(tmp_path.iterdir())) == 7
    monkeypatch.undo()
    monkeypatch.setattr(guard, "SHARED", tmp_path)
    supervision.sweep_shared()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(kept)


# -- the folder and the session of a guard -----------------------------------------------------------------------------


def test_the_folder_of_a_guard_is_its_own_and_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is there already is passed over, as is a folder that a sweeper took before it was locked."""
    drawn = iter([b"\0\0\0\1", b"\0\0\0\2", b"\0\0\0\3"])
    (tmp_path / "run-00000001").mkdir()
    monkeypatch.setattr(guard.os, "urandom", lambda count: next(drawn)[:count])
    locked, real = [], guard.fcntl.flock

    def flock(descriptor: int, how: int) -> None:
        locked.append(descriptor)
        real(descriptor, how)
        if len(locked) == 1:
            (tmp_path / "run-00000002").rmdir()

    monkeypatch.setattr(guard.fcntl, "flock", flock)
    path = Path(guard._locked_folder(f"{tmp_path}/run-"))
    try:
        assert (path.name, path.stat().st_mode & 0o777) == ("run-00000003", 0o700)
        other = os.open(path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            real(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(other)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(locked[0] if locked[0] != locked[1] else -1)
    finally:
        os.close(locked[-1])


@pytest.mark.parametrize("told", [[b""], [b"\n", b""], [b"\n", b"\n", b""]])
def test_a_guard_runs_its_orders_and_removes_its_folder(
    told: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, written, runs, ignored = iter(told), [], [], []
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "orders.json").write_text('{"command": ["a"]}')
    monkeypatch.setattr(guard.signal, "signal", lambda number, what: ignored.append((number.name, what)))
    monkeypatch.setattr(guard, "_locked_folder", lambda beginning: {"begins": str(folder)}[beginning])
    monkeypatch.setattr(guard.sys, "stdin", SimpleNamespace(fileno=lambda: 0))
    monkeypatch.setattr(guard.sys, "stdout", SimpleNamespace(fileno=lambda: 1))
    with monkeypatch.context() as patch:
        patch.setattr(guard.os, "read", lambda *_: next(heard))
        patch.setattr(guard.os, "write", lambda *args: written.append(args))
        patch.setattr(guard, "_run", runs.append)
        assert guard.main("-1", "begins") == 1
        assert folder.exists()
        assert guard.main(str(os.getppid()), "begins") == 0
    assert next(heard, None) is None
    assert written == [(1, f"{folder}\n".encode())]
    own = {"command": ["a"], "parent": os.getppid(), "scratch": str(folder)}
    assert runs == ([own] if len(told) > 1 else [])
    assert not folder.exists()
    assert ignored[:3] == [(name, guard.signal.SIG_IGN) for name in ("SIGINT", "SIGTERM", "SIGHUP")]


def test_other_processes_of_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = os.getsid(0)
    for pid, name, state, of in (
        (11, "a", "S", session),
        (12, "b) R 9 9 9", "R", session),
        (13, "dead", "Z", session),
        (14, "dead", "X", session),
        (15, "other", "S", session + 1),
        (os.getpid(), "own", "S", session),
    ):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) {state} 1 2 {of} 0")
    (tmp_path / "16").mkdir()  # gone meanwhile
    monkeypatch.setattr(guard, "Path", lambda _: tmp_path)
    assert sorted(guard._others()) == [11, 12]


@pytest.mark.parametrize(("looks", "waits", "kills"), [(0, 0, 0), (2, 2, 0), (3, 2, 0), (4, 2, 1), (9, 2, 6)])
def test_the_session_gets_three_seconds_and_is_then_killed(
    looks: int, waits: int, kills: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second passes at each look; at so many looks there is another process."""
    clock, seen, done = itertools.count(), itertools.count(), []
    child: Any = SimpleNamespace(kill=lambda: done.append("end"), wait=lambda: done.append("wait"))
    monkeypatch.setattr(guard.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(guard.time, "sleep", lambda _: done.append("sleep"))
    monkeypatch.setattr(guard, "_others", lambda: [77] if next(seen) < looks else [])
    monkeypatch.setattr(guard, "_reap", lambda: done.append("reap"))
    monkeypatch.setattr(guard.os, "kill", lambda pid, number: done.append((pid, int(number))))
    guard._end_session(child)
    assert done == ["end", "wait", *["reap", "sleep"] * waits, *[(77, 9), "reap", "sleep"] * kills]


def test_every_ended_child_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = iter([(5, 0), (6, 0), (0, 0)])
    asked: list[Any] = []
    monkeypatch.setattr(guard.os, "waitpid", lambda *args: asked.append(args) or next(ended))
    guard._reap()
    assert asked == [(-1, os.WNOHANG)] * 3


def test_what_the_kernel_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(guard.ctypes, "CDLL", lambda _: SimpleNamespace(prctl=lambda *args: asked.append(args)))
    monkeypatch.setattr(guard.sys, "platform", "linux")
    guard._become_subreaper()
    guard._die_with_the_guard()
    monkeypatch.setattr(guard.sys, "platform", "darwin")
    guard._become_subreaper()
    assert asked == [(36, 1, 0, 0, 0), (1, 9, 0, 0, 0)]

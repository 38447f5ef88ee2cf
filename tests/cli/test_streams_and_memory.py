"""Parts of error handling: streams that fail, warnings issued once, insufficient memory."""

from __future__ import annotations

import io
import json
import os
import sys
import warnings
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge.cli import memory, output, streams
from nirbridge.errors import Diagnostic, ExporterFaultWarning, FileError, NirbridgeError

# -- streams -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (BrokenPipeError(32, "gone"), streams.ReaderGone, ""),
        (OSError(28, "No space left"), FileError, "stdout: cannot be written (No space left); send the result"),
        (OSError("odd"), FileError, "stdout: cannot be written (odd); send the result somewhere else"),
    ],
)
def test_a_stdout_that_takes_nothing(error: OSError, kind: type[Exception], said: str) -> None:
    def fail(*args: str) -> Any:
        raise error

    full: Any = SimpleNamespace(write=fail, flush=fail)
    for call in (lambda: streams.Stdout(full).write("a"), lambda: streams.Stdout(full).flush()):
        with pytest.raises(kind) as caught:
            call()
        assert str(caught.value).startswith(said)
    kept = io.StringIO()
    assert streams.Stdout(kept).write("abc") == 3
    streams.Stdout(kept).flush()
    assert (kept.getvalue(), streams.Stdout(kept).closed) == ("abc", False)


def test_what_streams_still_hold_and_do_not_take_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(error: Exception) -> Any:
        def flush() -> None:
            raise error

        return SimpleNamespace(flush=flush)

    left: list[int] = []
    monkeypatch.setattr(streams, "redirect_to_null", left.append)
    for out, err in (
        (io.StringIO(), io.StringIO()),
        (failing(OSError()), io.StringIO()),
        (failing(streams.ReaderGone()), failing(OSError())),
        (failing(FileError()), io.StringIO()),
    ):
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        streams.abandon_failing_streams()
    monkeypatch.undo()
    assert left == [1, 1, 2, 1]


def test_an_abandoned_descriptor_goes_nowhere(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb", buffering=0) as file:
        before = len(os.listdir("/proc/self/fd"))
        streams.redirect_to_null(file.fileno())
        file.write(b"x")
        assert len(os.listdir("/proc/self/fd")) == before
    assert (tmp_path / "a").read_bytes() == b""
    assert (streams._is_open(0), streams._is_open(10**6)) == (True, False)


# -- errors and warnings -----------------------------------------------------------------------------------------------


def test_a_fault_is_said_once_and_other_warnings_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    others: list[str] = []
    for silent in (False, True):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = lambda message, *rest, **more: others.append(str(message))
            with output.faults_on_stderr(silent=silent):
                for text in ("a", "b", "a"):
                    warnings.warn(ExporterFaultWarning(text), stacklevel=1)
                warnings.warn(UserWarning("c"), stacklevel=1)
                assert output.reported_faults() == ["a", "b"]
        assert output.reported_faults() == []
        assert capsys.readouterr() == ("", "" if silent else "warning: a\nwarning: b\n")
    assert others == ["c", "c"]


def test_an_error_goes_to_stderr_and_as_json_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    error = NirbridgeError(Diagnostic("a", "b", ids={"x": Path("p"), "n": np.int64(3), "o": object}))
    output.print_error(error, as_json=False)
    assert capsys.readouterr() == ("", "error: a: b\n")
    output.print_error(NirbridgeError(), as_json=True)
    captured = capsys.readouterr()
    assert captured.err == "error: NirbridgeError\n"
    assert json.loads(captured.out) == {"error": {"type": "NirbridgeError", "problems": []}}
    ids = output.error_document(error)["error"]["problems"][0]["ids"]
    assert ids == {"x": "p", "n": 3, "o": "<class 'object'>"}
    assert json.loads(output.to_json(MappingProxyType({"a": MappingProxyType({})}))) == {"a": {}}
    assert output.encodable("ä…", "ascii") == "\\xe4..."
    assert output.encodable("ä…", None) == "ä…"


def test_tables_are_80_columns_wide_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.text import Text

    output.print_rich(Text("x" * 250), Text("[b]y "))
    assert capsys.readouterr().out == "x" * 80 + "\n" + "x" * 80 + "\n" + "x" * 80 + "\n" + "x" * 10 + "\n[b]y\n"


# -- memory ------------------------------------------------------------------------------------------------------------

MIB = 2**20


MORE = "use fewer steps or samples, or a larger machine"
LIFT = "raise the limit, or lift it: ulimit -v unlimited"
USED = "memory: it is used up (3,000 MiB in use)"


@pytest.mark.parametrize(
    ("error", "limit", "said"),
    [
        (ValueError("x"), None, None),
        (ValueError("x"), 3128, None),
        (ValueError("x"), 3127, f"{USED}, address space is limited to 3,127 MiB; {LIFT}"),
        (MemoryError("a\n b"), None, f"{USED}, a b; {MORE}"),
        (MemoryError("a"), 4000, f"{USED}, a; {MORE}"),
        (MemoryError("a" * 300), 4000, f"{USED}, {'a' * 200}; {MORE}"),
        (MemoryError(), 3001, f"{USED}, address space is limited to 3,001 MiB; {LIFT}"),
    ],
)
def test_memory_that_ran_out(error: Exception, limit: int | None, said: str | None, monkeypatch: Any) -> None:
    monkeypatch.setattr(memory, "_limit", lambda: None if limit is None else limit * MIB)
    monkeypatch.setattr(memory, "_used", lambda: 3000 * MIB)
    found = memory.memory_error(error)
    assert (None if found is None else str(found)) == said


def test_memory_in_use_is_that_of_the_process() -> None:
    import resource

    with open("/proc/self/status", encoding="ascii") as file:
        kilobytes = next(int(line.split()[1]) for line in file if line.startswith("VmSize:"))
    assert memory._used() == pytest.approx(kilobytes * 1024, rel=0.05)
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    assert memory._limit() == (None if soft == resource.RLIM_INFINITY else soft)

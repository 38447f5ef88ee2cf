"""Runs that fail or whose caller is killed: an error with the log, and no process or memory left."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.emitters.artifact import write_artifact
from nirbridge.emitters.lava.emit import emit
from nirbridge.emitters.lava.runtime.run import RunLimits, run_program
from nirbridge.errors import FileError, ModelError, UsageError
from nirbridge.quantization.model import FixedInput, QuantizedNetwork
from tests.emitters import hand_made as made

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc and /dev/shm")
MARK = "NIRBRIDGE_TEST_MARK"
CALLER = """
import sys
import numpy as np
from nirbridge.emitters.lava.runtime.run import run_program
sys.stdout.write("ready\\n")
sys.stdout.flush()
run_program(sys.argv[1], np.ones((100000, 3), int), python=sys.argv[2], record=["*:s,u,v"])
"""


def small() -> QuantizedNetwork:
    rng = np.random.default_rng(0)
    populations = [
        made.population("a", (4,), made.neuron(reset="subtract", reset_amount=100)),
        made.population("b", (2,), made.neuron()),
    ]
    edges = [made.projection("in", "a", made.dense(rng, 4, 3)), made.projection("a", "b", made.dense(rng, 2, 4))]
    return made.quantized([FixedInput("in", (3,))], populations, edges, ["b"])


@pytest.fixture
def program(tmp_path: Path) -> Path:
    write_artifact(emit(small()), tmp_path / "program")
    return tmp_path / "program"


def spoil(program: Path, statement: str) -> None:
    """Puts a statement into the step of the custom neuron."""
    path = program / "processes" / "neurons.py"
    text = path.read_text()
    assert '"""One step."""' in text
    path.write_text(text.replace('"""One step."""', statement))


def marked(mark: str) -> list[int]:
    """Processes with this mark in their environment, which children inherit."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def shared(pid: int) -> list[str]:
    """Shared memory of the runs that this process started; the names say whose they are."""
    return [name for name in os.listdir("/dev/shm") if "nirb." in name and f".{pid}." in name]


def wait_until(condition: Any, seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_a_process_that_raises_in_a_step_is_reported_with_its_traceback(program: Path, lava_python: Path) -> None:
    spoil(program, "if self.time_step == 5: raise ZeroDivisionError('in step 5')")
    start = time.monotonic()
    with pytest.raises(ModelError, match="ZeroDivisionError: in step 5") as caught:
        run_program(program, np.ones((50, 3), int), python=lava_python)
    assert "neurons.py" in str(caught.value)
    assert time.monotonic() - start < 30
    assert shared(os.getpid()) == []


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "signal 9"),
        ("import os; os.kill(os.getppid(), 9)", "exit code -9"),
    ],
)
def test_a_process_that_is_killed_ends_the_run(program: Path, lava_python: Path, statement: str, text: str) -> None:
    spoil(program, statement)
    with pytest.raises(ModelError, match=text):
        run_program(program, np.ones((50, 3), int), python=lava_python)
    assert shared(os.getpid()) == []


def test_a_run_without_progress_is_killed(program: Path, lava_python: Path) -> None:
    spoil(program, "import time; time.sleep(1000 if self.time_step == 3 else 0)")
    with pytest.raises(ModelError, match="made no progress for 6 s and was killed"):
        run_program(program, np.ones((50, 3), int), python=lava_python, limits=RunLimits(quiet_s=6))
    assert shared(os.getpid()) == []


def test_a_run_that_takes_too_long_is_killed(program: Path, lava_python: Path) -> None:
    limits = RunLimits(start_s=3, process_s=0, step_s=0)
    with pytest.raises(ModelError, match="did not end within 3 s and was killed"):
        run_program(program, np.ones((10**6, 3), np.uint8), python=lava_python, limits=limits)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("after", [0.02, 0.6, 4.0])
def test_killing_the_caller_leaves_nothing(
    program: Path, lava_python: Path, after: float, number: signal.Signals, request: pytest.FixtureRequest
) -> None:
    mark = f"{os.getpid()}.{after}.{number}"
    folder = Path(tempfile.mkdtemp(prefix="nb"))  # short: the names of sockets have to fit
    request.addfinalizer(lambda: shutil.rmtree(folder))
    environment = {**os.environ, MARK: mark, "TMPDIR": str(folder)}
    command = [sys.executable, "-c", CALLER, str(program), str(lava_python)]
    caller = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=Path(__file__).parents[3]
    )
    assert caller.stdout is not None
    assert caller.stdout.readline() == b"ready\n"
    time.sleep(after)
    caller.send_signal(number)
    caller.wait()
    caller.stdout.close()
    assert wait_until(lambda: not marked(mark)), "processes are left"
    assert shared(caller.pid) == []
    assert wait_until(lambda: not list(folder.iterdir())), "a temporary folder is left"


def test_killing_caller_and_guard_together_leaves_no_process_and_the_next_run_sweeps(
    program: Path, lava_python: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = f"{os.getpid()}.both"
    folder = Path(tempfile.mkdtemp(prefix="nb"))  # short: the names of sockets have to fit
    request.addfinalizer(lambda: shutil.rmtree(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    environment = {**os.environ, MARK: mark, "TMPDIR": str(folder)}
    command = [sys.executable, "-c", CALLER, str(program), str(lava_python)]
    caller = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=Path(__file__).parents[3]
    )
    assert wait_until(lambda: len(marked(mark)) > 8), "Lava did not start"
    for pid in marked(mark):
        with contextlib.suppress(ProcessLookupError):  # it ended with the one before it
            os.kill(pid, signal.SIGKILL)
    caller.wait()
    assert wait_until(lambda: not marked(mark))
    assert [p.name[:15] for p in folder.iterdir()] == ["nirbridge-lava-"]
    foreign = folder / "nirbridge-lava-abcdefgh"
    foreign.symlink_to(program)
    (folder / "nirbridge-lava-other").mkdir()
    ran = run_program(program, np.ones((3, 3), int), python=lava_python)
    assert ran.arrays["out b", "s"].shape == (3, 2)
    assert shared(caller.pid) == []
    assert sorted(p.name for p in folder.iterdir()) == ["nirbridge-lava-abcdefgh", "nirbridge-lava-other"]
    assert (program / "run.py").exists()


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ({"in": np.full((4, 3), 2)}, "whole numbers from 0 to 1; encode it as spikes [(]events: --events clip[)]"),
        ({"in": np.ones((4, 5))}, r"shape \(4, 5\)"),
        ({"other": np.ones((4, 3))}, "the network has no input of that name"),
    ],
)
def test_wrong_inputs(program: Path, lava_python: Path, inputs: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        run_program(program, inputs, python=lava_python)


def test_a_folder_that_is_no_program(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="is not a program of nirbridge"):
        run_program(tmp_path, np.ones((1, 1)))

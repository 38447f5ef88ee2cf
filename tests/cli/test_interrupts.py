"""Ctrl-C at any moment: exit code 130, one line, no traceback."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples/models/digits_cnn.nir"
ENTRY = "import sys; sys.argv[0] = 'nirbridge'; from nirbridge.cli.main import main; main()"
"""What the console script runs."""
BEFORE_PYTHON_HANDLES_IT = -signal.SIGINT


def run_until(marker: str, code: str, count: int = 1) -> subprocess.CompletedProcess[str]:
    """Runs ``code`` and sends SIGINT when it writes ``marker`` to stdout."""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == marker
    for _ in range(count):
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess([], process.returncode, out, err)


START = "import sys; sys.argv[:] = ['nirbridge', 'chips']\n"


def test_while_the_command_line_is_imported() -> None:
    """click is what is imported first; an import that takes long stands for it."""
    code = (
        START + "import types\nsys.modules['click'] = None\nimport nirbridge.cli\n"
        "class Slow:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'nirbridge.cli.main':\n"
        "            print('ready', flush=True)\n"
        "            import time; time.sleep(60)\n"
        "sys.meta_path.insert(0, Slow())\n"
        "import nirbridge.cli.main\n"
    )
    done = run_until("ready", code)
    assert (done.returncode, done.stderr) == (130, "nirbridge: interrupted\n")


@pytest.mark.parametrize("swallows", [False, True])
def test_while_a_command_imports(tmp_path: Path, swallows: bool) -> None:
    """Also where the import would swallow the exception, or make another one of it."""
    slow = "print('ready', flush=True)\nimport time\ntime.sleep(60)\n"
    swallowed = "try:\n" + "".join(f"    {line}\n" for line in slow.splitlines()) + "except BaseException: pass\n"
    (tmp_path / "slow_part.py").write_text(swallowed if swallows else slow)
    code = START + (
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "from nirbridge.cli import main as cli\n"
        "def run(args):\n    import slow_part\n    return 0\n"
        "cli.run = run\ncli.main()\n"
    )
    done = run_until("ready", code)
    assert (done.returncode, done.stderr) == (130, "nirbridge: interrupted\n")


def test_while_a_command_works_it_cleans_up() -> None:
    code = START + (
        "from nirbridge.cli import main as cli\nimport click, time\n"
        "def work(*args, **options):\n"
        "    try:\n        print('ready', flush=True); time.sleep(60)\n"
        "    finally:\n        print('cleaned', flush=True)\n"
        "cli.nirbridge.main = work\ncli.main()\n"
    )
    done = run_until("ready", code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "cleaned\n", "nirbridge: interrupted\n")


def test_within_click_it_is_one_line_too() -> None:
    code = START + (
        "from nirbridge.cli import main as cli\nimport click, time\n"
        "def work(self, ctx):\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "click.Group.invoke = work\nsys.argv = ['nirbridge', 'chips']\ncli.main()\n"
    )
    done = run_until("ready", code)
    assert (done.returncode, done.stderr) == (130, "nirbridge: interrupted\n")


def test_while_click_reads_the_arguments_it_is_one_line_too() -> None:
    code = START + (
        "from nirbridge.cli import main as cli\nimport click, time\n"
        "def work(self, ctx, args):\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "click.Group.parse_args = work\nsys.argv = ['nirbridge', 'chips']\ncli.main()\n"
    )
    done = run_until("ready", code)
    assert (done.returncode, done.stderr) == (130, "nirbridge: interrupted\n")


def test_a_second_time_it_does_not_wait() -> None:
    code = START + (
        "from nirbridge.cli import main as cli\nimport time\n"
        "def work(*args, **options):\n"
        "    try:\n        print('ready', flush=True); time.sleep(60)\n"
        "    finally:\n        import os, signal; os.kill(os.getpid(), signal.SIGINT); time.sleep(60)\n"
        "cli.nirbridge.main = work\ncli.main()\n"
    )
    done = run_until("ready", code)
    assert (done.returncode, done.stderr) == (130, "nirbridge: interrupted\n")


def test_where_python_cannot_raise_it_still_ends() -> None:
    """Python prints and drops what a destructor raises."""
    code = START + (
        "from nirbridge.cli import main as cli\nimport time\n"
        "class Slow:\n    def __del__(self):\n        print('ready', flush=True); time.sleep(60)\n"
        "def work(*args, **options):\n    Slow(); time.sleep(60); print('went on', flush=True)\n"
        "cli.nirbridge.main = work\ncli.main()\n"
    )
    done = run_until("ready", code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "nirbridge: interrupted\n")


def test_what_is_half_made_says_nothing_at_the_end(tmp_path: Path) -> None:
    """Destructors that fail after an interrupt, as those of a compiler that was cut off; exit functions still run."""
    code = START + (
        "from nirbridge.cli import main as cli\nimport atexit, time\n"
        "class Half:\n    def __del__(self):\n        raise RuntimeError('half made')\n"
        "atexit.register(lambda: print('exit functions', flush=True))\n"
        "def work(*args, **options):\n    cli.half = Half(); print('ready', flush=True); time.sleep(60)\n"
        "cli.nirbridge.main = work\ncli.main()\n"
    )
    done = run_until("ready", code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "exit functions\n", "nirbridge: interrupted\n")


def test_an_exact_search_ends() -> None:
    """A search of CP-SAT is one call that takes no notice of Python's signals."""
    pytest.importorskip("ortools")
    code = START + (
        "from nirbridge.cli import main as cli\n"
        "import threading, time\n"
        "from ortools.sat.python import cp_model\n"
        "from nirbridge.partitioner.search.interruption import solve, solver_for\n"
        "model = cp_model.CpModel()\n"
        "on = [[model.new_bool_var('') for _ in range(40)] for _ in range(41)]\n"
        "for row in on: model.add_exactly_one(row)\n"
        "for column in zip(*on): model.add(sum(column) <= 1)\n"
        "def say():\n    time.sleep(1); print('ready', flush=True)\n"
        "def work(*args, **options):\n"
        "    threading.Thread(target=say).start()\n"
        "    solver = solver_for(1e6, 0)\n"
        "    solver.parameters.cp_model_presolve = False\n"
        "    solver.parameters.symmetry_level = 0\n"
        "    solver.parameters.linearization_level = 0\n"
        "    return int(solve(solver, model))\n"
        "cli.nirbridge.main = work\ncli.main()\n"
    )
    done = run_until("ready", code)
    assert (done.returncode, done.stderr) == (130, "nirbridge: interrupted\n")


def test_a_process_that_was_told_to_ignore_it_goes_on() -> None:
    command = ["sh", "-c", 'trap "" INT; exec "$0" -c "$1" chips', sys.executable, ENTRY]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=ROOT)
    for _ in range(40):
        time.sleep(0.02)
        process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 0


def test_a_library_keeps_its_handlers() -> None:
    code = "import signal, nirbridge.cli.main; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"


def interrupted_after(seconds: float, arguments: list[str]) -> tuple[int, str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    )
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    return process.returncode, said


def moments(count: int, seed: int, longest: float) -> list[float]:
    chance = random.Random(seed)
    return [chance.uniform(0.0, longest) for _ in range(count)]


FORMS = (["-c", ENTRY], ["-m", "nirbridge"])
COMMANDS = (["chips"], ["map", str(MODEL), "--chip", "loihi1", "-o", os.devnull])


def judge(code: int, said: str) -> None:
    """Until Python has found its site module, the signal ends it as any process, or by a message of its own."""
    if "nirbridge" not in said and ("site" in said or "runpy" in said):
        return
    assert code in (0, 130, BEFORE_PYTHON_HANDLES_IT), said
    assert said in ("", "nirbridge: interrupted\n", "nirbridge: interrupted: this is the best map so far\n")


@pytest.mark.parametrize("seconds", moments(6, 0, 1.5))
def test_at_any_moment(seconds: float) -> None:
    judge(*interrupted_after(seconds, [*FORMS[1], *COMMANDS[1]]))


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=["chips", "map"])
@pytest.mark.parametrize("form", FORMS, ids=["script", "module"])
@pytest.mark.parametrize("seconds", moments(50, 1, 2.5))
def test_at_many_moments(seconds: float, form: list[str], command: list[str]) -> None:
    judge(*interrupted_after(seconds, [*form, *command]))

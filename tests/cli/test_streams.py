"""Full, closed and abandoned standard streams: a nirbridge error with the right exit code, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ENTRY = "import sys; sys.argv[0] = 'nirbridge'; from nirbridge.cli.main import main; main()"
"""What the console script runs."""
COMMANDS = ("chips", "chips --json", "--help", "map --help", "--version")


def shell(command: str, redirected: str, unbuffered: bool) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONUNBUFFERED": "1" if unbuffered else ""}
    line = f'"$0" -c "$1" {command} {redirected}'
    args = ["sh", "-c", line, sys.executable, ENTRY]
    return subprocess.run(args, capture_output=True, text=True, timeout=120, check=False, env=env)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("unbuffered", [False, True])
def test_a_full_stdout_is_an_error_of_ours(command: str, unbuffered: bool) -> None:
    done = shell(command, ">/dev/full", unbuffered)
    said = "error: stdout: cannot be written (No space left on device); send the result somewhere else\n"
    assert (done.returncode, done.stderr) == (2, said)


@pytest.mark.parametrize(
    ("command", "redirected", "code", "said"),
    [
        ("chips", ">&-", 2, "error: stdout: is closed, results are written to it; send it to a file or /dev/null\n"),
        ("chips", "1</dev/null", 2, "error: stdout: cannot be written (Bad file descriptor); send the result som"),
        ("chips", ">&- 2>&- <&-", 2, ""),
        ("chips", "2>&-", 0, ""),
        ("nope", "2>&-", 2, ""),
        ("nope", "2>/dev/full", 2, ""),
        ("nope --json", "2>/dev/full", 2, ""),
        ("nope --json", ">/dev/full", 2, "error: nirbridge: no command 'nope'"),
        ("", "2>/dev/full", 2, ""),
        ("--help", "| true", 0, ""),
        ("chips --json", "| true", 0, ""),
    ],
)
def test_closed_and_full_streams(command: str, redirected: str, code: int, said: str) -> None:
    done = shell(command, redirected, unbuffered=False)
    assert done.returncode == code
    assert done.stderr.startswith(said)
    assert ("" if said else done.stderr) == ""
    assert "Traceback" not in done.stderr


def test_help_without_a_reader_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "nirbridge", "--help"], stdout=write, stderr=subprocess.PIPE, timeout=60, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_result_without_a_reader_is_no_error() -> None:
    """``-o /dev/stdout | head`` ends as other output does."""
    read, write = os.pipe()
    os.close(read)
    model = Path(__file__).resolve().parents[2] / "examples/models/digits_cnn.nir"
    words = ["quantize", str(model), "--chip", "loihi1", "-o", "/dev/stdout"]
    command = [sys.executable, "-m", "nirbridge", *words]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=120, check=False)
    os.close(write)
    assert done.returncode == 141
    assert b"error" not in done.stderr


def test_a_file_is_never_taken_for_a_closed_stream(tmp_path: Path) -> None:
    """With stderr closed, the first file that is opened would be descriptor 2, and get what goes to stderr."""
    model = Path(__file__).resolve().parents[2] / "examples/models/digits_cnn.nir"
    code = (
        "import os, sys; sys.argv[0] = 'nirbridge'\n"
        "from nirbridge.cli import main as cli\n"
        "def check(args):\n"
        "    names = [os.readlink(f'/proc/self/fd/{n}') for n in range(3)]\n"
        "    file = open(sys.argv[1], 'rb')\n"
        "    assert file.fileno() > 2, file.fileno()\n"
        "    open(sys.argv[2], 'w').write(' '.join(names))\n"
        "    return 0\n"
        "cli.run = check\n"
        "cli.main()\n"
    )
    args = ["sh", "-c", '"$0" -c "$1" "$2" "$3" <&- 2>&-', sys.executable, code, str(model), str(tmp_path / "names")]
    done = subprocess.run(args, stdout=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == 0
    names = (tmp_path / "names").read_text().split()
    assert (names[0], names[2]) == (os.devnull, os.devnull)
    assert names[1].startswith("pipe:")


def test_too_little_address_space_is_an_error_within_seconds() -> None:
    pytest.importorskip("resource")
    model = Path(__file__).resolve().parents[2] / "examples/models/digits_cnn.nir"
    for kib in (400_000, 460_000, 230_000):
        line = f'ulimit -v {kib}; exec "$0" -m nirbridge verify "$1" --chip loihi1'
        args = ["sh", "-c", line, sys.executable, str(model)]
        done = subprocess.run(args, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith("error: memory: address space is limited to ")
        assert done.stderr.endswith("raise the limit, or lift it: ulimit -v unlimited\n")


def test_memory_that_is_used_up_is_no_bug(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from nirbridge import pipeline
    from nirbridge.cli.main import run

    def fails(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 4.0 TiB")

    monkeypatch.setattr(pipeline, "load_chip", fails)
    assert run(["map", "x.nir", "--chip", "loihi1"]) == 1
    assert capsys.readouterr().err.startswith("error: memory: it is used up (")

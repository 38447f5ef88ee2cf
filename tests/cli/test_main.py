"""The command line around the subcommands: help, exit codes, errors as text and JSON."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from nirbridge import __version__
from nirbridge.cli import main as cli
from nirbridge.cli.output import error_document, progress_on_stderr, to_json
from nirbridge.errors import Diagnostic, DoesNotFit, NirbridgeError

NAMES = ", ".join(name for name, _, _ in cli.COMMANDS)
HEAVY = ("numpy", "nir", "h5py", "ortools", "scipy", "torch", "rich")


def nirbridge(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """A real process, as a user runs it."""
    command = [sys.executable, "-W", "error", "-m", "nirbridge", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Adds a command ``fail`` that raises the given error."""

    def add(error: BaseException) -> None:
        @click.command("fail")
        @click.option("--json", "as_json", is_flag=True)
        def fail(as_json: bool) -> None:
            del as_json
            raise error

        monkeypatch.setattr(cli, "COMMANDS", (*cli.COMMANDS, ("fail", "", "Fails.")))
        monkeypatch.setattr(cli.nirbridge, "get_command", lambda ctx, name: fail)

    return add


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"nirbridge, version {__version__}\n"


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; from nirbridge.cli.main import run; run(['--help']); print(*sorted(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "Usage: nirbridge" in out
    modules = set(out.splitlines()[-1].split())
    assert "click" in modules
    assert modules.isdisjoint(HEAVY)
    assert "nirbridge.cli.commands.map" not in modules


def test_help_is_quick() -> None:
    def cpu_s() -> float:
        before = os.times()
        nirbridge("--help")
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(cpu_s() for _ in range(3)) < 0.5


def test_help_lists_every_command_under_what_it_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.run(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 40
    expected = [f"{heading}: {' '.join(name for name, _, _ in commands)}" for heading, commands in cli.GROUPS]
    listed = "\n".join(lines[lines.index("Map:") : lines.index("Options:") - 1])
    found = [
        f"{heading} {' '.join(rows.split())}" for heading, rows in re.findall(r"^(\S.*:)((?:\n  .*)+)", listed, re.M)
    ]
    texts = [text for _, commands in cli.GROUPS for _, _, text in commands]
    assert [_without(group, texts) for group in found] == expected


def _without(group: str, texts: list[str]) -> str:
    for text in texts:
        group = group.replace(f" {text}", "")
    return group


@pytest.mark.parametrize("width", [80, 50])
@pytest.mark.parametrize("name", [name for name, _, _ in cli.COMMANDS])
def test_every_command_has_help_with_an_example(
    name: str, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert cli.run([name, "--help"]) == 0
    usual = capsys.readouterr().out
    assert cli.run([name, "--help-all"]) == 0
    everything = capsys.readouterr().out
    options = options_of(everything)
    assert {"--help", "--help-all", "--json", "--quiet"} <= options
    more = re.search(rf"^  (\d+) more: nirbridge {name} --help-all$", usual, re.MULTILINE)
    shown = options_of(usual)
    assert len(shown) == (6 if more else len(options) - 2)
    assert shown <= options
    if more and name != "emit":  # its flags of targets are not counted, since that would import the targets
        assert len(options - {"--help", "--help-all"}) == len(shown) + int(more[1])
    for text in (usual, everything):
        assert " ".join(text.split()).startswith(f"Usage: nirbridge {name} ")
        assert f"nirbridge {name}" in text.partition("Example:")[2]
        assert max(map(len, text.splitlines())) <= width


def options_of(text: str) -> set[str]:
    """The first long name of each option that a help has a row of."""
    return set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", text.partition("\nOptions:\n")[2], re.MULTILINE))


def test_help_all_groups_what_reads_the_model_and_what_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["map", "--help-all"]) == 0
    parts = re.split(r"^(\w.*):$", capsys.readouterr().out, flags=re.MULTILINE)
    groups = {
        heading: options_of(f"\nOptions:\n{text}") for heading, text in zip(parts[1::2], parts[2::2], strict=True)
    }
    assert list(groups) == ["Options", "Reading the model", "Output", "Example"]
    reading = "--axes --sample-shape --from --weights --dt --integrator --reset --compare --if-gain --repair"
    assert groups["Reading the model"] >= set(reading.split())
    assert groups["Output"] >= {"--output", "--plot", "--json", "--quiet"}
    assert groups["Options"] >= {"--chip", "--objective", "--effort"}


def test_the_width_of_help_where_the_text_stands_below(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert cli.run(["compare", "--help"]) == 0
    out = capsys.readouterr().out
    assert "  --tau STEPS\n      Time constant of the van Rossum\n      kernel.  [default: 10.0]\n" in out
    assert "Example:\n  nirbridge compare reference.npz \\\n    mapped.npz --latency auto \\\n" in out


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Usage: nirbridge [OPTIONS] COMMAND")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["chps"], "error: nirbridge: no command 'chps'; did you mean 'chips'?; nirbridge --help"),
        (
            ["xyzzy"],
            "error: nirbridge: no command 'xyzzy'; "
            f"commands: {', '.join(name for name, _, _ in cli.COMMANDS)}; nirbridge --help",
        ),
        (["chips", "--bad"], "error: nirbridge chips: no such option '--bad'; nirbridge chips --help"),
        (["chips", "lohi1"], "error: chip 'lohi1': unknown, known chips: crossbar256, halapoint, loihi1, loihi2; did "
         "you mean 'loihi1'?"),
    ],
)  # fmt: skip
def test_wrong_usage(args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(args) == 2
    captured = capsys.readouterr()
    assert captured.err == message + "\n"
    assert captured.out == ""


def test_an_error_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["chips", "lohi1", "--json"]) == 2
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {
        "error": {
            "type": "ChipError",
            "problems": [
                {
                    "subject": "chip 'lohi1'",
                    "found": "unknown",
                    "limit": "known chips: crossbar256, halapoint, loihi1, loihi2",
                    "hint": "did you mean 'loihi1'?",
                    "ids": {},
                }
            ],
        }
    }
    assert captured.err.startswith("error: chip 'lohi1': unknown")


def test_wrong_usage_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["chips", "--json", "--bad"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["error"]["type"] == "UsageError"


def test_every_problem_is_a_line(failing: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]) -> None:
    problems = [Diagnostic("a", "too many", ids={"core": (0, 1), "odd": set}), Diagnostic("b", "too few")]
    failing(DoesNotFit(*problems))
    assert cli.run(["fail", "--json"]) == 1
    captured = capsys.readouterr()
    assert captured.err == "error: a: too many\nerror: b: too few\n"
    listed = json.loads(captured.out)["error"]["problems"]
    assert [p["subject"] for p in listed] == ["a", "b"]
    assert listed[0]["ids"] == {"core": [0, 1], "odd": "<class 'set'>"}


def test_an_unexpected_exception_is_our_bug(
    failing: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    failing(ZeroDivisionError("division by zero"))
    assert cli.run(["fail"]) == 3
    assert capsys.readouterr().err == (
        "error: this is a bug of nirbridge: ZeroDivisionError: division by zero; please report it; "
        "'nirbridge --debug COMMAND …' shows the traceback\n"
    )
    assert cli.run(["--debug", "fail", "--json"]) == 3
    captured = capsys.readouterr()
    assert "Traceback (most recent call last)" in captured.err
    assert json.loads(captured.out)["error"]["type"] == "Bug"


def test_interrupted(failing: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]) -> None:
    failing(KeyboardInterrupt())
    assert cli.run(["fail"]) == 130
    assert capsys.readouterr().err.strip() == "nirbridge: interrupted"


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "nirbridge", "chips", "loihi1"]
    for args in (command, [*command, "--json"]):
        with open(tmp_path / "stderr", "w+") as stderr:
            done = subprocess.run(args, stdout=write, stderr=stderr, timeout=60, check=False)
            stderr.seek(0)
            assert (done.returncode, stderr.read()) == (141, "")
    os.close(write)


def test_a_terminal_without_the_characters() -> None:
    done = nirbridge("chips", "ä…", env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.returncode == 2
    assert done.stderr.startswith("error: chip '\\xe4...': unknown")


def test_json_has_sorted_keys_and_no_nan() -> None:
    assert to_json({"b": (1,), "a": Path("x") / "y"}) == '{\n  "a": "x/y",\n  "b": [\n    1\n  ]\n}'
    with pytest.raises(ValueError, match="^Out of range float values"):
        to_json(float("nan"))
    with pytest.raises(TypeError, match="^object has no JSON form$"):
        to_json(object())


def test_numpy_values_as_json() -> None:
    import numpy as np

    assert json.loads(to_json({"n": np.int64(3), "a": np.arange(2)})) == {"n": 3, "a": [0, 1]}


def test_an_error_without_problems_is_still_shown() -> None:
    assert error_document(NirbridgeError()) == {"error": {"type": "NirbridgeError", "problems": []}}


def test_progress_without_a_terminal_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_on_stderr() as progress:
        progress("reading", None)
        progress("solving", 0.5)
    assert capsys.readouterr() == ("", "")


def test_progress_on_a_terminal() -> None:
    code = (
        "from nirbridge.cli.output import progress_on_stderr\n"
        "with progress_on_stderr() as progress:\n"
        "    progress('solving', None); progress('solving [b]x', 0.5)\n"
    )
    ours, theirs = os.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    done = subprocess.run([sys.executable, "-c", code], stderr=theirs, stdout=subprocess.PIPE, env=env, check=True)
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert done.stdout == b""
    assert "solving [b]x" in shown

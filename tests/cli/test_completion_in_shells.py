"""The scripts of ``nirbridge completion`` in real shells: the candidates shown after the tab key."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from nirbridge.cli.commands.completion import VARIABLE, script_of
from nirbridge.cli.main import nirbridge
from tests.tools import needs

# Each calls the function of the script as its shell does. zsh only completes at a terminal, so its own functions that
# take the results are replaced by ones that print them.
BASH = """
source "$1"
COMP_WORDS=(nirbridge map model.nir --chip lo)
COMP_CWORD=4
_nirbridge_completion nirbridge lo --chip
printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH = """
compdef() { registered="$*" }
compadd() { print -rl -- "${completions[@]}" }
source "$1"
[[ $registered == '_nirbridge_completion nirbridge' ]] || exit 1
words=(nirbridge map model.nir --chip lo)
CURRENT=5
_nirbridge_completion
"""
FISH = """
source "$argv[1]"
complete --do-complete 'nirbridge map model.nir --chip lo'
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """One with the command ``nirbridge`` of this Python, and a home of its own."""
    command = tmp_path / "nirbridge"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m nirbridge "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    root = Path(__file__).resolve().parents[2]
    return {**os.environ, "PATH": path, "HOME": str(tmp_path), "PYTHONPATH": str(root)}


def completed(shell: str, options: list[str], script: str, environment: dict[str, str], folder: Path) -> list[str]:
    """What a shell offers after ``nirbridge map model.nir --chip lo``."""
    file = folder / f"completion.{shell}"
    file.write_text(script_of(shell), encoding="utf-8")
    # the word after a script of bash and zsh is its $0
    command = [needs(shell), *options, "-c", script, *([] if shell == "fish" else [shell]), str(file)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_every_option_is_offered_not_only_the_usual_ones() -> None:
    offered = ShellComplete(nirbridge, {}, "nirbridge", VARIABLE).get_completions(["map", "m.nir"], "--")
    names = {item.value for item in offered}
    assert {"--chip", "--integrator", "--passes", "--split", "--help", "--help-all"} <= names


def test_bash(environment: dict[str, str], tmp_path: Path) -> None:
    needs("bash")
    assert completed("bash", ["--norc"], BASH, environment, tmp_path) == ["loihi1", "loihi2"]


def test_zsh(environment: dict[str, str], tmp_path: Path) -> None:
    needs("zsh")
    assert completed("zsh", ["-f"], ZSH, environment, tmp_path) == ["loihi1", "loihi2"]


def test_fish(environment: dict[str, str], tmp_path: Path) -> None:
    needs("fish")
    assert completed("fish", ["--no-config"], FISH, environment, tmp_path) == ["loihi1", "loihi2"]

"""Misspelt names: every error suggests the nearest one, and completion offers them all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nirbridge.cli.commands.completion import SHELLS, script_of
from nirbridge.cli.main import run
from nirbridge.errors import UsageError, counted, did_you_mean, nearest
from nirbridge.importers.module_checks import check_accepted

ROOT = Path(__file__).resolve().parents[2]
MODEL = str(ROOT / "examples/models/digits_mlp.nir")
MAP = ("map", MODEL, "--chip", "loihi1")


def test_the_nearest_of_many_names() -> None:
    assert did_you_mean("neurns", ["words", "neurons", "run_free"]) == "did you mean 'neurons'?"
    assert did_you_mean("neurns", ["words"]) == ""
    assert did_you_mean("x" * 101, ["x" * 100]) == f"did you mean {'x' * 79 + '…'!r}?"
    assert nearest("ab", ["abc", "abd", "zz"], 3) == ["abd", "abc"]
    assert nearest(3, [30, 31, "n"], 1) == ["31"]


def test_one_and_many() -> None:
    assert [counted(n, "neuron") for n in (0, 1, 2, 2000)] == ["0 neurons", "1 neuron", "2 neurons", "2,000 neurons"]
    assert counted(1, "axis", "axes") == "1 axis"
    assert counted(2, "axis", "axes") == "2 axes"


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["mapp", MODEL], "did you mean 'map'?; nirbridge --help"),
        (["inspect", MODEL, "--drop-batch"], "no such option '--drop-batch'; use --repair batch-axis; nirbridge"),
        ([*MAP, "--print-after", "all"], "no such option '--print-after'; nirbridge inspect has it; nirbridge map"),
        (["map", MODEL, "--chip", "lohi1"], "did you mean 'loihi1'?"),
        (["map", MODEL, "--chp", "loihi1"], "did you mean '--chip'?"),
        ([*MAP, "--method", "cp_sat"], "did you mean 'cp-sat'?"),
        ([*MAP, "--objective", "core"], "one of cores, traffic, latency; did you mean 'cores'?"),
        ([*MAP, "--effort", "xyz"], "--effort: 'xyz', expected one of fast, default, max; choose one of them"),
        ([*MAP, "--integrator", "eular"], "did you mean 'euler'?"),
        ([*MAP, "--pin", "leaky1=3"], "did you mean 'leaky_1'?"),
        ([*MAP, "--split", "leaky1=2"], "did you mean 'leaky_1'?"),
        ([*MAP, "--repair", "nors"], "did you mean 'norse'?"),
        (["import", "x.py:net", "--from", "snntorchh", "--sample-shape", "1", "-o", "o.nir"], "mean 'snntorch'?"),
        (["emit", MODEL, "--to", "laval", "-o", "program"], "did you mean 'lava'?"),
        (["simulate", MODEL, "--input", "in.npy", "-o", "o.npz", "--backend", "fats"], "did you mean 'fast'?"),
        (["simulate", MODEL, "--input", "in.npy", "-o", "o.npz", "--library", "numpi"], "did you mean 'numpy'?"),
        (["simulate", MODEL, "--input", "in.npy", "-o", "o.npz", "--record", "leaky1:s"], "nearest: 'leaky_1'"),
        (["simulate", MODEL, "--input", "in.npz", "-o", "o.npz"], "did you mean 'input'?"),
        (["quantize", MODEL, "--chip", "loihi1", "-o", "q.npz", "--bits", "leaky1=4"], "did you mean 'leaky_1'?"),
        (["quantize", MODEL, "--chip", "loihi2", "-o", "q.npz", "--graded", "inptu=1:8"], "did you mean 'input'?"),
        (["bench", MODEL, "--backend", "onxn"], "did you mean 'onnx'?"),
        (["doctor", "lva"], "did you mean 'lava'?"),
        (["completion", "bsh"], "did you mean 'bash'?"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_a_name_that_is_nearly_right(
    args: list[str], hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("in.npy", np.zeros((2, 64), np.uint8))
    np.savez("in.npz", inpt=np.zeros((2, 64), np.uint8), other=np.zeros((2, 64), np.uint8))  # not alone
    Path("x.py").write_text("net = 3\n")
    assert run(args) in (1, 2)
    assert hint in capsys.readouterr().err


def test_a_deviation_that_is_nearly_right() -> None:
    with pytest.raises(UsageError, match="did you mean 'kept-states'\\?$"):
        check_accepted(("early-subtraction", "kept-state"))


def completions(*words: str) -> list[str]:
    """What the script of bash gets for the last of ``words``."""
    protocol = {"_NIRBRIDGE_COMPLETE": "bash_complete", "COMP_CWORD": str(len(words))}
    environment = {**os.environ, **protocol, "COMP_WORDS": " ".join(("nirbridge", *words)), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "nirbridge"], capture_output=True, text=True, check=False, env=environment
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_completion_of_chips_in_a_shell() -> None:
    assert completions("map", "m.nir", "--chip", "lo") == ["loihi1", "loihi2"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["qu"], ["quantize"]),
        (["map", "m.nir", "--method", "c"], ["cp-sat"]),
        (["map", "m.nir", "--objective", "l"], ["latency"]),
        (["map", "m.nir", "--place"], ["--placement-only"]),
        (["map", "m.nir", "--from", "s"], ["sinabs", "snnax", "snntorch", "spikingjelly", "spyx"]),
        (["emit", "m.nir", "--to", "l"], ["lava"]),
        (["emit", "m.nir", "--plat"], ["--platforms"]),
        (["emit", "m.nir", "--to", "jax", "--dtype", "float6"], ["float64"]),
        (["simulate", "m.nir", "--backend", "fi"], ["fixed"]),
        (["chips", "cross"], ["crossbar256"]),
        (["completion", "z"], ["zsh"]),
    ],
)
def test_completions(words: list[str], found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from click.shell_completion import BashComplete

    from nirbridge.cli.main import nirbridge

    complete = BashComplete(nirbridge, {}, "nirbridge", "_NIRBRIDGE_COMPLETE")
    assert sorted(item.value for item in complete.get_completions(words[:-1], words[-1])) == found


def test_where_no_chip_begins_so_files_are_completed() -> None:
    from click.shell_completion import BashComplete

    from nirbridge.cli.main import nirbridge

    complete = BashComplete(nirbridge, {}, "nirbridge", "_NIRBRIDGE_COMPLETE")
    for words, text in ((["map", "m.nir", "--chip"], "./my_"), (["map"], "m")):
        assert [item.type for item in complete.get_completions(words, text)] == ["file"]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_a_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert script == script_of(shell) + "\n"
    assert f"_NIRBRIDGE_COMPLETE={shell}_complete" in script

"""The recipes of CONTRIBUTING.md: ten lines each at most, their code followed to the letter in a copy, and its effect.

The functions that are not tests and end in ``_in_the_copy`` run there, in a process of their own.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.cli.main import run
from nirbridge.emitters.c.emit import C
from nirbridge.emitters.jax.emit import JAX
from nirbridge.emitters.onnx.emit import ONNX
from nirbridge.network.model import Projection
from nirbridge.network.neurons import neuron as real_neuron
from nirbridge.network.operators import Dense
from nirbridge.partitioner import PartitionOptions, partition
from nirbridge.program.rules import traced_step
from nirbridge.quantization.model import FixedInput, QuantizedNetwork
from nirbridge.simulators.fixed.semantics import REFERENCE
from nirbridge.simulators.types import Probe
from nirbridge.testing import check_plugin
from tests.emitters.c.programs import whole
from tests.emitters.hand_made import dense, neuron, population, projection, quantized
from tests.partitioner.cases import chip, network
from tests.partitioner.cases import population as real_population
from tests.partitioner.nets import network_of
from tests.program.test_rules_as_terms import TYPES, steps_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## Recipes\n")[2].partition("\n## ")[0]
RECIPES = dict(re.findall(r"^### (.+)\n((?:(?!###).*\n)*)", SECTION + "\n", re.MULTILINE))
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINES_MAX = 10


def code(title: str, language: str) -> str:
    """The one block of a recipe in a language."""
    (found,) = (body for word, body in FENCE.findall(RECIPES[title]) if word == language)
    return found


def patched(diff: str, folder: Path) -> None:
    """Applies a diff of the page: names of files, then lines of which those with ``+`` are new."""
    for names, hunk in re.findall(r"^(\S.*)\n((?:[ +].*\n)+)", diff, re.MULTILINE):
        lines = hunk.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] == " ")
        for name in names.split():
            text = (folder / name).read_text(encoding="utf-8")
            assert old in text, name
            new = text.replace(old, "".join(line[1:] for line in lines))
            (folder / name).write_text(new, encoding="utf-8")


def followed(lines: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What each command prints."""
    found = []
    for line in lines.splitlines():
        name, *args = shlex.split(line)
        if name == "nirbridge":
            assert run(args) == 0
        else:
            subprocess.run(["sh", "-c", line], check=True, timeout=60)
        found.append(capsys.readouterr().out)
    return found


def run_in_the_copy(effect: str, folder: Path) -> str:
    """What a function of this file prints, where nirbridge is the copy in the folder."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}
    line = f"import nirbridge; print(nirbridge.__file__); from tests.docs.test_recipes import {effect}; {effect}()"
    command = [sys.executable, "-c", line]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    place, *printed = done.stdout.splitlines()
    assert Path(place).is_relative_to(folder)
    return "\n".join(printed)


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the package and the examples, the current one."""
    for name in ("nirbridge", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_has_ten_lines_at_most(title: str) -> None:
    lines = [line for line in RECIPES[title].splitlines() if line.strip(" +") and line[:3] != "```"]
    assert 0 < len(lines) <= LINES_MAX


def places(text: str) -> list[str]:
    """Files and folders that a text names, relative to the checkout or to the package."""
    return re.findall(r"`([\w.]+/[\w/.]*)`", FENCE.sub("", text))


def test_the_files_that_recipes_name_exist() -> None:
    named = places(SECTION)
    assert "nirbridge/plugins/record.py" in named
    assert [name for name in named if not any((top / name).exists() for top in (ROOT, ROOT / "nirbridge"))] == []


def test_there_are_four_recipes() -> None:
    assert [*RECIPES] == ["A chip", "A field of a neuron", "An emitter", "A search"]


def test_a_chip(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, shown, mapped = followed(code("A chip", "sh"), capsys)
    assert shown.startswith("big_chip\n")
    assert re.search(r"^words +8,192 ", shown, re.MULTILINE)
    assert "on big_chip\n" in mapped
    assert "\ncores    4 of 16 used, " in mapped
    smaller = ["--chip", "examples/chips/my_chip.toml", "--effort", "fast"]
    assert run(["map", "examples/models/digits_cnn.nir", *smaller]) == 0
    assert "\ncores    5 of 16 used, " in capsys.readouterr().out  # the smaller memory needs one more


def integers(v_max: int | None) -> QuantizedNetwork:
    """Twenty neurons with a threshold of 4,096, with a ceiling where the package knows one."""
    rng = np.random.default_rng(3)
    more = {} if v_max is None else {"v_max": v_max}
    first = population("p", (20,), neuron(du=300, dv=70, reset="subtract", reset_amount=900, **more))
    return whole(quantized([FixedInput("in", (9,))], [first], [projection("in", "p", dense(rng, 20, 9))], ["p"]))


def digest_of_plain_c() -> str:
    return hashlib.sha256(C.emit(integers(None)).files["model.c"]).hexdigest()


def ceiling_in_the_copy() -> None:
    """C, ONNX and the plain simulator compute the changed rule, as its terms are evaluated."""
    print(digest_of_plain_c())
    highest, net = 3000, integers(3000)
    (p,) = net.populations
    spikes = (np.random.default_rng(4).random((50, 1, 9)) < 0.4).astype(np.uint8)
    drives = np.concatenate([np.zeros((1, 1, 20), int), spikes[:-1] @ net.projections[0].operator.weight.T])  # type: ignore[union-attr]
    state = {name: np.zeros((1, 20), np.int64) for name in ("u", "v", "refractory")}
    expected = list(steps_of(traced_step(p.neuron), drives, state, TYPES))
    for emitter in (C, ONNX):
        found = emitter.run(emitter.emit(net), {"in": spikes}, record=[Probe("p", ("s", "v"))]).arrays
        usual = emitter.run(emitter.emit(integers(None)), {"in": spikes}, record=[Probe("p", ("s", "v"))]).arrays
        for name in ("s", "v"):
            assert np.array_equal(found["p", name], [x.variables[name] for x in expected]), (emitter.name, name)
        assert found["p", "v"].max() == highest < usual["p", "v"].max()
        assert found["p", "s"].any()
    assert b"v_max" in JAX.emit(net).files["network.py"]
    sent, v = np.zeros((50, 1, 20), np.int64), np.zeros((50, 1, 20), np.int64)
    REFERENCE.steps(p, 0)(drives, dict(state), sent, {"v": v})
    assert np.array_equal(sent, [x.sent for x in expected])
    assert np.array_equal(v, [x.variables["v"] for x in expected])


def real_ceiling_in_the_copy() -> None:
    """ONNX in reals, of which every sum is exact: v is charged by 0.5 per spike, and stays at 0.75."""
    n: Any = replace(real_neuron("LIF", theta=2.0), v_max=np.float64(0.75))  # type: ignore[call-arg]
    net = network({"in": (1,)}, [real_population("p", (1,), n)], [Projection("in", "p", Dense(np.full((1, 1), 0.5)))])
    found = ONNX.run(ONNX.emit(net), {"in": np.ones((4, 1))}, record=[Probe("p", ("v",))]).arrays
    assert found["p", "v"].ravel().tolist() == [0.5, 0.75, 0.75, 0.75]


def test_a_field_of_a_neuron(copy: Path) -> None:
    patched(code("A field of a neuron", "diff"), copy)
    assert run_in_the_copy("ceiling_in_the_copy", copy) == digest_of_plain_c()  # without a ceiling C is as before
    run_in_the_copy("real_ceiling_in_the_copy", copy)


def test_the_files_of_a_field_are_those_of_the_floor() -> None:
    """``v_min`` occurs in each place that the recipe names."""
    for name in places(RECIPES["A field of a neuron"]):
        place = ROOT / "nirbridge" / name
        files = [place] if place.is_file() else [path for path in place.rglob("*") if path.suffix in (".py", ".txt")]
        assert any(re.search(r"\bv_min\b", path.read_text(encoding="utf-8")) for path in files), name


@pytest.fixture
def _forgotten() -> Iterator[None]:
    yield
    sys.modules.pop("my_emitter", None)


@pytest.mark.usefixtures("_forgotten")
def test_an_emitter(copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(str(copy))
    made, emitted = code("An emitter", "sh").splitlines()
    points = tomllib.loads(code("An emitter", "toml"))["project"]["entry-points"]["nirbridge.plugins"]
    installed = copy / "my_package-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    lines = "".join(f"{name} = {where}\n" for name, where in points.items())
    (installed / "entry_points.txt").write_text(f"[nirbridge.plugins]\n{lines}")
    followed(made, capsys)
    (printed,) = followed(emitted, capsys)
    assert printed.startswith("program: 3 files\n")
    table = (copy / "program" / "populations.csv").read_text("utf-8").splitlines()
    assert [row.split(";")[1] for row in table] == ["neurons", "64", "10"]
    (helped,) = followed("nirbridge emit --help-all", capsys)
    assert "--separator TEXT Text between two columns (my_emitter; default: ,)." in " ".join(helped.split())
    assert "my_emitter a table of the populations" in " ".join(helped.split())
    check_plugin(importlib.import_module("my_emitter").PLUGIN)


def search_in_the_copy() -> None:
    """Six cores, the last two of which fit on one: the new search meets the bound, and alone does it."""
    module: Any = importlib.import_module("nirbridge.partitioner.partition")
    net, on = network_of("1x7x7 conv4k3p1 lif"), chip(core={"neurons": 60, "input_axons": 22}, words=100)
    told: list[str] = []
    found = partition(net, on, PartitionOptions(progress=lambda text, _: told.append(text)))
    assert (found.report.cores, found.report.cores_lower_bound) == (5, 5)
    assert [text for text in told if "at least" in text] == ["6 cores; at least 5: joined"]
    module.SEARCHES.clear()
    assert partition(net, on).report.cores == 6


def test_a_search(copy: Path) -> None:
    patched(code("A search", "diff"), copy)
    run_in_the_copy("search_in_the_copy", copy)

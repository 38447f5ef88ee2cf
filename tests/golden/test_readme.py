"""README.md and its picture of a session are what the commands print, and the picture needs nothing else."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nirbridge.cli.main import run
from tests.golden.readme import COLUMNS, PICTURE, README, ROOT, SESSION, WIDE, picture, readme, session

EXAMPLES = ROOT / "examples"
MODULE = """
import torch, snntorch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(64, 10), snntorch.Leaky(0.9, init_hidden=True))
"""
STARTS = re.findall(r"^\* \*\*.+\*\*: `nirbridge (.+?)`", README.read_text(encoding="utf-8"), re.MULTILINE)
"""The commands of "Where to start"."""
pytestmark = pytest.mark.usefixtures("searched_once")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def drawn() -> str:
    return PICTURE.read_text(encoding="utf-8")


def test_the_blocks_of_the_readme_are_what_is_printed() -> None:
    text = README.read_text(encoding="utf-8")
    assert readme(text) == text
    assert text.count("```console\n") == 1


def test_the_picture_is_what_is_printed(drawn: str) -> None:
    assert picture(session()) == drawn


def test_the_picture_needs_nothing_else(drawn: str) -> None:
    assert len(drawn.encode()) < 60_000
    assert {element.tag.removeprefix(SVG) for element in ElementTree.fromstring(drawn).iter()} == {
        *("svg", "title", "style", "rect", "g", "text", "circle")
    }
    assert drawn.count("://") == 1, "the namespace alone"
    assert not any(word in drawn for word in ("url(", "@import", "@font-face", "href"))


def test_every_line_fits_and_only_the_first_screen_is_there_without_motion(drawn: str) -> None:
    groups = ElementTree.fromstring(drawn).iter(f"{SVG}g")
    lines = [list(group.iter(f"{SVG}text")) for group in groups if group.attrib["class"] == "screen"]
    assert [sum("class" in text.attrib for text in one) for one in lines] == [len(one) for one in SESSION]
    assert max(float(text.attrib["textLength"]) for one in lines for text in one) <= COLUMNS * WIDE
    assert ".screen + .screen { opacity: 0 }" in drawn
    assert "(prefers-reduced-motion: reduce) { .screen { animation: none } }" in drawn


def test_there_is_a_start_for_everyone() -> None:
    assert len(STARTS) == 5


@pytest.mark.parametrize("line", STARTS)
def test_each_start_works_as_it_is_written(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "my_model.py" in line:
        pytest.importorskip("snntorch", reason="snnTorch is not installed: make test installs it")
    monkeypatch.chdir(tmp_path)
    shutil.copy(EXAMPLES / "models" / "digits_cnn.nir", "model.nir")
    shutil.copy(EXAMPLES / "chips" / "my_chip.toml", "my_chip.toml")
    Path("my_model.py").write_text(MODULE, encoding="utf-8")
    assert run(shlex.split(line)) == 0


def test_the_measured_number_is_that_of_the_page() -> None:
    page = (ROOT / "docs/equivalence.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in re.findall(r"^\| .*\|$", page, re.MULTILINE)]
    models = [[cell.strip() for cell in row] for row in rows if len(row) == 7 and row[0].strip() != "model"]
    exact = [sum(row[column].startswith("100.0 %") for row in models) for column in range(2, 6)]
    refused = sum(row[2] == "refused" or row[6].startswith("refused") for row in models)
    text = " ".join(README.read_text(encoding="utf-8").split())
    ours, *others = exact
    assert f"Of {len(models)} models of six frameworks" in text
    assert f"reproduces every output value of **{ours}**, and refuses {refused} with the reason" in text
    assert "read by snnTorch, Norse and spikingjelly, reproduce {}, {} and {}:".format(*others) in text

"""The code blocks of README and docs run, and their console output is that of the command.

A fence whose info string has ``no-run`` is not run. In a console block, a line of ``…`` stands for any lines.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from nirbridge.chips.schema import FIELDS, TABLE_MEANINGS
from nirbridge.cli import main as cli
from nirbridge.cli.target_options import target_rows
from nirbridge.plugins import BUILTIN

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")])
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)[^)]*\)")
REFERENCE = ROOT / "docs" / "reference" / "cli.md"
pytestmark = pytest.mark.usefixtures("searched_once")  # several pages show the map of digits_cnn on my_chip


class Code(NamedTuple):
    page: Path
    line: int
    info: str
    body: str

    @property
    def label(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"


def blocks(language: str) -> list[Code]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            info = match["info"].split()
            if info[:1] == [language] and "no-run" not in info:
                found.append(Code(page, text.count("\n", 0, match.start()) + 2, match["info"], match["body"]))
    return found


def commands(body: str) -> Iterator[tuple[str, str]]:
    """(command, expected output) of a console block."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def matches(expected: str, found: str) -> bool:
    pattern = "".join(r"(.*\n)*" if line.strip() == "…" else re.escape(line) + r"\n" for line in expected.splitlines())
    return re.fullmatch(pattern, found) is not None


@pytest.mark.filterwarnings("ignore::nirbridge.errors.ExportWarning")  # a page on importers says what it is
@pytest.mark.parametrize("code", blocks("python"), ids=lambda c: c.label)
def test_python_blocks_run(code: Code, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = compile("\n" * (code.line - 1) + code.body, str(code.page), "exec", dont_inherit=True)
    exec(source, {"__name__": "docs"})


@pytest.mark.parametrize("code", blocks("console"), ids=lambda c: c.label)
def test_console_blocks_show_what_is_printed(
    code: Code, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    for command, expected in commands(code.body):
        name, *args = shlex.split(command)
        assert name == "nirbridge", "only nirbridge is run; mark other blocks no-run"
        code_of_exit = cli.run(args)
        captured = capsys.readouterr()
        assert matches(expected, captured.out + captured.err), captured.out + captured.err
        assert code_of_exit in {0, 1, 2}


WITHOUT = """
import runpy, sys
sys.modules.update(dict.fromkeys(sys.argv[1].split(","), None))
sys.argv = ["nirbridge", *sys.argv[2:]]
runpy.run_module("nirbridge", run_name="__main__", alter_sys=True)
"""


def plain(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def modules_beside_the_light_core() -> list[str]:
    """Top-level modules of this environment that an installation of nirbridge without extras does not have."""
    installed = {plain(found.name): found for found in metadata.distributions()}
    lines = list(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"])
    needed = {"nirbridge"}
    while lines:
        found = re.match(r"[\w.-]+", line := lines.pop())
        name = plain(found[0]) if found and "extra ==" not in line else ""
        if name in installed and name not in needed:
            needed.add(name)
            lines += installed[name].requires or ()
    owners = metadata.packages_distributions().items()
    return [module for module, own in owners if not needed & {plain(name) for name in own}]


def test_the_readme_shows_what_the_light_core_prints() -> None:
    """The environment of `make demo` has neither torch nor pandas nor a solver more, and prints the same map."""
    (body,) = [
        code.body for code in blocks("console") if code.page.name == "README.md" and "nirbridge map" in code.body
    ]
    ((command, expected),) = commands(body)
    absent = modules_beside_the_light_core()
    assert {"torch", "pytest", "matplotlib"} <= {*absent}
    assert not {"numpy", "ortools", "numba", "nir", "click", "rich"} & {*absent}
    own = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    run = [sys.executable, "-c", WITHOUT, ",".join(absent), *shlex.split(command)[1:]]
    done = subprocess.run(run, cwd=ROOT, env=own, capture_output=True, text=True, timeout=300)
    assert matches(expected, done.stdout + done.stderr), done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def documented(heading: str) -> set[str]:
    """Options in the tables of one section of the reference."""
    section = REFERENCE.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `(?:-\w, )?(--[\w-]+)", section, re.MULTILINE))


@pytest.mark.parametrize("name", [name for name, _, _ in cli.COMMANDS])
def test_the_reference_has_every_option(name: str) -> None:
    command = cli.nirbridge.get_command(click.Context(cli.nirbridge), name)
    assert command is not None
    params = command.get_params(click.Context(command, resilient_parsing=True, help_option_names=["-h", "--help"]))
    options = {flag for p in params if isinstance(p, click.Option) for flag in p.opts if flag[:2] == "--"}
    own, shared = documented(f"nirbridge {name}"), documented("Options of every command that reads a model")
    of_chips = documented("Options of every command that takes a chip")
    assert own <= options
    assert options - {"--help"} <= own | shared | of_chips | documented("Options of every command")
    assert shared & options <= own or shared <= options


def test_the_reference_has_every_target() -> None:
    section = REFERENCE.read_text(encoding="utf-8").partition("## nirbridge emit\n")[2].partition("\n## ")[0]
    own = [(name, text) for name, text in target_rows() if name in BUILTIN.emitters]
    assert re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE) == own
    assert len(own) == len(BUILTIN.emitters)


def test_the_chips_page_has_every_key_with_its_meaning() -> None:
    """The schema states them; the files of ``chips --new`` have the same words."""
    page = (ROOT / "docs" / "chips.md").read_text(encoding="utf-8")
    wrong = []
    for table in TABLE_MEANINGS:
        section = page.partition(f"### [{table}]\n")[2].partition("\n##")[0]
        rows = dict(re.findall(r"^\| `(\w+)` \| .* \| (.+) \|$", section, re.MULTILINE))
        stated = {f.key: f.meaning for f in FIELDS if f.table == table}
        wrong += [key for key in stated.keys() | rows.keys() if not rows.get(key, "").startswith(stated.get(key, "-"))]
        words = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", section).replace("`", "").lower().split()
        wrong += [] if TABLE_MEANINGS[table].lower().rstrip(".") in " ".join(words) else [table]
    assert wrong == []


def test_the_matcher_can_fail() -> None:
    assert matches("a\n…\nd\n", "a\nb\nc\nd\n")
    assert not matches("a\nb\n", "a\nc\n")
    assert not matches("a\n", "a\nb\n")

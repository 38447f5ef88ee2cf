"""The pages of the site that are made from code and data, and its table of contents. The slow test builds it."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest

import nirbridge as nb
from nirbridge.chips.schema import FIELDS
from nirbridge.cli import main as cli

ROOT = Path(__file__).resolve().parents[2]
BUILDER = ROOT / "docs" / "site"
MODULES = ("chip_pages", "command_pages", "name_pages", "pages", "sections")


@pytest.fixture(scope="module")
def builder() -> Iterator[dict[str, ModuleType]]:
    sys.path.insert(0, str(BUILDER))
    try:
        yield {name: importlib.import_module(name) for name in MODULES}
    finally:
        sys.path.remove(str(BUILDER))
        for name in MODULES:
            sys.modules.pop(name, None)


@pytest.mark.parametrize("name", ["crossbar256", "halapoint", "loihi1", "loihi2"])
def test_the_page_of_a_chip_has_every_key_of_its_file_and_its_sources(
    name: str, builder: dict[str, ModuleType], tmp_path: Path
) -> None:
    builder["chip_pages"].write(tmp_path / "chips")
    page, chip = (tmp_path / "chips" / f"{name}.md").read_text(encoding="utf-8"), nb.chip(name)
    for field in FIELDS:
        value = chip.record.get(field.table, {}).get(field.key)  # type: ignore[attr-defined]
        assert (f"| `{field.key}` |" in page.partition(f"## [{field.table}]")[2].partition("\n## ")[0]) == (
            value is not None
        ), field.name
    assert all(source in page for source in chip.sources.values())
    assert page.count("| ~") == len(chip.approximate)


def test_the_page_of_a_command_has_every_option(builder: dict[str, ModuleType], tmp_path: Path) -> None:
    builder["command_pages"].write(tmp_path / "commands")
    context = click.Context(cli.nirbridge, info_name="nirbridge")
    for name, _, _ in cli.COMMANDS:
        page = (tmp_path / "commands" / f"{name}.md").read_text(encoding="utf-8")
        command = cli.nirbridge.get_command(context, name)
        assert command is not None
        params = command.get_params(click.Context(command, resilient_parsing=True, help_option_names=["-h", "--help"]))
        flags = {flag for p in params if isinstance(p, click.Option) and p.name != "help" for flag in p.opts}
        assert {flag for flag in flags if not re.search(rf"`[^`]*{re.escape(flag)}\b", page)} == set(), name


def test_every_public_name_has_a_page(builder: dict[str, ModuleType], tmp_path: Path) -> None:
    builder["name_pages"].write(tmp_path / "api")
    index = (tmp_path / "api" / "index.md").read_text(encoding="utf-8")
    for name in set(nb.__all__) - {"__version__", "errors"}:
        assert f"nirbridge.{name}" in (tmp_path / "api" / f"{name}.md").read_text(encoding="utf-8")
        assert re.search(rf"\| \[{name}\]\({name}\.md\) \| \w", index), f"{name} has no first line"


def test_the_table_of_contents_has_every_page_and_no_other(builder: dict[str, ModuleType], tmp_path: Path) -> None:
    builder["pages"].copy_pages(ROOT, tmp_path)
    builder["sections"].write(tmp_path, ROOT / "docs")
    made = {"api/index", "commands/index", "chips/index"}
    every: list[str] = []
    for section in builder["sections"].SECTIONS:
        listed = (tmp_path / f"{section}.md").read_text(encoding="utf-8").partition("```{toctree}")[2]
        for page in re.findall(r"^[\w/-]+$", listed, re.MULTILINE):
            assert page in made or list(tmp_path.glob(f"{page}.*")), f"{section}: {page}"
            every.append(page)
    assert len(every) == len(set(every))


def test_pictures_of_pages_are_copied(builder: dict[str, ModuleType], tmp_path: Path) -> None:
    builder["pages"].copy_pages(ROOT, tmp_path)
    found = [
        page.parent / name
        for page in tmp_path.rglob("*.md")
        for name in re.findall(r"!\[[^\]]*\]\((?!https?:)([^)\s]+)\)", page.read_text(encoding="utf-8"))
    ]
    assert "profile.png" in [picture.name for picture in found]
    assert [picture.name for picture in found if not picture.is_file()] == []


def test_a_page_that_no_section_has_is_an_error(builder: dict[str, ModuleType], tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "lost.md").write_text("# Lost\n", encoding="utf-8")
    (tmp_path / "source").mkdir()
    for name in ("decisions", "reference"):
        (tmp_path / "source" / name).mkdir()
    with pytest.raises(SystemExit, match="no section has lost"):
        builder["sections"].write(tmp_path / "source", tmp_path / "docs")


@pytest.mark.slow
def test_the_site_is_built_without_a_warning() -> None:
    for name in ("sphinx", "myst_nb", "pydata_sphinx_theme"):
        pytest.importorskip(name, reason=f"{name} is not installed: make docs installs it")
    done = subprocess.run(
        [sys.executable, str(BUILDER)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    pages = list((ROOT / "build" / "site").rglob("*.html"))
    assert len(pages) > 80
    assert ROOT / "build" / "site" / "view.html" in pages
    for page in pages:  # nothing is loaded from elsewhere
        loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"', page.read_text(encoding="utf-8"))
        assert loaded == [], page

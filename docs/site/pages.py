"""Pages of the repository as pages of the site: the same folders, links into the repository as files."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

LINK = re.compile(r"(\]\()(?!https?://|#|mailto:)([^)#\s]+)(#[^)\s]*)?(\))")
TOP = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Pages outside docs/ that the site has, and their names there."""
NOTEBOOKS = "notebooks"
SOURCES = (".py", ".md")
"""Endings that Sphinx would take for pages."""


def copy_pages(root: Path, source: Path) -> None:
    """Every page of ``docs/`` and of ``TOP``, and what they link to."""
    docs = root / "docs"
    for page in sorted(p for p in docs.rglob("*.md") if not p.is_relative_to(docs / "site")):
        _copy(root, page, source / page.relative_to(docs), source)
    for name, place in TOP.items():
        _copy(root, root / name, source / place, source)
    for notebook in sorted((root / "examples" / NOTEBOOKS).glob("*.py")):
        _copy_file(notebook, source / NOTEBOOKS / notebook.name)


def _copy(root: Path, page: Path, place: Path, source: Path) -> None:
    def link(match: re.Match[str]) -> str:
        target = (page.parent / match[2]).resolve()
        return f"{match[1]}{_target(root, target, place, source)}{match[3] or ''}{match[4]}"

    text = LINK.sub(link, page.read_text(encoding="utf-8"))
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")


def _target(root: Path, target: Path, place: Path, source: Path) -> str:
    """A page of the site, or a file of the repository, which is copied."""
    docs, notebooks = root / "docs", root / "examples" / NOTEBOOKS
    if target.is_dir():
        target /= "index.md"
    if target.is_relative_to(docs):
        there = source / target.relative_to(docs)
        if target.suffix != ".md":  # pages are copied, with their links, one by one
            _copy_file(target, there)
    elif target.is_relative_to(notebooks):
        there = source / NOTEBOOKS / target.name
    elif target.parent == root and target.name in TOP:
        there = source / TOP[target.name]
    else:
        name = target.name + (".txt" if target.suffix in SOURCES else "")
        there = (source / "files" / target.relative_to(root)).with_name(name)
        _copy_file(target, there)
    return Path(os.path.relpath(there, place.parent)).as_posix()


def _copy_file(file: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, place)

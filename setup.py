"""The text of the package's page: README.md with links that lead out of the package.

The owner states the address once, as ``Repository`` in pyproject.toml's ``[project.urls]``. Without it there is nowhere
to link to: relative links become plain text, and pictures are left out.
"""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
LINK = re.compile(r"(!?)\[([^\[\]]*)\]\((?!https?://|#|mailto:)([^)\s]+)\)")
"""A picture or a link to a file of the repository; its text has no brackets."""


def package_page(readme: str, repository: str | None, version: str) -> str:
    """``readme`` with absolute links to the files of a release, in the form of GitHub's addresses."""

    def absolute(match: re.Match[str]) -> str:
        picture, text, target = match.groups()
        if repository is None:
            return "" if picture else text
        return f"{picture}[{text}]({repository.rstrip('/')}/{'raw' if picture else 'blob'}/v{version}/{target})"

    return LINK.sub(absolute, readme)


def main() -> None:
    """Build with the metadata of pyproject.toml and with the page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = runpy.run_path(str(ROOT / "nirbridge/_version.py"))["__version__"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    page = package_page(readme, project["urls"].get("Repository"), version)
    setup(long_description=page, long_description_content_type="text/markdown")


if __name__ == "__main__":
    main()

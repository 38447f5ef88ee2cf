"""Reports in a browser: no repaired markup, no console errors, no script."""

from __future__ import annotations

import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from nirbridge.report.map_html import map_html
from tests.report.test_map_report import HOSTILE, made
from tests.tools import needs

# No request leaves the machine; the profile is of this run alone.
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync --disable-extensions --host-resolver-rules=MAP*~NOTFOUND --enable-logging=stderr --dump-dom"
)


class Read(HTMLParser):
    """Tags with their attributes, and texts, in order; without what a browser adds to every table."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "tbody":
            self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append(data.strip())


def opened(browser: str, page: str, folder: Path) -> tuple[str, list[str]]:
    """The document after the browser read it, and what it wrote to its console."""
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    command = [browser, *OPTIONS.split(), f"--user-data-dir={folder / 'profile'}", file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if ":CONSOLE:" in line]


@pytest.mark.parametrize("name", ["hidden", HOSTILE])
def test_a_browser_reads_the_report_of_a_map_as_it_is_written(name: str, tmp_path: Path) -> None:
    browser = needs("browser")
    page = map_html(made(name=name), title=name)
    document, console = opened(browser, page, tmp_path)
    written, read = Read(page), Read(document)
    assert read.tags == written.tags
    assert read.texts == written.texts
    assert console == []
    assert not {"script", "img", "link", "iframe"} & {tag for tag, _ in read.tags}


def test_a_page_that_is_repaired_or_complains_is_noticed(tmp_path: Path) -> None:
    browser = needs("browser")
    page = map_html(made()).replace("<h2>Cores</h2>", "<p><h2>Cores</h2></p><script>alert(1)</script>")
    document, console = opened(browser, page, tmp_path)
    assert Read(document).tags != Read(page).tags  # a heading ends a paragraph
    assert any("Content Security Policy" in line for line in console)

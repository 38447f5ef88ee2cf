"""One browser for all tests of the viewer, and one empty page for those of its readers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright import sync_api

from nirbridge.viewer.page import viewer_page
from tests.report.html.test_in_a_browser import OPTIONS
from tests.tools import needs
from tests.viewer.reader import Reader


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    path = needs("browser")
    with sync_api.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=path, args=OPTIONS)
        yield opened
        opened.close()


@pytest.fixture(scope="package")
def reader(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """The readers of the empty page, opened from disk."""
    path = tmp_path_factory.mktemp("viewer") / "view.html"
    path.write_text(viewer_page(), encoding="utf-8")
    page = browser.new_context().new_page()
    page.goto(path.as_uri())
    return Reader(page)

"""Every screen is the one that is written down, and no line is wider than the terminal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.golden.screens import KNOWN, SCREENS, WIDTHS, folder_of_files, known, screen


@pytest.fixture(scope="module", autouse=True)
def files() -> Iterator[None]:
    with folder_of_files():
        yield


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SCREENS)
def test_the_screen_is_the_one_that_is_written_down(name: str, width: int) -> None:
    assert screen(SCREENS[name], width) == known(name, width).read_text(encoding="utf-8")


def test_every_known_screen_has_a_line() -> None:
    names = {known(name, width).name for name in SCREENS for width in WIDTHS}
    assert {path.name for path in KNOWN.iterdir()} == names

"""One browser for all tests of the readers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.viewer.reader import Reader, opened_reader


@pytest.fixture(scope="package")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with opened_reader(tmp_path_factory.mktemp("viewer")) as opened:
        yield opened

"""The Lava environment in which these tests run programs; without it they fail with a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from nirbridge.emitters.lava.runtime.environment import find_python
from nirbridge.errors import UsageError


@pytest.fixture(scope="session")
def lava_python() -> Path:
    try:
        return find_python()
    except UsageError as error:
        pytest.fail(f"{error}\nmake test sets it up; by hand: nirbridge doctor lava --install")

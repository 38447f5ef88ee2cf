"""Packages that tests use and that may be missing, imported without what they warn of."""

from __future__ import annotations

import warnings
from typing import Any

import pytest


def package(name: str) -> Any:
    """A package or a module of it; where it is not installed, the test or the whole file is skipped."""
    with warnings.catch_warnings(action="ignore"):  # deprecations of what it imports are not this project's
        return pytest.importorskip(name, reason=f"{name.partition('.')[0]} is not installed")

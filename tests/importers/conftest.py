"""What all tests of importers share."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every import warns of other tools; what it says is tested in test_export_warning, elsewhere it is expected."""
    ignored = pytest.mark.filterwarnings("ignore::nirbridge.errors.ExportWarning")
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(ignored)

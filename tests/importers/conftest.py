"""Shared fixtures of the importers' tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every import warns of other tools; what it says is tested in test_export_warning, elsewhere it is expected."""
    ignored = pytest.mark.filterwarnings("ignore::nirbridge.errors.ExportWarning")
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(ignored)


@pytest.fixture(autouse=True)
def no_neurons_of_other_tests() -> None:
    """snnTorch keeps every neuron it made in one list, and its ``utils.reset`` touches them all."""
    if "snntorch" in sys.modules:
        sys.modules["snntorch"].SpikingNeuron.instances.clear()

"""The same network gets the same delays, initial states and relays: comparison with stored retimings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.passes.known_retimings import CASES, KNOWN, outcome

WRITTEN: dict[str, Any] = json.loads(KNOWN.read_text(encoding="utf-8")) if KNOWN.exists() else {}


@pytest.mark.parametrize("name", CASES)
def test_a_retiming_is_as_it_was_written_down(name: str) -> None:
    assert outcome(name) == WRITTEN[name]


def test_what_is_written_down_is_in_order() -> None:
    """Inputs are at 0, nothing is before them, no delay is below 0, and long ones take relays."""
    made = [own for own in WRITTEN.values() if isinstance(own, dict)]
    assert len(made) == len(CASES)
    assert all(own["latency"]["in"] == 0 and min(own["latency"].values()) == 0 for own in made)
    assert all(least >= 0 for own in made for _, _, least, *_ in own["projections"])
    assert any(kind == "relay" for own in made for _, kind, *_ in own["populations"])

"""A seed and an effort always give the same placement, step by step: comparison with stored results."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.mapping.known_searches import KNOWN, SEARCHES

WRITTEN: dict[str, Any] = json.loads(KNOWN.read_text(encoding="utf-8")) if KNOWN.exists() else {}


def close(value: Any) -> Any:
    """The value, its floats to nine digits: sums may be taken in another order."""
    if isinstance(value, dict):
        return {key: close(own) for key, own in value.items()}
    if isinstance(value, list):
        return [close(own) for own in value]
    return pytest.approx(value, rel=1e-9, abs=1e-12) if isinstance(value, float) else value


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_ends_where_it_was_written_down(name: str) -> None:
    make, case = SEARCHES[name]
    assert make(case) == close(WRITTEN[name])

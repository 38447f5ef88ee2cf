"""The same network, chip and options give the same cores and bounds: comparison with stored partitions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.partitioner.known_partitions import CASES, KNOWN, outcome

WRITTEN: dict[str, Any] = json.loads(KNOWN.read_text(encoding="utf-8")) if KNOWN.exists() else {}


@pytest.mark.parametrize("name", CASES)
def test_a_partition_is_as_it_was_written_down(name: str) -> None:
    assert outcome(name) == WRITTEN[name]


def test_what_is_written_down_is_in_order() -> None:
    """No method takes more cores than the one before it, no bound is above the cores."""
    for network, on in {own[:2] for own in CASES.values()}:
        found = [WRITTEN[f"{network}, {on}, {method}"] for method in ("sequential", "packed", "cp-sat")]
        cores = [own["cores"] for own in found if isinstance(own, dict)]
        assert [c[0] for c in cores] == sorted((c[0] for c in cores), reverse=True)
        assert all(least <= sliced <= taken for taken, least, sliced in cores)

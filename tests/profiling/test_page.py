"""docs/profile.md: the sentence on assumed rates is that of the page, and rows are as the benchmark computes them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nirbridge.mapping.rates import ASSUMED_MISSED

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "profile.md"


def test_maps_say_how_far_the_assumption_is_off_on_the_page() -> None:
    found = re.search(r"The measured energy is ([\d.]+) to ([\d.]+) times the assumed one", PAGE.read_text("utf-8"))
    assert found is not None
    assert f"{found[1]} to {found[2]} times" in ASSUMED_MISSED


@pytest.mark.slow
@pytest.mark.parametrize("name", ["braille", "delayed", "residual"])
def test_rows_of_the_page_are_computed_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sanafe")
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import profile, profile_nets

    if name == "braille" and not profile_nets.DATA.exists():
        pytest.skip("no ../shared/data")
    record = profile.run(name)
    assert not profile.beyond(record)
    assert f"| {' | '.join(profile.row_cells(record))} |" in PAGE.read_text("utf-8").splitlines()

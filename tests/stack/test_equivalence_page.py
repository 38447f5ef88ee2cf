"""The page of Spyx and SNNAX is what the benchmark writes."""

from __future__ import annotations

from pathlib import Path

from tests.stack.needs import needs

pytestmark = needs("spyx", "snnax", "jax")


def test_the_page_is_the_measured_one(root: Path) -> None:
    from benchmarks.equivalence_jax import page

    text = page()
    assert text == (root / "docs" / "equivalence-jax.md").read_text(encoding="utf-8")
    assert text.count("| 100.0 % |") == 15

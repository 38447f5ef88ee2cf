"""The page of round trips: rows as they are measured, whole in a slow test."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.round_trips import TARGETS, exact_models, measured, page, result

PAGE = Path(__file__).parents[2] / "docs" / "round-trips.md"
QUICK = (("RLeaky, subtract, late (the default)", "snntorch"), ("KLIFNode", "snntorch"), ("LIFCell", "norse"))


@pytest.mark.parametrize(("name", "target"), QUICK)
def test_a_cell_of_the_page(name: str, target: str) -> None:
    (model,) = (m for m in exact_models() if m.name == name)
    cell = result(model, target)
    (row,) = (line for line in PAGE.read_text().splitlines() if line.startswith(f"| {name} |"))
    text = row.split("|")[2 + TARGETS.index(target)].strip()
    if "refused" in cell:
        letter = text.removeprefix("no (").removesuffix(")")
        assert f"* **{letter}**: {'; '.join(cell['refused'])}" in PAGE.read_text().splitlines()
    else:
        assert cell["equal"] == cell["values"] > 0
        assert text == f"100.0 %{' =' if cell['same'] else ''}"


def test_every_row_is_on_the_page_and_no_value_differs() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and not line.startswith("| model")]
    assert [line.split("|")[1].strip() for line in rows] == [m.name for m in exact_models()]
    cells = [cell.strip() for line in rows for cell in line.split("|")[2:-1]]
    assert len(cells) == len(TARGETS) * len(rows)
    others = [cell for cell in cells if cell not in ("100.0 %", "100.0 % =") and not cell.startswith("no (")]
    assert others == ["99.9 % (1; 10)"]  # a reset by 4/3, which no float32 holds
    assert all(line.split("|")[2].strip() == "100.0 % =" for line in rows)
    assert sum(cell.startswith("no (") for cell in cells) <= len(cells) // 4


@pytest.mark.slow
def test_the_whole_page() -> None:
    assert page(list(measured(None, float("inf")))) == PAGE.read_text()

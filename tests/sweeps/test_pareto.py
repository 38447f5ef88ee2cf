"""Pareto figures: the front against every pair compared, and axes of whole cores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nirbridge.report.plots.pareto import pareto_points, plot_pareto


def rows_of(*pairs: tuple[int, float, float]) -> list[dict[str, Any]]:
    """Rows with cores, energy of an inference and accuracy."""
    keys = ("cores", "energy_per_inference_j", "accuracy")
    return [{"model": "m", "chip": "c"} | dict(zip(keys, pair, strict=True)) for pair in pairs]


@pytest.mark.parametrize("seed", range(20))
def test_the_front_is_that_of_every_pair_compared(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rows_of(*((int(c), float(e), float(a)) for c, e, a in rng.integers(1, 6, (12, 3))))
    _, points = pareto_points(rows, "energy", "accuracy")
    assert [(p.x, p.y) for p in points] == [(row["energy_per_inference_j"], row["accuracy"]) for row in rows]
    for point in points:
        beaten = any(q.x <= point.x and q.y >= point.y and (q.x, q.y) != (point.x, point.y) for q in points)
        assert point.is_best != beaten


@pytest.mark.parametrize("cores", [(1, 1), (1, 2), (3, 40)])
def test_an_axis_of_cores_has_whole_numbers(cores: tuple[int, int]) -> None:
    pytest.importorskip("matplotlib")
    axes = plot_pareto(rows_of(*((n, 1e-9, 0.5) for n in cores)), "cores", "energy")
    ticks = axes.get_xticks()
    assert len(ticks)
    assert all(tick == round(tick) for tick in ticks)

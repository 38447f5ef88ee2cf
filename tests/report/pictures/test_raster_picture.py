"""Cells of rasters: where events are, and that each of them is in one cell."""

from __future__ import annotations

import numpy as np
import pytest

from nirbridge.report.pictures.raster_picture import NodeEvents, raster_picture


def points(band: object) -> list[tuple[int, int]]:
    return list(zip(band.steps.tolist(), band.neuron.tolist(), strict=True))  # type: ignore[attr-defined]


def test_a_point_for_each_event() -> None:
    spikes = np.array([[1, 0, 0], [0, 2, 0], [0, 0, 0.5]])
    picture = raster_picture([NodeEvents("a", spikes), NodeEvents("b", spikes[:2] * 0)])
    first, second = picture.bands
    assert points(first) == [(0, 0), (1, 1), (2, 2)]
    assert (first.events, first.stride, first.joined, first.remark) == (3, 1, 1, "")
    assert (points(second), second.events, second.stop) == ([], 0, 2)
    assert (picture.first, picture.stop) == (0, 3)


def test_steps_are_those_of_the_simulation() -> None:
    (band,) = raster_picture([NodeEvents("a", np.eye(3), first=9, every=5)]).bands
    assert points(band) == [(9, 0), (14, 1), (19, 2)]
    assert (band.first, band.stop) == (5, 20)


def cells_by_hand(spikes: np.ndarray, stride: int, joined: int) -> dict[tuple[int, int], int]:
    """Events by (first step, first neuron) of their cell."""
    found: dict[tuple[int, int], int] = {}
    for step, neuron in np.argwhere(spikes).tolist():
        cell = step // joined * joined, neuron // stride * stride
        found[cell] = found.get(cell, 0) + 1
    return found


def test_no_event_of_many_neurons_is_left_out() -> None:
    spikes = np.random.default_rng(0).random((2, 1000)) < 0.5
    (band,) = raster_picture([NodeEvents("a", spikes)], rows_max=128).bands
    assert (band.stride, band.joined, band.rows) == (8, 1, 125)
    assert dict(zip(points(band), band.counts.tolist(), strict=True)) == cells_by_hand(spikes, 8, 1)
    assert band.remark == f"a cell: 8 neurons × 1 time step, fullest: {band.counts.max()} events"
    (whole,) = raster_picture([NodeEvents("a", spikes)], rows_max=1000).bands
    assert (len(whole.steps), whole.remark) == (np.count_nonzero(spikes), "")


@pytest.mark.parametrize(
    ("steps", "neurons"), [(1000, 40), (5000, 1), (7, 4000), (0, 5), (5, 0), (1, 1), (300, 300), (2, 2000)]
)
def test_there_are_never_more_cells_than_stated_and_all_events_are_in_them(steps: int, neurons: int) -> None:
    spikes = np.random.default_rng(0).random((steps, neurons)) < 0.9
    picture = raster_picture([NodeEvents("a", spikes), NodeEvents("b", spikes)], points_max=500)
    assert sum(len(band.steps) for band in picture.bands) <= 500
    for band in picture.bands:
        assert dict(zip(points(band), band.counts.tolist(), strict=True)) == cells_by_hand(
            spikes, band.stride, band.joined
        )
        assert (band.remark != "") == (len(band.steps) < band.events)


def test_a_node_with_few_events_keeps_its_marks_beside_one_with_many() -> None:
    spikes = np.zeros((64, 1))
    spikes[[3, 9, 10, 63]] = 1
    picture = raster_picture([NodeEvents("a", spikes), NodeEvents("b", np.ones((64, 1)))], points_max=12)
    sparse, dense = picture.bands
    assert (sparse.steps.tolist(), sparse.remark) == ([3, 9, 10, 63], "")
    assert (dense.joined, dense.counts.sum(), len(dense.steps)) == (8, 64, 8)
    recorded = raster_picture([NodeEvents("b", np.ones((64, 1)), every=5)], points_max=8).bands[0]
    assert recorded.remark == "a cell: 1 neuron × 8 recorded time steps, fullest: 8 events"
    single = raster_picture([NodeEvents(name, np.ones((1, 1))) for name in "ab"], points_max=1)
    assert [len(band.steps) for band in single.bands] == [1, 1]

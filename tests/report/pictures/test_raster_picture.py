"""Points of rasters: where events are, and how many are left out by the stated rule."""

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


def test_every_kth_neuron_is_shown_where_there_are_many() -> None:
    spikes = np.ones((2, 1000), np.uint8)
    (band,) = raster_picture([NodeEvents("a", spikes)], rows_max=128).bands
    assert band.stride == 8
    assert sorted(set(band.neuron.tolist())) == list(range(0, 1000, 8))
    assert (band.events, band.remark) == (2000, "every 8th of 1,000 neurons")
    (whole,) = raster_picture([NodeEvents("a", spikes)], rows_max=1000).bands
    assert len(whole.steps) == 2000


@pytest.mark.parametrize(("steps", "neurons"), [(1000, 40), (5000, 1), (7, 4000), (0, 5), (5, 0), (1, 1)])
def test_there_are_never_more_points_than_stated(steps: int, neurons: int) -> None:
    spikes = np.ones((steps, neurons), np.uint8)
    picture = raster_picture([NodeEvents("a", spikes), NodeEvents("b", spikes)], points_max=500)
    assert sum(len(band.steps) for band in picture.bands) <= 500
    for band in picture.bands:
        assert band.events == steps * neurons
        shown = sorted(set(band.neuron.tolist()))
        assert shown == (list(range(0, neurons, band.stride)) if steps else [])
        assert sorted(set(band.steps.tolist())) == (list(range(0, steps, band.joined)) if neurons else [])
        assert (band.remark != "") == (len(band.steps) < steps * neurons)


def test_joined_steps_have_a_point_where_any_of_them_has_an_event() -> None:
    spikes = np.zeros((64, 1))
    spikes[[3, 9, 10, 63]] = 1
    dense = np.ones((64, 1))
    picture = raster_picture([NodeEvents("a", spikes), NodeEvents("b", dense)], points_max=12)
    sparse = picture.bands[0]
    assert sparse.joined == 8
    assert sparse.steps.tolist() == [0, 8, 56]
    assert sparse.remark == "a mark for 8 time steps"

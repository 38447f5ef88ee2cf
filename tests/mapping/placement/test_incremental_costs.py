"""Incrementally updated costs of the placement search equal a full recomputation."""

from __future__ import annotations

import numpy as np

from nirbridge.mapping.placement import place as placing
from tests.mapping.tables import chip, cores_in_rows


def test_a_random_placement_takes_every_core_alike() -> None:
    """Distinct cores, all of them sooner or later, in every order; the same seed gives the same."""
    cores = cores_in_rows(chip(3, 2))
    placed = [placing.place_random(cores, 3, seed) for seed in range(600)]
    assert all(len(set(p)) == 3 for p in placed)
    for place in range(3):
        counts = [sum(p[place] == core for p in placed) for core in cores]
        assert min(counts) > 60
    assert placing.place_random(cores, 3, 5) == placed[5]
    assert len(placing.place_random(cores, 6, 0)) == 6


def test_row_major_goes_along_rows_of_one_chip_after_the_other() -> None:
    cores = cores_in_rows(chip(3, 2, 2), 2)
    shuffled = [cores[i] for i in np.random.default_rng(0).permutation(len(cores))]
    assert placing.place_row_major(shuffled, 15) == tuple(cores[:15])

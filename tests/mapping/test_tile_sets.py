"""Sets of blocks in order, and the rates of the nets that touch them, counted set by set."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nirbridge.mapping import tile_program as tile_nets
from nirbridge.mapping.tile_program import Coverage, chunks, count_sets, members, sums


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_sets_and_sums_over_them(size: int) -> None:
    values = np.random.default_rng(size).random(7)
    sets = sorted(itertools.combinations(range(7), size), key=lambda own: own[::-1])
    assert members(np.arange(len(sets)), size, 7).tolist() == [list(own) for own in sets]
    assert sums(values, size, 7) == pytest.approx([values[list(own)].sum() for own in sets])
    for last, span in chunks(7, size):
        assert {own[-1] for own in sets[span]} == {last}
    assert sum(span.stop - span.start for _, span in chunks(7, size)) == len(sets)
    assert count_sets(7, size) == sum(1 for n in range(1, size + 1) for _ in itertools.combinations(range(7), n))


def test_rates_of_many_sets_are_rounded_down(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    for _ in range(10):
        nets = [np.sort(rng.permutation(9)[: rng.integers(1, 10)]) for _ in range(12)]
        coverage = Coverage(9, np.cumsum([0, *map(len, nets)]), np.concatenate(nets), 10.0 ** rng.uniform(-6, 6, 12))
        for size in (3, 4, 5):
            monkeypatch.setattr(tile_nets, "PRECISE_MAX", 10**9)
            exact = coverage.rates(np.arange(12), size, 9)
            monkeypatch.setattr(tile_nets, "PRECISE_MAX", 0)
            small = coverage.rates(np.arange(12), size, 9)
            assert (exact.dtype, small.dtype) == (np.float64, np.float32)
            assert ((1 - 1e-6) * exact < small).all()
            assert (small.astype(np.float64) * (1 + 2.0**-24) < exact).all()  # so are sums of two


def test_rates_of_the_nets_that_touch_each_set() -> None:
    rng = np.random.default_rng(1)
    for _ in range(40):
        blocks = int(rng.integers(2, 9))
        nets = [np.sort(rng.permutation(blocks)[: rng.integers(1, blocks + 1)]) for _ in range(rng.integers(1, 9))]
        rate = rng.random(len(nets))
        coverage = Coverage(blocks, np.cumsum([0, *map(len, nets)]), np.concatenate(nets), rate)
        of = np.flatnonzero(rng.random(len(nets)) < 0.8)
        for size in range(1, min(blocks, 5) + 1):
            found = coverage.rates(of, size, blocks)
            sets = members(np.arange(len(found)), size, blocks).tolist()
            assert found == pytest.approx([sum(rate[i] for i in of if set(nets[i]) & set(own)) for own in sets])

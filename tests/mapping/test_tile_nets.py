"""Nets as the blocks that they touch, against sets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nirbridge.mapping.tile_program import TouchingNets
from nirbridge.mapping.traffic import traffic
from nirbridge.partitioner.cost.axons import HOST
from tests.mapping.tables import Group, table

GROUPS: list[Group] = [
    (1, 2.0, [4, 5]),
    (4, 0.5, [1, 5]),
    (HOST, 1.0, [1, 4, 5]),
    (HOST, 4.0, [7]),
    (2, 8.0, [2]),
    (7, 3.0, [2, 7]),
]
"""Blocks 0, 3 and 6 have no nets; two nets touch the same blocks, and one of the host does, too."""


def listed(nets: TouchingNets) -> dict[tuple[bool, tuple[int, ...]], float]:
    ends = np.split(nets.ends, nets.ptr[1:-1])
    keys = [(bool(h), tuple(own.tolist())) for h, own in zip(nets.is_host, ends, strict=True)]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, nets.rate.tolist(), strict=True))


def test_one_window_has_all_nets_and_adds_up_those_that_touch_the_same_blocks() -> None:
    nets = TouchingNets.of_traffic(traffic(table(GROUPS), 8))
    assert nets.blocks == 5  # 1, 2, 4, 5 and 7
    assert nets.degrees.tolist() == [3, 3, 3, 1, 2]
    assert nets.count_windows(4, 1000) == 1
    (window,) = nets.windows(1)
    assert listed(window) == {(False, (0, 2, 3)): 2.5, (True, (0, 2, 3)): 1.0, (True, (4,)): 4.0, (False, (1, 4)): 3.0}


def test_the_nets_of_least_work_for_their_rate() -> None:
    nets = TouchingNets.of_traffic(traffic(table(GROUPS), 8))
    assert nets.affordable(2, 1).rate.tolist() == [4.0]
    assert nets.affordable(2, 2).rate.tolist() == [4.0, 3.0]
    assert nets.affordable(2, 5).rate.tolist() == [2.0, 4.0, 3.0]
    assert nets.affordable(2, 11).rate.tolist() == nets.rate.tolist()
    faint = replace(nets, rate=1e-310 * nets.rate)
    assert faint.affordable(2, 5).rate.tolist() == (1e-310 * np.array([2.0, 4.0, 3.0])).tolist()


def test_windows_part_the_blocks_and_keep_a_net_in_the_window_of_most_of_its_ends() -> None:
    rng = np.random.default_rng(2)
    groups: list[Group] = [
        (int(rng.integers(HOST, 12)), float(rng.random()), rng.permutation(12)[: rng.integers(1, 6)].tolist())
        for _ in range(30)
    ]
    nets = TouchingNets.of_traffic(traffic(table(groups), 12))
    assert nets.count_windows(2, 3 * (4 + 6)) == 3
    windows = list(nets.reordered().windows(3))
    assert [window.blocks for window in windows] == [4, 4, 4]
    assert sum(window.rate.sum() for window in windows) <= nets.rate.sum() * (1 + 1e-12)
    for window in windows:
        assert window.ends.min() >= 0
        assert window.ends.max() < 4
        assert (window.degrees >= np.where(window.is_host, 1, 2)).all()
        assert all(list(own) == sorted(set(own)) for _, own in listed(window))

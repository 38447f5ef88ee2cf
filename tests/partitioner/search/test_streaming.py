"""Next-fit streams: stretches are boxes that tile, every filling is legal, deep chains meet their bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nirbridge.arrays import Array
from nirbridge.network.model import Projection
from nirbridge.network.operators import Dense
from nirbridge.partitioner import PartitionOptions, partition
from nirbridge.partitioner.cost.sizing import cost_model
from nirbridge.partitioner.search.methods import is_within
from nirbridge.partitioner.search.slicing import capacity, interval_boxes
from nirbridge.partitioner.search.streaming import streamed
from tests.partitioner.cases import LOIHI, chip, covers, network, population, random_network
from tests.partitioner.nets import network_of

WORK = 60_000_000


@pytest.mark.parametrize("lengths", [(7,), (3, 5), (3, 4, 2)])
def test_boxes_of_a_stretch_are_its_places_in_order(lengths: tuple[int, ...]) -> None:
    numbers: Array = np.arange(math.prod(lengths)).reshape(lengths)
    for start in range(numbers.size):
        for stop in range(start + 1, numbers.size + 1):
            boxes = list(interval_boxes(lengths, start, stop))
            found = [numbers[tuple(slice(a, b) for a, b in box)].ravel() for box in boxes]
            assert np.concatenate(found).tolist() == list(range(start, stop))
            assert len(boxes) <= 2 * len(lengths) - 1


@pytest.mark.parametrize("seed", range(8))
def test_every_filling_is_legal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = random_network(rng, windows=seed % 2 == 0)
    on = chip(core={"neurons": 9, "input_axons": 60, "output_axons": 120}, words=120)
    sizes = cost_model(net, on, 8)
    blocks = streamed(sizes, capacity(on), {}, 0, WORK)
    assert blocks is not None
    assert covers(net, blocks)
    assert is_within(sizes, blocks)


def test_a_deep_chain_meets_the_bound_of_its_neurons() -> None:
    channels = [8, 4, 12, 12, 4, 8, 4, 8, 12, 4, 12, 8]
    net = network_of("1x12x12 " + " ".join(f"conv{c}k3p1 lif" for c in channels))
    report = partition(net, LOIHI).report
    assert report.cores == -(-144 * sum(channels) // 1024)
    assert report.status == "optimal"


def test_words_and_neurons_are_filled_together() -> None:
    # one layer needs few neurons and many words to a core, the other many neurons and few words
    net = network_of("1x8x8 conv24k5p2 lif conv24k5p2 lif conv24k1 lif conv24k1 lif")
    on = chip(core={"neurons": 512}, words=9000)
    sizes = cost_model(net, on, 8)
    one_end = streamed(sizes, capacity(on), {}, 10**6, WORK)  # enough: the second filling is not made
    both_ends = streamed(sizes, capacity(on), {}, 0, WORK)
    assert one_end is not None
    assert both_ends is not None
    assert len(both_ends) < len(one_end)


def test_output_axons_of_a_loop_are_charged_in_the_next_filling() -> None:
    loop = Dense(np.ones((24, 24)))
    net = network(
        {"in": (24,)},
        [population("p", (24,))],
        [
            Projection("in", "p", Dense(np.ones((24, 24)))),
            Projection("p", "p", loop, delay_steps=np.array(1), is_back=True),
        ],
    )
    on = chip(core={"neurons": 10, "output_axons": 24})
    sizes = cost_model(net, on, 8)
    blocks = streamed(sizes, capacity(on), {}, 0, WORK)
    # 3 cores of up to 8 neurons, each of which sends to all three: 10 neurons would need 30 output axons
    assert blocks is not None
    assert len(blocks) == 3
    assert is_within(sizes, blocks)


def test_groups_share_no_core() -> None:
    net = network_of("8 dense6 lif dense6 lif dense6 lif")
    names = [p.name for p in net.populations]
    sizes = cost_model(net, LOIHI, 8)
    blocks = streamed(sizes, capacity(LOIHI), {names[1]: 1}, 0, WORK)
    assert blocks is not None
    assert sorted(sorted({s.population for s in block}) for block in blocks) == [[names[0], names[2]], [names[1]]]


def test_a_neuron_that_fits_no_core_is_no_filling() -> None:
    net = network_of("8 dense6 lif")
    on = chip(core={"input_axons": 7})
    assert streamed(cost_model(net, on, 8), capacity(on), {}, 0, WORK) is None


def test_what_no_grid_tiles_is_not_refused() -> None:
    # a source may reach 3 cores of the 7 neurons, not 4: near-equal pieces of 2 are one too many
    net = network_of("6 lif dense7 lif")
    on = chip(core={"neurons": 3, "output_axons": 9, "input_axons": 6})
    found = partition(net, on, PartitionOptions())
    assert found.report.cores == found.report.cores_lower_bound == 5

"""Bounds from the least use of a core: against every grouping of tiny networks, and by hand on known layers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from benchmarks.rivals.accounting import COUNTED, UNLIMITED, Accounts
from benchmarks.rivals.banded import banded
from benchmarks.rivals.networks import case
from benchmarks.rivals.next_fit import next_fit
from nirbridge._types import Shape
from nirbridge.arrays import Array
from nirbridge.chips.model import Chip
from nirbridge.network.model import Network, Population, Projection
from nirbridge.network.operators import Conv, Dense, Operator
from nirbridge.partitioner.cost.sizing import CostModel, cost_model
from nirbridge.partitioner.search.bounds import any_map_bounds
from nirbridge.partitioner.search.slicing import capacity
from nirbridge.partitioner.search.spread import least_spread
from tests.partitioner.cases import chip, network, population, random_operator, random_sparse, random_windows

SHAPES: tuple[Shape, ...] = ((1, 3, 3), (2, 2, 3), (1, 2, 4), (2, 4), (1, 6), (5,), (3, 2, 2))
FORMS: tuple[dict[str, Any], ...] = (
    {},
    {"index_bits": None},
    {"run_free": False, "run_targets_max": 3},
    {"shared_kernels": True},
    {"shared_kernels": True, "word_bits": 16, "run_targets_max": 4},
    {"run_header_bits": 0, "word_bits": 8, "run_targets_max": None},
)


def tiny_network(rng: np.random.Generator, most: int) -> Network:
    """One to three populations, some fed twice, by two populations, with a delay, or by themselves."""
    shape = SHAPES[int(rng.integers(len(SHAPES)))]
    points, populations, ways = [("in", shape)], list[Population](), list[Projection]()
    for number in range(int(rng.integers(1, 4))):
        source, shape = points[int(rng.integers(len(points)))]
        windows = len(shape) > 1 and rng.random() < 0.7
        operator: Operator = random_windows(rng, shape) if windows else random_operator(rng, shape, 2)
        out, name = operator.output_shape, f"p{number}"
        if math.prod(out) + sum(p.size for p in populations) > most:
            continue
        ways.append(Projection(source, name, operator, delay_steps=np.array(int(rng.integers(0, 2)))))
        if rng.random() < 0.3:
            other, own = points[int(rng.integers(len(points)))]
            ways.append(Projection(other, name, random_sparse(rng, own, out)))
        if rng.random() < 0.3:
            loop = random_sparse(rng, out, out)
            ways.append(Projection(name, name, loop, delay_steps=np.array(int(rng.integers(1, 3))), is_back=True))
        populations.append(population(name, out))
        points.append((name, out))
    if not populations:
        return tiny_network(rng, most)
    return network({"in": points[0][1]}, populations, ways)


def tight_chip(rng: np.random.Generator, net: Network) -> Chip:
    """A core holds the heaviest neuron and up to four times as much; some limits are not there."""
    form = FORMS[int(rng.integers(len(FORMS)))]
    roomy = Accounts(net, chip(words=2**40, **form))
    alone = [roomy.use(np.array([n])) for n in range(net.neurons)]
    slots = int(roomy.output_axons([np.array([n]) for n in range(net.neurons)]).max())
    need = {name: max(use[name] for use in alone) for name in COUNTED} | {"output_axons": slots, "neurons": 1}
    limit = {n: math.ceil(max(v, 1) * rng.uniform(1, 4)) if rng.random() < 0.6 else None for n, v in need.items()}
    words = limit.pop("synapse_words")
    return chip(core=limit, words=words, **form)


def partitions(items: list[int], feasible: list[bool]) -> Iterator[list[int]]:
    """Every way to part the items into sets (bit masks) that are feasible."""
    if not items:
        yield []
        return
    first, *rest = items
    for mask in range(1 << len(rest)):
        own = (1 << first) | sum(1 << r for i, r in enumerate(rest) if mask >> i & 1)
        if feasible[own]:
            left = [r for i, r in enumerate(rest) if not mask >> i & 1]
            for others in partitions(left, feasible):
                yield [own, *others]


def fewest(accounts: Accounts) -> int | None:
    """Cores of the best map there is, by trying every grouping."""
    neurons = list(range(accounts.neurons))
    sets = [np.array([n for n in neurons if mask >> n & 1]) for mask in range(1 << len(neurons))]
    feasible = [len(s) > 0 and accounts.fits(s) for s in sets]
    limit, best = accounts.cap["output_axons"], None
    for masks in partitions(neurons, feasible):
        if best is None or len(masks) < best:
            cores: list[Array] = [sets[m] for m in masks]
            if limit >= UNLIMITED or bool(np.all(accounts.output_axons(cores) <= limit)):
                best = len(masks)
    return best


def compare(seed: int, most: int) -> tuple[int, int] | None:
    """Bound and optimum of a tiny network; None: no map of it exists."""
    rng = np.random.default_rng(seed)
    net = tiny_network(rng, most)
    on = tight_chip(rng, net)
    optimum = fewest(Accounts(net, on))
    if optimum is None:
        return None
    bounds = any_map_bounds(cost_model(net, on, 8), capacity(on), 0)
    assert max(bounds.values()) <= optimum, (seed, bounds, optimum)
    return max(bounds.values()), optimum


def test_no_bound_is_above_the_best_of_all_groupings() -> None:
    """And most are equal to it: a bound of 1 would pass the first part."""
    found = [compare(seed, 7) for seed in range(120)]
    pairs = [pair for pair in found if pair is not None]
    above_one = [pair for pair in pairs if pair[1] > 1]
    assert len(above_one) > 50
    assert sum(bound == best for bound, best in above_one) > 0.6 * len(above_one)


def one_layer(shape: Shape, operator: Operator, on: Chip) -> CostModel:
    net = network({"in": shape}, [population("p", operator.output_shape)], [Projection("in", "p", operator)])
    return cost_model(net, on, 8)


def conv(shape: Shape, out: int, *, padding: int = 1, groups: int = 1, dilation: int = 1) -> Conv:
    weight = np.ones((out, shape[0] // groups, 3, 3))
    return Conv(weight, (1, 1), ((padding, padding),) * 2, (dilation, dilation), groups, shape)


def cores(shape: Shape, operator: Operator, on: Chip) -> tuple[int, int]:
    """Cores of one layer by its neurons in a core, and its pairs of a source and a core."""
    sizes = one_layer(shape, operator, on)
    spread = least_spread(sizes, capacity(on))
    return spread.cores["p"], spread.pairs["in"]


CROSSBAR = chip(core={"neurons": 256, "input_axons": 256, "output_axons": None}, words=None)


def test_input_axons_of_the_convolutions_of_a_known_network() -> None:
    """256 axons are 4 x 4 pixels of 16 channels, so a core has 2 x 2 outputs; 14 x 14 outputs have whole windows."""
    assert cores((16, 16, 16), conv((16, 16, 16), 16), CROSSBAR) == (49, 49 * 256)
    assert cores((16, 8, 8), conv((16, 8, 8), 8), CROSSBAR) == (9, 9 * 256)
    # a dilation of 2 has four grids of 8 x 8, whose 12 x 12 whole windows share sources within a grid only
    assert cores((16, 16, 16), conv((16, 16, 16), 16, padding=2, dilation=2), CROSSBAR)[0] == 36
    # depthwise: 14 x 14 outputs of one channel are its 256 sources; of 16 whole channels 196 * 16 with whole windows
    assert cores((16, 16, 16), conv((16, 16, 16), 16, groups=16), CROSSBAR)[0] == 16


def test_neurons_that_are_counted_twice_by_no_bound() -> None:
    """A dense layer: every core of it has all sources, and its neurons set how many cores there are."""
    on = chip(core={"neurons": 10, "input_axons": 64, "output_axons": None}, words=None)
    assert cores((64,), Dense(np.ones((25, 64))), on) == (3, 3 * 64)


@pytest.mark.parametrize(
    ("padding", "out", "groups", "words"),
    [
        # 1 word holds 6 weights, 8 words 62: per input channel 25 weights for each output channel, in a corner of the
        # map (2 + 3 along each axis); without padding 73 are proved, of 81 of a whole map
        (1, 4, 1, 2 * 13),
        (0, 7, 1, 2 * 66),
        (1, 4, 2, 2 * 7),
    ],
)
def test_each_weight_of_a_shared_kernel_is_stored_somewhere(padding: int, out: int, groups: int, words: int) -> None:
    on = chip(core={"neurons": None, "input_axons": None, "output_axons": None}, words=1000, shared_kernels=True)
    sizes = one_layer((2, 6, 6), conv((2, 6, 6), out, padding=padding, groups=groups), on)
    assert least_spread(sizes, capacity(on)).words == words


def test_a_kernel_is_stored_in_every_core_that_its_channel_needs() -> None:
    """36 neurons of a channel, 9 to a core: each of 4 channels lies in 4 cores, each with 9 weights: 2 words."""
    on = chip(core={"neurons": 9, "input_axons": None, "output_axons": None}, words=1000, shared_kernels=True)
    net = one_layer((1, 8, 8), conv((1, 8, 8), 4, padding=0), on)
    assert least_spread(net, capacity(on)).words == 4 * 4 * 2


def test_lists_of_a_sparse_matrix_are_no_copies() -> None:
    """Where like kernels are stored once, the words of sparse matrices still count as on any other chip."""
    operator = random_sparse(np.random.default_rng(3), (12,), (60,))
    alone, shared = (chip(core={}, words=8, shared_kernels=once) for once in (False, True))
    bounds = [any_map_bounds(one_layer((12,), operator, on), capacity(on), 0) for on in (alone, shared)]
    assert bounds[0]["synapse_words"] == max(bounds[1].values()) > 2


@pytest.mark.parametrize(("seed", "bound"), [(25, 16), (54, 6), (63, 55), (68, 3), (72, 11), (91, 22), (97, 4)])
def test_no_rival_needs_fewer_cores_than_a_bound(seed: int, bound: int) -> None:
    """Networks of the generator whose bounds come from axons and words of any set of neurons."""
    own = case(seed)
    sizes = cost_model(own.network, own.chip, own.chip.synapses.weight_bits_default)
    proved = max(any_map_bounds(sizes, capacity(own.chip), 0).values())
    assert proved >= bound
    accounts = Accounts(own.network, own.chip)
    for rule in (banded, next_fit):
        found = rule(accounts)
        assert found is None or len(found) >= proved


@pytest.mark.slow
def test_no_bound_is_above_the_best_of_all_groupings_of_more_neurons() -> None:
    for seed in range(1000, 1300):
        compare(seed, 9)

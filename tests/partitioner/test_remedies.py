"""Changes that make a network fit: each kind alone, the smallest that suffices, and none if none does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.chips import cores_of, read_chip
from nirbridge.chips.model import Chip
from nirbridge.errors import UsageError
from nirbridge.network.model import Network, Projection
from nirbridge.network.operators import Chain, Conv, Dense, Reshape, SumPool
from nirbridge.partitioner import PartitionOptions
from nirbridge.pipeline.fit import with_relays
from nirbridge.pipeline.partitioning import SOURCES_MAX, SPLITS, remedies
from tests.partitioner.cases import chip, network, population


def board(cores: int, chips_max: int = 32, *, core: dict[str, int | None] | None = None, **synapses: Any) -> Chip:
    """Loihi 1 with so many cores in one tile, whose axons and neurons are limited by what is given alone."""
    free = {"neurons": 1000, "input_axons": 1000, "output_axons": 1000} | (core or {})
    on = chip(core=free, **synapses)
    return replace(on, mesh=replace(on.mesh, width_tiles=1, height_tiles=1, cores_per_tile=cores, chips_max=chips_max))


def dense(sources: int, *sizes: int) -> Network:
    """Layers a, b, … one after the other."""
    names = ["in", *"abc"[: len(sizes)]]
    widths = (sources, *sizes)
    ways = [Projection(names[i], names[i + 1], Dense(np.ones((n, widths[i])))) for i, n in enumerate(sizes)]
    return network({"in": (sources,)}, [population(n, (w,)) for n, w in zip(names[1:], sizes, strict=True)], ways)


def only_here(net: Network) -> Callable[[Chip, int | None], Network | None]:
    """Other chips would not run it."""
    return lambda on, bits: net if on.name == "loihi1" else None


def test_the_numbers_that_are_tried() -> None:
    assert (SPLITS, SOURCES_MAX) == ((2, 3, 4, 6, 8, 12, 16), 3)


@pytest.mark.parametrize(
    ("neurons", "cores", "chips_max", "chips", "found"),
    [
        (6, 2, 32, 1, ("--chips 3 (6 of 6 cores)",)),
        (5, 2, 3, 1, ("--chips 3 (5 of 6 cores)",)),
        (5, 2, 2, 1, ()),
        (7, 2, 4, 2, ("--chips 4 (7 of 8 cores)",)),
        (7, 2, 3, 3, ()),  # the board has no more chips than were asked for
        (120, 4, 32, 1, ("--chips 30 (120 of 120 cores)",)),
    ],
)
def test_more_chips(neurons: int, cores: int, chips_max: int, chips: int, found: tuple[str, ...]) -> None:
    net = dense(1, neurons)
    on = board(cores, chips_max, core={"neurons": 1})
    assert remedies(net, on, PartitionOptions(chips=chips), only_here(net)) == found


@pytest.mark.parametrize(
    ("bits", "refused", "found"),
    [
        (None, (), "--bits 5 (2 of 2 cores)"),
        (8, (), "--bits 5 (2 of 2 cores)"),
        (8, (5,), "--bits 4 (2 of 2 cores)"),
        (6, (), "--bits 5 (2 of 2 cores)"),
        (8, (1, 2, 3, 4, 5, 6), None),
    ],
)
def test_fewer_bits(bits: int | None, refused: tuple[int, ...], found: str | None) -> None:
    """A list of one word holds 54 bits of weights: six of 8 bits, nine of 6, ten of 5; ten of twenty to a core."""
    net = dense(10, 20)

    def prepare(on: Chip, own: int | None) -> Network | None:
        return net if on.name == "loihi1" and own not in refused else None

    assert remedies(net, board(2, 1, words=10), PartitionOptions(weight_bits=bits), prepare) == (
        (found,) if found else ()
    )


def test_a_split_source() -> None:
    """A neuron a core; each of the two of a sends to all of b: to four cores, and may to two."""
    net, on = dense(1, 2, 4), board(128, 1, core={"neurons": 1, "output_axons": 2})
    assert remedies(net, on, PartitionOptions(), only_here(net)) == ("--split 'a'=2 (2 neurons more, 8 of 128 cores)",)
    assert remedies(net, board(7, 1, core={"neurons": 1, "output_axons": 2}), PartitionOptions(), only_here(net)) == ()
    one = board(128, 1, core={"neurons": 1, "output_axons": 1})
    assert remedies(net, one, PartitionOptions(), only_here(net)) == (
        "--split 'a'=4 (6 neurons more, 12 of 128 cores)",
    )
    small = board(5, 1, core={"neurons": 1, "output_axons": None})
    assert (
        remedies(net, small, PartitionOptions(), only_here(net)) == ()
    )  # it is not for the output axons that it does not fit


def test_of_two_sources_the_one_with_fewer_copies_is_split() -> None:
    net = dense(1, 2, 4)
    wide = replace(net, populations=(*net.populations, population("c", (3,)), population("d", (1,))))
    more = (Projection("in", "c", Dense(np.ones((3, 1)))), Projection("c", "d", Dense(np.ones((1, 3)))))
    wide = replace(wide, projections=(*net.projections, *more))
    on = board(128, 1, core={"neurons": 1, "output_axons": 2})
    assert remedies(wide, on, PartitionOptions(), only_here(wide)) == (
        "--split 'a'=2 (2 neurons more, 12 of 128 cores)",
    )


def test_another_chip() -> None:
    net, on = dense(1, 6), board(2, 1, core={"neurons": 1})
    loihi2 = read_chip("loihi2")

    def prepare(other: Chip, bits: int | None) -> Network | None:
        assert bits is None
        if other.name == "crossbar256":
            raise UsageError.of("chip", "cannot run it")
        return net if other.name == "loihi2" else None

    text = f"--chip loihi2 (1 of {len(cores_of(loihi2)):,} cores)"
    assert remedies(net, on, PartitionOptions(), prepare) == (text,)
    assert remedies(net, on, PartitionOptions(weight_bits=8, chips=1), prepare) == (text,)


# -- relays -------------------------------------------------------------------------------------------------------


def pooled(before: int = 0) -> Network:
    """Host, sum of windows of 2 x 2 (behind a convolution where asked for), then two neurons on all of it."""
    pool = SumPool((2, 2), (2, 2), ((0, 0), (0, 0)), (1, 4, 4))
    conv = Conv(np.ones((1, 1, 1, 1)), (1, 1), ((0, 0), (0, 0)), (1, 1), 1, (1, 4, 4))
    parts = (*[conv] * before, pool, Reshape((1, 2, 2), (4,)), Dense(np.ones((2, 4))))
    return network({"in": (1, 4, 4)}, [population("p", (2,))], [Projection("in", "p", Chain(parts))])


@pytest.mark.parametrize(("most", "relays"), [(16, 0), (15, 4), (4, 4)])
def test_a_pool_is_a_layer_of_its_own_where_its_inputs_are_too_many(most: int, relays: int) -> None:
    net = pooled()
    found = with_relays(net, chip(core={"input_axons": most}))
    assert found.neurons == 2 + relays
    if not relays:
        assert found is net
        return
    (name,) = {p.name for p in found.populations} - {"p"}
    effect = "with one spike a step its counts are kept but spread over later steps: outputs can differ"
    note = f"pool '{name}' in front of 'p' is mapped on relay neurons (fan-in); {effect}"
    assert found.notes == (*net.notes, note)


def test_graded_spikes_carry_the_counts_of_a_pool() -> None:
    on = chip(core={"input_axons": 15})
    found = with_relays(pooled(1), replace(on, neuron=replace(on.neuron, graded_spikes=True)))
    assert found.neurons == 6
    assert [note.partition("; ")[2] for note in found.notes] == ["graded spikes carry its counts"]


def test_what_is_too_heavy_with_no_pool_stays() -> None:
    net = dense(20, 3)
    assert with_relays(net, chip(core={"input_axons": 5})) is net

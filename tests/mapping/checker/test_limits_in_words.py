"""Limits of a core and the use stated in a file, at the limit and one beyond, with full messages."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.chips.model import CoreId
from nirbridge.mapping.checker.check import diagnose_mapping
from nirbridge.mapping.model import MappedNetwork
from nirbridge.network.model import Port, Projection
from nirbridge.network.operators import Dense
from nirbridge.partitioner.model import Slice
from tests.mapping.checker.test_check import dense_map
from tests.mapping.checker.test_check_in_words import AGAIN, said
from tests.mapping.checker.test_claims_in_words import problems
from tests.mapping.hand_made import chip_with, dense_net, made, network_of, population

STEPS = {
    "neurons": "move neurons to another core",
    "input_axons": "give the core targets of fewer sources",
    "output_axons": "put fewer sources on the core, or their targets on fewer cores",
    "synapse_words": "move neurons to another core, or use fewer weight bits",
    "decay_profiles": "put neurons of fewer different decays on the core",
    "threshold_profiles": "put neurons of fewer different thresholds on the core",
}


def limited(resource: str, most: int) -> MappedNetwork:
    net = dense_net()
    own = population("fc1", 5, theta=np.array([1.0, 1, 2, 2, 2]), a_mem=np.array([0.5, 0.5, 0.5, 0.75, 0.75]))
    net = replace(net, populations=(own, net.populations[1]))
    change: Any = {"synapses": {"words": most}} if resource == "synapse_words" else {"core": {resource: most}}
    return made(net, chip_with(**change), [[Slice("fc1", ((0, 5),)), Slice("out", ((0, 3),))]])


@pytest.mark.parametrize("resource", [*STEPS])
def test_one_more_than_a_core_holds(resource: str) -> None:
    used = limited("neurons", 100).partition.blocks[0].used[resource]
    assert list(diagnose_mapping(limited(resource, used), placement_only=True)) == []
    subject = f"block 0 ('fc1' [0:5], 'out' [0:3]): {used} {resource.replace('_', ' ')}"
    ids = {"block": 0, "core": CoreId(0, 0, 0, 0), "resource": resource, "found": used, "limit": used - 1}
    found = said(diagnose_mapping(limited(resource, used - 1), placement_only=True))
    assert found == [(f"{subject}, a 'loihi1' core holds {used - 1}; {STEPS[resource]}", ids)]


@pytest.mark.parametrize(("cuts", "named"), [((1, 2), ""), ((1, 2, 3), " and 1 more"), ((1, 2, 3, 4), " and 2 more")])
def test_three_slices_of_a_block_are_named(cuts: tuple[int, ...], named: str) -> None:
    net = network_of([population("p", 5)], [Projection("in", "p", Dense(np.ones((5, 2))))], [Port("in", (2,))])
    ends = (0, *cuts, 5)
    slices = [Slice("p", ((a, b),)) for a, b in itertools.pairwise(ends)]
    found = [str(p) for p in diagnose_mapping(made(net, chip_with(core={"neurons": 4}), [slices]))]
    texts = ", ".join(f"'p' [{a}:{b}]" for a, b in list(itertools.pairwise(ends))[:3])
    assert found[0].partition("): ")[0] == f"block 0 ({texts}{named}"


def test_a_use_that_is_understated_by_one() -> None:
    found = said(problems(dense_map(), (("blocks", 1, "used", "neurons"), 4)))
    subject = "block 1 ('fc1' [3:5], 'out' [0:3]): used.neurons says 4, counted 5"
    ids = {"block": 1, "resource": "neurons", "found": 4, "counted": 5}
    assert found[0] == (f"{subject}; {AGAIN}", ids)
    assert [p.ids.get("resource") for p in problems(dense_map(), (("blocks", 1, "used", "neurons"), 5))] == []


def test_weights_of_a_width_that_the_chip_does_not_have_are_counted_as_its_own() -> None:
    found = said(problems(dense_map(), (("projections", 1, "weight_bits"), 16)))
    text = "projection 1 ('fc1' -> 'fc1'): 16 weight bits, a 'loihi1' stores 1, 2, 3, 4, 5, 6, 8; choose one of these"
    assert found == [(text, {"projection": 1})]

"""Sessions of programs in processes of their own: chunks have the bits of one run, states go on in the simulators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.emitters.iree.emit import IREE, IreeOptions
from nirbridge.emitters.jax.emit import JAX, JaxOptions
from nirbridge.errors import UsageError
from nirbridge.network.graph import in_causal_order
from tests.cases import cases
from tests.emitters.c.programs import random_networks
from tests.emitters.held_out import dyadic_network
from tests.emitters.oracles import ORACLES, dense, drawn, recurrent, side_by_side
from tests.emitters.sessions import check_session, given
from tests.stack.needs import needs

pytestmark = needs("jax", "iree.compiler", "iree.runtime", "xdsl")
PLAIN = JaxOptions(stablehlo=False)
COUNT, COUNT_IREE = cases(20, 60), cases(10, 60)
"""Random networks, in programs of five: XLA compiles for each number of time steps, IREE a module for each batch."""


def jax_session(model: Any) -> Any:
    return JAX.session(JAX.emit(model, PLAIN))  # pyright: ignore[reportOptionalCall]


@pytest.mark.parametrize("first", range(0, COUNT, 5))
def test_chunks_of_random_networks_in_jax(first: int) -> None:
    network = side_by_side([drawn(seed) for seed in range(first, first + 5)])
    check_session(jax_session(network), network, given(network))


@pytest.mark.parametrize("first", range(0, COUNT, 5))
def test_chunks_of_random_integers_in_jax(first: int) -> None:
    q = random_networks(range(first, first + 5))
    check_session(jax_session(q), q, given(q))


@pytest.mark.parametrize("make", ORACLES)
def test_chunks_shorter_than_the_delays_in_jax(make: Any) -> None:
    network = make(np.random.default_rng(0))
    check_session(jax_session(network), network, given(network, batch=3), [(2, 1, 4)])


def test_a_network_without_input_goes_on_in_jax() -> None:
    network = dense(np.random.default_rng(0))
    edges = tuple(p for p in network.projections if p.source != "in")
    moved = tuple(replace(p, neuron=replace(p.neuron, bias=freeze(np.asarray(1 / 64)))) for p in network.populations)
    silent = replace(network, populations=moved, projections=edges, inputs=())
    check_session(jax_session(silent), silent, {})


# -- IREE ----------------------------------------------------------------------------------------------------------


def iree_session(model: Any, **options: Any) -> Any:
    return IREE.session(IREE.emit(model, IreeOptions(vmfb=False, **options)))  # pyright: ignore[reportOptionalCall]


@pytest.mark.parametrize("first", range(0, COUNT_IREE, 5))
def test_chunks_of_random_networks_in_iree(first: int) -> None:
    network = side_by_side([drawn(seed) for seed in range(first, first + 5)])
    check_session(iree_session(network), network, given(network))


@pytest.mark.parametrize("first", range(0, COUNT_IREE, 5))
def test_chunks_of_random_integers_in_iree(first: int) -> None:
    q = random_networks(range(first, first + 5))
    check_session(iree_session(q), q, given(q))


def test_more_samples_than_a_group_in_iree() -> None:
    """Late currents of several projections, samples in groups of 64, the last one with room left."""
    network = recurrent(np.random.default_rng(0))
    check_session(iree_session(network), network, given(network, batch=70), [(2, 1, 4)])


def test_delayed_currents_of_a_network_out_of_causal_order_in_iree() -> None:
    """The dialect numbers projections as the network does, a state as the reference does."""
    networks = [dyadic_network(seed) for seed in range(40)]
    late = [n for n in networks if sum(p.target_delay_steps.any() for p in n.projections) > 1 and n.inputs]
    moved = [n for n in late if [p.target for p in in_causal_order(n).projections] != [p.target for p in n.projections]]
    assert moved
    check_session(iree_session(moved[0]), moved[0], given(moved[0]))


def test_a_module_of_stablehlo_takes_no_state() -> None:
    with pytest.raises(UsageError, match=r"is made from StableHLO, its module takes a fixed number of time steps"):
        iree_session(dense(np.random.default_rng(0)), source="stablehlo")

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import nir
import numpy as np
import pytest
from hypothesis import given, settings

from nirbridge.arrays import freeze
from nirbridge.errors import ModelError
from nirbridge.network import Network, Projection, check_network, diagnose_network, from_nir, is_valid_network, neuron
from nirbridge.network.operators import Chain, Conv, Dense, Identity, Scale, Sparse, SumPool
from nirbridge.testing import networks
from tests.cases import cases
from tests.network.graphs import chain, lif, out, port

NETWORK = from_nir(chain(port(2), nir.Affine(np.eye(2), np.ones(2)), lif(2), lif(2), out(2)))


@given(networks())
@settings(max_examples=cases(20, 50))
def test_random_networks_are_valid(network: Network) -> None:
    assert list(diagnose_network(network)) == []
    assert is_valid_network(network)


def first(**own: object) -> Network:
    changed: Projection = replace(NETWORK.projections[0], nodes=(), **own)  # type: ignore[arg-type]
    return replace(NETWORK, projections=(changed, *NETWORK.projections[1:]))


def with_neuron(**own: object) -> Network:
    population = NETWORK.populations[0]
    changed = replace(population, neuron=replace(population.neuron, **own))  # type: ignore[arg-type]
    return replace(NETWORK, populations=(changed, NETWORK.populations[1]))


def renamed() -> Network:
    return replace(NETWORK, outputs=(replace(NETWORK.outputs[0], name="1"),))


def cycle() -> Network:
    back = replace(NETWORK.projections[1], source="2", target="1")
    return replace(NETWORK, projections=(*NETWORK.projections, back))


NAN = freeze(np.array([[1.0, np.nan], [0.0, 0.0]]))
HEAD = r"projection 0 'in' -> '1': "
CASES: dict[str, tuple[Callable[[], Network], str]] = {
    "dt": (lambda: replace(NETWORK, dt=0.0), r"network: dt is 0\.0 s, a finite number above 0; correct dt"),
    "open": (
        lambda: replace(NETWORK, timing=replace(NETWORK.timing, compare=None)),
        r"network: its timing leaves compare open",
    ),
    "names": (renamed, r"network: 2 populations or ports are named '1'; rename"),
    "no name": (lambda: replace(NETWORK, inputs=(replace(NETWORK.inputs[0], name=""),)), "network: a population or"),
    "empty": (
        lambda: replace(NETWORK, inputs=(replace(NETWORK.inputs[0], shape=(0,)),)),
        r"population or port 'in': shape \(0,\), every axis has 1 or more",
    ),
    "neuron shape": (lambda: with_neuron(theta=freeze(np.ones(3))), r"population '1': neuron theta has shape \(3,\)"),
    "neuron nan": (lambda: with_neuron(bias=freeze(np.nan)), r"population '1': neuron bias is not finite; repair it"),
    "spikes": (lambda: with_neuron(max_spikes=0), r"population '1': max_spikes is 0, at least 1"),
    "refractory": (lambda: with_neuron(refractory_steps=freeze(np.int64(-1))), "population '1': refractory_steps is"),
    "source": (lambda: first(source="gone"), r"projection 0 'gone' -> '1': there is no population or input 'gone'"),
    "target": (lambda: first(target="in"), r"projection 0 'in' -> 'in': there is no population or output 'in'; add it"),
    "takes": (
        lambda: first(operator=Dense(freeze(np.ones((2, 3))))),
        HEAD + r"its operator takes \(3,\), the source has \(2,\); reshape",
    ),
    "gives": (lambda: first(operator=Dense(freeze(np.ones((3, 2))))), HEAD + r"its operator gives \(3,\), the target"),
    "weight nan": (lambda: first(operator=Dense(NAN)), HEAD + r"a weight of its Dense is not finite; repair it"),
    "dense axes": (lambda: first(operator=Dense(freeze(np.ones(2)))), HEAD + r"a dense weight of shape \(2,\)"),
    "short chain": (lambda: first(operator=Chain((Identity((2,)),))), HEAD + "its chain is nested or has fewer than"),
    "chain": (
        lambda: first(operator=Chain((Identity((2,)), Scale(freeze(np.ones(3)))))),
        HEAD + r"a part of its chain gives \(2,\), the next takes \(3,\); put a Reshape between",
    ),
    "rows": (
        lambda: first(operator=Sparse(freeze([0, 1]), freeze([0]), freeze([1.0]), (2,), (2,))),
        HEAD + r"its sparse rows do not cover its data, 2 rows",
    ),
    "columns": (
        lambda: first(operator=Sparse(freeze([0, 1, 1]), freeze([2]), freeze([1.0]), (2,), (2,))),
        HEAD + r"a sparse column index is out of range, 2 columns",
    ),
    "ascending": (
        lambda: first(operator=Sparse(freeze([0, 2, 2]), freeze([1, 0]), freeze([1.0, 1.0]), (2,), (2,))),
        HEAD + r"sparse columns are not ascending within a row",
    ),
    "groups": (
        lambda: first(operator=Conv(freeze(np.ones((2, 1, 1))), (1,), ((0, 0),), (1,), 3, (2, 1))),
        HEAD + r"2 kernels of 1 channels in 3 groups on 2 channels, groups divide both",
    ),
    "axes": (
        lambda: first(operator=SumPool((1, 1), (1,), ((0, 0),), (2, 1))),
        HEAD + r"its SumPool has 2 kernel axes but entries for",
    ),
    "stride": (
        lambda: first(operator=SumPool((1,), (0,), ((0, 0),), (2, 1))),
        HEAD + r"its SumPool has a stride, kernel or dilation below 1",
    ),
    "too wide": (
        lambda: first(operator=SumPool((4,), (1,), ((0, 0),), (2, 1))),
        HEAD + r"its SumPool puts out \(2, -2\), every axis has 1 or more",
    ),
    "bias": (lambda: first(bias=freeze(np.ones(3))), HEAD + r"its bias of shape \(3,\) is wrong, finite numbers of"),
    "delay": (
        lambda: first(delay_steps=freeze(np.float64(1.0))),
        HEAD + r"delay_steps has shape \(\) and type float64, integers of 0 or more, shape \(\) or \(2,\); correct it",
    ),
    "negative": (lambda: first(target_delay_steps=freeze(np.int64(-1))), HEAD + r"target_delay_steps has shape \(\)"),
    "back": (
        lambda: first(is_back=True),
        HEAD + r"it closes a cycle with a delay of 0, a back edge has 1 time step or more",
    ),
    "cycle": (cycle, r"network: a cycle without delay: '2' -> '1' -> '2'; mark one edge of it as a back edge"),
}


@pytest.mark.parametrize("case", CASES)
def test_each_problem_is_found(case: str) -> None:
    make, message = CASES[case]
    with pytest.raises(ModelError, match=rf"(?m)^{message}"):
        check_network(make())
    assert not is_valid_network(make())


def test_names_of_nodes_are_none_or_one_for_each_part() -> None:
    changed = replace(NETWORK.projections[0], nodes=("a", "b"))
    found = [str(p) for p in diagnose_network(replace(NETWORK, projections=(changed, *NETWORK.projections[1:])))]
    assert found == [f"{HEAD}2 node names for 1 parts, none, or one for each part; correct nodes"]


def test_all_problems_are_listed() -> None:
    broken = replace(first(source="gone"), dt=-1.0, inputs=())
    assert len(list(diagnose_network(broken))) >= 3


def test_a_read_out_needs_no_threshold() -> None:
    population = replace(NETWORK.populations[0], neuron=neuron("LI", theta=None, reset="none"))
    assert is_valid_network(replace(NETWORK, populations=(population, NETWORK.populations[1])))

# ruff: noqa: E501  (tables of messages read better in one line)
"""The runner of passes: order, verification, and the pass named in errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest

from nirbridge.arrays import freeze
from nirbridge.errors import Bug, ModelError, UsageError
from nirbridge.network import Network, from_nir, same_network
from nirbridge.passes import EliminateDead, ReplicateSource, run_passes
from nirbridge.passes.base import Promise
from tests.network.graphs import chain, lif, out, port
from tests.partitioner.nets import network_of


@dataclass(frozen=True)
class Calls:
    """A pass that does what its option does."""

    pass_name: ClassVar[str] = "calls"
    promise: Promise = field(default="changed", init=False, repr=False)
    function: Callable[[Network], Any]

    def __call__(self, network: Network) -> Any:
        return self.function(network)


def small() -> Network:
    return from_nir(chain(port(2), lif(2), out(2)))


def broken(network: Network) -> Network:
    """Not valid: a population without neurons and without a name."""
    first, *others = network.populations
    return replace(network, populations=(replace(first, shape=(0,)), *others))


def fail(network: Network) -> Network:
    raise KeyError("k")


def lines(error: pytest.ExceptionInfo[Any]) -> list[str]:
    return [str(p) for p in error.value.problems]


def test_passes_run_in_order_and_each_is_told() -> None:
    network, seen = network_of("4 dense3 lif dense10 lif"), []
    pipeline = [ReplicateSource("2_lif", 2), ReplicateSource("2_lif_copy", 2), EliminateDead()]
    found = run_passes(network, pipeline, after=lambda p, n: seen.append((p, len(n.populations))))
    assert [p.name for p in found.populations] == ["2_lif", "2_lif_copy", "2_lif_copy_copy", "4_lif"]
    assert seen == list(zip(pipeline, (3, 4, 4), strict=True))
    by_hand = EliminateDead()(ReplicateSource("2_lif_copy", 2)(ReplicateSource("2_lif", 2)(network)))
    assert same_network(found, by_hand)
    assert run_passes(network, []) is network


@pytest.mark.parametrize("pipeline", [[], [EliminateDead()]])
def test_a_network_that_is_not_valid_is_refused_before_the_first_pass(pipeline: list[Any]) -> None:
    with pytest.raises(ModelError, match=r"^population or port '0': shape \(0,\), every axis has 1 or more"):
        run_passes(broken(small()), pipeline)


def test_the_pass_that_breaks_the_network_is_named() -> None:
    seen: list[str] = []
    with pytest.raises(Bug) as caught:
        run_passes(
            small(), [EliminateDead(), Calls(broken), EliminateDead()], after=lambda p, _: seen.append(p.pass_name)
        )
    assert lines(caught)[0] == (
        "pass 2, 'calls': the network that it returned has 3 problems, a pass maps valid networks to valid "
        "ones; please report it to the authors of the pass"
    )
    assert lines(caught)[1].startswith("population or port '0': shape (0,)")
    assert seen == ["eliminate-dead"]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (fail, "pass 1, 'calls': KeyError: 'k'; please report it to the authors of the pass"),
        (lambda n: None, "pass 1, 'calls': it returned a NoneType, a pass returns a Network; please report it to the authors of the pass"),
        (lambda n: n.populations, "pass 1, 'calls': it returned a tuple, a pass returns a Network; please report it to the authors of the pass"),
    ],
)  # fmt: skip
def test_a_pass_that_fails_is_named(function: Any, words: str) -> None:
    with pytest.raises(Bug) as caught:
        run_passes(small(), [Calls(function)])
    assert lines(caught) == [words]


@pytest.mark.parametrize(
    "error", [UsageError.of("a", "b"), ModelError.of("a", "b"), MemoryError(), ModuleNotFoundError("m")]
)
def test_refusals_of_a_pass_are_its_own(error: Exception) -> None:
    def refuse(network: Network) -> Network:
        raise error

    with pytest.raises(type(error)) as caught:
        run_passes(small(), [Calls(refuse)])
    assert caught.value is error


def test_values_are_verified_too() -> None:
    def spoil(network: Network) -> Network:
        first, *others = network.populations
        return replace(
            network, populations=(replace(first, neuron=replace(first.neuron, theta=freeze(float("nan")))), *others)
        )

    with pytest.raises(Bug, match="pass 1, 'calls'"):
        run_passes(small(), [Calls(spoil)])

"""Rivals count as the project's independent checker does, and their rules behave as their files describe."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
SEEDS = (0, 1, 3, 4, 9, 14, 40, 54, 59)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_checker_agrees_with_every_map_of_a_rival(seed: int) -> None:
    from benchmarks.rivals import RIVALS
    from benchmarks.rivals.accounting import Accounts
    from benchmarks.rivals.maps import mapped
    from benchmarks.rivals.networks import case
    from nirbridge.mapping.checker.check import check_mapping

    own = case(seed)
    accounts = Accounts(own.network, own.chip)
    found = {name: rule(accounts) for name, rule in RIVALS.items()}
    assert any(cores is not None for cores in found.values())
    for name, cores in found.items():
        if cores is not None:
            map_ = mapped(accounts, cores, name, place=False)
            check_mapping(map_)
            outputs = accounts.output_axons(cores)
            for block, members, output in zip(map_.partition.blocks, cores, outputs, strict=True):
                counted = accounts.use(members) | {"output_axons": int(output)}
                # lists may also be cut where a slice ends: the project takes the fewer words
                assert counted.pop("synapse_words") >= block.used["synapse_words"]
                assert counted == {r: n for r, n in block.used.items() if r != "synapse_words"}


def test_what_is_over_a_limit_is_not_legal() -> None:
    from benchmarks.rivals.accounting import Accounts
    from benchmarks.rivals.networks import case

    own = case(1)
    accounts = Accounts(own.network, own.chip)
    alone = [np.array([n]) for n in range(accounts.neurons)]
    assert accounts.is_legal(alone)
    assert not accounts.is_legal(alone[1:])
    assert not accounts.is_legal([np.arange(accounts.neurons)])
    none = replace(own.chip, core=replace(own.chip.core, output_axons=int(accounts.output_axons(alone).max()) - 1))
    assert not Accounts(own.network, none).is_legal(alone)


def test_next_fit_and_layer_by_layer_of_a_chain() -> None:
    from benchmarks import nets
    from benchmarks.rivals import RIVALS
    from benchmarks.rivals.accounting import Accounts
    from nirbridge.chips import read_chip
    from nirbridge.network.nir.from_nir import from_nir

    accounts = Accounts(from_nir(nets.synth(4)), read_chip("loihi1"))
    sizes = [p.size for p in accounts.network.populations]
    assert accounts.neurons == sum(sizes) == 4608
    found = {name: len(RIVALS[name](accounts) or ()) for name in ("next-fit", "layer by layer")}
    # neurons bind: 1,024 to a core, whole layers or not
    assert found == {"next-fit": -(-4608 // 1024), "layer by layer": sum(-(-n // 1024) for n in sizes)}


def test_clusters_collect_like_profiles() -> None:
    from benchmarks.rivals import RIVALS
    from benchmarks.rivals.accounting import Accounts
    from benchmarks.rivals.networks import case

    own = case(4)
    accounts = Accounts(own.network, own.chip)
    assert own.tight == ("decay_profiles",)
    cores = {name: len(RIVALS[name](accounts) or ()) for name in ("next-fit", "greedy clusters")}
    assert cores["greedy clusters"] * 10 < cores["next-fit"]


def test_the_generator_is_seeded_and_every_neuron_fits() -> None:
    from benchmarks.rivals.accounting import Accounts
    from benchmarks.rivals.networks import case

    for seed in range(12):
        own, again = case(seed), case(seed)
        assert (own.chip, [p.shape for p in own.network.populations]) == (
            again.chip,
            [p.shape for p in again.network.populations],
        )
        assert 10 <= own.network.neurons <= 600
        accounts = Accounts(own.network, own.chip)
        assert all(accounts.fits(np.array([n])) for n in range(accounts.neurons))


def test_each_rule_is_short() -> None:
    rules = [p for p in (ROOT / "benchmarks" / "rivals").glob("*.py") if p.stem not in ("accounting", "networks")]
    assert len(rules) >= 8
    assert {p.name: n for p in rules if (n := len(p.read_text().splitlines())) > 60} == {}


def test_sums_name_what_is_beaten_and_what_finds_no_map() -> None:
    from benchmarks.mapping_page import Result, gap, page, sums

    rows = [Result("a", 5, "cp-sat", 3, None, 2), Result("a", 5, "other", 2, None)]
    rows += [Result("b", 5, "cp-sat", 4, None, 4), Result("b", 5, "other", None, None)]
    assert [row[:7] for row in sums(rows)[1]] == [
        ("cp-sat", "2", "0", "7", "6", "6", "1"),
        ("other", "2", "1", "2", "0", "2", "1"),
    ]
    assert gap(3, 2) == "50%"
    assert gap(None, 2) == "-"
    assert "| a | 5 | cp-sat | 3 | 2 |" in page([rows])


def test_the_annealed_rival_counts_multicast_trees() -> None:
    """Two pairs on cores of two: together they take no link; and the cortical networks have their sizes."""
    from benchmarks.cortical import circuit, from_file
    from benchmarks.rivals.annealed import annealed
    from nirbridge.network.apply import matrix

    reaches = np.zeros((4, 4), bool)
    reaches[[0, 1, 2, 3], [1, 0, 3, 2]] = True
    assert annealed(reaches, np.ones(4), 2, 2, steps=400) == 0.0
    fan = np.zeros((9, 9), bool)
    fan[1:, 0] = True
    assert annealed(fan, np.ones(9), 3, 1, steps=1) == 8.0  # a tree over all nine tiles
    drawn, rate = circuit(80, 1)
    assert (drawn.shape, len(rate)) == ((80, 80), 80)
    assert not drawn.diagonal().any()
    assert 5 < drawn.sum() / 80 < 11
    assert np.array_equal(
        matrix(next(p.operator for p in from_file(drawn).projections if p.is_back)).toarray() != 0, drawn
    )


@pytest.mark.parametrize(
    ("seed", "rules"),
    [
        # neurons in a banded order: no cluster of least new axons ends as well
        (80, ("next-fit", "greedy clusters", "banded")),
        # one to one of flat populations, stored once
        pytest.param(169, ("next-fit", "greedy clusters", "banded"), marks=pytest.mark.slow),
        # words of sparse lists bind, 588 neurons on more than 70 cores
        pytest.param(218, ("greedy clusters",), marks=pytest.mark.slow),
    ],
)
def test_no_rival_needs_fewer_cores(seed: int, rules: tuple[str, ...]) -> None:
    """Networks on which one of them once did."""
    from benchmarks.rivals import RIVALS
    from benchmarks.rivals.accounting import Accounts
    from benchmarks.rivals.networks import case
    from nirbridge.partitioner import partition

    own = case(seed)
    cores = partition(own.network, own.chip).report.cores
    accounts = Accounts(own.network, own.chip)
    for rule in rules:
        found = RIVALS[rule](accounts)
        assert found is None or len(found) >= cores, rule

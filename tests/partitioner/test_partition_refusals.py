"""Refusals of the partitioner, at the limit and one beyond: cores, options, and searches without a result."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.chips.model import Chip
from nirbridge.errors import DoesNotFit, UsageError
from nirbridge.network.model import Projection
from nirbridge.network.operators import Dense
from nirbridge.partitioner import PartitionOptions, partition
from nirbridge.partitioner.search.exact import ExactResult
from nirbridge.partitioner.search.methods import SearchResult
from tests.partitioner.cases import chip, network, population
from tests.partitioner.search.test_partition_steps import blocks, sizes_of

MODULE: Any = importlib.import_module("nirbridge.partitioner.partition")
NET = sizes_of().network
"""Nine neurons."""


def board(cores: int, **core: int | None) -> Chip:
    on = chip(core=core)
    return replace(on, mesh=replace(on.mesh, width_tiles=1, height_tiles=1, cores_per_tile=cores, chips_max=2))


def refused(on: Chip, **options: Any) -> list[str]:
    with pytest.raises(DoesNotFit) as caught:
        partition(NET, on, PartitionOptions(**options))
    return [str(p) for p in caught.value.problems]


@pytest.mark.parametrize(
    ("cores", "lower", "said"),
    [
        (3, 3, None),
        (3, 4, "1 x loihi1 has 3; use at least --chips 2"),
        (99, 9, None),
        (99, 10, "more cores than neurons: no number of cores is enough; use another chip, or let each neuron reach"),
    ],
)
def test_a_bound_above_what_there_is(monkeypatch: pytest.MonkeyPatch, cores: int, lower: int, said: str | None) -> None:
    """The largest of the bounds counts; of populations that need most cores the first by name is said."""
    asked = list[int]()

    def reasons(_: Any, cap: Any, seed: int, available: int) -> tuple[str, ...]:
        assert seed == 5
        asked.append(available)
        return ("neurons",)

    monkeypatch.setattr(MODULE, "any_map_bounds", lambda *_: {"b": 1, "a": lower, "c": 2})
    monkeypatch.setattr(MODULE, "least_cores", lambda *_: {"q": 1, "p": 2, "a": 2})
    monkeypatch.setattr(MODULE, "bounding_limits", reasons)
    if said is None:
        assert partition(NET, board(cores), PartitionOptions(method="packed", seed=5)).report.cores_lower_bound == lower
        return
    (text,) = refused(board(cores), method="packed", seed=5)
    start = f"network of 9 neurons: at least {lower} cores in any map (population 'a' alone 2), proved by"
    assert text.startswith(f"{start} the limit per core of 1,024 neurons, {said}")
    assert asked == [min(cores, 9)]


@pytest.mark.parametrize(
    ("found", "cores", "said"),
    [
        (3, 3, None),
        (3, 2, "the best map found needs 3 cores (not proved impossible: at least 1 are needed)"),
        (None, 2, "no map was found (not proved impossible: at least 1 are needed)"),
    ],
)
def test_a_map_that_takes_more_cores_than_there_are(
    monkeypatch: pytest.MonkeyPatch, found: int | None, cores: int, said: str | None
) -> None:
    outcome = None if found is None else SearchResult(blocks(found), 1, 0.0)
    monkeypatch.setattr(MODULE, "_searched", lambda *_: outcome)
    monkeypatch.setattr(MODULE.exact, "is_tiny", lambda *_: False)
    if said is None:
        assert partition(NET, board(cores)).report.cores == found
    else:
        assert refused(board(cores)) == [
            f"network of 9 neurons: {said}, 1 x loihi1 has {cores}; --chips 2, or --effort max"
        ]


@pytest.mark.parametrize(
    ("answer", "is_proof"),
    [
        (ExactResult(None, True, 0.0), True),
        (ExactResult(None, False, 0.0), False),
        (ExactResult(blocks(1), True, 0.0), False),
    ],
)
def test_the_exact_model_has_the_last_word_on_a_refusal(
    monkeypatch: pytest.MonkeyPatch, answer: ExactResult, is_proof: bool
) -> None:
    monkeypatch.setattr(MODULE.exact, "is_tiny", lambda *_: True)
    monkeypatch.setattr(MODULE.exact, "solve_exactly", lambda *_: answer)
    monkeypatch.setattr(MODULE.exact, "ruling_out_limits", lambda *_: ("neurons",))
    problem = MODULE._refusal(sizes_of(), PartitionOptions(), 4, 6, 2)
    start = (
        "no map onto 4 cores exists (proved by CP-SAT" if is_proof else "the best map found needs 6 cores (not proved"
    )
    assert problem.found.startswith(start)


def test_every_reason_is_listed_together() -> None:
    """A neuron with too many inputs, one with too many targets, and no core at all."""
    ways = [Projection("in", "p", Dense(np.ones((2, 9)))), Projection("p", "q", Dense(np.ones((4, 2))))]
    net = network({"in": (9,)}, [population("p", (2,)), population("q", (4,))], ways)
    on = chip(core={"input_axons": 8, "neurons": 1, "output_axons": 3})
    with pytest.raises(DoesNotFit) as caught:
        partition(net, on)
    assert [p.ids["resource"] for p in caught.value.problems] == ["input_axons", "output_axons"]
    fine = chip(core={"input_axons": 9, "neurons": 1, "output_axons": 4})
    assert partition(net, fine, PartitionOptions(method="packed")).report.cores == 6


@pytest.mark.parametrize(("chips", "legal"), [(0, False), (1, True), (2, True), (3, False)])
def test_chips_of_a_board(chips: int, legal: bool) -> None:
    if legal:
        assert partition(NET, board(1), PartitionOptions(chips=chips)).report.cores == 1
        return
    with pytest.raises(UsageError, match=f"^--chips: {chips}, a board of loihi1 has 1 to 2; choose a number in that"):
        partition(NET, board(1), PartitionOptions(chips=chips))


@pytest.mark.parametrize(("asked", "stored"), [(None, 8), (4, 4), (8, 8)])
def test_the_width_of_weights(asked: int | None, stored: int) -> None:
    assert partition(NET, board(1), PartitionOptions(weight_bits=asked)).weight_bits == stored

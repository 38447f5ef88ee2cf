"""Placement: division of the effort among runs, candidate cores, and the words of refusals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from nirbridge.chips import cores_of
from nirbridge.chips.model import CoreId
from nirbridge.errors import ChipError, DoesNotFit, UsageError
from nirbridge.mapping.placement import place as placing
from nirbridge.mapping.placement import starts
from nirbridge.mapping.placement.board import PlacementBoard, Sites
from nirbridge.mapping.placement.place import BLOCKS_LEAST, EFFORTS, PlacementBudget, place, search_placement
from nirbridge.mapping.placement.refine import ExactCost, exact_cost
from nirbridge.mapping.placement.tree_moves import TreeBudget
from nirbridge.mapping.traffic import traffic
from tests.mapping.tables import chip, cores_in_rows, table


def test_the_budgets() -> None:
    assert {
        "fast": PlacementBudget(
            1, 20, 60_000_000, 30_000, 4_000_000, TreeBudget(1, 2_500, 60_000_000, 0, 0, 4_000_000_000)
        ),
        "default": PlacementBudget(
            2, 45, 600_000_000, 50_000, 40_000_000, TreeBudget(4, 2_500, 400_000_000, 0, 0, 10_000_000_000)
        ),
        "max": PlacementBudget(
            6, 400, 6_000_000_000, 1_500_000, 300_000_000, TreeBudget(12, 10_000, 6_000_000_000, 0, 0, 20_000_000_000)
        ),
    } == EFFORTS
    assert (placing.ANNEAL_HEAT, placing.REFINE_HEAT, BLOCKS_LEAST) == (0.5, 0.3, 50)
    assert placing.HOT_ENTRIES_PER_BLOCK == 20_000


# -- how the work is shared ---------------------------------------------------------------------------------------


@dataclass
class Watched:
    """What the two searches were asked for; each answers with a position drawn at random."""

    board: PlacementBoard
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    annealed: list[tuple[PlacementBoard, PlacementBoard, int, float, float]] = field(default_factory=list)
    refined: list[tuple[float, float, int, float]] = field(default_factory=list)
    told: list[tuple[str, float | None]] = field(default_factory=list)

    def anywhere(self) -> PlacementBoard:
        return starts.in_order(self.board, self.rng.permutation(len(self.board.sites.cores)))

    def anneal(
        self, board: PlacementBoard, _: Any, rng: np.random.Generator, steps: int, heat: float
    ) -> PlacementBoard:
        self.annealed.append((board, self.anywhere(), steps, heat, float(rng.random())))
        return self.annealed[-1][1]

    def refine(self, state: ExactCost, _: Any, rng: np.random.Generator, budget: int, *, heat: float) -> ExactCost:
        found = exact_cost(self.anywhere(), state.nets)
        self.refined.append((state.value, found.value, budget, heat))
        return found


def watched_search(
    patch: pytest.MonkeyPatch, budget: PlacementBudget, blocks: int = 3, seed: int = 0
) -> tuple[Watched, float]:
    """A search over ``blocks`` blocks in a row, each sending to the next; a step of annealing takes work 10."""
    on = chip(8, 8)
    board = PlacementBoard.empty(Sites.of(cores_in_rows(on), on), blocks, {}, on)
    nets = traffic(table([(b, 1.0 + b, [b + 1]) for b in range(blocks - 1)]), blocks)
    watched = Watched(board)
    patch.setattr(placing, "step_work", lambda *_: 10)
    patch.setattr(placing, "anneal", watched.anneal)
    patch.setattr(placing, "refine", watched.refine)
    best = search_placement(board, nets, seed, budget, lambda stage, done: watched.told.append((stage, done)))
    for start, annealed, *_ in watched.annealed:
        assert start is not annealed
    return watched, exact_cost(best, nets).value


@pytest.mark.parametrize(
    ("budget", "blocks", "runs", "steps", "entries", "heat"),
    [
        (PlacementBudget(3, 2, 3000, 60_000, 10**9), 3, 3, 100, 1_000_000, 0.3),
        (PlacementBudget(3, 2, 3001, 59_999, 10**9), 3, 3, 100, 999_983, 0.0),
        (PlacementBudget(3, 2, 2999, 20_000, 10**9), 3, 1, 100, 1_000_000, 0.3),
        (PlacementBudget(3, 2, 999, 20_000, 999_999), 3, 1, 99, 999_999, 0.0),
        (PlacementBudget(3, 2, 9, 20_001, 10**9), 3, 1, 1, 1_000_050, 0.3),
        (PlacementBudget(1, 4, 10**9, 1, 49), 3, 1, 200, 49, 0.0),
        (PlacementBudget(2, 2, 10**9, 10, 10**9), 50, 2, 100, 250, 0.0),
        (PlacementBudget(2, 2, 10**9, 10, 10**9), 51, 2, 102, 255, 0.0),
        (PlacementBudget(7, 2, 10**9, 7, 10**9), 3, 7, 100, 50, 0.0),
    ],
)
def test_steps_and_entries_of_each_run(
    monkeypatch: pytest.MonkeyPatch,
    budget: PlacementBudget,
    blocks: int,
    runs: int,
    steps: int,
    entries: int,
    heat: float,
) -> None:
    watched, _ = watched_search(monkeypatch, budget, blocks)
    assert [call[2:4] for call in watched.annealed] == [(steps, 0.5)] * runs
    assert [call[2:] for call in watched.refined] == [(entries, heat)] * runs
    assert watched.told == [("place", k / runs) for k in range(runs + 1)]


@pytest.mark.parametrize(("longest", "calls"), [(0, 0), (10**6, 1)])
def test_exact_steps_are_left_out_where_the_work_ends_after_few(
    monkeypatch: pytest.MonkeyPatch, longest: int, calls: int
) -> None:
    """A step looks at 32 x 1 x 1 entries of this chain of nets; 49 entries are fewer than 8 steps."""
    monkeypatch.setattr(placing, "LONG_STEP", longest)
    watched, _ = watched_search(monkeypatch, PlacementBudget(1, 4, 10**9, 1, 49), 3)
    assert len(watched.refined) == calls
    assert len(watched.annealed) == 1
    watched, _ = watched_search(monkeypatch, PlacementBudget(1, 4, 10**9, 10**6, 256), 3)
    assert len(watched.refined) == 1  # eight steps are made


def test_runs_begin_at_the_starts_in_turn_the_best_first_and_the_best_of_all_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched, best = watched_search(monkeypatch, PlacementBudget(7, 2, 10**9, 7, 10**9), blocks=12, seed=4)
    nets = traffic(table([(b, 1.0 + b, [b + 1]) for b in range(11)]), 12)
    begun = [call[0] for call in watched.annealed]
    values = [exact_cost(board, nets).value for board in begun]
    assert values[:5] == sorted(values[:5])
    assert len({id(board) for board in begun[:5]}) == 5
    assert begun[5] is begun[0]
    assert begun[6] is begun[1]
    annealed = [exact_cost(call[1], nets).value for call in watched.annealed]
    assert [call[0] for call in watched.refined] == [min(pair) for pair in zip(values, annealed, strict=True)]
    assert best == min(values[0], *(call[1] for call in watched.refined))
    draws = [float(np.random.default_rng([4, run]).random()) for run in range(7)]
    assert [call[4] for call in watched.annealed] == draws


@pytest.mark.parametrize(("groups", "pins"), [([], {}), ([(0, 0.0, [1])], {}), ([(0, 1.0, [1])], {0: 5, 1: 2})])
def test_nothing_is_searched_where_nothing_moves_or_is_sent(
    monkeypatch: pytest.MonkeyPatch, groups: Any, pins: dict[int, int]
) -> None:
    def search_more(*_: Any, **__: Any) -> None:
        raise AssertionError("nothing to be searched")

    monkeypatch.setattr(placing, "anneal", search_more)
    monkeypatch.setattr(placing, "refine", search_more)
    usable, told = cores_in_rows(chip(3, 2)), list[str]()
    on_pins = {block: usable[i] for block, i in pins.items()}
    found = place(table(groups), 2, chip(3, 2), pins=on_pins, progress=lambda stage, _: told.append(stage))
    assert found == (tuple(on_pins[b] for b in (0, 1)) if pins else tuple(usable[:2]))
    assert told == []


# -- which cores --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("blocks", "pins", "kept"),
    [
        (1, {}, [0, 1, 2, 3]),
        (2, {}, [0, 1, 2, 3, 4, 5, 6, 7]),
        (1, {0: 9}, [0, 1, 2, 3, 8, 10, 11]),
        (2, {0: 1, 1: 2}, [0, 3, 4, 5, 6, 7, 8, 9]),
        (0, {}, [0, 1, 2, 3]),
    ],
)
def test_four_cores_to_a_block_and_all_of_the_first_chip_and_of_pinned_ones(
    blocks: int, pins: dict[int, int], kept: list[int]
) -> None:
    usable = cores_in_rows(chip(2, 2), 3)
    found = placing._near(cores_of(chip(2, 2), 3), blocks, {block: usable[i] for block, i in pins.items()})
    assert found == tuple(usable[i] for i in kept)


# -- refusals -----------------------------------------------------------------------------------------------------


def full(on: Any, blocks: int, **options: Any) -> str:
    with pytest.raises(DoesNotFit) as caught:
        place(table([]), blocks, on, **options)
    (problem,) = caught.value.problems
    assert problem.ids == {"blocks": blocks, "cores": options.get("chips", 1) * (4 - len(on.dead_cores))}
    return str(problem)


def test_as_many_blocks_as_cores_fit_and_one_more_does_not() -> None:
    on = chip(2, 2)
    assert len(set(place(table([]), 4, on))) == 4
    said = "placement: 5 blocks, one to a core, 1 tiny chip has 4 usable cores; use --chips 2"
    assert full(on, 5) == said
    said = "placement: 9 blocks, one to a core, 2 tiny chips have 8 usable cores; use --chips 3"
    assert full(on, 9, chips=2) == said
    assert full(on, 16).endswith("; use --chips 4")
    assert full(on, 17).endswith("; use a larger chip or board, or a smaller model")


def test_a_chip_with_every_core_dead_has_none() -> None:
    dead = chip(2, 2, dead=cores_in_rows(chip(2, 2)))
    assert full(dead, 4).endswith("1 tiny chip has 0 usable cores; use --chips 4")
    assert full(dead, 5).endswith("1 tiny chip has 0 usable cores; use a larger chip or board, or a smaller model")


@pytest.mark.parametrize("chips", [0, 5])
def test_chips_that_a_board_does_not_have(chips: int) -> None:
    with pytest.raises(ChipError, match=f"^number of chips: {chips}, a board of tiny has 1 to 4$"):
        place(table([]), 1, chip(2, 2), chips=chips)


@pytest.mark.parametrize(
    ("pins", "chips", "said"),
    [
        ({-1: (0, 0, 0, 0)}, 1, ["no such block, blocks are 0 to 1; pin one of those"]),
        ({2: (0, 0, 0, 0)}, 1, ["no such block, blocks are 0 to 1; pin one of those"]),
        ({1: (1, 0, 0, 0)}, 1, ["no such core, 1 tiny chip of 3 x 2 tiles of 2 cores;"]),
        ({1: (2, 0, 0, 0)}, 2, ["no such core, 2 tiny chips of 3 x 2 tiles of 2 cores;"]),
        ({1: (0, 3, 0, 0)}, 1, ["no such core, 1 tiny chip of 3 x 2 tiles of 2 cores;"]),
        ({0: (0, 1, 1, 1), 1: (0, 1, 1, 1)}, 1, ["block 0 is pinned there too, a core holds one block;"]),
        ({1: (0, 3, 0, 0), -1: (0, 0, 0, 0)}, 1, ["no such block, ", "no such core, "]),
        ({0: (0, 2, 0, 0), 1: (0, 2, 0, 0)}, 1, ["the core is masked out, a pin needs a usable core;"] * 2),
    ],
)
def test_each_wrong_pin(pins: dict[int, tuple[int, ...]], chips: int, said: list[str]) -> None:
    on = chip(3, 2, 2, dead=[CoreId(0, 2, 0, 0)])
    with pytest.raises(UsageError) as caught:
        place(table([]), 2, on, chips=chips, pins={b: CoreId(*core) for b, core in pins.items()})
    found = [str(p).partition("): ")[2] for p in caught.value.problems]
    assert len(found) == len(said)
    assert all(text.startswith(start) for text, start in zip(found, said, strict=True))


@pytest.mark.parametrize("core", [(0, 0, 0, 0), (0, 2, 1, 1), (1, 2, 1, 1)])
def test_a_pin_on_the_first_and_the_last_core(core: tuple[int, ...]) -> None:
    found = place(table([]), 2, chip(3, 2, 2), chips=2, pins={1: CoreId(*core)})
    assert found[1] == core
    assert found[0] != core

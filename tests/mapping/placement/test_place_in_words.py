"""Placement: division of the effort among runs, candidate cores, and the words of refusals."""

from __future__ import annotations

from typing import Any

import pytest

from nirbridge.chips import cores_of
from nirbridge.chips.model import CoreId
from nirbridge.errors import ChipError, DoesNotFit, UsageError
from nirbridge.mapping.placement import place as placing
from nirbridge.mapping.placement.place import place
from tests.mapping.tables import chip, cores_in_rows, table

# -- how the work is shared ---------------------------------------------------------------------------------------


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

"""Boards as graphs: which are legal, and where their chips lie."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nirbridge.chips import chip_from_dict, read_chip
from nirbridge.chips.boards import board_tiles
from nirbridge.chips.model import Chip, CoreId
from nirbridge.errors import ChipError
from nirbridge.mapping.route import route_hops, tiles_of

SQUARE = [[0, 0], [1, 0], [0, 1], [1, 1]]


def board(places: Any = None, chips: int = 4, **more: Any) -> Chip:
    record: dict[str, Any] = json.loads(json.dumps(dict(read_chip("loihi1").record)))
    record["mesh"] |= {"width_tiles": 3, "height_tiles": 2, "chips_max": chips}
    record["board"] |= more | ({} if places is None else {"places": places})
    record["source"]["board"] = "this test"
    return chip_from_dict(record)


def test_a_square_of_chips() -> None:
    chip = board(SQUARE, links=[[0, 1], [2, 3], [0, 2], [3, 1]])
    assert chip_from_dict(chip.record) == chip
    x, y = tiles_of([CoreId(0, 2, 1, 0), CoreId(1, 0, 1, 0), CoreId(2, 1, 0, 0), CoreId(3, 0, 0, 0)], chip)
    assert (x.tolist(), y.tolist()) == ([2, 3, 1, 3], [1, 1, 2, 2])
    assert route_hops(CoreId(0, 0, 0, 0), CoreId(3, 2, 1, 0), chip) == 5 + 3
    assert [board_tiles(chip, n) for n in (1, 2, 3, 4)] == [(3, 2), (6, 2), (6, 4), (6, 4)]


def test_without_places_the_chips_are_a_chain() -> None:
    chip = board()
    assert tiles_of([CoreId(3, 1, 1, 0)], chip)[0].tolist() == [10]
    assert board_tiles(chip, 4) == (12, 2)


@pytest.mark.parametrize(
    ("places", "more", "found"),
    [
        ([[0, 0], [1, 0], [0, 1]], {}, "board.places has 3 distinct places"),
        ([[0, 0], [1, 0], [0, 1], [0, 1]], {}, "board.places has 3 distinct places"),
        ([[1, 0], [0, 0], [0, 1], [1, 1]], {}, "board.places begins with [1, 0]"),
        ([[0, 0], [1, 0], [0, 1], [2, 1]], {}, "spikes from chip 0 to chip 3 cross a chip or a link"),
        (SQUARE, {"links": [[0, 1], [2, 3], [0, 2]]}, "spikes from chip 0 to chip 3 cross a chip or a link"),
        (SQUARE, {"links": [[0, 3]]}, "board.links has [0, 3]"),
        (SQUARE, {"links": [[0, 4]]}, "board.links has [0, 4]"),
        (None, {"links": [[0, 1]]}, "board.links without board.places"),
        ([[0, 0], [0, 10**6], [0, 1], [1, 1]], {}, "board.places spans 48,000,048 cores"),
        ([[0, 0], [0, -1], [0, 1], [1, 1]], {}, "board.places: found [[0, 0], [0, -1], [0, 1], [1, 1]]"),
    ],
)  # fmt: skip
def test_boards_that_cannot_be(places: Any, more: dict[str, Any], found: str) -> None:
    with pytest.raises(ChipError) as caught:
        board(places, **more)
    assert len(caught.value.problems) == 1
    assert found in str(caught.value.problems[0])


def test_a_large_board_is_a_rectangle_without_holes() -> None:
    full = [[x, y] for y in range(13) for x in range(12)]
    assert board_tiles(board(full, chips=156), 156) == (36, 26)
    for places, more in ((full[:-1], {}), (full, {"links": [[0, 1]]})):
        with pytest.raises(ChipError, match=r"board.places has 15[56] places, at most 128, or as many as fill"):
            board(places, chips=len(places), **more)

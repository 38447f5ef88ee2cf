"""Chips with far more cores than a model needs: the search looks at those near the host and near pins."""

from __future__ import annotations

from nirbridge.chips import chip_from_dict, cores_of, read_chip
from nirbridge.chips.model import Chip, CoreId
from nirbridge.mapping.placement import place


def chip(width: int, height: int, per_tile: int = 1) -> Chip:
    record = {k: dict(v) if hasattr(v, "items") else v for k, v in read_chip("loihi2").record.items()}
    mesh = {"width_tiles": width, "height_tiles": height, "cores_per_tile": per_tile, "chips_max": 1}
    return chip_from_dict(record | {"mesh": record["mesh"] | mesh})


def test_of_a_tall_chip_only_its_corner_is_searched() -> None:
    tall = tuple(cores_of(chip(2, 20_000)))
    near = place._near(tall, 3, {})
    assert len(near) == 2 * 129
    assert set(near) == {core for core in tall if core.y < 129}
    assert near == tuple(sorted(near, key=lambda core: (core.chip, core.y, core.x, core.core)))


def test_the_cores_around_a_pin_are_searched_too() -> None:
    tall = tuple(cores_of(chip(2, 20_000)))
    pin = CoreId(0, 1, 15_000, 0)
    near = set(place._near(tall, 3, {0: pin}))
    assert pin not in near
    assert {CoreId(0, 0, y, 0) for y in range(14_940, 15_060)} <= near
    assert len(near) < 1000


def test_every_block_has_a_core_and_smaller_chips_are_searched_whole() -> None:
    wide = tuple(cores_of(chip(20_000, 1)))
    assert wide[: 4 * 1000] == place._near(wide, 1000, {})[: 4 * 1000]
    whole = tuple(cores_of(chip(128, 128)))
    assert place._near(whole, 3, {}) == whole


def test_cores_are_numbered_by_row_column_and_core() -> None:
    small = chip(2, 2, 2)
    assert cores_of(small)[:5] == (*(CoreId(0, x, 0, k) for x in (0, 1) for k in (0, 1)), CoreId(0, 0, 1, 0))

"""Chips with far more cores than a model needs: the search looks at those near the host and near pins."""

from __future__ import annotations

import math

import nir
import numpy as np
import pytest

from nirbridge.chips import chip_from_dict, cores_of, read_chip, without_cores
from nirbridge.chips.model import Chip, CoreId
from nirbridge.mapping.placement import place
from nirbridge.network import from_nir
from nirbridge.pipeline import MapOptions, map_network
from tests.network.graphs import chain, lif, out, port


def chip(width: int, height: int, per_tile: int = 1) -> Chip:
    record = {k: dict(v) if hasattr(v, "items") else v for k, v in read_chip("loihi2").record.items()}
    mesh = {"width_tiles": width, "height_tiles": height, "cores_per_tile": per_tile, "chips_max": 1}
    return chip_from_dict(record | {"mesh": record["mesh"] | mesh})


def test_of_a_tall_chip_only_its_corner_is_searched() -> None:
    tall = cores_of(chip(2, 20_000))
    near = place._near(tall, 3, {})
    assert len(near) == 2 * 129
    assert set(near) == {core for core in tall if core.y < 129}
    assert near == tuple(sorted(near, key=lambda core: (core.chip, core.y, core.x, core.core)))


def test_the_cores_around_a_pin_are_searched_too() -> None:
    tall = cores_of(chip(2, 20_000))
    pin = CoreId(0, 1, 15_000, 0)
    near = set(place._near(tall, 3, {0: pin}))
    assert pin not in near
    assert {CoreId(0, 0, y, 0) for y in range(14_940, 15_060)} <= near
    assert len(near) < 1000


def test_every_block_has_a_core_and_smaller_chips_are_searched_whole() -> None:
    wide = cores_of(chip(20_000, 1))
    assert wide[: 4 * 1000] == place._near(wide, 1000, {})[: 4 * 1000]
    whole = cores_of(chip(128, 128))
    assert place._near(whole, 3, {}) == tuple(whole)


@pytest.mark.parametrize("seed", range(6))
def test_the_cores_are_those_that_a_list_of_all_gives(seed: int) -> None:
    rng = np.random.default_rng(seed)
    width, height, per_tile = [(2, 9000, 1), (9000, 2, 1), (140, 130, 1), (30, 300, 4), (4500, 2, 2), (1, 20_000, 1)][
        seed
    ]
    dead = rng.choice(width * height * per_tile, 40, replace=False)
    usable = cores_of(without_cores(chip(width, height, per_tile), [0, 1, *dead.tolist()]))
    listed = list(usable)
    pins = {b: listed[k] for b, k in enumerate(rng.choice(len(listed), seed, replace=False).tolist())}
    blocks = int(rng.integers(max(seed, 1), 6000))

    taken, most = set(pins.values()), max(2**14, 4 * blocks)
    free, side = [core for core in listed if core not in taken], math.isqrt(most // per_tile) + 1
    near = set(free[: 4 * blocks])
    for left, top in [(0, 0), *((core.x - side // 2, core.y - side // 2) for core in taken)]:
        near |= {core for core in free if 0 <= core.x - left < side and 0 <= core.y - top < side}
    assert len(free) > 2**14
    expected = [core for core in free if core in near] if len(free) > most else free
    assert list(place._near(usable, blocks, pins)) == expected


def test_seven_neurons_on_a_chip_of_65_536_rows_make_few_of_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    made, tall = [], chip(8, 65_536)
    weights = [nir.Linear(np.ones(shape)) for shape in ((4, 5), (3, 4))]
    network = from_nir(chain(port(5), weights[0], lif(4), weights[1], lif(3), out(3)))

    def counted(kind: type[CoreId], *fields: int) -> CoreId:
        made.append(fields)
        return tuple.__new__(kind, fields)

    monkeypatch.setattr(CoreId, "__new__", counted)
    for method in ("cp-sat", "packed", "sequential"):
        made.clear()
        mapped = map_network(network, tall, MapOptions(method=method))
        assert sum(p.size for p in mapped.network.populations) == 7
        assert 0 < len(made) < 10_000


def test_cores_are_numbered_by_row_column_and_core() -> None:
    small = chip(2, 2, 2)
    assert cores_of(small)[:5] == (*(CoreId(0, x, 0, k) for x in (0, 1) for k in (0, 1)), CoreId(0, 0, 1, 0))

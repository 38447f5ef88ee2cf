"""Figures by a count of tiles, and ranges of figures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nirbridge.chips import chip_from_dict, read_chip
from nirbridge.errors import ChipError
from nirbridge.mapping.cost import at_end


@pytest.fixture
def record() -> dict[str, Any]:
    return json.loads(json.dumps(dict(read_chip("loihi1").record)))


def problems(record: dict[str, Any]) -> list[str]:
    with pytest.raises(ChipError) as caught:
        chip_from_dict(record)
    return [str(p) for p in caught.value.problems]


def test_the_barrier_of_loihi1_by_tiles_in_use() -> None:
    barrier = read_chip("loihi1").time.barrier
    tiles = (0, 1, 2, 3, 4, 28, 29, 32, 1000)
    assert [barrier(n) for n in tiles] == [0.6e-6, 0.6e-6, 1.0e-6, 1.0e-6, 1.4e-6, 1.4e-6, 1.8e-6, 1.8e-6, 1.8e-6]


def test_a_file_of_before_is_read_as_it_was(record: dict[str, Any]) -> None:
    """One figure for the barrier, none by kind of synapse, no overlap, no board, no ranges."""
    new = ("synaptic_op_sparse_s", "synaptic_op_convolution_s", "neuron_access_s", "overlap")
    record["time"] = {key: value for key, value in record["time"].items() if key not in new} | {"barrier_s": 1.8e-6}
    for key in ("board", "range"):
        del record[key]
    gone = {*(f"time.{key}" for key in new), "board.link_j", "board.link_s"}
    record["source"] = {k: v for k, v in record["source"].items() if k not in gone and not k.startswith("range.")}
    record["approximate"] = [key for key in record["approximate"] if not key.startswith("board.")]
    chip = chip_from_dict(record)
    assert (chip.time.barrier(1), chip.time.barrier(99), chip.time.overlap) == (1.8e-6, 1.8e-6, None)
    assert "board" not in chip.record
    assert "range" not in chip.record


@pytest.mark.parametrize(
    "wrong",
    [[], [[1, -1e-6]], [[0, 1e-6]], [[2, 1e-6], [1, 2e-6]], [[1, 1e-6], [1, 2e-6]], [[1, 1e-6, 3]], [[1.5, 1e-6]], "x",
     -1.0, True, [[1, float("nan")]], [[True, 1e-6]], [1e-6]],
)  # fmt: skip
def test_a_wrong_barrier(record: dict[str, Any], wrong: Any) -> None:
    record["time"]["barrier_s"] = wrong
    del record["range"]["time.barrier_s"], record["source"]["range.time.barrier_s"]
    (line,) = problems(record)
    assert line.startswith("chip record: time.barrier_s: found ")
    assert line.endswith("or a list of [tiles, s], ascending")


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("energy.spike_j", [70e-12, 80e-12], "range energy.spike_j: the figure 6.93e-11 lies outside [7e-11, 8e-11]"),
        ("energy.spike_j", [60e-12], "range energy.spike_j: found [6e-11], expected [lowest, highest]"),
        ("energy.spike_j", 60e-12, "range energy.spike_j: found 6e-11, expected [lowest, highest]"),
        ("energy.spyke_j", [1.0, 2.0], "[range]: 'energy.spyke_j' is not a figure of this file; did you mean"),
        ("core.neurons", [1, 2], "[range]: 'core.neurons' is not a figure of this file"),
        ("time.barrier_s", [0.1e-6, [[1, 0.6e-6], [2, 0.9e-6]]], "range time.barrier_s: the figure [[1, 6e-07],"),
    ],
)  # fmt: skip
def test_a_wrong_range(record: dict[str, Any], key: str, value: Any, found: str) -> None:
    record["range"][key] = value
    if key in ("energy.spike_j", "time.barrier_s"):  # sources are of figures that exist
        record["source"][f"range.{key}"] = "this test"
    (line,) = problems(record)
    assert line.startswith(f"chip record: {found}")


def test_a_range_has_a_source(record: dict[str, Any]) -> None:
    record["range"]["energy.spike_j"] = [60e-12, 80e-12]
    (line,) = problems(record)
    assert line.startswith("chip record: range.energy.spike_j: no source")
    record["source"]["range"] = "this test"
    assert chip_from_dict(record).sources["range.energy.spike_j"] == "this test"


def test_the_ends_of_the_ranges() -> None:
    low, high = (at_end(read_chip("loihi1"), end) for end in ("low", "high"))
    assert (low.energy.synaptic_op_j, high.energy.synaptic_op_j) == (23.6e-12, 35.5e-12)
    assert (low.time.barrier(1), low.time.barrier(31), low.time.barrier(32)) == (113e-9, 113e-9, 465e-9)
    assert low.energy.spike_j == high.energy.spike_j == 69.3e-12

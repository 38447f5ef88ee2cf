"""Every number of a chip file has a bound, and a larger number is refused before anything is allocated."""

from __future__ import annotations

import copy
import json
import math
import subprocess
import sys
from typing import Any

import pytest

from nirbridge.chips import chip_from_dict, read_chip
from nirbridge.chips.codec import _is_width_list
from nirbridge.chips.schema import COUNT_MAX, FIELDS, FIGURE_MAX, RUN_TARGETS_MAX, Field
from nirbridge.errors import ChipError

COUNTS = [f for f in FIELDS if f.kind == "count"]
FIGURES = [f for f in FIELDS if f.kind == "figure"]


def changed(field: Field, value: Any) -> dict[str, Any]:
    record = copy.deepcopy(json.loads(json.dumps(read_chip("loihi2").record)))
    record[field.table][field.key] = value
    record["source"].setdefault(field.name, "this test")
    return record


def refusal(field: Field, value: Any) -> str:
    with pytest.raises(ChipError) as caught:
        chip_from_dict(changed(field, value))
    return str(caught.value)


@pytest.mark.parametrize("field", COUNTS, ids=lambda f: f.name)
@pytest.mark.parametrize("value", [10**30, -1, math.nan, math.inf, 1.5, True, "many"])
def test_no_count_beyond_its_bound(field: Field, value: Any) -> None:
    assert f"{field.name}: found" in refusal(field, value)


@pytest.mark.parametrize("field", COUNTS, ids=lambda f: f.name)
def test_the_first_count_beyond_its_bound(field: Field) -> None:
    shown = "10^12" if field.most == COUNT_MAX else f"{field.most:,}"
    assert f"{field.name}: found {field.most + 1}, expected a whole number from {field.least} to {shown}" in refusal(
        field, field.most + 1
    )


@pytest.mark.parametrize("field", FIGURES, ids=lambda f: f.name)
@pytest.mark.parametrize("value", [FIGURE_MAX * 1.01, 1e308, -1e-12, math.nan, math.inf, 10**30, True, "much"])
def test_no_figure_beyond_its_bound(field: Field, value: Any) -> None:
    assert f"{field.name}: found" in refusal(field, value)


@pytest.mark.parametrize("wrong", [65, 0, -1, 10**30, math.nan, 4.0, True, None])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_wrong_width_among_right_ones(wrong: Any, place: int) -> None:
    [field] = [f for f in FIELDS if f.kind == "count list"]
    widths: list[Any] = [4, 8]
    widths.insert(place, wrong)
    assert "synapses.weight_bits: found" in refusal(field, widths)


@pytest.mark.parametrize("wrong", [10**30, -1, math.nan, 1.0, True])
@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_one_wrong_number_among_right_ones_of_a_dead_core(wrong: Any, place: int) -> None:
    record = copy.deepcopy(json.loads(json.dumps(read_chip("loihi2").record)))
    core: list[Any] = [0, 1, 1, 2]
    core[place] = wrong
    record["dead_cores"] = [[0, 0, 0, 0], core, [0, 2, 0, 0]]
    with pytest.raises(ChipError, match="dead_cores: found|does not exist"):
        chip_from_dict(record)


WORST = """
import json, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))
import nirbridge.pipeline as pipeline
from nirbridge.chips import chip_from_dict
chip = chip_from_dict(json.loads(sys.stdin.read()))
network = pipeline.network_of_shapes("700 dense2000 lif dense10 lif")
pipeline.map_network(network, chip, pipeline.MapOptions())
# VmHWM is of this program alone; ru_maxrss counts the process that it was forked from
(peak,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(int(peak.split()[1]) // 1024)
"""


def test_the_largest_run_is_built_in_little_memory() -> None:
    record = copy.deepcopy(json.loads(json.dumps(read_chip("loihi2").record)))
    longest = {"run_targets_max": RUN_TARGETS_MAX, "word_bits": 1, "index_bits": 64, "delay_bits": 64, "run_free": True}
    record["synapses"] |= {**longest, "words": COUNT_MAX}
    run = subprocess.run(
        [sys.executable, "-c", WORST], input=json.dumps(record), capture_output=True, text=True, check=True, timeout=100
    )
    assert int(run.stdout) < 500


def test_a_chip_has_at_most_64_widths_of_at_most_64_bits() -> None:
    assert [_is_width_list([8] * count) for count in (0, 1, 64, 65)] == [False, True, True, False]
    assert [_is_width_list([8, bits]) for bits in (0, 1, 64, 65, 8.0)] == [False, True, True, False, False]

"""Every reader on malformed input: accepted or refused with a nirbridge error, without hangs or side effects.

``make fuzz`` runs far more, led by coverage; ``docs/robustness.md`` has the figures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cases import cases
from tests.fuzz.campaign import campaign
from tests.fuzz.choices import RECIPE_BYTES, Choices, recipe
from tests.fuzz.guided import kept
from tests.fuzz.targets import TARGETS
from tests.fuzz.traps import TRAPS

INPUTS = cases(60, 120)


@pytest.fixture(scope="module")
def tallies(root: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.fuzz.quick", str(INPUTS)]
    done = subprocess.run(command, cwd=root, env=os.environ, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return {tally["target"]: tally for tally in json.loads(done.stdout)}


@pytest.mark.parametrize("name", TARGETS)
def test_reader(name: str, tallies: dict[str, Any]) -> None:
    tally = tallies[name]
    assert tally["failures"] == []
    assert tally["failed"] == 0
    assert tally["inputs"] == INPUTS + len(kept(name))
    assert tally["first"] >= 0.2 * tally["inputs"]


@pytest.mark.parametrize("name", TARGETS)
def test_the_sources_of_a_reader_are_there(name: str, root: Path) -> None:
    sources = [root / "nirbridge" / source for source in TARGETS[name].sources]
    assert sources
    assert [path for path in sources if not path.is_file()] == []


@pytest.mark.parametrize("name", [name for name in TRAPS if name != "crash"])
def test_each_kind_of_harm_is_noticed(name: str, tallies: dict[str, Any]) -> None:
    [(_, said)] = tallies[name]["failures"]
    assert TRAPS[name][1] in said


@pytest.mark.slow
def test_a_process_that_dies_is_one_failure_and_the_next_input_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    found = campaign("crash", 0, 0, 2)
    assert (found.inputs, found.failed) == (2, 2)
    assert "crash: exit code -6" in found.failures[0][1]


def test_recipes_are_the_same_every_time_and_end_in_first_choices() -> None:
    assert recipe("nir", 1, 2) == recipe("nir", 1, 2) != recipe("nir", 1, 3)
    assert len(recipe("nir", 1, 2)) == RECIPE_BYTES
    c = Choices(b"\x05\x01\x02")
    assert (c.below(4), c.below(300), c.spent) == (1, 0x0201 % 300, True)
    assert (c.below(9), c.chance(2), c.pick("ab"), c.several(5)) == (0, False, "a", 1)

"""The runner of mutants: the changes that it makes, and the tests that it selects for a line."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

pytest.importorskip("coverage")

from coverage import CoverageData

from benchmarks.mutants.choose import Choice
from benchmarks.mutants.sites import Mutant, is_python, mutants

SOURCE = '''
"""Docstring 1."""

from __future__ import annotations

LIMIT = 5


@dataclass(frozen=True)
class Thing:
    size: tuple[int, ...] = (1,)

    def __repr__(self) -> str:
        return str(self.size) + "2"


def first(values: list[int], low: int = 3) -> bool:
    """Docstring 4."""
    if any(v < low for v in values) and not values[6:]:
        raise ValueError(f"{low + 7} too small")
    progress("stage", 0.5)
    return len(values) == LIMIT


@borrowing
def kernel(a):
    a[0] += 9


def caller(a):
    return kernel(a)
'''
OTHER = """
from nirbridge.network.thing import kernel as run


def elsewhere(a):
    return run(a)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "nirbridge" / "network").mkdir(parents=True)
    (tmp_path / "nirbridge" / "network" / "thing.py").write_text(SOURCE)
    (tmp_path / "nirbridge" / "network" / "other.py").write_text(OTHER)
    return tmp_path


def every(root: Path) -> list[Mutant]:
    return [m for place in mutants(root, "nirbridge/network/thing.py") for m in place]


def shown(root: Path, mutant: Mutant) -> str:
    """The changed line, from its first letter on."""
    changed = mutant.apply(SOURCE.encode()).decode().splitlines()
    return changed[mutant.line - 1].strip()


def test_each_change_is_one_place(root: Path) -> None:
    found = {shown(root, m) for m in every(root)}
    condition = "if any(v < low for v in values) and not values[6:]:"
    for wanted in (
        "LIMIT = 6",
        "LIMIT = 4",
        "size: tuple[int, ...] = (2,)",
        "def first(values: list[int], low: int = 4) -> bool:",
        condition.replace("<", "<="),
        condition.replace("any(v < low for v in values)", "all((v < low for v in values))"),
        condition.replace("6", "7"),
        "if (any((v < low for v in values)) or not values[6:]):",
        "if (not values[6:]):",
        "if any(v < low for v in values) and (values[6:]):",
        "return len(values) != LIMIT",
        "return not (len(values) == LIMIT)",
        "a[0] -= 9",
        "pass",
    ):
        assert wanted in found


def test_texts_annotations_decorators_and_progress_stay(root: Path) -> None:
    kept = ("Docstring", "__repr__", "too small", "dataclass", "progress", "annotations")
    for mutant in every(root):
        changed = mutant.apply(SOURCE.encode())
        if is_python(changed) and mutant.text != "pass":
            assert all(text in changed.decode() for text in kept)
            assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(SOURCE))


def test_tests_of_a_line_its_function_or_its_callers(root: Path) -> None:
    lines = {n: i for i, n in enumerate(SOURCE.splitlines(), 1)}
    path, folder = root / "nirbridge" / "network" / "thing.py", root / "data"
    folder.mkdir()
    data = CoverageData(str(folder / "coverage0.data"))
    ran = {
        "tests/network/a.py::slow": ["    return len(values) == LIMIT"],
        "tests/other/b.py::quick": [
            "    return len(values) == LIMIT",
            '        raise ValueError(f"{low + 7} too small")',
        ],
        "tests/other/b.py::calls": ["    return kernel(a)"],
        "": list(lines),
    }
    for test, seen in ran.items():
        data.set_context(test)
        data.add_lines({str(path): [lines[line] for line in seen]})
    data.set_context("tests/other/c.py::calls")
    data.add_lines({str(path.with_name("other.py")): [6]})
    data.write()
    (folder / "durations0.json").write_text(
        json.dumps(
            {test: 0.01 for test in [*ran, "tests/other/c.py::calls"] if test} | {"tests/network/a.py::slow": 1.0}
        )
    )
    choice = Choice(root, folder)

    def chosen(line: str) -> list[str]:
        return choice.tests(Mutant("nirbridge/network/thing.py", lines[line], 0, 0, "", ""))

    both = ["tests/other/b.py::quick", "tests/network/a.py::slow"]
    assert chosen("    return len(values) == LIMIT") == both
    assert chosen("LIMIT = 5") == both, "what runs at import: tests of what uses the name"
    assert chosen("def first(values: list[int], low: int = 3) -> bool:") == both
    assert chosen('        raise ValueError(f"{low + 7} too small")') == both[:1]
    assert chosen("    a[0] += 9") == ["tests/other/b.py::calls", "tests/other/c.py::calls"]
    assert chosen('        return str(self.size) + "2"') == []

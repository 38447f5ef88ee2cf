"""Tests that could detect a mutant: those that ran its line, or, if no tracer sees the line, those of its callers.

Lines that run once, when a module is imported, and the inside of compiled kernels belong to no test; the tests of the
functions that use their names stand for them.
"""

from __future__ import annotations

import ast
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from coverage import CoverageData

from benchmarks.mutants.sites import Function, Mutant

KERNELS = {"borrowing", "compiled", "intrinsic", "jitted", "njit", "vectorised"}
"""Decorators of functions whose inside no tracer sees."""
SIMILAR = 0.05
"""Tests of fewer seconds are not told apart by time."""


class Choice:
    """Tests by line, of one run of the suite under coverage (``folder``: its data and durations)."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = root
        self.seconds: dict[str, float] = {}
        for file in sorted(folder.glob("durations*.json")):
            self.seconds |= json.loads(file.read_text())
        self.lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for file in sorted(folder.glob("coverage*.data")):
            self._read(CoverageData(str(file)))
        self.users = _users(root, sorted(self.lines))

    def _read(self, data: CoverageData) -> None:
        data.read()
        for measured in data.measured_files():
            path = "nirbridge/" + measured.rpartition("/nirbridge/")[2]
            for line, contexts in data.contexts_by_lineno(measured).items():
                self.lines[path][line] |= {c for c in contexts if c in self.seconds}  # not "", what runs at import

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests to run, quick ones and those of the same room first."""
        function, lines, name = _around(self.root / mutant.path, mutant.line)
        found = self._of_lines(mutant.path, lines)
        if not found or _is_kernel(function):
            found = found | self._of_users(name)
        return self._promising_first(found, mutant.path.split("/")[1].removesuffix(".py"))

    def _promising_first(self, tests: set[str], room: str) -> list[str]:
        """Quick ones of the room first; of one function's many cases each counts less than the one before."""
        seen: Counter[str] = Counter()
        weight = {}
        for name in sorted(tests, key=lambda n: (self.seconds[n] > SIMILAR, n)):
            function = name.partition("[")[0]
            own = 1 if name.startswith(f"tests/{room}/") else 4
            weight[name] = own * max(SIMILAR, self.seconds[name]) * (1 + seen[function] / 3)
            seen[function] += 1
        return sorted(weight, key=lambda n: (weight[n], n))

    def _of_lines(self, path: str, lines: range) -> set[str]:
        return {test for line in lines for test in self.lines[path].get(line, ())}

    def _of_users(self, name: str) -> set[str]:
        """Tests of what uses a name; of its users' users, where no test sees these."""
        todo, seen, found = [name], set[str](), set[str]()
        while todo:
            name = todo.pop()
            if name in seen:
                continue
            seen.add(name)
            for path, line, user in self.users.get(name, ()):
                tests = self._of_lines(path, range(line, line + 1))
                found |= tests
                if not tests:
                    todo.append(user)
        return found


def _users(root: Path, paths: list[str]) -> dict[str, set[tuple[str, int, str]]]:
    """By name: (path, line, name of the function or assignment) of everything that uses it."""
    found: dict[str, set[tuple[str, int, str]]] = defaultdict(set)
    for path in paths:
        imports = (n for n in ast.walk(_tree(root / path)) if isinstance(n, ast.ImportFrom))
        meant = {alias.asname: alias.name for n in imports for alias in n.names if alias.asname}
        for owner, name in _owners(_tree(root / path)):
            for node in ast.walk(owner):
                used = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
                if used and used != name:
                    found[meant.get(used, used)].add((path, node.lineno, name))  # type: ignore[attr-defined]
    return found


def _owners(tree: ast.Module) -> Iterator[tuple[ast.stmt, str]]:
    """Every function of a module (methods by their class), and what the module assigns."""
    for node in tree.body:
        yield node, _name(node)
        if isinstance(node, ast.ClassDef):
            yield from ((inner, inner.name) for inner in node.body if isinstance(inner, Function))


def _name(node: ast.stmt) -> str:
    if isinstance(node, Function | ast.ClassDef):
        return node.name
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return next((n.id for t in targets if t is not None for n in ast.walk(t) if isinstance(n, ast.Name)), "")


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes())


def _around(path: Path, line: int) -> tuple[ast.stmt | None, range, str]:
    """(function around a line or None, the lines whose tests count, the name whose users stand for it)."""
    function: ast.stmt | None = None
    outer = inner = None
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            outer = outer or node
            inner = node
            function = node if isinstance(node, Function) else function
    assert outer is not None, "a mutant lies in a statement"
    assert inner is not None, "a mutant lies in a statement"
    body = getattr(inner, "body", None)
    if isinstance(inner, Function):  # its defaults
        lines = range(inner.body[-1].lineno, (inner.end_lineno or 0) + 1)
    elif body:
        lines = range(inner.lineno, body[0].lineno)
    else:
        lines = range(inner.lineno, (inner.end_lineno or 0) + 1)
    if function is None:  # runs once, at import
        lines = range(0)
    owner = function if isinstance(outer, ast.ClassDef) and function is not None else outer
    return function, lines, _name(owner)


def _is_kernel(function: ast.stmt | None) -> bool:
    names = [n for d in getattr(function, "decorator_list", ()) for n in ast.walk(d)]
    return any(getattr(n, "id", getattr(n, "attr", "")) in KERNELS for n in names)

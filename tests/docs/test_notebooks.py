"""The notebooks of the site run as they are, and compare equal wherever they compare a module with its network."""

from __future__ import annotations

import ast
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import nirbridge as nb
from nirbridge.comparison.types import Comparison

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "examples" / "notebooks").glob("*.py"))
pytestmark = pytest.mark.usefixtures("searched_once")
IMPORTS = {"from_snntorch": ("snntorch",), "fine_tune": ("snntorch", "sklearn"), "gallery": ("matplotlib",)}


def run(path: Path) -> tuple[dict[str, Any], list[object]]:
    """The names after a notebook, and the values that its cells show."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    shown: list[object] = []
    for node in tree.body:
        if isinstance(node, ast.Expr):
            call = ast.Call(func=ast.Name("_show", ast.Load()), args=[node.value], keywords=[])
            node.value = ast.copy_location(call, node.value)
    names: dict[str, Any] = {"__name__": "notebook", "_show": shown.append}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(ast.fix_missing_locations(tree), str(path), "exec"), names)
    return names, shown


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in IMPORTS.get(path.stem, (path.stem.removeprefix("from_"),) if path.stem.startswith("from_") else ()):
        pytest.importorskip(name, reason=f"{name} is not installed")
    if path.stem == "verify_in_lava":
        from nirbridge.pipeline import environment_status

        if not environment_status().ready:
            pytest.skip("the isolated Lava environment is not installed")
    monkeypatch.chdir(tmp_path)
    names, shown = run(path)
    compared = [value for value in shown if isinstance(value, Comparison)]
    if path.stem.startswith("from_"):
        assert [c.equal for c in compared] == [True]
        assert nb.simulate(names["network"], names["x"])["output"].any(), "nothing fires: nothing is compared"
    if path.stem == "own_chip":
        cores = [int(n) for n in re.findall(r": +(\d+) cores", capsys.readouterr().out)]
        assert cores == sorted(cores, reverse=True)
        assert len(cores) == 4
    if path.stem == "fine_tune":
        assert names["after"] > names["before"] + 0.1
    if path.stem == "verify_in_lava":
        assert names["found"].holds

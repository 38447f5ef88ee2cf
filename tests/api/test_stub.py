"""``nirbridge/__init__.pyi`` agrees with the module in every name."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import nirbridge as nb

NAMES: list[str] = vars(nb)["__all__"]
STUB = ast.parse(Path(nb.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
IMPORTED = {
    a.name: str(node.module)
    for node in STUB.body
    if isinstance(node, ast.ImportFrom)
    for a in node.names
    if a.asname == a.name
}
"""Name -> module of all that the stub passes on: ``from MODULE import NAME as NAME``."""
DEFINED = {node.name: node for node in STUB.body if isinstance(node, ast.FunctionDef)}
TYPES = [name for name in NAMES if isinstance(getattr(nb, name), type)]
FUNCTIONS = [name for name in NAMES if inspect.isfunction(getattr(nb, name))]


def test_the_same_names() -> None:
    assert {*IMPORTED, *DEFINED} == set(NAMES)
    assert dir(nb) == sorted(NAMES)


@pytest.mark.parametrize("name", IMPORTED)
def test_the_very_same_object(name: str) -> None:
    module = importlib.import_module(IMPORTED[name])
    assert getattr(module, name) is getattr(nb, name)


@pytest.mark.parametrize("name", DEFINED)
def test_the_same_signature(name: str) -> None:
    node = DEFINED[name]
    assert f"({ast.unparse(node.args)}) -> {ast.unparse(node.returns or ast.Constant(None))}" == str(
        inspect.signature(getattr(nb, name))
    ).replace("'", "")


def _any_in(hint: Any) -> bool:
    return hint is Any or hint is object or any(map(_any_in, get_args(hint)))


def _public_methods() -> Iterator[tuple[str, str]]:
    for name in TYPES:
        for method, found in inspect.getmembers(getattr(nb, name), inspect.isfunction):
            if not method.startswith("_"):
                yield name, found.__name__


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_argument_and_result_is_typed(name: str) -> None:
    function = inspect.unwrap(getattr(nb, name))
    hints = get_type_hints(function)
    assert set(hints) == {*inspect.signature(function).parameters, "return"}
    assert not _any_in(hints["return"])


@pytest.mark.parametrize(("name", "method"), list(_public_methods()))
def test_no_method_of_a_value_returns_anything_at_all(name: str, method: str) -> None:
    assert str(inspect.signature(getattr(getattr(nb, name), method)).return_annotation).strip("'") not in (
        "Any",
        "object",
    )


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        getattr(nb, "simulat")  # noqa: B009


def test_the_chips_are_a_function_and_a_room() -> None:
    """``nirbridge.chips`` is a package as well: both are there, whichever was imported first."""
    from nirbridge.chips import without_cores

    room: Any = nb.chips
    assert "loihi2" in nb.chips()
    assert room.without_cores is without_cores


@pytest.mark.parametrize("code", ["import nirbridge", "import nirbridge; dir(nirbridge); nirbridge.errors"])
def test_nothing_heavy_is_imported(code: str) -> None:
    script = f"{code}; import sys; print([m for m in ('numpy', 'rich', 'click', 'nir') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

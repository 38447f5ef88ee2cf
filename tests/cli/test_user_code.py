"""``PACKAGE.MODULE:ATTR`` and ``FILE.py:ATTR``: look-up, and each refusal in full; no torch is needed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nirbridge.cli.common import _sources
from nirbridge.cli.model_target import module_of
from nirbridge.errors import NirbridgeError

CODE = """
import sys
FOLDER = sys.path[0]
class Net:
    inner = [1]
    def __init__(self):
        self.size = 3
def make():
    return "made"
def broken(needed):
    return needed
value = {"a": 1}
near_one = near_two = near_three = near_four = 0
_near_hidden = 0
"""


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file, a package and files that fail, in the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "user_code_a.py").write_text(CODE)
    (tmp_path / "user_code_b").mkdir()
    (tmp_path / "user_code_b" / "__init__.py").write_text(CODE)
    (tmp_path / "user_code_c.py").write_text("raise SystemExit('no')\n")
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def refused(target: str) -> str:
    with pytest.raises(NirbridgeError) as caught:
        module_of(target, of_torch=False)
    return str(caught.value)


@pytest.mark.parametrize("where", ["user_code_a.py", "./user_code_a.py", "user_code_b"])
def test_what_a_target_names(where: str, user: Path) -> None:
    path = list(sys.path)
    assert module_of(f"{where}:Net", of_torch=False).size == 3
    assert module_of(f"{where}:make", of_torch=False) == "made"
    assert module_of(f"{where}:value", of_torch=False) == {"a": 1}
    assert module_of(f"{where}:Net.inner", of_torch=False) == [1]
    assert Path(module_of(f"{where}:FOLDER", of_torch=False)).resolve() == user.resolve()
    assert sys.path == path


NONE = "names no module and attribute, PACKAGE.MODULE:ATTR or FILE.py:ATTR; for example my_net.py:net"
CALLED = "calling it without arguments fails (TypeError: broken() missing 1 required positional argument: 'needed')"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("a.py", f"'a.py': {NONE}"),
        (":net", f"':net': {NONE}"),
        ("a.py:", f"'a.py:': {NONE}"),
        ("none.py:net", "'none.py': there is no such file; give the path of a Python file"),
        ("user_code_a.py:q", "'user_code_a.py': it has no 'q'; see what it defines"),
        ("user_code_a.py:valu", "'user_code_a.py': it has no 'valu'; did you mean 'value'?"),
        ("user_code_a.py:value.x", "'user_code_a.py': it has no 'x'; see what it defines"),
        (
            "user_code_c.py:x",
            "'user_code_c.py': importing it fails (SystemExit: no); make it import on its own first",
        ),
        (
            "no_such_code:x",
            "'no_such_code': importing it fails (ModuleNotFoundError: No module named 'no_such_code'); make it import "
            "on its own first",
        ),
    ],
)
def test_targets_that_are_none(target: str, message: str, user: Path) -> None:
    path = list(sys.path)
    assert refused(target) == message
    assert sys.path == path


def test_at_most_three_names_are_near(user: Path) -> None:
    said = refused("user_code_a.py:near_on")
    assert said.count(" or ") == 2
    assert "near_one" in said
    assert "hidden" not in said
    step = "name a module, or a function without arguments"
    assert refused("user_code_a.py:broken") == f"'user_code_a.py:broken': {CALLED}; {step}"


def test_an_interrupt_of_user_code_is_one(user: Path) -> None:
    (user / "user_code_d.py").write_text("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        module_of("user_code_d.py:x", of_torch=False)


@pytest.mark.parametrize(
    ("target", "files"),
    [
        ("a/b.py:net", ["a/b.py"]),
        ("a.b:net", ["a/b.py", "a/b/__init__.py"]),
        ("a:b:net", ["a:b.py", "a:b/__init__.py"]),
        ("net", []),
        (":net", []),
    ],
)
def test_files_that_a_target_may_come_from(target: str, files: list[str]) -> None:
    assert list(_sources(target)) == files

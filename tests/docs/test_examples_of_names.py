"""Every public name has a docstring with an example, and the example does what it shows."""

from __future__ import annotations

import doctest
import inspect
import shutil
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import nirbridge as nb

MODEL = Path(__file__).resolve().parents[2] / "examples" / "models" / "digits_mlp.nir"
NAMES = [name for name in nb.__all__ if name not in {"__version__", "errors"}]


def docstring_of(name: str) -> str:
    item = getattr(nb, name)
    documented = type(item).__call__ if isinstance(item, ModuleType) else item  # a room that is a function, too
    return inspect.getdoc(documented) or ""


@pytest.mark.filterwarnings("ignore::nirbridge.errors.ExportWarning")
@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_an_example_that_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(MODEL, tmp_path / "model.nir")
    monkeypatch.chdir(tmp_path)
    test = doctest.DocTestParser().get_doctest(docstring_of(name), {"nb": nb, "np": np}, name, None, None)
    assert test.examples, f"nirbridge.{name} has no example"
    report: list[str] = []
    assert doctest.DocTestRunner(verbose=False).run(test, out=report.append).failed == 0, "".join(report)


def test_the_runner_can_fail() -> None:
    test = doctest.DocTestParser().get_doctest(">>> 1\n2\n", {}, "wrong", None, None)
    assert doctest.DocTestRunner(verbose=False).run(test, out=lambda text: None).failed == 1

"""Attributes named by a text: loading, and the errors of wrong names."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nirbridge.files.attributes import load_attribute


def test_the_module_is_imported_when_its_attribute_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "loaded_by_name.py").write_text("ANSWER = 42\n")
    assert "loaded_by_name" not in sys.modules
    assert load_attribute("loaded_by_name:ANSWER") == 42
    assert sys.modules.pop("loaded_by_name").ANSWER == 42


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("no_such_module:a", ImportError),
        (":a", ValueError),
        ("math:no_such_name", AttributeError),
        ("math", AttributeError),
        ("math:pi:e", AttributeError),
    ],
)
def test_names_that_are_wrong(where: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        load_attribute(where)

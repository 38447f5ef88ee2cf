"""The benchmark of forms at its smallest size: equal spikes in both compilers; one that differs is not timed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.stack.needs import needs
from tests.tools import needs as needs_tool

pytestmark = needs("iree", "xdsl")


def options(folder: Path, *more: str) -> list[str]:
    files = ("--json", str(folder / "rows.json"), "-o", str(folder / "page.md"))
    return ["--only", "digits_mlp", "--batch", "2", "--rounds", "1", *files, *more]


def test_every_form_has_the_spikes_of_the_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_tool("mlir")
    from benchmarks import stack

    monkeypatch.setattr(stack, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(stack, "RATES", (stack.RATE, 0.3))
    assert stack.main(options(tmp_path)) == 0
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [(r["compiler"], r["rate"]) for r in rows.values()] == [("iree", 0.05), ("loops", 0.05), ("loops", 0.3)]
    assert all({"plain", "chosen"} <= set(r["us"]) for r in rows.values())
    assert all(set(r["us"]) > {"fusion", "time batching"} for r in rows.values() if r["rate"] == stack.RATE)
    assert max(r["spikes"] for r in rows.values()) > 0
    page = (tmp_path / "page.md").read_text()
    assert page.count("| digits_mlp | 2 |") == len(rows)


def test_spikes_of_another_program_are_not_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks import stack

    def wrong(program: Any, *_: Any) -> Any:
        return lambda: np.ones((stack.STEPS, 2, *program.outputs[0].shape), np.float32)

    monkeypatch.setattr(stack, "COMPILERS", {"iree": wrong, "loops": wrong})
    assert stack.main(options(tmp_path, "--compiler", "iree")) == 1
    assert "values differ" in capsys.readouterr().err
    assert not (tmp_path / "rows.json").exists()

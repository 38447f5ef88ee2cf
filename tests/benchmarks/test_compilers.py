"""The benchmark of compilers at its smallest size: rows of two runs, one that differs, and the page that they make."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import compilers


def options(folder: Path, *more: str) -> list[str]:
    return ["--only", "digits_mlp", "--json", str(folder / "rows.json"), "-o", str(folder / "page.md"), *more]


def line(folder: Path, start: str) -> list[str]:
    lines = (folder / "page.md").read_text().splitlines()
    (found,) = (text for text in lines if text.startswith(start))
    return [cell.strip() for cell in found.strip("|").split("|")]


def test_equal_back_ends_are_timed_and_their_work_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(compilers, "IMAGES", 1)
    monkeypatch.setattr(compilers, "BATCHES", (1, 2))
    assert compilers.main(options(tmp_path, "--backend", "fast", "onnx")) == 0
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]["digits_mlp"]
    assert {key: (row["status"], *row["us_per_step"]) for key, row in rows.items()} == {
        "reference, float32": ("equal", "1", "2"),
        "fast, float32": ("equal", "1", "2"),
        "onnx, float32": ("equal", "1", "2"),
        "fixed, integers": ("equal", "1", "2"),
        "onnx, integers": ("equal", "1", "2"),
    }
    assert line(tmp_path, "| `fast` |")[:4] == ["`fast`", "nirbridge's kernels (numba)", "float32", "yes"]
    assert line(tmp_path, "| `onnx` | 34 ")[1] == "34 nodes of ONNX become 29"
    assert line(tmp_path, "| `jax` | XLA")[3] == "not measured"


def test_a_time_is_the_least_of_all_runs_and_a_difference_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows(*times: float) -> None:
        def measured(name: str, backends: Any, limit: float) -> Iterator[dict[str, Any]]:
            del name, backends, limit
            for backend, us in zip(("fast", "onnx", "jax"), times, strict=True):
                is_equal = us > 0
                yield {
                    "backend": backend,
                    "numbers": "float32",
                    "status": "equal" if is_equal else "differs",
                    "reason": "" if is_equal else "'out': 1 | 0",
                    "us_per_step": {"1": us, "32": 10 * us} if is_equal else {},
                }

        monkeypatch.setattr(compilers, "measure", measured)

    rows(3.0, 1.0, 5.0)
    assert compilers.main(options(tmp_path, "--no-facts")) == 0
    rows(2.0, 4.0, -1.0)
    assert compilers.main(options(tmp_path, "--no-facts")) == 1
    assert line(tmp_path, "| `fast` |")[3:6] == ["yes", "2", "20"]
    assert line(tmp_path, "| `onnx` | ONNX Runtime: one Scan | float32")[3:6] == ["yes", "**1**", "**10**"]
    assert line(tmp_path, "| `jax` |")[3:6] == ["`digits_mlp`: 'out': 1 / 0", "", ""]

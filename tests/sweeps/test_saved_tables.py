"""Tables of sweeps, profiles and benchmarks, read back from each of their forms and shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from nirbridge.benchmarking.model import Bench, BenchRow
from nirbridge.errors import FileError
from nirbridge.pipeline import kind_of_file
from nirbridge.report.bench import write_bench
from nirbridge.sweeps.model import COLUMNS
from nirbridge.sweeps.saved_tables import SavedTable, read_saved_table, saved_table_text
from nirbridge.sweeps.table import write_table

ROWS = [
    dict.fromkeys(COLUMNS)
    | {"key": f"{k}", "model": "a.nir", "chip": chip, "bits": 4, "objective": "cores", "seed": 0, "effort": "fast"}
    | ({"error": "no room"} if chip == "tiny" else {"weight_bits": 8, "cores": k + 1, "energy_per_step_j": 1e-9 * k,
       "energy_basis": "assumed", "accuracy": 0.5, "time_per_step_s": 1e-6, "measured_wall_s": 0.1})
    for k, chip in enumerate(["loihi1", "loihi2", "tiny"])
]  # fmt: skip


def text_of(saved: SavedTable, width: int = 100) -> list[str]:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(saved_table_text(saved))
    return [line.rstrip() for line in captured.get().splitlines()]


@pytest.mark.parametrize("ending", ["json", "csv", "parquet"])
def test_a_sweep(ending: str, tmp_path: Path) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    path = tmp_path / f"x.{ending}"
    write_table(ROWS, path)
    assert kind_of_file(path) == "table"
    saved = read_saved_table(path)
    assert saved.kind == "sweep"
    assert [row["cores"] for row in saved.rows] == [1, 2, None]
    assert text_of(saved) == [
        "sweep of 3 points",
        "each: model a.nir, objective cores, seed 0",
        "",
        "chip    bits  cores  energy/step  time/step  accuracy",
        "loihi1  8     1      ~0 J         1 us       50.0%",
        "loihi2  8     2      ~1 nJ        1 us       50.0%",
        "tiny    4     -      -            -          -",
        "1 failed: no room",
        "~: rests on assumed spike rates, or on a figure that is not public",
    ]


def test_a_benchmark(tmp_path: Path) -> None:
    rows = (BenchRow("fast", "simulator", "float32", "equal", spikes=1200, us_per_step={1: 2.5, 32: 1250.0}),
            BenchRow("onnx", "program", "float32", "absent"))  # fmt: skip
    write_bench(Bench("a.nir", "random spikes", 10, (1, 32), rows), tmp_path / "b.json")
    assert kind_of_file(tmp_path / "b.json") == "table"
    assert text_of(read_saved_table(tmp_path / "b.json")) == [
        "bench of 2 back ends, model a.nir, steps 10, inputs random spikes",
        "each: numbers float32",
        "",
        "back end  status  spikes  us/step at batch",
        "fast      equal   1,200   1: 2.5, 32: 1.25e+03",
        "onnx      absent  -       -",
    ]


def test_only_the_first_rows_are_listed() -> None:
    saved = SavedTable("sweep", {}, tuple({"model": f"m{k}", "core.neurons": k} for k in range(40)))
    lines = text_of(saved)
    assert lines[2].split() == ["model", "core.neurons"]
    assert lines[-1] == "and 10 more points; --json lists all"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ('{"points": 1}', "its points are damaged"),
        ('{"points": [1]}', "its points are damaged"),
        ('{"points": [{}]}', "its rows are damaged"),
        ('{"rows": {}}', "its rows are damaged"),
        ('{"batches": [], "rows": [1]}', "its rows are damaged"),
        ("model,chip,\n\xff", "cannot be read"),
    ],
)
def test_damaged_tables(content: str, found: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content.encode("latin-1"))
    with pytest.raises(FileError, match=f"^table 'x': {found}"):
        read_saved_table(tmp_path / "x")


def test_values_of_any_type_are_shown() -> None:
    row: dict[str, Any] = {
        "a.\x1b[2J": "\x1b[31m",
        "model": 3,
        "chip": [1],
        "cores": True,
        "energy_per_step_j": "x",
        "accuracy": "y",
        "us_per_step": {"1": "z"},
    }
    saved = SavedTable("bench", {"model": {"a": 1}}, (row, json.loads('{"time_per_step_s": 1e308, "seed": null}')))
    lines = text_of(saved)
    assert len(lines) > 3
    assert all(line.isprintable() for line in lines)

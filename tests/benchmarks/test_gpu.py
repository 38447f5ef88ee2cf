"""The measurement of a GPU, tried on the CPU at a small size; on a card it has not run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu, gpu_contenders

CEILING = {"copy_bytes_a_second": 1e9, "launch_s": 1e-6}


@pytest.fixture(scope="module")
def case() -> gpu.Case:
    return gpu.case_of("D", dict(gpu.networks(small=True))["D"], batch=3, steps=40, device="cpu")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["torch, emitted", "torch, terms", "reference/torch"])
def test_spikes_are_equal_before_a_time_is_taken(case: gpu.Case, name: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    row = gpu.measured(case, name, CEILING)
    assert (row.status, row.reason, row.steps) == ("equal", "", 40)
    assert row.spikes == case.expected.sum() > 100
    assert row.us_a_step is not None
    assert row.bandwidth_share == pytest.approx(case.bytes_a_step / 1e9 / (row.us_a_step * 1e-6))
    assert row.kernels_a_step is row.launch_share is None


def test_bytes_are_those_of_weights_state_and_spikes(case: gpu.Case) -> None:
    weights, state = 3 * 10_000 - 10_000, 2 * 1000  # data and indices; v and the spikes of one time step
    assert case.bytes_a_step == 4 * (weights + 3 * (2 * state + 1 + 1000))


def test_a_difference_is_counted_and_what_cannot_run_says_why(case: gpu.Case, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = case.expected.copy()
    wrong[5, 1, :7] ^= 1

    def broken(case: gpu.Case) -> Any:
        raise RuntimeError("out of memory")

    found = {"wrong": lambda case: lambda: wrong, "broken": broken, "graph": gpu_contenders.torch_graph}
    monkeypatch.setattr(gpu, "CONTENDERS", {**found, "cupy": gpu_contenders.cupy_terms})
    rows = {name: gpu.measured(case, name, CEILING) for name in gpu.CONTENDERS}
    assert (rows["wrong"].status, rows["wrong"].reason) == ("differs", "7 of 80,000 values")
    assert (rows["broken"].status, rows["broken"].reason) == ("failed", "RuntimeError: out of memory")
    assert rows["broken"].us_a_step is None
    assert (rows["graph"].status, rows["graph"].reason) == ("absent", "a CPU has no CUDA graphs")
    assert rows["cupy"].status == "absent"


def test_the_command_writes_every_row_and_stops_at_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    networks = {**dict(gpu.networks(small=True)), "A": None}
    monkeypatch.setattr(gpu, "networks", lambda small: iter([(n, networks[n]) for n in "AD"]))
    monkeypatch.setattr(gpu, "CONTENDERS", {"torch, terms": gpu_contenders.torch_terms})
    path = tmp_path / "found" / "gpu.json"
    statuses = {}
    for limit in ("100", "0"):
        assert gpu.main(["--device", "cpu", "--small", "--limit", limit, "-o", str(path)]) == 0
        document = json.loads(path.read_text())
        statuses[limit] = [(row["net"], row["batch"], row["status"]) for row in document["rows"]]
    assert statuses["100"] == [("A", 1, "absent"), ("A", 4, "absent"), ("D", 1, "equal"), ("D", 4, "equal")]
    assert [status for _, _, status in statuses["0"]] == ["absent", "absent", "not run", "not run"]
    assert document["copy_bytes_a_second"] > 1e6
    assert 0 < document["launch_s"] < 1


def test_without_a_card_it_says_how_to_try_it(capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if torch.cuda.is_available():
        pytest.skip("there is a card")
    assert gpu.main([]) == 2
    assert capsys.readouterr().err == "torch finds no card; --device cpu --small tries the script\n"

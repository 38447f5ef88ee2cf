"""Choices of back ends: what can be chosen, and what is kept, found again, and ignored."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import nirbridge as nb
from nirbridge.benchmarking.model import Bench, BenchRow
from nirbridge.network.model import Network
from nirbridge.pipeline import choice as choosing
from nirbridge.pipeline import network_of_shapes
from nirbridge.pipeline.choice import choices_of, exact_names, kept_choice

NETWORK: Network = network_of_shapes("4 dense3 lif dense2 lif")
INTEGERS = nb.quantize(NETWORK, "loihi2")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder for this test alone."""
    monkeypatch.setenv("NIRBRIDGE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def row(name: str, step: float, beyond: float = 0.0, *, numbers: Any = "float32", **more: Any) -> BenchRow:
    times = {"us_per_step": MappingProxyType({8: step}), "us_per_run": MappingProxyType({8: beyond})}
    return BenchRow(name, "program", numbers, "equal", **times, **more)


ROWS = (
    row("reference", 40.0),
    row("fast", 6.0),
    row("onnx", 2.0, 900.0),
    row("dense", 1.0),
    BenchRow("event", "simulator", "float32", "absent"),
    row("fixed", 9.0, numbers="integers"),
    row("c", 0.5, 5e4, numbers="integers"),
    row("jax", 0.4, numbers="integers", reason="values of 'output' within 1e-07 of the largest"),
    row("mapped", 0.3, numbers="integers"),
    BenchRow("lava", "program", "integers", "time limit"),
)
BENCH = Bench("m", "random spikes", 100, (8,), ROWS, "loihi2")
MODELS = {"network": NETWORK, "quantized": INTEGERS}


def test_only_the_bits_of_the_reference_are_opened(cache: Path) -> None:
    reals, integers = choices_of(BENCH, MODELS, ())
    assert list(reals.us_per_step) == ["dense", "onnx", "fast", "reference"]
    assert list(reals.runs(100)) == ["fast", "reference"]
    assert reals.left_out == {"event": "absent"}
    assert list(integers.us_per_step) == ["mapped", "jax", "c", "fixed"]
    assert list(integers.runs(100)) == ["fixed", "c"]  # jax has another readout, mapped needs a map
    assert list(integers.runs(100_000)) == ["c", "fixed"]
    assert reals.is_kept
    assert integers.is_kept
    assert len(list((cache / "choices").iterdir())) == 2


def test_what_is_kept_is_found_again() -> None:
    kept = list(choices_of(BENCH, MODELS, ()))
    for choice, model in zip(kept, (NETWORK, INTEGERS), strict=True):
        found = kept_choice(model, 8)
        assert found is not None
        assert found.runs(100) == choice.runs(100)
        assert (found.numbers, found.batch, found.is_kept) == (choice.numbers, 8, True)
        assert kept_choice(model, 9) is None
    other = replace(NETWORK, populations=tuple(replace(p, neuron=replace(p.neuron)) for p in NETWORK.populations))
    assert kept_choice(other, 8) is not None  # the same meaning
    assert kept_choice(network_of_shapes("4 dense3 lif dense3 lif"), 8) is None


def test_some_back_ends_alone_are_not_kept(cache: Path) -> None:
    assert not any(choice.is_kept for choice in choices_of(BENCH, MODELS, ["fast", "c"]))
    assert not cache.exists()
    reals, integers = choices_of(BENCH, MODELS, [*exact_names(NETWORK), "c"])
    assert (reals.is_kept, integers.is_kept) == (True, False)


def test_numbers_that_could_not_run_have_an_empty_choice() -> None:
    refused = BenchRow("fixed", "simulator", "integers", "refused", "no such neuron")
    _, integers = choices_of(replace(BENCH, rows=(*ROWS[:5], refused)), {"network": NETWORK}, ())
    assert (dict(integers.us_per_step), dict(integers.us_per_run), integers.is_kept) == ({}, {}, False)
    reals = replace(BENCH, rows=(*ROWS[:2], refused), chip=None)
    assert [choice.numbers for choice in choices_of(reals, {"network": NETWORK}, ())] == ["float32"]
    broken = BenchRow("plugin", "simulator", "float32", "refused", "cannot be imported")
    whole = replace(BENCH, rows=(*ROWS[5:], broken))
    assert [choice.numbers for choice in choices_of(whole, {"quantized": INTEGERS}, ())] == ["integers"]


@pytest.mark.parametrize("changed", ["tool_marks", "host_facts"])
def test_another_machine_or_tool_is_measured_anew(changed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    list(choices_of(BENCH, MODELS, ()))
    assert kept_choice(INTEGERS, 8) is not None
    monkeypatch.setattr(choosing, changed, lambda: {"gcc": "another"})
    assert kept_choice(INTEGERS, 8) is None


def _with(**changes: Any) -> Callable[[dict[str, Any]], str]:
    return lambda document: json.dumps(document | changes)


def _other_key(document: dict[str, Any]) -> str:
    return json.dumps(document | {"key": document["key"] | {"model": "0" * 64}})


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]", "null", "[" * 100_000, '{"key": 1e999}', "\0", '"' + "x" * 2**20 + '"'),
        _other_key,
        _with(us_per_step={"dense": 0.1}, us_per_run={"dense": 0.0}),
        *(_with(us_per_step={"fast": bad}, us_per_run={"fast": 0.0}) for bad in (-1.0, True, None, "1", 7, [1.0])),
        *(_with(us_per_step=bad) for bad in ({}, [], None, "fast", {"fast": 1.0})),
        _with(us_per_run={}),
    ],
)
def test_a_foreign_file_is_ignored_and_replaced(content: Any, cache: Path) -> None:
    list(choices_of(BENCH, {"network": NETWORK}, ()))
    (path,) = (cache / "choices").iterdir()
    path.write_text(content if isinstance(content, str) else content(json.loads(path.read_text())))
    assert kept_choice(NETWORK, 8) is None
    list(choices_of(BENCH, {"network": NETWORK}, ()))
    assert kept_choice(NETWORK, 8) is not None


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("elsewhere", path)])
def test_no_link_and_no_pipe_is_followed(make: Callable[[Path], None], cache: Path) -> None:
    list(choices_of(BENCH, {"network": NETWORK}, ()))
    (path,) = (cache / "choices").iterdir()
    path.rename(path.with_name("elsewhere"))
    make(path)
    assert kept_choice(NETWORK, 8) is None
    reals = next(choices_of(BENCH, {"network": NETWORK}, ()))
    assert reals.is_kept
    assert path.is_file()
    assert not path.is_symlink()


def test_a_cache_that_cannot_be_written_is_no_error(cache: Path) -> None:
    cache.write_text("a file")
    reals = next(choices_of(BENCH, MODELS, ()))
    assert (next(iter(reals.runs(100))), reals.is_kept) == ("fast", False)
    assert kept_choice(NETWORK, 8) is None


def test_writers_at_the_same_time_leave_a_whole_file() -> None:
    list(choices_of(BENCH, {"network": NETWORK}, ()))
    writers = [
        threading.Thread(target=lambda: [list(choices_of(BENCH, {"network": NETWORK}, ())) for _ in range(20)])
        for _ in range(3)
    ]
    for writer in writers:
        writer.start()
    found = [kept_choice(NETWORK, 8) for _ in range(20)]
    for writer in writers:
        writer.join()
    assert all(choice is not None for choice in found)

"""Every back end of a benchmark in a process of its own: verdicts, figures, limits, and nothing that is left."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge import pipeline
from nirbridge.benchmarking.model import Bench, BenchRow
from nirbridge.cli.main import run
from nirbridge.emitters.c.run import find_compiler
from nirbridge.errors import ModelError, UsageError
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Identity
from nirbridge.pipeline import bench as running
from nirbridge.pipeline import network_of_shapes
from tests.network.graphs import graph_of, lif, out, port

FAKES = ("right", "timed", "wrong", "absent", "unwilling", "failing", "killed")


def network() -> Network:
    nodes = {"input": port(4), "a": lif(5), "output": out(5)}
    graph = graph_of({**nodes, "w": _dense()}, [("input", "w"), ("w", "a"), ("a", "output")], dt=1e-3)
    return pipeline.network_of_graph(graph)


def _dense() -> Any:
    import nir

    weight = np.random.default_rng(0).integers(-2, 6, (5, 4)) / 4
    return nir.Affine(weight.astype(np.float32), np.full(5, 0.25, np.float32))


def rows(bench: Bench) -> dict[str, BenchRow]:
    return {row.backend: row for row in bench.rows}


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, for this test alone."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.mark.usefixtures("fake_back_ends")
def test_every_end_of_a_back_end_has_its_row(scratch: Path) -> None:
    told: list[str] = []
    bench = nb.bench(
        network(), backends=FAKES, steps=12, batches=(1, 3), rate=0.5, progress=lambda stage, done: told.append(stage)
    )
    found = rows(bench)
    assert list(found) == ["reference", *sorted(FAKES)]
    status = {name: row.status for name, row in found.items()}
    assert status == {
        "reference": "equal",
        "right": "equal",
        "timed": "equal",
        "wrong": "differs",
        "absent": "absent",
        "unwilling": "refused",
        "failing": "failed",
        "killed": "failed",
    }
    assert found["wrong"].reason.startswith(
        "'output': spikes first differ at time step 3, sample 1, neuron (2): reference"
    )
    assert not found["wrong"].us_per_step
    assert set(found["right"].us_per_step) == {1, 3}
    assert (found["right"].measured, found["right"].start_s) == ("whole run", None)
    assert found["timed"].us_per_step == {1: pytest.approx(7.0), 3: pytest.approx(7.0)}
    assert found["timed"].measured == "own time"
    assert found["timed"].one_sample_at_a_time
    assert found["right"].spikes == found["reference"].spikes > 0
    assert found["right"].artifact_bytes > 100
    assert found["right"].peak_memory_bytes > 10**7
    assert (found["absent"].reason, found["absent"].hint) == ("the package fake is not installed", "pip install fake")
    assert found["unwilling"].reason == "population 'a': has no form in fake; use another target"
    assert found["killed"].reason == "its process was killed by signal 9"
    assert found["failing"].reason == "program: failed with exit code 3"
    assert not bench.holds
    assert bench.timed(1)[-1].backend in ("reference", "right", "timed")
    assert told[:2] == ["bench reference", "bench absent"]
    assert list(scratch.iterdir()) == []


@pytest.mark.usefixtures("fake_back_ends")
def test_a_back_end_that_does_not_end_is_ended(scratch: Path) -> None:
    bench = nb.bench(network(), backends=["endless"], steps=3, batches=(1,), limit_s=3)
    row = rows(bench)["endless"]
    assert (row.status, row.reason) == ("time limit", "did not end within 3 s")
    assert bench.holds  # it has no other spikes, as far as is known
    assert list(scratch.iterdir()) == []


@pytest.mark.usefixtures("fake_back_ends")
def test_the_command_fails_where_spikes_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "m.net.npz"
    nb.save(network(), model)
    words = ["bench", str(model), "--backend", "wrong", "--steps", "8", "--batch", "2", "--rate", "0.5"]
    assert run([*words, "-o", str(tmp_path / "b.json")]) == 1
    captured = capsys.readouterr()
    assert "other spikes, not timed\n- wrong: 'output': spikes first differ at time step 3" in captured.out
    assert captured.err.startswith("error: model 'm.net.npz': 'wrong' in float32: 'output': spikes first differ")
    document = json.loads((tmp_path / "b.json").read_text())
    assert document["holds"] is False
    assert [row["us_per_step"] for row in document["rows"]][1] == {}


def test_the_integers_of_a_chip_are_compared_with_the_fixed_point_simulator() -> None:
    data = (np.random.default_rng(1).random((9, 2, 4)) < 0.5).astype(np.uint8)
    try:
        find_compiler()
        names = ["mapped", "c"]
    except UsageError:
        names = ["mapped"]
    bench = nb.bench(network(), data, chip="loihi2", backends=names, batches=[3])
    integers = [row for row in bench.rows if row.numbers == "integers"]
    assert [(row.backend, row.status) for row in integers] == [(name, "equal") for name in ("fixed", *names)]
    reals = [row.backend for row in bench.rows if row.numbers == "float32" and row.status == "equal"]
    assert reals == (["reference", "c"] if "c" in names else [])
    assert bench.inputs == "data as given, 2 samples, repeated in turn"
    assert (bench.chip, bench.steps, bench.latency > 0) == ("loihi2", 9, True)
    assert [row.measured for row in integers] == ["call", "call", "own time"][: len(names) + 1]


def test_a_network_without_input_has_one_sample() -> None:
    driven = neuron("LIF", a_mem=0.9, theta=1.0, bias=np.array([0.25, 0.5, 0.125]))
    projection = Projection("p", "output", Identity((3,)))
    timing = network().timing
    alone = Network(1e-3, timing, (Population("p", (3,), driven),), (projection,), (), (Port("output", (3,)),))
    bench = nb.bench(alone, backends=["numpy"], steps=30)
    assert [(row.backend, row.status, list(row.us_per_step)) for row in bench.rows] == [
        (name, "equal", [1]) for name in ("reference", "numpy")
    ]
    assert bench.inputs == "the network has no input"
    assert bench.rows[0].spikes > 0


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every back end that would run is equal at once, without a process."""
    monkeypatch.setattr(running, "_measured", lambda contender, *_: contender.row("equal"))


@pytest.mark.usefixtures("unmeasured")
def test_without_a_chip_what_computes_in_integers_says_what_it_needs() -> None:
    names = ["numpy", "fixed", "c", "lava", "sanafe"]
    found = rows(nb.bench(network(), backends=names))
    assert {name: row.status for name, row in found.items()} == {
        **{"reference": "equal", "numpy": "equal", "c": "equal"},
        **dict.fromkeys(["fixed", "lava", "sanafe"], "refused"),
    }
    assert {found[name].reason for name in ("fixed", "lava", "sanafe")} == {"computes in the integers of a chip"}


@pytest.mark.usefixtures("unmeasured")
def test_integers_that_a_chip_cannot_compute_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise ModelError.of("population 'a'", "has no integers")

    monkeypatch.setattr(running, "quantize", refuse)
    found = rows(nb.bench(network(), chip="loihi2", backends=["numpy", "fixed", "c", "sanafe"]))
    assert found["numpy"].status == "equal"
    assert {found[name].reason for name in ("fixed", "c", "sanafe")} == {"population 'a': has no integers"}


@pytest.mark.usefixtures("unmeasured")
def test_a_map_that_does_not_fit_leaves_the_rest() -> None:
    wide = network_of_shapes("4 dense300 lif")
    chip = replace(nb.chip("loihi1"), core=replace(nb.chip("loihi1").core, neurons=2))
    found = rows(nb.bench(wide, chip=chip, backends=["fixed", "mapped", "c"]))
    assert {name: row.status for name, row in found.items()} == {
        "reference": "equal",
        "fixed": "equal",
        "mapped": "refused",
        "c": "equal",
    }
    assert "cores" in found["mapped"].reason


def test_every_registered_back_end_is_known_and_aliases_are_none() -> None:
    from nirbridge import plugins as registry

    names = pipeline.backend_names()
    assert len(names) == len(set(names))
    emitters, simulators = registry.names("emitters"), registry.names("simulators")
    assert set(emitters) <= set(names)
    assert set(simulators) - set(names) == {"auto", "best"}
    assert {name for name in names if "/" in name} == {
        "reference/torch",
        "reference/cupy",
        "reference/jax",
        "reference/dpnp",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backends": ["fsat"]}, "back end 'fsat': unknown, there are "),
        ({"rate": 1.5}, "rate: 1.5, spikes per time step and element, from 0 to 1; 0.1 is a usual one"),
        ({"limit_s": 0}, "time limit: 0 s, more than 0 seconds; 120 is the default"),
        ({"inputs": np.ones((3, 4)), "rate": 0.1}, "rate: given with data, it is of random inputs; leave one"),
        ({"inputs": np.ones((3, 5))}, "input 'input': "),
        ({"inputs": lambda start, stop: np.ones((stop - start, 4)), "steps": 3}, "input 'input': is a function, and "),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        nb.bench(network(), **options)
    assert str(caught.value).startswith(message)


def test_a_reference_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        running, "_measured", lambda contender, *_: contender.row("time limit", "did not end within 1 s")
    )
    hint = "every back end is compared with it; give fewer steps, a smaller batch, or more time"
    with pytest.raises(ModelError, match=f"^the reference: did not end within 1 s, {hint}$"):
        nb.bench(network(), backends=["numpy"])

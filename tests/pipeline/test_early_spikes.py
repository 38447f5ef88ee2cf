"""Networks that fire before their first input: refused with a hint, or run with these spikes kept and counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from nirbridge import pipeline
from nirbridge.arrays import freeze
from nirbridge.chips import read_chip
from nirbridge.errors import IllegalMapping, ModelError, UsageError
from nirbridge.mapping.storage import file
from nirbridge.network.model import Network, Population, Port, Projection, Timing
from nirbridge.network.neurons import Neuron, neuron
from nirbridge.network.operators import Dense, Identity
from nirbridge.passes import Retime
from nirbridge.pipeline import MapOptions, map_network, verify_network
from nirbridge.quantization import quantize, v_bounds
from nirbridge.report.compare import verify_document
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import Probe, simulate
from tests.cases import cases

SHA = "0" * 64
QUICK = MapOptions(method="sequential", effort="fast")
KEPT = replace(QUICK, keep_early_spikes=True)
EARLY: dict[str, Callable[[], Neuron]] = {
    "starts above its threshold": lambda: neuron("LIF", a_mem=0.875, theta=1.0, v_init=1.5),
    "tonic, no bias can move": lambda: neuron(
        "CubaLIF", a_mem=0.0625, a_syn=0.5, g_mem=0.5, bias=1.25, theta=1.0, v_init=0.5
    ),
    "fires at rest": lambda: neuron("Threshold", a_mem=0.0, theta=-0.25, reset="none"),
}


def chain(cells: list[Neuron], seed: int = 0, *, skip: bool = False) -> Network:
    """Layers of 3 neurons in a row, weights of both signs, maybe a path from the first to the last."""
    rng, names = np.random.default_rng(seed), [f"p{k}" for k in range(len(cells))]
    pairs = list(zip(["in", *names[:-1]], names, strict=True)) + ([(names[0], names[-1])] if skip else [])
    projections = [Projection(a, b, Dense(freeze(rng.uniform(-0.6, 1.0, (3, 3))))) for a, b in pairs]
    populations = tuple(Population(name, (3,), cell) for name, cell in zip(names, cells, strict=True))
    out = Projection(names[-1], "out", Identity((3,)))
    timing = Timing(1e-3, "euler", "to-value", ">", "per-second")
    return Network(1e-3, timing, populations, (*projections, out), (Port("in", (3,)),), (Port("out", (3,)),))


def plain() -> Neuron:
    return neuron("LIF", a_mem=0.75, theta=0.75)


def biased() -> Neuron:
    """Its start is solved backwards, in integers anew: behind two early steps they are units apart."""
    return neuron("LIF", a_mem=0.3125, theta=1.0, bias=0.21)


def mixed(seed: int) -> Network:
    """2 to 5 layers of which one or more fire early; a skip path in every other network."""
    rng = np.random.default_rng(seed)
    kinds = list(EARLY.values())
    cells = [kinds[rng.integers(3)]() if rng.random() < 0.5 else biased() for _ in range(rng.integers(1, 4))]
    return chain([plain(), biased(), *cells, kinds[seed % 3]()], seed, skip=seed % 2 == 1)


@pytest.mark.parametrize("kind", list(EARLY))
def test_it_is_refused_everywhere_with_the_way_out(kind: str) -> None:
    network, chip = chain([plain(), EARLY[kind]()]), read_chip("loihi2")
    emit = partial(pipeline.emit_with, "lava")
    for stage in (pipeline.check_fit, map_network, pipeline.quantize_network, emit, verify_network):
        with pytest.raises(ModelError, match=r"^population 'p1'.* in the 2 steps before its .*--keep-early-spikes"):
            stage(network, chip)  # type: ignore[operator]


@pytest.mark.parametrize("seed", cases(range(5), range(12)))
def test_the_integers_the_map_and_the_bound_agree(seed: int) -> None:
    """Fixed and mapped are equal in every spike, u and v, and within the bound of the real network that fires early."""
    found = verify_network(mixed(seed), read_chip("loihi2"), steps=40, seed=seed, keep_early_spikes=True)
    assert found.holds
    assert [(p.a, p.b, p.required) for p in found.pairs] == [
        ("reference", "fixed", False),
        ("reference", "retimed", False),
        ("fixed", "mapped", True),
    ]
    assert sum(found.early_spikes.values()) > 0
    recorded = found.recordings["fixed"].arrays
    for key, array in found.recordings["mapped"].arrays.items():
        np.testing.assert_array_equal(array, recorded[key])


def test_by_hand() -> None:
    """v starts at 1.5 and keeps 7/8: it fires in the chip's first time step, not in its own, which is the third."""
    network = chain([plain(), EARLY["starts above its threshold"]()])
    nothing = np.zeros((5, 3), np.uint8)
    found = verify_network(network, read_chip("loihi1"), nothing, keep_early_spikes=True)
    spikes = found.recordings["fixed"].arrays["p1", "s"]
    assert spikes[:, 0].tolist() == [1, 0, 0, 0, 0, 0, 0]
    assert dict(found.early_spikes) == {"p1": 3}
    assert found.recordings["reference"].arrays["p1", "s"][:, 0].tolist() == [1, 0, 0, 0, 0]
    retimed = next(p for p in found.pairs if p.b == "retimed")
    assert (retimed.required, retimed.comparison.equal, retimed.comparison.first_step) == (False, False, 0)


def test_the_bound_of_a_run_starts_with_the_chip() -> None:
    network, chip = mixed(4), read_chip("loihi2")
    retimed = Retime(keep_early_spikes=True).retimed(network)
    quantized = quantize(retimed, chip)
    assert quantized.early
    assert set(retimed.early) <= set(quantized.early)
    spikes = (np.random.default_rng(1).random((30, 3)) < 0.4).astype(np.uint8)
    every = [Probe("*", ("s", "u", "v")), Probe("in", ("s",))]
    fixed = simulate_fixed(quantized, spikes, record=every).recording.arrays
    real = simulate(retimed.network, spikes, record=[Probe("*", ("s", "v"))], dtype="float64").recording.arrays
    bounds, held = v_bounds(quantized, fixed), 0
    alike = min(
        int(np.argmax(off.any(1))) if (off := fixed[p.name, "s"] != real[p.name, "s"]).any() else 30
        for p in quantized.populations
    )
    for p in quantized.populations:
        off = np.abs(fixed[p.name, "v"] / p.neuron.scale + p.neuron.v_offset - real[p.name, "v"])
        assert np.isfinite(bounds[p.name]).all()
        assert np.all(off[:alike] <= bounds[p.name][:alike])
        held += int((off[:alike] > 0).sum())
    assert alike > 0
    assert held > 0


@pytest.mark.parametrize("seed", range(4))
def test_a_network_that_waits_is_the_same_with_the_option(seed: int) -> None:
    network = chain([plain(), neuron("LIF", a_mem=0.5, theta=1.0, bias=0.75), plain()], seed, skip=True)
    with_it, without = (Retime(keep_early_spikes=kept).retimed(network) for kept in (True, False))
    assert with_it.early == ()
    assert with_it.notes == without.notes
    document = [
        file.map_bytes(pipeline.map_document(map_network(network, read_chip("loihi1"), o), "README.md"))
        for o in (QUICK, KEPT)
    ]
    assert document[0] == document[1]
    assert b'"schema": 1' in document[0]


def test_a_map_says_it_and_runs_by_itself(tmp_path: Path, root: Path) -> None:
    network, chip = mixed(1), read_chip("loihi2")
    path = tmp_path / "m.map.json"
    file.write_map(map_network(network, chip, KEPT), path, "m.nir", SHA)
    document = json.loads(path.read_text("utf-8"))
    assert document["schema"] == 2
    assert document["early_spikes"] == list(Retime(keep_early_spikes=True).retimed(network).early)
    assert any(note.startswith("early spikes of 'p") for note in document["notes"])
    schema = json.loads((root / "nirbridge" / "mapping" / "storage" / "map.schema.json").read_text("utf-8"))
    jsonschema.validate(document, schema)
    assert pipeline.check_map(path, network, SHA) == ()
    assert verify_network(network, chip, map_file=path, steps=20).holds
    pipeline.emit_with("lava", network, chip, mapping=pipeline.load_map(path, network, SHA, chip))
    for change in (lambda d: d.pop("early_spikes"), lambda d: d["early_spikes"].pop()):
        wrong = json.loads(json.dumps(document))
        change(wrong)
        path.write_text(json.dumps(wrong), "utf-8")
        with pytest.raises((IllegalMapping, ModelError)):
            pipeline.load_map(path, network, SHA, chip)


def test_integers_alone_may_have_no_such_start() -> None:
    """The real neuron never passes its threshold of 1, its integers do: refused, or started at once and said."""
    cell = neuron("CubaLIF", a_mem=0.875, a_syn=0.5, g_mem=0.5, bias=0.124999, theta=0.99, v_init=0.98999)
    network, chip = chain([plain(), cell]), read_chip("loihi1")
    retimed = Retime(keep_early_spikes=True).retimed(network)
    assert retimed.early == ()
    with pytest.raises(ModelError, match=r"'p1'.* would make it fire in the 2 time steps .*--keep-early-spikes$"):
        quantize(Retime().retimed(network), chip)
    quantized = quantize(retimed, chip)
    assert quantized.early == ("p1",)
    n = quantized.population("p1").neuron
    start = retimed.network.population("p1").neuron.v_init
    assert abs(n.v_init / n.scale - start) <= 0.5 / n.scale
    assert quantized.notes[-1].startswith("early spikes of 'p1' are kept")
    assert verify_network(network, chip, steps=30, keep_early_spikes=True).holds


def test_copies_of_such_a_population_start_as_it_does(tmp_path: Path) -> None:
    network, chip = chain([plain(), EARLY["fires at rest"](), plain()], 3), read_chip("loihi2")
    path = tmp_path / "m.map.json"
    file.write_map(map_network(network, chip, replace(KEPT, splits={"p1": 2})), path, "m.nir", SHA)
    found = verify_network(network, chip, map_file=path, steps=30)
    assert found.holds
    assert found.early_spikes["p1"] == found.early_spikes["p1_copy"] == 6


def test_what_verify_says(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import nir

    from nirbridge.cli.main import run

    one = np.ones(3)
    late = nir.LIF(one * 1e-2, one * 10, one * 0, one)
    late.metadata = {"nirbridge:v_init": np.full(3, 1.5)}
    first = nir.LIF(one * 1e-2, one * 10, one * 0, one)
    nodes = {"in": nir.Input({"input": np.array([3])}), "a": first, "w": nir.Linear(np.eye(3) * 2), "b": late}
    nodes["out"] = nir.Output({"output": np.array([3])})
    edges = [("in", "a"), ("a", "w"), ("w", "b"), ("b", "out")]
    model, spikes = str(tmp_path / "m.nir"), str(tmp_path / "in.npy")
    nir.write(model, nir.NIRGraph(nodes, edges, metadata={"nirbridge:dt": 1e-3}, type_check=False))
    np.save(spikes, np.ones((9, 3), np.uint8))
    keep, chip = ["--keep-early-spikes"], ["--chip", "loihi1"]
    more: dict[str, list[str]] = {
        "check": [],
        "map": ["-o", str(tmp_path / "m.map.json")],
        "quantize": ["-o", str(tmp_path / "m.q.npz")],
        "emit": ["--to", "lava", "-o", str(tmp_path / "program")],
        "simulate": ["--backend", "fixed", "--input", spikes, "-o", str(tmp_path / "o.npz")],
        "verify": ["--input", spikes],
    }
    for command, options in more.items():
        assert run([command, model, *chip, *options]) == 1
        assert "--keep-early-spikes" in capsys.readouterr().err
        assert run([command, model, *chip, *options, *keep]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "spikes kept from before the first input: b 3" in said
    assert "they change spikes from time step 0 on" in said
    assert "retimed ~ fixed: within the bound in every population; not the reference: early spikes are kept" in said
    with pytest.raises(UsageError, match="fixed and mapped take --chip"):
        pipeline.simulate_on_chip(mixed(0), np.ones((2, 3)), backend="auto", chip=None, keep_early_spikes=True)


def test_the_document_of_verify_counts_them() -> None:
    found = verify_network(mixed(2), read_chip("loihi2"), steps=10, keep_early_spikes=True)
    document: Any = verify_document(found)
    assert document["early_spikes"] == dict(found.early_spikes)
    assert [(p["required"]) for p in document["pairs"]] == [False, False, True]

"""Stages after the fit, part by part: options and limits of partitions, pins, scores, inputs and runs."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nirbridge import pipeline
from nirbridge import plugins as registry
from nirbridge.chips import core_at, read_chip
from nirbridge.errors import Diagnostic, DoesNotFit, FileError, ModelError, NirbridgeError
from nirbridge.mapping import traffic_bound
from nirbridge.pipeline import MapOptions, fit, load, partitioning, recordings
from nirbridge.pipeline import load as importing
from nirbridge.pipeline import map as mapping
from nirbridge.pipeline import map as placing
from nirbridge.pipeline import quantize as integers
from tests.partitioner.nets import network_of
from tests.pipeline.test_retimed_maps import skip


def refused(call: Callable[..., Any], *args: Any, **options: Any) -> str:
    with pytest.raises(NirbridgeError) as caught:
        call(*args, **options)
    return str(caught.value)


# -- partitions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "more"), [(1, ""), (8, ""), (9, " and 1 more"), (12, " and 4 more")])
def test_eight_names_are_listed_in_order(count: int, more: str) -> None:
    names = {f"n{k:02}" for k in range(count)}
    assert partitioning.first_names(names) == ", ".join(f"'n{k:02}'" for k in range(min(8, count))) + more


def test_the_bound_on_hops_is_quick_on_request_and_for_many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    network = network_of("40 dense40 lif dense40 lif")
    chip = replace(read_chip("loihi1"), core=replace(read_chip("loihi1").core, neurons=6))
    asked: list[bool] = []
    bounded = traffic_bound.traffic_lower_bound
    monkeypatch.setattr(
        placing,
        "traffic_lower_bound",
        lambda *a, quick, **more: asked.append(quick) or bounded(*a, quick=quick, **more),
    )
    options = MapOptions(placement_only=True, effort="fast")
    found = {b: pipeline.map_network(network, chip, replace(options, bound=b)) for b in pipeline.options.BOUNDS}
    assert asked == [False, True, False]
    bounds = {b: m.costs.traffic_lower_bound for b, m in found.items()}
    assert 0 < bounds["quick"] <= bounds["tight"] == bounds["auto"]
    assert all(m.costs.multicast_hops_per_step >= bounds["tight"] for m in found.values())
    monkeypatch.setattr(placing, "TIGHT_MAX", 10)
    assert pipeline.map_network(network, chip, options).costs.traffic_lower_bound == bounds["quick"]
    assert asked[3:] == [True]
    assert refused(pipeline.map_network, network, chip, MapOptions(bound="loose")).startswith("--bound: 'loose'")


def test_populations_that_share_pins_share_a_group() -> None:
    network: Any = SimpleNamespace(populations=[SimpleNamespace(name=name) for name in "abcd"])
    told: list[Any] = []
    options = MapOptions(
        method="packed",
        weight_bits=3,
        chips=2,
        effort="max",
        seed=7,
        pins={"a": (5,), "b": (2, 3), "c": (5,)},
        progress=lambda *args: told.append(args),
    )
    found = partitioning._partition_options(network, options)
    assert dict(found.groups) == {"a": 2, "b": 1, "c": 2}
    assert (found.method, found.weight_bits, found.chips, found.effort, found.seed) == ("packed", 3, 2, "max", 7)
    found.progress("x", None)
    assert told == [("x", None)]
    assert refused(partitioning._partition_options, network, MapOptions(pins={"a": (1,), "z": (2,)})) == (
        "--pin: no population 'z', there are 'a', 'b', 'c', 'd'; name one"
    )


def test_other_partitions_are_tried_for_other_objectives() -> None:
    network: Any = SimpleNamespace(populations=[])
    base = partitioning._partition_options(network, MapOptions(seed=3))
    tried = {
        objective: [(o.method, o.spread, o.seed) for o in partitioning._alternatives(base, objective)]
        for objective in pipeline.OBJECTIVES
    }
    two = [("packed", 1, 3), ("sequential", 1, 3)]
    spread = [("sequential", share, 3) for share in (2, 3, 4, 6, 8, 12, 16)]
    assert tried == {"cores": [], "traffic": two, "latency": [*two, *spread]}


def test_a_partition_that_does_not_fit_is_left_out_of_several(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def partition(network: Any, chip: Any, options: Any) -> Any:
        asked.append((options.method, options.spread))
        if options.spread in (2, 3):
            raise DoesNotFit(Diagnostic("a", "b"))
        return SimpleNamespace(spread=options.spread, orders={}, report=SimpleNamespace(interrupted=False))

    monkeypatch.setattr(registry, "get", lambda kind, name: {"partitioners": partition}[kind])
    network = network_of("4 dense3 lif")
    ready = fit.PreparedNetwork(network)
    chip = read_chip("loihi1")
    found = partitioning.partitions(ready, chip, MapOptions(objective="latency"), network)
    assert [each.spread for each in found] == [1, 1, 1, 4, 6, 8, 12, 16]  # type: ignore[attr-defined]
    asked.clear()
    assert pipeline.check_fit(network, chip, MapOptions(objective="latency"))[1].spread == 1  # type: ignore[attr-defined]
    assert asked == [("cp-sat", 1)]


def test_reasons_of_the_delays_are_said_beside_those_of_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    def partition(network: Any, chip: Any, options: Any) -> Any:
        raise DoesNotFit(Diagnostic("size", "too large"))

    monkeypatch.setattr(registry, "get", lambda kind, name: partition)
    monkeypatch.setattr("nirbridge.pipeline.partitioning.remedies", lambda *args: ["x", "y"])
    network, chip = network_of("4 dense3 lif"), read_chip("loihi1")
    would = "changes that fit: x; or y"
    refusal, never = (Diagnostic("delays", "none"),), (Diagnostic("kinds", "not there"),)
    for ready, middle in (
        (fit.PreparedNetwork(network), []),
        (fit.PreparedNetwork(network, refused=refusal), ["delays: none"]),
        (fit.PreparedNetwork(network, refused=refusal, unsupported=never), ["kinds: not there"]),
    ):
        said = refused(partitioning.partitions, ready, chip, MapOptions(), network)
        assert said.split("\n") == ["size: too large", *middle, would]
    monkeypatch.setattr("nirbridge.pipeline.partitioning.remedies", lambda *args: [])
    said = refused(partitioning.partitions, fit.PreparedNetwork(network), chip, MapOptions(), network)
    tried = "more chips, fewer weight bits, a split source and other built-in chips, each alone"
    assert said.endswith(f"changes that fit: none found; tried {tried}")


@pytest.mark.parametrize(("neurons", "tried"), [(200_000, True), (200_001, False)])
def test_changes_of_large_networks_are_not_tried(neurons: int, tried: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nirbridge.pipeline.partitioning.remedies", lambda *args: ["x"])
    network: Any = SimpleNamespace(neurons=neurons, populations=[])
    (found,) = partitioning._changes_that_fit(network, read_chip("loihi1"), MapOptions(), network)
    step = "; ask nirbridge check with --chips, --bits or another --chip"
    large = "changes that fit: not searched in a network of more than 200,000 neurons" + step
    assert str(found) == ("changes that fit: x" if tried else large)


# -- places ------------------------------------------------------------------------------------------------------------


def blocks(*names: str) -> Any:
    """Blocks that hold these populations, a letter each."""
    return SimpleNamespace(
        blocks=[SimpleNamespace(slices=[SimpleNamespace(population=n) for n in each]) for each in names]
    )


def test_pins_give_blocks_their_cores_in_order() -> None:
    chip = read_chip("loihi1")
    options = MapOptions(pins={"a": (9, 4), "b": (128 + 3,), "c": (9, 4)}, chips=2)
    found = partitioning.pinned_blocks(blocks("x", "a", "b", "xc"), chip, options)
    assert found == {1: core_at(chip, 9), 3: core_at(chip, 4), 2: core_at(chip, 3, 1)}
    assert partitioning.pinned_blocks(blocks("x", "a"), chip, options) == {1: core_at(chip, 9)}
    assert refused(partitioning.pinned_blocks, blocks("a", "a", "c"), chip, options) == (
        "--pin 'a', 'c': takes 3 cores, 2 named; name as many: --pin NAME=3,4,5"
    )


@pytest.mark.parametrize(
    ("words", "limit", "over"),
    [(None, 100, None), ((60, 60), None, None), ((60, 40), 100, None), ((60, 60), 100, 0), ((100, 101), 100, 1)],
)
def test_maps_that_cut_runs_freely_say_what_full_runs_take(
    words: Any, limit: int | None, over: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nirbridge.pipeline.map.full_run_words", lambda sizes, slices: words)
    formats = SimpleNamespace(words=limit, run_targets_max=32)
    sizes: Any = SimpleNamespace(chip=SimpleNamespace(synapses=formats))
    used = [SimpleNamespace(slices=(), used={"synapse_words": n}) for n in (60, 40)]
    partition: Any = SimpleNamespace(blocks=used)
    said = "with full runs of 32 targets instead of runs of free length this map would take {:,} words, and {} of 2 "
    wanted = () if over is None else (said.format(sum(words), over) + "cores would hold too many",)
    assert placing._full_runs(sizes, partition) == wanted


def test_the_best_map_is_that_of_the_objective() -> None:
    costs = SimpleNamespace(multicast_hops_per_step=5.0, unicast_spikes_per_step=7.0, time_per_step_s=None)
    mapped: Any = SimpleNamespace(cores=(1, 2, 3), costs=costs)
    scores = [mapping._score(MapOptions(objective=o))(mapped) for o in ("cores", "traffic", "latency")]
    assert scores == [(3, 5.0), (5.0, 7.0, 3), (float("inf"), 3)]
    costs.time_per_step_s = 0.5
    assert mapping._score(MapOptions(objective="latency"))(mapped) == (0.5, 3)


# -- in and out --------------------------------------------------------------------------------------------------------


def test_inputs_of_a_file_up_to_a_size(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(100))
    np.savez(tmp_path / "a.npz", x=np.arange(3))
    assert recordings.load_inputs(tmp_path / "a.npy").size == 100
    assert recordings.load_inputs(str(tmp_path / "a.npz"))["x"].size == 3
    for name, most in (("a.npy", 0), ("a.npy", 10), ("a.npz", 1)):
        with pytest.raises(FileError):
            recordings.load_inputs(tmp_path / name, max_bytes=most)
    assert refused(recordings.load_inputs, "x.txt") == "file 'x.txt': is neither .npy nor .npz; save it with numpy.save"


def test_a_simulator_of_a_plugin_gets_steps_records_and_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    plugged = lambda *args, **options: (args, options)  # noqa: E731
    monkeypatch.setattr(registry, "get", lambda kind, name: {("simulators", "mine"): plugged}[kind, name])
    network: Any = "network"
    found: Any = recordings.simulate_network(network, "in", backend="mine", steps=3, dtype="float64")
    assert found == (("network", "in"), {"steps": 3})


@pytest.mark.parametrize(
    ("backend", "chip", "map_file", "found"),
    [
        ("dense", "c", None, "--backend dense with --chip"),
        ("fixed", None, None, "--backend fixed"),
        ("fixed", "c", "m", "--backend fixed with --chip with --map"),
        ("mapped", None, "m", "--backend mapped with --map"),
    ],
)
def test_options_of_integers_that_do_not_go_together(backend: str, chip: Any, map_file: Any, found: str) -> None:
    limit = "fixed and mapped take --chip, mapped also --map, other backends neither"
    said = refused(integers.simulate_on_chip, skip(), 0, backend=backend, chip=chip, map_file=map_file)
    assert said == f"simulate: {found}, {limit}; as in --backend mapped --chip loihi1"


def test_a_check_goes_to_importers_that_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def checked(module: Any, sample: Any, *, check: Any = 7, dt: Any = None) -> Any:
        return module, sample, check, dt

    def plain(module: Any, sample: Any, dt: Any = None) -> Any:
        return module, sample, dt

    def without(module: Any, sample: Any) -> Any:
        raise ModuleNotFoundError("x", name="norse")

    for function, outcome in ((checked, ("m", "s", None, 1)), (plain, ("m", "s", 1))):
        monkeypatch.setattr(registry, "get", lambda kind, name, _function=function: {"importers": _function}[kind])
        assert importing.import_module("f", "m", "s", dt=1) == outcome
    monkeypatch.setattr(registry, "get", lambda kind, name: without)
    said = refused(importing.import_module, "f", "m", "s", check=3)
    assert said == "--from f: needs the package norse, which is not installed; install norse"


def test_faults_and_repairs_are_noted() -> None:
    network = replace(skip(), notes=("own",))
    assert load.with_fault_notes(network, ()) is network
    noted = load.with_fault_notes(network, ("a", "b"), ("x", "y"))
    assert noted.notes == ("own", "exporter: a", "exporter: b", "repaired on request: x, y")
    assert load.with_fault_notes(network, (), ("x",)).notes == ("own", "repaired on request: x")
    assert load.faults_of([*noted.notes, 3, "an exporter: c"]) == ("exporter: a", "exporter: b")


# -- programs and verification -----------------------------------------------------------------------------------------


def test_a_map_that_does_not_fit_is_left_out_of_a_verification(monkeypatch: pytest.MonkeyPatch) -> None:
    from nirbridge.pipeline import verify as verifying

    def fails(retimed: Any, chip: Any, options: MapOptions, *integers: object) -> Any:
        assert (options.effort, options.weight_bits) == ("fast", 7)
        raise DoesNotFit(Diagnostic("size", "too large"), Diagnostic("b", "c"))

    monkeypatch.setattr(verifying, "map_retimed", fails)
    quantized: Any = SimpleNamespace(projections=[SimpleNamespace(weight_bits=n) for n in (3, 7, 5)])
    made: Any = verifying.map_to_verify
    assert made("r", "c", quantized, print, needed=False) == (None, {"mapped": "does not fit (size: too large)"})
    with pytest.raises(DoesNotFit):
        made("r", "c", quantized, print, needed=True)
    monkeypatch.setattr(verifying, "map_retimed", lambda *args: "map")
    assert made("r", "c", quantized, print, needed=True) == ("map", {})


@pytest.mark.parametrize(("steps", "count"), [(None, 100), (7, 7)])
def test_a_verification_without_input_draws_spikes(steps: int | None, count: int) -> None:
    found = pipeline.verify_network(skip(), read_chip("loihi2"), steps=steps)
    assert found.steps == count
    assert found.recordings["reference"].arrays["out", "s"].shape[0] == count
    with contextlib.suppress(ModelError), warnings.catch_warnings():
        own = pipeline.verify_network(skip(), read_chip("loihi2"), np.ones((5, 2), np.uint8), steps=steps)
        assert (own.steps, own.input_said) == (5 if steps is None else 7, "as given")
    assert "as given" not in found.input_said

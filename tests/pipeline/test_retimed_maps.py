"""Maps contain the retimed network; networks that need no retiming are unchanged."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest
from hypothesis import given, settings

from nirbridge import pipeline
from nirbridge.arrays import freeze
from nirbridge.chips import chip_from_dict, read_chip
from nirbridge.chips.model import Chip
from nirbridge.errors import DoesNotFit, IllegalMapping, ModelError, UsageError
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.storage import file
from nirbridge.mapping.storage.file import map_to_dict
from nirbridge.network import Network, from_nir
from nirbridge.network.model import Population, Port, Projection
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Identity
from nirbridge.passes import Retime
from nirbridge.pipeline import MapOptions, map_network, map_retimed
from nirbridge.quantization.quantize import quantize
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.mapped.simulate import simulate_mapped
from nirbridge.simulators.simulate import Probe
from nirbridge.testing import networks
from tests.cases import cases
from tests.network.graphs import graph_of, lif, out, port
from tests.passes.retimed import on_grid

QUICK = MapOptions(method="sequential", effort="fast")
PLACED = replace(QUICK, placement_only=True)
SHA = "0" * 64


def wired(edges: list[tuple[str, str]], **extra: Any) -> Network:
    """Populations of two neurons, by the names in the edges; ``in`` and ``out`` are ports."""
    names = dict.fromkeys(name for edge in edges for name in edge)
    nodes: dict[str, Any] = {name: lif(2, theta=0.5, tau=4e-4, r=2.0) for name in names}
    return from_nir(graph_of({**nodes, "in": port(2), "out": out(2), **extra}, edges, dt=1e-4))


def skip() -> Network:
    return wired([("in", "a"), ("a", "b"), ("b", "c"), ("a", "c"), ("c", "out")])


def loop() -> Network:
    return wired([("in", "a"), ("a", "b"), ("b", "a"), ("b", "out")])


def delays(mapped: MappedNetwork) -> dict[tuple[str, str], int]:
    return {(p.source, p.target): p.max_delay_steps for p in mapped.network.projections}


def short_delays(steps: int) -> Chip:
    base: Any = read_chip("loihi1").record
    record = {key: dict(v) if hasattr(v, "items") else v for key, v in base.items()}
    record["core"] |= {"delay_steps": steps}
    return chip_from_dict(record)


def checked(
    mapped: MappedNetwork, network: Network, folder: Path, change: Any = None, *, placement_only: bool = False
) -> list[str]:
    """What the checker says of the saved map."""
    path = folder / "m.map.json"
    file.write_map(mapped, path, "m.nir", SHA)
    if change is not None:
        document = json.loads(path.read_text("utf-8"))
        change(document)
        path.write_text(json.dumps(document), encoding="utf-8")
    return [str(p) for p in pipeline.check_map(path, network, SHA, placement_only=placement_only)]


# -- what stays --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chip", ["loihi1", "loihi2", "crossbar256"])
@pytest.mark.parametrize("model", ["digits_mlp", "digits_cnn"])
def test_maps_without_skip_paths_are_the_bytes_that_they_were(root: Path, model: str, chip: str) -> None:
    path = root / "examples" / "models" / f"{model}.nir"
    network = pipeline.load_network(path)
    both = [map_network(network, read_chip(chip), replace(QUICK, retime=how)) for how in ("always", "never")]
    one, two = (file.map_bytes(pipeline.map_document(mapped, path)) for mapped in both)
    assert one == two
    assert b'"retimed"' not in one


@given(networks())
@settings(max_examples=cases(10, 25), deadline=None)
def test_a_map_without_the_key_is_the_one_without_retiming(network: Network) -> None:
    chip, quick = read_chip("loihi2"), replace(QUICK, placement_only=True)
    try:
        mapped = map_network(network, chip, quick)
    except DoesNotFit:
        return
    if mapped.latency is None and mapped.network.notes == network.notes:
        plain = map_network(network, chip, replace(quick, retime="never"))
        assert map_to_dict(mapped, "m", SHA) == map_to_dict(plain, "m", SHA)


# -- what changes ------------------------------------------------------------------------------------------------


def test_a_skip_path_waits_and_pays_for_it(tmp_path: Path) -> None:
    network, chip = skip(), read_chip("loihi1")
    mapped = map_network(network, chip, QUICK)
    assert delays(mapped)["a", "c"] == 1
    assert delays(mapped)["a", "b"] == delays(mapped)["b", "c"] == 0
    assert mapped.latency == {"in": 0, "a": 1, "b": 2, "c": 3, "out": 3}
    assert checked(mapped, network, tmp_path) == []


def test_relays_where_the_delays_of_the_chip_end(tmp_path: Path) -> None:
    names = [f"n{k}" for k in range(8)]
    ways = [*pairwise(names), ("n0", "n7")]
    network, chip = wired([("in", "n0"), *ways, ("n7", "out")]), short_delays(2)
    mapped = map_network(network, chip, QUICK)
    assert [p.name for p in mapped.network.populations if p.neuron.kind == "relay"] == ["n0_relay", "n0_relay_2"]
    assert mapped.latency is not None
    assert mapped.latency["n7"] == 8
    assert max(delays(mapped).values()) <= 2
    assert checked(mapped, network, tmp_path) == []
    named = list(mapped.axons.names)
    assert "n0_relay" in named


def driven() -> Network:
    """``b`` never leaks and is pushed down: no start two steps earlier could be kept, so a neuron drives it."""
    ends = [("in", "a"), ("a", "b"), ("b", "out")]
    projections = [Projection(x, y, Identity((2,))) for x, y in ends]
    projections[1] = replace(projections[1], bias=freeze(np.array([-0.75, -0.5])))
    populations = (
        Population("a", (2,), neuron("LIF", a_mem=0.5, theta=0.5)),
        Population("b", (2,), neuron("IF", a_mem=1.0, theta=0.5)),
    )
    return replace(
        skip(),
        inputs=(Port("in", (2,)),),
        outputs=(Port("out", (2,)),),
        populations=populations,
        projections=tuple(projections),
    )


def test_the_neuron_that_always_fires_is_mapped_and_sends_in_every_step(tmp_path: Path) -> None:
    network, chip = driven(), read_chip("loihi1")
    mapped = map_network(network, chip, QUICK)
    assert [p.name for p in mapped.network.populations] == ["a", "always", "b"]
    assert delays(mapped)["always", "b"] == 1
    assert checked(mapped, network, tmp_path) == []
    assert mapped.rates.endswith("a neuron without inputs fires in every step")
    always = mapped.axons.names.index("always")
    assert mapped.axons.spikes_per_step[mapped.axons.source_name == always].sum() == 1.0


def test_rates_that_are_given_hold_for_relays_too() -> None:
    names = [f"n{k}" for k in range(8)]
    ways = [*pairwise(names), ("n0", "n7")]
    network, chip = wired([("in", "n0"), *ways, ("n7", "out")]), short_delays(2)
    rates = {name: np.float64(0.25 if name == "n0" else 0) for name in ("in", *names)}
    mapped = map_network(network, chip, replace(QUICK, rates=(rates, "given")))
    table = mapped.axons
    sends = {name: float(table.spikes_per_step[table.source_name == k].sum()) for k, name in enumerate(table.names)}
    assert sends["n0"] == sends["n0_relay"] == sends["n0_relay_2"] == 0.5
    assert mapped.rates.startswith("given; relays send what they pass on")


@given(networks())
@settings(max_examples=cases(10, 25), deadline=None)
def test_every_map_passes_the_checker_and_runs(network: Network) -> None:
    """The map of the model, made without ever seeing the integers, is what the mapped simulator takes."""
    chip = read_chip("loihi2")
    still = [replace(p, neuron=replace(p.neuron, v_init=freeze(0.0), i_init=freeze(0.0))) for p in network.populations]
    network = on_grid(replace(network, populations=tuple(still)), 0)
    try:
        mapped = map_network(network, chip, replace(QUICK, relays=False))
        quantized = quantize(Retime(delay_steps_max=chip.core.delay_steps).retimed(network), chip)
    except (DoesNotFit, ModelError):
        return
    rng = np.random.default_rng(0)
    inputs = {p.name: (rng.random((6, *p.shape)) < 0.4).astype(np.uint8) for p in quantized.inputs}
    every = [Probe("*", ("s", "u", "v"))]
    fixed = simulate_fixed(quantized, inputs, record=every, backend="reference").recording
    found = simulate_mapped(quantized, mapped, inputs, record=every)
    assert all(np.array_equal(array, found.arrays[key]) for key, array in fixed.arrays.items())


def test_map_retimed_is_map_network() -> None:
    network, chip = skip(), read_chip("loihi1")
    one, two = map_network(network, chip, QUICK), map_retimed(pipeline.retime(network, chip), chip, QUICK)
    assert map_to_dict(one, "m", SHA) == map_to_dict(two, "m", SHA)


def test_copies_of_a_population_have_its_latency_and_run(tmp_path: Path) -> None:
    network, chip = skip(), read_chip("loihi1")
    mapped = map_network(network, chip, replace(QUICK, splits={"a": 2}))
    assert mapped.latency is not None
    assert mapped.latency["a_copy"] == mapped.latency["a"] == 1
    assert checked(mapped, network, tmp_path) == []
    quantized = quantize(pipeline.retime(network, chip, splits={"a": 2}), chip)
    inputs = (np.random.default_rng(0).random((20, 2)) < 0.6).astype(np.uint8)
    found = simulate_mapped(quantized, file.read_map(tmp_path / "m.map.json"), inputs, record=[Probe("*", ("s",))])
    plain = simulate_fixed(quantize(pipeline.retime(network, chip), chip), inputs, record=[Probe("*", ("s",))])
    for name in ("a", "b", "c", "out"):
        assert np.array_equal(found.arrays[name, "s"], plain.recording.arrays[name, "s"])
    assert found.arrays["c", "s"].any()
    saved = pipeline.load_map(tmp_path / "m.map.json", network, SHA, chip)
    program = json.loads(pipeline.emit_with("lava", network, chip, mapping=saved).files["program.json"])
    assert "a_copy" in json.dumps(program)


def test_a_program_per_core_is_that_of_the_map_made_beforehand(tmp_path: Path) -> None:
    network, chip = skip(), read_chip("loihi1")
    assert checked(map_network(network, chip), network, tmp_path) == []
    saved = pipeline.load_map(tmp_path / "m.map.json", network, SHA, chip)
    before = pipeline.emit_with("lava", network, chip, mapping=saved)
    assert before.digest == pipeline.emit_with("lava", network, chip, per_core=True).digest


def test_what_runs_on_a_map_has_its_bits(tmp_path: Path) -> None:
    network, chip = skip(), read_chip("loihi1")
    assert checked(map_network(network, chip, replace(QUICK, weight_bits=4)), network, tmp_path) == []
    saved = pipeline.load_map(tmp_path / "m.map.json", network, SHA, chip)
    four = pipeline.emit_with("lava", network, chip, mapping=saved)
    assert four.digest == pipeline.emit_with("lava", network, chip, mapping=saved, weight_bits=4).digest
    with pytest.raises(IllegalMapping, match=r"^projection 'in' -> 'a': weights of 8 bits, the map has memory for 4"):
        pipeline.emit_with("lava", network, chip, mapping=saved, weight_bits=8)
    assert pipeline.verify_network(network, chip, map_file=tmp_path / "m.map.json", steps=10).holds


# -- where there are no such delays --------------------------------------------------------------------------------


def test_a_loop_with_too_few_steps_is_refused_or_only_placed(tmp_path: Path) -> None:
    network, chip = loop(), read_chip("loihi1")
    with pytest.raises(ModelError, match=r"^loop 'b' -> 'a' -> 'b': 1 step of delay for 2 hops.*--placement-only"):
        map_network(network, chip, QUICK)
    mapped = map_network(network, chip, PLACED)
    assert mapped.latency is None
    assert mapped.placement_only
    said = "mapped with the delays of the model, nothing runs this map: loop 'b' -> 'a' -> 'b': 1 step of delay for 2 "
    assert mapped.network.notes[-1].startswith(said)
    assert checked(mapped, network, tmp_path, placement_only=True) == []
    assert [text[:29] for text in checked(mapped, network, tmp_path)] == ["map: is marked placement_only"]
    with pytest.raises(ModelError, match=r"^loop 'b' -> 'a' -> 'b': 1 step of delay for 2 hops"):
        map_network(network, chip, replace(PLACED, retime="always"))
    with pytest.raises(IllegalMapping, match="^map: is marked placement_only"):
        pipeline.load_map(tmp_path / "m.map.json", network, SHA, chip)
    saved = file.read_map(tmp_path / "m.map.json")
    with pytest.raises(ModelError, match="^loop "):
        pipeline.emit_with("lava", network, chip, mapping=saved)


def test_a_map_whose_mark_was_removed_is_found_out(tmp_path: Path) -> None:
    """Maps of loops, and of delays that do not hold the hops, were legal before there was a mark."""

    def unmark(document: dict[str, Any]) -> None:
        del document["placement_only"]
        document["schema"] = 1

    chip = read_chip("loihi1")
    looped = checked(map_network(loop(), chip, PLACED), loop(), tmp_path, unmark)
    assert [text[:24] for text in looped] == ["loop 'b' -> 'a' -> 'b': "]
    never = map_network(skip(), chip, replace(QUICK, retime="never"))
    (text,) = checked(never, skip(), tmp_path, unmark)
    assert text.startswith("map: has the delays of the model, on the chip a hop takes a time step")
    assert checked(never, skip(), tmp_path, unmark, placement_only=True) == []


def test_what_does_not_fit_says_why_its_delays_are_those_of_the_model() -> None:
    late = {"d": nir.Delay(np.full(2, 3e-4))}
    network = wired([("in", "a"), ("a", "b"), ("b", "a"), ("b", "d"), ("d", "c"), ("c", "out")], **late)
    with pytest.raises(DoesNotFit) as caught:
        map_network(network, short_delays(1), QUICK)
    texts = [str(p) for p in caught.value.problems]
    assert texts[0].startswith("projection 'b' -> 'c': a delay of 3 time steps, a loihi1 synapse holds 1")
    assert texts[1].startswith("loop 'b' -> 'a' -> 'b': 1 step of delay for 2 hops")
    assert texts[2].startswith("changes that fit: ")


def test_the_delays_of_the_model_on_request(tmp_path: Path) -> None:
    network, chip = skip(), read_chip("loihi1")
    mapped = map_network(network, chip, replace(QUICK, retime="never"))
    assert delays(mapped)["a", "c"] == 0
    assert "nothing runs this map" in mapped.network.notes[-1]
    assert mapped.placement_only
    assert checked(mapped, network, tmp_path, placement_only=True) == []
    saved = file.read_map(tmp_path / "m.map.json")
    with pytest.raises(
        IllegalMapping, match=r"^projections 'a' -> 'c': take 1 time step in the map, 2 in the network; map"
    ):
        pipeline.emit_with("lava", network, chip, mapping=saved)
    quantized = quantize(pipeline.retime(network, chip), chip)
    with pytest.raises(
        IllegalMapping, match=r"^projections 'a' -> 'c': take 1 time step in the map, 2 in the network; map"
    ):
        simulate_mapped(quantized, mapped, np.zeros((3, 2), np.uint8))


def test_an_unknown_way_to_retime() -> None:
    with pytest.raises(UsageError, match=r"^--retime: 'now', there are auto, always, never; choose one of these$"):
        map_network(skip(), read_chip("loihi1"), MapOptions(retime="now"))


def test_a_delay_that_no_chip_of_this_kind_has_is_no_reason_on_another() -> None:
    """What would fit is tried with the network as the other chip would run it."""
    nodes = {"fc": nir.Linear(np.ones((5000, 2))), "big": lif(5000), "w": nir.Linear(np.ones((2, 5000)))}
    edges = [("in", "a"), ("a", "fc"), ("fc", "big"), ("big", "w"), ("w", "c"), ("a", "c"), ("c", "out")]
    network = wired(edges, **nodes)
    with pytest.raises(DoesNotFit) as caught:
        map_network(network, read_chip("crossbar256"), QUICK)
    assert caught.value.problems[-1].subject == "changes that fit"


# -- the checker ----------------------------------------------------------------------------------------------------


def no_latency(d: dict[str, Any]) -> None:
    del d["retimed"]


def later(d: dict[str, Any]) -> None:
    d["retimed"]["latency"]["c"] += 1


def late_input(d: dict[str, Any]) -> None:
    d["retimed"]["latency"]["in"] = 2


def missing(d: dict[str, Any]) -> None:
    del d["retimed"]["latency"]["b"]


def shorter(d: dict[str, Any]) -> None:
    next(p for p in d["projections"] if (p["source"], p["target"]) == ("a", "c"))["delay_steps"] = 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (no_latency, "projection 3 ('a' -> 'c'): delay_steps is not that of the model"),
        (later, "'a' -> 'c': a spike takes 2 time steps, 3 by the delays of the model and the latencies"),
        (late_input, "retimed.latency of 'in': is 2, 0 of an input"),
        (missing, "retimed.latency of 'b': is not in the map"),
        (shorter, "'a' -> 'c': a spike takes 1 time step, 2 by the delays of the model and the latencies"),
    ],
)
def test_a_map_that_says_another_retiming_is_illegal(tmp_path: Path, change: Any, words: str) -> None:
    network = skip()
    found = checked(map_network(network, read_chip("loihi1"), QUICK), network, tmp_path, change)
    assert any(text.startswith(words) for text in found), found


def test_a_map_that_says_it_was_retimed_and_was_not(tmp_path: Path) -> None:
    network = wired([("in", "a"), ("a", "out")])

    def add(d: dict[str, Any]) -> None:
        d["retimed"] = {"latency": {"in": 0, "a": 1, "out": 1}}

    found = checked(map_network(network, read_chip("loihi1"), QUICK), network, tmp_path, add)
    assert found == ["retimed: the map says so, this model needs no other delays; map the model again"]

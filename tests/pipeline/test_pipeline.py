"""From a file to a checked map: objectives, pins, masked cores, relays, real files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nirbridge import pipeline
from nirbridge.chips import chip_from_dict, core_at, read_chip
from nirbridge.chips.model import Chip
from nirbridge.errors import DoesNotFit, UsageError
from nirbridge.importers.nirfile.reader import file_sha256
from nirbridge.mapping.checker import check
from nirbridge.mapping.storage import file
from nirbridge.pipeline import MapOptions, map_network
from tests.golden.models import network_of as golden
from tests.partitioner.nets import NMNIST, network_of

REAL = {
    "02_cnn/cnn_sinabs.nir": {"loihi1": {"optimal-sliced", "feasible"}, "loihi2": {"optimal"}, "crossbar256": None},
    "03_rnn/braille_noDelay_bias_zero.nir": {"loihi1": {"optimal"}, "loihi2": {"optimal"}, "crossbar256": {"optimal"}},
}


@pytest.mark.parametrize(
    ("name", "chip_name"),
    [
        pytest.param(name, chip_name, marks=[pytest.mark.slow] if wanted is None else [])  # relays, and half a minute
        for name, wanted_of in REAL.items()
        for chip_name, wanted in wanted_of.items()
    ],
)
def test_published_networks_map_and_pass_the_checker(
    shared_data: Path, tmp_path: Path, name: str, chip_name: str
) -> None:
    model = shared_data / "nir_paper" / name
    chip = read_chip(chip_name)
    network = pipeline.load_network(model)
    mapped = map_network(network, chip, MapOptions(effort="fast"))
    wanted = REAL[name][chip_name]
    assert wanted is None or mapped.partition.report.status in wanted
    saved = tmp_path / "a.map.json"
    file.write_map(mapped, saved, model.name, file_sha256(model))
    assert pipeline.check_map(saved, network, file_sha256(model)) == ()


def test_the_same_bytes_twice(root: Path, tmp_path: Path) -> None:
    """Two cores of ``my_chip``; ``tests/golden`` pins the bytes of longer searches, too."""
    chip = pipeline.load_chip(root / "examples" / "chips" / "my_chip.toml")
    for name in ("a", "b"):
        mapped = map_network(golden("deep"), chip, MapOptions(seed=5))
        file.write_map(mapped, tmp_path / name, "deep.nir", "0" * 64)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_relays_where_the_fan_in_is_too_large() -> None:
    crossbar = read_chip("crossbar256")
    network = network_of("4x8x8 conv8k3p1 if sumpool4 conv8k1 if sumpool2 flatten dense10 if")
    heavy = network_of(NMNIST)
    assert pipeline.fit_to_chip(network, crossbar) is network
    ready = pipeline.fit_to_chip(heavy, crossbar)
    added = {p.name for p in ready.populations} - {p.name for p in heavy.populations}
    assert added == {"5_sumpool", "8_sumpool"}
    assert sum("mapped on relay neurons" in note for note in ready.notes) == 2
    with pytest.raises(DoesNotFit, match="576 input axons for one neuron, a crossbar256 core holds 256"):
        map_network(heavy, crossbar, MapOptions(relays=False))


def test_objectives_are_no_worse_than_the_fewest_cores_in_their_own_terms() -> None:
    network, chip = network_of("64 dense300 lif dense300 lif dense10 lif"), read_chip("loihi1")
    maps = {o: map_network(network, chip, MapOptions(objective=o, effort="fast")) for o in pipeline.OBJECTIVES}
    cores, traffic, latency = (maps[o] for o in pipeline.OBJECTIVES)
    assert len(cores.cores) <= min(len(traffic.cores), len(latency.cores))
    assert traffic.costs.multicast_hops_per_step <= cores.costs.multicast_hops_per_step
    assert latency.costs.time_per_step_s is not None
    assert cores.costs.time_per_step_s is not None
    assert latency.costs.time_per_step_s < cores.costs.time_per_step_s


def test_pins_and_masked_cores() -> None:
    network = network_of("64 dense300 lif dense300 lif dense10 lif")
    names = [p.name for p in network.populations]
    chip = pipeline.load_chip("loihi1", (0, 1))
    mapped = map_network(network, chip, MapOptions(pins={names[2]: (12,)}))
    assert not set(mapped.cores) & set(chip.dead_cores)
    held = [{s.population for s in block.slices} for block in mapped.partition.blocks]
    blocks = [b for b, populations in enumerate(held) if names[2] in populations]
    assert [mapped.cores[b] for b in blocks] == [core_at(chip, 12)]
    assert {s.population for s in mapped.partition.blocks[blocks[0]].slices} == {names[2]}


def test_a_pin_on_the_second_chip() -> None:
    network, chip = network_of("64 dense10 lif dense10 lif"), read_chip("loihi1")
    mapped = map_network(network, chip, MapOptions(chips=2, pins={"2_lif": (128 + 3,)}, effort="fast"))
    held = [{s.population for s in block.slices} for block in mapped.partition.blocks]
    assert mapped.cores[held.index({"2_lif"})] == core_at(chip, 3, 1)


def test_pins_that_can_not_be() -> None:
    network, chip = network_of("2000 dense300 lif dense10 lif"), read_chip("loihi1")
    with pytest.raises(UsageError, match=r"^--pin: no population 'fc', there are '2_lif', '4_lif'; name one$"):
        map_network(network, chip, MapOptions(pins={"fc": (1,)}))
    with pytest.raises(UsageError, match=r"takes \d+ cores, 1 named; name as many: --pin NAME=3,4,5$"):
        map_network(network, chip, MapOptions(pins={"2_lif": (1,)}))


NARROW = {"neurons": 4, "output_axons": 2}


def core_of(chip: Chip) -> dict[str, object]:
    core = chip.record["core"]
    assert isinstance(core, dict)
    return dict(core)


def test_what_would_fit_really_fits() -> None:
    """140 neurons, 16 a core, fill 9 cores: three chips of four."""
    network, loihi = network_of("10 dense100 lif dense40 lif"), read_chip("loihi1")
    mesh = {"width_tiles": 2, "height_tiles": 1, "cores_per_tile": 2, "chips_max": 4}
    chip = chip_from_dict({**loihi.record, "name": "few", "mesh": mesh, "core": {**core_of(loihi), "neurons": 16}})
    with pytest.raises(DoesNotFit) as caught:
        map_network(network, chip)
    remedy = caught.value.problems[-1]
    assert remedy.subject == "changes that fit"
    assert "--chips 3 (9 of 12 cores)" in remedy.found
    assert len(map_network(network, chip, MapOptions(chips=3, method="packed", effort="fast")).cores) == 9


def test_splitting_a_source_is_tried_named_and_works(tmp_path: Path) -> None:
    """One neuron may send to two cores, and its targets fill three."""
    text, loihi = "10 dense8 lif dense12 lif", read_chip("loihi1")
    mesh = {"width_tiles": 3, "height_tiles": 2, "cores_per_tile": 4, "chips_max": 1}
    chip = chip_from_dict({**loihi.record, "name": "narrow", "mesh": mesh, "core": {**core_of(loihi), **NARROW}})
    with pytest.raises(DoesNotFit) as caught:
        map_network(network_of(text), chip)
    assert str(caught.value.problems[0]) == (
        "population '2_lif', neuron (0): 12 targets, which fill 3 cores and take as many output axons, a narrow core "
        "holds 2; split the source (--split), or place its targets in fewer cores"
    )
    remedy = caught.value.problems[-1]
    assert "--split '2_lif'=2 (8 neurons more, 19 of 24 cores)" in remedy.found
    mapped = map_network(network_of(text), chip, MapOptions(splits={"2_lif": 2}))
    assert len(mapped.cores) == 16  # remedies are tried with first-fit packing alone
    assert mapped.network.notes[0].startswith("population '2_lif' is mapped as 2 copies")
    saved, sha = tmp_path / "m.json", "0" * 64
    file.write_map(mapped, saved, "m.nir", sha)
    assert pipeline.check_map(saved, network_of(text), sha) == ()
    saved.write_text(saved.read_text("utf-8").replace('"ways": 2', '"ways": 3'), encoding="utf-8")
    assert pipeline.check_map(saved, network_of(text), sha)
    saved.write_text(saved.read_text("utf-8").replace('"ways": 3', '"ways": 1000'), encoding="utf-8")
    assert "more copies" in str(pipeline.check_map(saved, network_of(text), sha)[0])


def test_rates_of_a_split_population_are_those_of_its_copies() -> None:
    network, chip = network_of("10 dense8 lif dense12 lif"), read_chip("loihi1")
    rates = {"0_input": np.float64(0), "2_lif": np.linspace(0, 1, 8), "4_lif": np.float64(0)}
    mapped = map_network(network, chip, MapOptions(splits={"2_lif": 2}, rates=(rates, "given"), method="packed"))
    assert mapped.axons.spikes_per_step.sum() == pytest.approx(2 * rates["2_lif"].sum())


def test_rates_change_traffic_in_proportion(root: Path) -> None:
    network, chip = golden("wide"), pipeline.load_chip(root / "examples" / "chips" / "my_chip.toml")
    names = [p.name for p in (*network.inputs, *network.populations)]
    one, two = (
        map_network(network, chip, MapOptions(rates=({n: np.float64(r) for n in names}, "given"))) for r in (0.1, 0.2)
    )
    assert one.costs.unicast_spikes_per_step
    assert two.costs.unicast_spikes_per_step == pytest.approx(2 * one.costs.unicast_spikes_per_step)
    assert not list(check.diagnose_mapping(two))


def test_an_unknown_objective() -> None:
    options = MapOptions(objective="fun")
    with pytest.raises(UsageError, match=r"^--objective: 'fun', there are cores, traffic, latency; choose one of"):
        map_network(network_of("4 dense2 lif"), read_chip("loihi1"), options)


@pytest.mark.parametrize("backend", ["fixed", "mapped"])
def test_simulators_of_integers_are_not_run_on_real_numbers(backend: str) -> None:
    network = network_of("4 dense3 lif")
    with pytest.raises(UsageError, match=f"backend '{backend}': runs the integers of a chip.*use simulate_on_chip"):
        pipeline.simulate_network(network, np.zeros((2, 4)), backend=backend)

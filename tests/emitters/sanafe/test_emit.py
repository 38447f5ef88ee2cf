"""Programs for SANA-FE: their files, what is refused, and what is never imported."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass, fields, replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import freeze
from nirbridge.chips.model import CoreId, EnergyFigures, TimeFigures
from nirbridge.emitters.sanafe import run
from nirbridge.emitters.sanafe.architecture import mapping_text
from nirbridge.emitters.sanafe.emit import SANAFE, SanafeOptions
from nirbridge.emitters.sanafe.plan import neuron_problems
from nirbridge.errors import ModelError, ToolMissing, UsageError
from nirbridge.mapping.integers import integers_of
from nirbridge.network.operators import Dense
from nirbridge.quantization.model import FixedInput, FixedNeuron
from tests.emitters.sanafe.networks import changed, mapped_example, small_chip, spikes_for

ROOT = Path(__file__).resolve().parents[3]


def files(mapped: Any, **options: Any) -> dict[str, str]:
    return {
        path: content.decode()
        for path, content in SANAFE.emit(mapped, SanafeOptions(**options)).files.items()
        if not path.endswith(".npz")
    }


def test_files_hold_the_chip_and_every_neuron() -> None:
    mapped = mapped_example()
    texts = files(mapped)
    manifest = json.loads(texts["manifest.json"])
    assert (manifest["kind"], manifest["sanafe"], manifest["cores"]) == ("sanafe", "2.2.9", len(mapped.cores))
    synapses = sum(int(np.prod(p.operator.weight.shape)) for p in integers_of(mapped).projections
                   if isinstance(p.operator, Dense))  # fmt: skip
    assert manifest["synapses"] == synapses
    architecture = texts["architecture.yaml"]
    assert "energy_process_spike: 3.55e-11" in architecture
    assert "energy_message_out: 1.11e-10" in architecture
    mesh = mapped.chip.mesh
    assert f"width: {mesh.width_tiles}, height: {mesh.height_tiles}" in architecture
    assert "name: tile[0..0]" in architecture
    assert f"name: tile[1..{mesh.width_tiles * mesh.height_tiles - 1}]" in architecture
    places = re.findall(r"layer\d+\.\S+: \{core: (\d+)\.(\d+),", texts["network.yaml"])
    own = {(core.x * mesh.height_tiles + core.y, core.core) for core in mapped.cores}
    assert {(int(tile), int(core)) for tile, core in places} == own
    assert texts["network.yaml"].count('soma: "spikes[') == 6


def test_neurons_that_differ_stand_one_by_one() -> None:
    mapped = changed(mapped_example(neurons=100), bias_mant=0, v_init=0)
    quantized = integers_of(mapped)
    first = quantized.populations[0]
    thresholds = freeze(np.repeat(np.asarray([64, 128], np.int64), [3, 5]))
    own = replace(first, neuron=replace(first.neuron, fires_above=thresholds))
    populations = (own, *quantized.populations[1:])
    text = files(replace(mapped, quantized=replace(quantized, populations=populations)))["network.yaml"]
    assert "        - 0..2: {}\n        - 3..7: {threshold: 2.0}\n" in text


def test_same_bytes_and_no_name_of_the_model() -> None:
    mapped = mapped_example()
    assert SANAFE.emit(mapped).digest == SANAFE.emit(mapped).digest
    texts = files(mapped)
    for path in ("architecture.yaml", "network.yaml", "README.md", "run.py"):
        assert "it's" not in texts[path].replace("it's own", ""), path
    assert any("it's 1" in node["name"] for node in json.loads(texts["program.json"])["nodes"])


def refused(mapped: Any) -> str:
    with pytest.raises(ModelError) as caught:
        SANAFE.emit(mapped)
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"max_spikes": 3}, "up to 3 spikes in a time step, SANA-FE sends one"),
        ({"refractory_steps": 2, "du": 7}, "a refractory period and a current with memory, SANA-FE drops the input"),
        ({"refractory_steps": 2, "reset": "none"}, "a refractory period with reset 'none', SANA-FE keeps"),
        ({"reset": "subtract", "fires_above": 9, "reset_amount": 7}, "a spike subtracts another amount"),
    ],
)
def test_neurons_that_it_does_not_compute_are_refused_by_name(changes: dict[str, Any], text: str) -> None:
    said = refused(changed(mapped_example(), **changes))
    assert said.startswith("population 'it\\'s 1': ")
    assert text in said
    assert len(said.splitlines()) == 2  # both populations


@dataclass(frozen=True, slots=True, eq=False)
class Odd(FixedNeuron):
    """A neuron with a field that SANA-FE does not know."""

    oddity: int = 0


def test_a_new_field_of_the_neuron_is_refused_by_name() -> None:
    mapped = mapped_example()
    values = {f.name: getattr(integers_of(mapped).populations[0].neuron, f.name) for f in fields(FixedNeuron)}
    p = replace(integers_of(mapped).populations[0], neuron=Odd(**values))
    assert list(neuron_problems(p)) == []
    (problem,) = neuron_problems(replace(p, neuron=Odd(**values, oddity=3)))
    assert problem.found == "its field 'oddity'"


def test_all_other_refusals() -> None:
    mapped = mapped_example()
    quantized = integers_of(mapped)
    late = replace(quantized.projections[0], delay_steps=freeze(np.int64(7)), weight_exp=-1)
    wide = replace(quantized.projections[1], weight_exp=28)
    silent = tuple(
        replace(p, neuron=replace(p.neuron, fires_above=None)) if p.name == wide.source else p
        for p in quantized.populations
    )
    inputs = tuple(FixedInput(p.name, p.shape, 15, 0.5) for p in quantized.inputs)
    other = replace(quantized, projections=(late, wide, *quantized.projections[2:]), populations=silent, inputs=inputs)
    cores = (*mapped.cores[:-1], CoreId(1, 0, 0, 0))
    said = refused(replace(mapped, quantized=other, cores=cores)).splitlines()
    assert said[0] == "map: 2 chips, SANA-FE has one chip; map it with --chips 1"
    assert said[1].startswith("input 'in': graded values, SANA-FE sends spikes of 0 and 1; encode")
    assert said[2].endswith("a delay of 7 time steps, SANA-FE holds 6; put relay neurons between, or emit for lava")
    assert "weights with exponent -1" in said[3]
    assert "its source is a readout" in said[4]
    assert "weights above 31 bits" in said[5]
    assert len(said) == 6


def test_wider_numbers_than_it_holds_exactly() -> None:
    mapped = mapped_example()
    quantized = integers_of(mapped)
    wide = tuple(replace(p, neuron=replace(p.neuron, v_bits=32)) for p in quantized.populations)
    assert "32 bits of state, 24 bits are exact" in refused(
        replace(mapped, quantized=replace(quantized, populations=wide))
    )


def test_chips_without_figures_cost_nothing() -> None:
    chip = replace(small_chip(), energy=EnergyFigures(), time=TimeFigures())
    architecture = files(replace(mapped_example(), chip=chip))["architecture.yaml"]
    assert set(re.findall(r"(?:energy|latency)_\w+: ([^,}]+)", architecture)) == {"0.0"}


def test_missing_package_has_its_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(run, "version", version)
    mapped = mapped_example()
    with pytest.raises(ToolMissing) as caught:
        SANAFE.run(SANAFE.emit(mapped), spikes_for(integers_of(mapped)))
    assert isinstance(caught.value, UsageError)
    said = "emitter 'sanafe': the package sanafe is not installed; pip install \"nirbridge[sanafe]\""
    assert str(caught.value) == said


def test_the_package_is_never_imported() -> None:
    for file in (ROOT / "nirbridge").rglob("*.py"):
        assert not re.search(r"^\s*(import|from) sanafe", file.read_text(encoding="utf-8"), re.MULTILINE), file.name
    code = "import sys, nirbridge.emitters.sanafe.emit, nirbridge.emitters.sanafe.run as r\n"
    code += "print([m for m in sys.modules if m.split('.')[0] in ('sanafe', 'sanafecpp')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_numbers_of_yaml_are_exact() -> None:
    assert mapping_text({"a": 1e-9, "b": 0.1, "c": 3, "d": True, "e": {1: 2.5e-7}}) == (
        "{a: 1.0e-09, b: 0.1, c: 3, d: true, e: {1: 2.5e-07}}"
    )
    assert mapping_text({"a": np.float64(2.0**-40)}) == "{a: 9.094947017729282e-13}"

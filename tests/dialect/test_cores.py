"""The stage ``cores``: a function for each core of a map, which holds that core alone, bit-equal to the simulators."""

from __future__ import annotations

import itertools
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.arrays import Array
from nirbridge.cli.main import run
from nirbridge.dialect.lowering.cores import cores_program
from nirbridge.dialect.lowering.program import LoweredProgram
from nirbridge.errors import DoesNotFit, ModelError, UsageError
from nirbridge.mapping.model import MappedNetwork
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.mapped.simulate import map_record, simulate_mapped
from nirbridge.simulators.mapped.tables import load_board
from nirbridge.simulators.types import Key, Probe
from tests.cases import cases
from tests.dialect.jit import Compiled
from tests.emitters.held_out import dyadic_network
from tests.simulators.mapped.test_mapped import at_rest, on_chip, skip_network, small_chip, spikes
from tests.tools import needs

pytest.importorskip("xdsl", reason="xDSL, the extra 'mlir', is not installed")
EXAMPLES = Path(__file__).parents[2] / "examples"
MODEL = EXAMPLES / "models" / "digits_cnn.nir"
NETWORKS = cases(10, 40)
Arrays = Mapping[str, Array]
Run = Callable[[LoweredProgram, Arrays, int], Mapping[Key, Array]]


def compiled_run(program: LoweredProgram, inputs: Arrays, batch: int) -> Mapping[Key, Array]:
    with tempfile.TemporaryDirectory() as folder:
        return Compiled(program, Path(folder)).run(inputs, batch)


def assert_equal(
    quantized: QuantizedNetwork, mapped: MappedNetwork, seed: int, extent: int | None = None, run: Run = compiled_run
) -> None:
    """Outputs and the spikes of every population; ``extent``: samples that the program is made for."""
    batch, names = 2, [p.name for p in quantized.populations if p.neuron.fires]
    program = cores_program(quantized, mapped, [(name, "s") for name in names], batch=extent)
    inputs = spikes(quantized, 20, seed, batch)
    found = run(program, inputs, batch)
    fixed = simulate_fixed(quantized, inputs, record=[Probe("*", ("s", "v"))]).recording
    board = simulate_mapped(quantized, mapped, inputs, record=[Probe(name, ("s",)) for name in names])
    for name, variable in found:
        expected = fixed.arrays[name, "s" if (name, "s") in fixed.arrays else "v"]
        assert np.array_equal(found[name, variable], expected), (seed, name)
        if name in names:
            assert np.array_equal(found[name, variable], board.arrays[name, "s"]), (seed, name)
    assert set(found) >= {(p.name, "s") for p in quantized.outputs}


def random_maps() -> Iterator[tuple[QuantizedNetwork, MappedNetwork]]:
    """Networks of which the chip holds a part on each core; some have routes and cores without a synapse."""
    for number in itertools.count(17):
        try:
            quantized, mapped = on_chip(at_rest(dyadic_network(number), number), small_chip((1, 3, 5, 10)[number % 4]))
        except (ModelError, DoesNotFit):
            continue
        if len(mapped.cores) > 2:
            yield quantized, mapped


def test_random_networks_are_bit_equal() -> None:
    needs("mlir")
    maps = random_maps()
    for seed in range(NETWORKS):
        assert_equal(*next(maps), seed, extent=None if seed % 2 else 2)


@pytest.mark.parametrize("neurons", [4, 13, 1000])
def test_a_network_with_everything_is_bit_equal(neurons: int) -> None:
    needs("mlir")
    assert_equal(*on_chip(skip_network(), small_chip(neurons)), neurons)


def test_every_function_holds_its_core_alone() -> None:
    quantized, mapped = on_chip(skip_network(), small_chip(4))
    board = load_board(quantized, map_record(mapped))
    program = cores_program(quantized, mapped)
    functions = dict(re.findall(r"func\.func private (@core_\d+)(\(.*?\n  \})", program.text, re.S))
    assert list(functions) == [f"@core_{k}" for k in range(len(mapped.cores))]
    for core, text in zip(board.cores, functions.values(), strict=True):
        axons = sum(len(neurons) for _, neurons in core.axons)
        tables = {tuple(map(int, found)) for found in re.findall(r"tensor<(\d+)x(\d+)xi32>", text)}
        assert all(before == axons and after <= core.slots for before, after in tables)
        assert f"tensor<?x{core.slots}xi32>" in text
        assert all(name in ("@core_0",) or name not in text for name in functions if name != "@core_0")
    calls = re.findall(r"func\.call (@core_\d+)", program.text)
    assert calls == list(functions)


def test_the_command_and_its_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mapped = nb.map(MODEL, "loihi2", method="packed")
    mapped.save(tmp_path / "m.map.json")
    command = ["lower", str(MODEL), "--until", "cores", "-o", str(tmp_path / "m.mlir")]
    assert run([*command, "--map", str(tmp_path / "m.map.json"), "--batch", "1"]) == 0
    text = (tmp_path / "m.mlir").read_text()
    assert text.count("func.func private @core_") == len(mapped.cores)
    assert "tensor<1x" in text
    assert "?" not in text.split("func.func @run")[0].split("private @core_0")[1].split("{")[0]
    capsys.readouterr()
    assert run(command) == 2
    assert "stage 'cores': no map, it is of a map in integers; give one by --map" in capsys.readouterr().err
    with pytest.raises(UsageError, match="lower, records: does not apply here"):
        nb.lower(MODEL, "cores", mapping=mapped, records=[("leaky_1", "v")])

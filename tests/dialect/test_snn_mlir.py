"""Text of snn-mlir: networks that come back, refusals by name, and faults that are each one error."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest

import nirbridge as nb
from nirbridge.arrays import freeze
from nirbridge.cli.main import run
from nirbridge.dialect.model_files import load_mlir
from nirbridge.dialect.snn_mlir.held import held_form
from nirbridge.dialect.snn_mlir.read import read_snn_mlir
from nirbridge.dialect.snn_mlir.write import snn_mlir_text
from nirbridge.errors import FileError, ModelError, UsageError
from nirbridge.network.equality import network_differences
from nirbridge.network.model import Network, Population, Port, Projection
from nirbridge.network.neurons import neuron
from nirbridge.network.operators import Conv, Dense, Identity, Scale, SumPool
from tests.dialect.snn_mlir_networks import OTHERS, held_network
from tests.emitters.oracles import TIMING, grid, lif

GOLDEN = Path(__file__).with_name("golden") / "snn_mlir.mlir"


def others_graph() -> Any:
    """The NIR graph of ``OTHERS``."""
    ones = np.ones(2)
    nodes = {
        "input": nir.Input({"input": np.array([3])}),
        "r": nir.Linear(np.array([[0.5, -1.25], [0, 0.25]], np.float32)),
        "fc": nir.Affine(np.array([[1, 2, 3], [0.5, 0.25, -1]], np.float32), np.array([0.125, 0], np.float32)),
        "n.lif": nir.CubaLIF(2e-4 * ones, 8e-4 * ones, 8 * ones, 0 * ones, ones, 0 * ones, 2 * ones),
        "output": nir.Output({"output": np.array([2])}),
    }
    edges = [("input", "fc"), ("r", "n.lif"), ("fc", "n.lif"), ("n.lif", "r"), ("n.lif", "output")]
    return nir.NIRGraph(nodes, edges, type_check=False)


def chain(**changes: Any) -> Network:
    """Two populations of four; ``changes`` are those of the first neuron."""
    rng = np.random.default_rng(0)
    a = Population("a", (4,), lif(**changes))
    edges = [Projection("in", "a", Dense(grid(rng, 4, 3))), Projection("a", "b", Dense(grid(rng, 2, 4)))]
    edges.append(Projection("b", "out", Identity((2,))))
    populations = (a, Population("b", (2,), lif()))
    return Network(1e-3, TIMING, populations, tuple(edges), (Port("in", (3,)),), (Port("out", (2,)),))


def test_a_network_comes_back() -> None:
    for seed in range(60):
        network = held_network(seed)
        text = snn_mlir_text(network, "float64")
        assert network_differences(read_snn_mlir(text), held_form(network, "float64")) == (), seed
        assert text.isascii()
        assert snn_mlir_text(network, "float64") == text


def test_gains_are_moved_into_the_weights() -> None:
    network = held_network(4, ("LIF", "CubaLIF"))
    held = held_form(network, "float64")
    assert any((p.neuron.g_mem * p.neuron.g_syn) != 1 for p in network.populations)
    assert all(p.neuron.g_mem == p.neuron.g_syn == 1 for p in held.populations)
    inputs = np.random.default_rng(0).random((40, *network.inputs[0].shape)) < 0.5
    given, kept = (nb.simulate(n, inputs, backend="numpy") for n in (network, held))
    assert given["out"].any()
    np.testing.assert_array_equal(given["out"], kept["out"])


def test_the_text_is_that_of_the_golden_file() -> None:
    assert snn_mlir_text(held_network(2)) == GOLDEN.read_text()


def test_a_text_of_its_front_end_is_the_network_of_the_nir_file() -> None:
    network = read_snn_mlir(OTHERS)
    assert network_differences(network, nb.load(others_graph(), dt=1e-4)) == ()
    assert network.assumed == ("dt = 0.0001 s (the module states none)",)
    assert read_snn_mlir(OTHERS, nb.load(others_graph(), dt=1e-3).timing).dt == 1e-3


def test_values_as_mlir_prints_them() -> None:
    """Bytes in hexadecimal, one value for all, aliases of maps, numbered names."""
    plain = "affine_map<(d0) -> (d0)>"
    text = "#map = affine_map<(d0) -> (d0)>\n" + OTHERS.replace(plain, "#map").replace("%merged_n.lif", "%0")
    bits = np.array([1, 2, 3, 0.5, 0.25, -1], "<f4").tobytes().hex().upper()
    text = text.replace("dense<[[1.0, 2.0, 3.0], [5.0e-01, 2.5e-01, -1.0]]>", f'dense<"0x{bits}">')
    assert network_differences(read_snn_mlir(text), read_snn_mlir(OTHERS)) == ()
    same = text.replace("dense<[1.25000000e-01, 0.00000000e+00]>", "dense<0x3E000000>")
    (biased,) = (p.bias for p in read_snn_mlir(same).projections if p.bias is not None)
    assert biased.tolist() == [0.125, 0.125]


def test_the_order_of_a_sum_is_that_of_the_projections() -> None:
    other = OTHERS.replace("addf %in0, %in1", "addf %in1, %in0")
    assert [p.source for p in read_snn_mlir(OTHERS).projections] == ["n.lif", "input", "n.lif"]
    assert [p.source for p in read_snn_mlir(other).projections] == ["input", "n.lif", "n.lif"]


REFUSED: list[tuple[Any, str]] = [
    (lambda: chain(theta=[1, 2, 3, 4]), "population 'a': a threshold of its own for each neuron"),
    (lambda: chain(a_mem=[0.5, 0.5, 0.25, 0]), "'a': a decay of its own for each neuron"),
    (lambda: chain(g_mem=0.3), "'a': an input gain of 0.30000001, snn-mlir has none; powers of two"),
    (lambda: chain(reset="subtract"), "'a': reset subtract, a spike where v > threshold"),
    (lambda: chain(compare=">="), "'a': reset to-value, a spike where v >= threshold"),
    (lambda: chain(max_spikes=3), "up to 3 spikes per time step"),
    (lambda: chain(refractory_steps=2), "'a': a refractory time of 2, snn-mlir has none"),
    (lambda: chain(bias=1 / 8), "'a': a constant drive of 0.125"),
    (lambda: chain(v_init=1 / 8), "'a': a first potential of 0.125"),
    (lambda: chain(v_min=0.0), "'a': a membrane floor"),
    (lambda: chain(a_mem=1.0), "'a': a decay of 1 in kind LIF"),
    (lambda: _neuron(neuron("Threshold", a_mem=0.0, theta=0.5)), "'a': its neurons are of kind 'Threshold'"),
    (lambda: _neuron(neuron("CubaLIF", a_mem=0.5, v_reset=0.25)), "'a': a reset value of 0.25"),
    (lambda: _projected(delay_steps=freeze(np.int64(2))), "a delay of up to 2 time steps, snn-mlir has no delays"),
    (lambda: _projected(operator=Scale(freeze(np.full(4, 2.0)))), "factors of its own for each element"),
    (lambda: _window(Conv(freeze(np.ones((2, 1, 1))), (1,), ((0, 0),), (1,), 2, (2, 2))), "2 groups"),
    (lambda: _window(Conv(freeze(np.ones((2, 2, 1))), (1,), ((1, 0),), (1,), 1, (2, 2))), "padding of ((1, 0),)"),
    (lambda: _window(SumPool((1,), (1,), ((0, 0),), (2, 2))), "a pool over 1 axes"),
    (lambda: _with(chain(), Projection("a", "out", Dense(freeze(np.ones((2, 4)))))), "'a': feeds 2 targets (a branch)"),
    (lambda: _with(chain(), Projection("in", "b", Dense(freeze(np.ones((2, 3)))))), "'in': feeds 2 targets (a branch)"),
    (lambda: replace(chain(), inputs=(Port("in", (3,)), Port("y", (1,)))), "network: 2 inputs"),
]  # fmt: skip


def _neuron(record: Any) -> Network:
    network = chain()
    return replace(network, populations=(replace(network.populations[0], neuron=record), network.populations[1]))


def _projected(**changes: Any) -> Network:
    network = chain()
    first, second, last = network.projections
    if "operator" in changes:
        network = replace(network, inputs=(Port("in", (4,)),))
        return replace(network, projections=(replace(first, **changes), second, last))
    return replace(network, projections=(first, replace(second, **changes), last))


def _window(part: Any) -> Network:
    a = Population("a", part.output_shape, lif())
    edges = (Projection("in", "a", part), Projection("a", "out", Identity(part.output_shape)))
    return Network(1e-3, TIMING, (a,), edges, (Port("in", part.input_shape),), (Port("out", part.output_shape),))


def _with(network: Network, *more: Projection) -> Network:
    return replace(network, projections=(*network.projections, *more))


@pytest.mark.parametrize(("make", "found"), REFUSED)
def test_what_it_does_not_hold_is_named(make: Any, found: str) -> None:
    with pytest.raises(ModelError) as error:
        snn_mlir_text(make())
    assert found in str(error.value)


def test_a_format_that_rounds_is_refused() -> None:
    network = _projected(bias=freeze(np.array([0.1, 0.2])))
    with pytest.raises(ModelError, match="weights that float32 rounds.*--dtype float64"):
        snn_mlir_text(network)
    assert network_differences(read_snn_mlir(snn_mlir_text(network, "float64")), held_form(network, "float64")) == ()


FAULTS: list[tuple[str, str, type[Exception], str]] = [
    ("snn.cubalif", "snn.izhikevich", ModelError, "line 30: an operation 'snn.izhikevich'"),
    ("memref<3xf32>", "memref<3xi8>", ModelError, "line 6: an array of 'i8'.*export without --quantize"),
    ("%output :", "%output", FileError, "line 10: 'memref<2xf32>', ':' is expected"),
    ("memref<3xf32>", "memref<?xf32>", FileError, "the type"),
    ("memref<3xf32>", "memref<4xf32>", FileError, "line 20: '%input' is of shape"),
    ("[[1.0, 2.0, 3.0],", "[[1.0, 2.0],", FileError, "'@w_fc': lists that are not of shape"),
    ("[[1.0,", "[[inf,", FileError, "words where numbers are expected"),
    ("[[1.0,", "[[1.0e99,", FileError, "numbers that are not finite"),
    ("2.5e-01, -1.0]]", '2.5e-01, "a"]]', FileError, "words where numbers are expected"),
    ("[[1.0, 2.0, 3.0], [5.0e-01, 2.5e-01, -1.0]]", '"0x00"', FileError, "1 bytes for an array"),
    ("%in0, %in1 :", "%in0, %in0 :", FileError, "does not add each of its arrays once"),
    ("(d0) -> (d0)>, affine", "(d0) -> (0)>, affine", FileError, "linalg.generic that is not elementwise"),
    ('["parallel"]', '["reduction"]', FileError, "linalg.generic that is not elementwise"),
    ("ins(%input, ", "ins(%synapse_fc, ", FileError, "'%synapse_fc' is of shape"),
    ("out(%synapse_r)", "out(%synapse_fc)", FileError, "no array '%synapse_fc'"),
    ("out(%synapse_fc)", "out(%synapse_r)", FileError, "'%synapse_r' is written twice"),
    ("ins(%merged", "ins(%output", FileError, "no array|is read before it is written"),
    ("state(%current_n.lif, ", "state(%voltage_n.lif, ", FileError, "the state '%voltage_n.lif'"),
    ("copy %output, ", "copy %merged_n.lif, ", FileError, "outputs of neurons are copied"),
    ("copy %output, %prev_spikes_n.lif", "copy %output, %input", FileError, "line 35: '%input' is of shape"),
    ("8.7500000000e-01 : f64", "[1.0]", FileError, "vol_decay_float of snn.cubalif is"),
    ("vol_decay_float", "decay_float", FileError, "snn.cubalif with 'decay_float'"),
    ("@snn_forward_step", "@main", FileError, "a function '@main'"),
    ("llvm.emit_c_interface", "nirbridge = {dt = 0.0}", FileError, "attribute nirbridge"),
    ("llvm.emit_c_interface", "x = [[[[[[[[1]]]]]]]]", FileError, "lists in lists"),
    ("return", "", FileError, "line 37: '}', an operation is expected"),
    ("module {", "module {\n\x1b[31m", FileError, "line 2: unreadable text"),
    ("constant @w_fc", "constant @w_r", FileError, "'@w_r' is defined twice"),
    ("memref<2x3xf32> = dense", "memref<99999999999x3xf32> = dense", FileError, "elements are read"),
]


@pytest.mark.parametrize(("old", "new", "kind", "found"), FAULTS)
def test_a_fault_is_one_error(old: str, new: str, kind: type[Exception], found: str) -> None:
    assert old in OTHERS
    with pytest.raises(kind, match=found):
        read_snn_mlir(OTHERS.replace(old, new, 1), subject="file 'x'")


def _one_value_for_all(outputs: int, inputs: int, layers: int = 1) -> str:
    """A chain of matrices, each the same value at every place."""
    weights = "memref<{}x{}xf32>".format
    lines, head, last = [], [f"%t0 : memref<{inputs}xf32>"], inputs
    for k in range(layers):
        lines += [
            f"%w{k} = memref.get_global @w{k} : {weights(outputs, last)}",
            f"%s{k} = memref.alloca() : memref<{outputs}xf32>",
            f"snn.linear ins(%t{k}, %w{k}) out(%s{k}) : memref<{last}xf32>, {weights(outputs, last)}"
            f" -> memref<{outputs}xf32>",
            f"snn.li ins(%s{k}) state(%v{k}) out(%t{k + 1}) : memref<{outputs}xf32>, memref<{outputs}xf32>"
            f" -> memref<{outputs}xf32>",
        ]
        head += [f"%v{k} : memref<{outputs}xf32>", f"%t{k + 1} : memref<{outputs}xf32>"]
        last = outputs
    sizes = [inputs, *[outputs] * layers]
    stored = "".join(
        f"memref.global constant @w{k} : {weights(outputs, sizes[k])} = dense<0.5>\n" for k in range(layers)
    )
    return f"module {{ {stored} func.func @snn_forward_step({', '.join(head)}) {{ {' '.join(lines)} return }} }}"


def test_elements_that_take_no_text_are_counted_over_the_module() -> None:
    """A matrix of one value takes memory as soon as it is used: 400 million elements are refused before that."""
    with pytest.raises(FileError, match=r"an array of shape \(20000, 20000\).*up to 25,000,000 elements are read"):
        read_snn_mlir(_one_value_for_all(20_000, 20_000))
    assert len(read_snn_mlir(_one_value_for_all(2000, 2000, 6)).populations) == 6
    with pytest.raises(FileError, match=r"line 7: an array of shape \(2000, 2000\), with those before 28,000,000 elem"):
        read_snn_mlir(_one_value_for_all(2000, 2000, 7))
    with pytest.raises(FileError, match=r"an array of shape \(25000001,\), with those before 25,00"):
        read_snn_mlir(_one_value_for_all(25_000_001, 1).replace("25000001x1xf32", "2x1xf32"))


def test_sums_of_sums_are_bounded() -> None:
    kind, plain = "memref<2xf32>", ", ".join(["affine_map<(d0) -> (d0)>"] * 3)
    sums = [
        f"%t{k + 1} = memref.alloca() : {kind} linalg.generic {{indexing_maps = [{plain}], iterator_types = "
        f'["parallel"]}} ins(%t{k}, %t{k} : {kind}, {kind}) outs(%t{k + 1} : {kind}) '
        "{ ^bb0(%x: f32, %y: f32, %z: f32): "
        "%s = arith.addf %x, %y : f32 linalg.yield %s : f32 }"
        for k in range(60)
    ]
    head = f"module {{ func.func @snn_forward_step(%t0 : {kind}, %v : {kind}, %o : {kind}) {{"
    neuron_ = f"snn.li ins(%t60) state(%v) out(%o) : {kind}, {kind} -> {kind} return }} }}"
    with pytest.raises(FileError, match="a sum of more than 1,000 projections"):
        read_snn_mlir("\n".join([head, *sums, neuron_]))
    flat = [f"%t{k + 1} = memref.collapse_shape %t{k} [[0]] : {kind} into {kind}" for k in range(2000)]
    with pytest.raises(FileError, match="line 1002: more than 1,000 operations in a row"):
        read_snn_mlir("\n".join([head, *flat, neuron_]))


def test_random_faults_are_errors_of_ours() -> None:
    pieces = [
        "%input",
        "memref<2xf32>",
        "}",
        "{",
        ")",
        '"',
        "dense<",
        "memref<",
        "0",
        "return",
        "snn.lif",
        "\0",
        "[",
        ":",
    ]
    rng = random.Random(0)
    texts = [OTHERS, GOLDEN.read_text()]
    read = 0
    for k in range(400):
        text = texts[k % 2]
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice(pieces) + text[at + rng.choice((0, 0, 1, 5, 40)) :]
        try:
            read_snn_mlir(text)
            read += 1
        except (FileError, ModelError):
            pass
    assert read < 200


def test_files_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    path.write_text(OTHERS)
    assert network_differences(load_mlir(path), read_snn_mlir(OTHERS)) == ()
    with pytest.raises(FileError, match="more than 1,000 bytes"):
        nb.load(path, max_bytes=1000)
    with pytest.raises(UsageError, match="repair 'x' is requested"):
        nb.load(path, repairs=("x",))
    path.write_bytes(b"module \xff")
    with pytest.raises(FileError, match="byte 7 is no UTF-8 text"):
        nb.load(path)
    with pytest.raises(FileError, match="cannot be opened"):
        nb.load(tmp_path / "absent.mlir")


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = held_network(2)
    nb.save(network, tmp_path / "model.net.npz")
    model, text, again = (str(tmp_path / name) for name in ("model.net.npz", "model.mlir", "again.nir"))
    assert run(["lower", model, "--until", "snn-mlir", "-o", text]) == 0
    assert Path(text).read_text() == GOLDEN.read_text()
    assert network_differences(nb.load(text), held_form(network, "float32")) == ()
    capsys.readouterr()
    assert run(["inspect", text, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["totals"]["neurons"] == network.neurons
    Path(text).write_text(OTHERS)
    assert run(["import", text, "-o", again]) == 0
    assert "from snn-mlir, dt 0.0001 s (assumed" in capsys.readouterr().out
    assert network_differences(nb.load(again, dt=1e-4), nb.load(text)) == ()
    assert run(["import", text, "--dt", "1e-3", "-o", again]) == 0
    assert nb.load(again).dt == 1e-3
    for wrong in (["--from", "torch"], ["--sample-shape", "3"], ["--check", "2"], ["--calibrate", "x.npy"]):
        assert run(["import", text, *wrong, "-o", again]) == 2
        assert f"{wrong[0]}: does not apply here" in capsys.readouterr().err
    assert run(["lower", model, "--until", "snn-mlir", "--irdl", again]) == 2
    assert run(["lower", model, "--until", "snn-mlir", "--batch", "1"]) == 2
    assert run(["lower", model, "--until", "snn-mlir", "--chip", "loihi2"]) == 2

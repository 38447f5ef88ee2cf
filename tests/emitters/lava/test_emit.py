"""Emitted programs: names are data, bytes are reproducible, unsupported networks are refused."""

from __future__ import annotations

import ast
import itertools
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.emitters.artifact import write_artifact
from nirbridge.emitters.lava.emit import emit
from nirbridge.emitters.lava.runtime.run import run_program
from nirbridge.errors import ModelError, UsageError
from nirbridge.network.model import Port
from nirbridge.network.operators import Dense
from nirbridge.pipeline import fit_to_chip, load_chip, load_network
from nirbridge.quantization.model import FixedInput, QuantizedNetwork
from nirbridge.simulators.simulate import Probe, simulate
from tests.emitters import hand_made as made

HOSTILE = (
    "it's",
    'a "quoted" name',
    '"""',
    "'''",
    '"""\nimport os\nos.abort()\n"""',
    "line\nbreak",
    "{0} {x!r} %s %(x)s {{",
    "null\0byte",
    "../../etc/passwd",
    "/absolute",
    "..",
    "",
    "\\",
    "\u202egnp.exe",
    "#",
    "layer0",
    "*",
    "a:s,u",
    "x" * 10_000,
)


def hostile(names: tuple[str, ...]) -> QuantizedNetwork:
    """A chain of populations with these names; the first is the input's."""
    rng = np.random.default_rng(0)
    populations = [made.population(name, (2,), made.neuron(bias_mant=500)) for name in names[1:]]
    edges = [made.projection(a, b, made.dense(rng, 2, 2)) for a, b in itertools.pairwise(names)]
    q = made.quantized([FixedInput(names[0], (2,))], populations, edges, [names[-1]])
    return replace(q, outputs=(Port("out\n'''", (2,)),), reads=(replace(q.reads[0], target="out\n'''"),))


def test_hostile_names_never_become_code_or_paths() -> None:
    plain = hostile(tuple(f"n{k}" for k in range(len(HOSTILE))))
    a, b = emit(hostile(HOSTILE)), emit(plain)
    assert set(a.files) == set(b.files)
    for path in a.files:
        if path not in ("program.json", "manifest.json"):
            assert a.files[path] == b.files[path], path
    assert [n["name"] for n in json.loads(a.files["program.json"])["nodes"]] == list(HOSTILE[1:])
    assert json.loads(a.files["program.json"])["inputs"][0]["name"] == HOSTILE[0]


def test_hostile_names_run(tmp_path: Path, lava_python: Path) -> None:
    names = (*HOSTILE[:4], HOSTILE[7], HOSTILE[8], "", "*", HOSTILE[-1])
    q = hostile(names)
    write_artifact(emit(q), tmp_path / "program")
    inputs = made.random_inputs(q, 6)
    ran = run_program(tmp_path / "program", inputs, record=[f"{name}:v" for name in names[1:]], python=lava_python)
    expected = made.Oracle(q).run(inputs, 6)
    for name in names[1:]:
        assert np.array_equal(ran.arrays[name, "v"], expected[name, "v"])


def test_every_file_is_python_that_imports_only_lava_and_numpy() -> None:
    allowed = {"lava", "numpy", "processes", "network", "clean_exit", "lava_compat"} | sys.stdlib_module_names
    programs = [emit(made.random_network(seed)) for seed in range(1, 6)]
    assert any(b"csr_matrix" in program.files["network.py"] for program in programs)
    for path, content in [item for program in programs for item in program.files.items()]:
        if not path.endswith(".py"):
            continue
        for node in ast.walk(ast.parse(content)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                assert {name.split(".")[0] for name in names} <= allowed, path


def test_the_same_network_gives_the_same_bytes() -> None:
    code = "from tests.emitters import hand_made as m; from nirbridge.emitters.lava.emit import emit; "
    code += "import sys; sys.stdout.write(emit(m.random_network(4)).digest)"
    root = Path(__file__).parents[3]
    other = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env={"PYTHONHASHSEED": "77"}, capture_output=True, text=True, check=True
    )
    assert other.stdout == emit(made.random_network(4)).digest
    assert other.stdout != emit(made.random_network(5)).digest


def test_everything_that_lava_would_cut_without_a_word_is_refused() -> None:
    n = made.neuron(du=4096, bias_mant=5000, bias_exp=9)
    odd, high = Dense(made.ints([[3]])), Dense(made.ints([[300]]))
    edges = [
        made.projection("in", "a", odd),
        made.projection("in", "a", high, delay_steps=99),
        made.projection("in", "a", odd, sign_mode="excitatory", delay_steps=0),
        made.projection("b", "a", Dense(made.ints([[2, 2]])), weight_exp=-1, delay_steps=[1, 2]),
    ]
    inputs = [FixedInput("in", (1,)), FixedInput("b", (2,))]
    q = made.quantized(inputs, [made.population("a", (1,), n)], edges, ["a"])
    with pytest.raises(ModelError) as caught:
        emit(q)
    said = str(caught.value)
    for text in ("du from 4,096", "bias_mant from 5,000", "bias_exp from 9", "not multiples of 2", "from 300 to 300"):
        assert text in said
    assert "a delay of 99 steps" in said
    assert "a delay of 0 time steps" in said
    assert "uneven delays and a negative exponent" in said


def test_graded_input_on_a_chip_of_binary_spikes_names_the_encoders() -> None:
    q = made.quantized(
        [FixedInput("in", (1,), 15)],
        [made.population("a", (1,), made.neuron())],
        [made.projection("in", "a", Dense(made.ints([[2]])))],
        ["a"],
    )
    with pytest.raises(ModelError, match="nirbridge.simulators.encoders"):
        emit(replace(q, chip="loihi1", formats={"programmable": False}))
    assert emit(q).files


def test_options_that_contradict_each_other() -> None:
    q = made.random_network(0)
    with pytest.raises(UsageError, match="floating and a map, a map holds the integers of the chip; choose one"):
        emit(q, floating=True, mapped=[])
    with pytest.raises(UsageError, match="the real network is not known"):
        emit(q, floating=True)


def test_the_floating_variant_is_the_reference(root: Path, tmp_path: Path, lava_python: Path) -> None:
    from nirbridge.passes import Retime
    from nirbridge.quantization.quantize import quantize

    chip = load_chip("loihi2")
    network = load_network(root / "examples" / "models" / "digits_mlp.nir")
    q = quantize(Retime(delay_steps_max=chip.core.delay_steps).retimed(fit_to_chip(network, chip)), chip)
    assert q.network is not None
    write_artifact(emit(q, floating=True), tmp_path / "program")
    rng = np.random.default_rng(0)
    inputs: Any = {port.name: (rng.random((15, *port.shape)) < 0.3).astype(np.uint8) for port in q.inputs}
    found = run_program(tmp_path / "program", inputs, record=["*:s,v"], python=lava_python)
    records = [Probe(p.name, ("s", "v")) for p in q.populations]
    expected = simulate(q.network, inputs, record=records, dtype="float64").recording
    for (node, variable), values in expected.arrays.items():
        np.testing.assert_allclose(found.arrays[node, variable], values, rtol=1e-12, atol=1e-12)
    assert sum(int(found.arrays[p.name, "s"].sum()) for p in q.populations) > 20

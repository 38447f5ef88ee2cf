"""A network through every stage: its text read back, accepted by MLIR, and run by MLIR's own code generator."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge.arrays import Array, freeze
from nirbridge.dialect.build import network_module, quantized_module
from nirbridge.dialect.definition import irdl_text
from nirbridge.dialect.lowering.program import LoweredProgram, lowered
from nirbridge.dialect.module import DialectModule, check_module, parse_module
from nirbridge.dialect.passes.forms import Forms, apply_forms, choose_forms
from nirbridge.dialect.read import module_model
from nirbridge.network.equality import network_differences
from nirbridge.network.model import Network
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.fixed.host_io import integer_inputs
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Probe
from tests.dialect.jit import Compiled
from tests.emitters.c.programs import ALL, random_inputs
from tests.emitters.held_out import dyadic_network

Recorded = Mapping[tuple[str, str], Array]
BATCH = 2


def accepted(texts: list[str], folder: Path) -> None:
    """Stock ``mlir-opt`` reads and verifies every text; it knows our dialect from its definition."""
    (folder / "spike.irdl").write_text(irdl_text())
    for k, text in enumerate(texts):
        (folder / f"{k}.mlir").write_text(text)
        irdl = [f"--irdl-file={folder / 'spike.irdl'}"] if "spike." in text else []
        command = ["mlir-opt-22", *irdl, folder / f"{k}.mlir", "-o", "/dev/null"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:2000]
    assert "spike." not in texts[-1]


def random_forms(module: DialectModule, rng: np.random.Generator) -> Forms:
    """Those that are chosen, or any."""
    if rng.random() < 0.4:
        return choose_forms(module)
    batched, events = (frozenset(k for k in range(40) if rng.random() < share) for share in (0.6, 0.5))
    return Forms(batched, bool(rng.random() < 0.6), events)


def staged(module: DialectModule, rng: np.random.Generator, steps: int, folder: Path) -> LoweredProgram:
    """The program of a module, by way of its text, in random forms and of known or unknown extents."""
    check_module(module)
    texts = [module.text()]
    module = parse_module(texts[0])
    assert module.text() == texts[0]
    module = apply_forms(module, random_forms(module, rng))
    check_module(module)
    texts.append(module.text())
    assert parse_module(texts[1]).text() == texts[1]
    extents = [{}, {"batch": BATCH}, {"steps": steps}, {"batch": BATCH, "steps": steps}][int(rng.integers(4))]
    program = lowered(module, **extents)  # type: ignore[arg-type]
    accepted([*texts, program.text], folder)
    return program


def differences(found: Recorded, expected: Recorded) -> list[str]:
    """The variables that differ, with their counts; both have other ones as well."""
    assert set(found) <= set(expected), set(found) - set(expected)
    return [
        f"{key}: {int(np.sum(array != expected[key]))} of {array.size}"
        for key, array in found.items()
        if not np.array_equal(array.astype(expected[key].dtype), expected[key])
    ]


def real_run(network: Network, seed: int, steps: int) -> tuple[Recorded, Recorded]:
    """(what the compiled program records, what the reference records), the network's text read back in between."""
    rng = np.random.default_rng(seed)
    dtype = "float64" if rng.random() < 0.25 else "float32"
    records = [(p.name, v) for p in network.populations for v in ("u", "v", "i", *("s" * p.neuron.fires))]
    module = network_module(network, dtype, records)
    assert not network_differences(module_model(parse_module(module.text())), network)  # type: ignore[arg-type]
    shapes = {p.name: (steps, BATCH, *p.shape) for p in network.inputs}
    inputs = {n: (rng.random(of) < 0.4).astype(np.float32) * rng.choice([1, 1, 1 / 4]) for n, of in shapes.items()}
    probes = [Probe(p.name, ("s", "u", "v", "i")[not p.neuron.fires :]) for p in network.populations]
    probes += [Probe(p.name, ("s",)) for p in network.outputs]
    given: Any = {"steps": steps, "record": probes, "backend": "numpy", "dtype": dtype}
    expected = dict(simulate(network, inputs, **given).recording.arrays)
    if not network.inputs:
        expected = {key: np.stack([array] * BATCH, 1) for key, array in expected.items()}
        inputs = {"": np.zeros((steps, BATCH), np.float32)}
    with tempfile.TemporaryDirectory() as folder:
        program = staged(module, rng, steps, Path(folder))
        return Compiled(program, Path(folder)).run(inputs, BATCH), expected


def fixed_run(q: QuantizedNetwork, seed: int, steps: int) -> tuple[Recorded, Recorded]:
    """As ``real_run``, of integers and the fixed-point simulator, which records in 32 bits."""
    rng, inputs = np.random.default_rng(seed), random_inputs(q, steps, BATCH, seed)
    given: Any = {"steps": None if q.inputs else steps}
    expected = dict(simulate_fixed(q, inputs, record=ALL, **given).recording.arrays)
    if not q.inputs:
        expected = {key: np.stack([array] * BATCH, 1) for key, array in expected.items()}
    records = [(p.name, v) for p in q.populations for v in ("u", "v", *("s" * p.neuron.fires))]
    module = quantized_module(q, records, bits=64 if rng.random() < 0.2 else None)
    arrays = integer_inputs(q, inputs, None)[0] if q.inputs else {"": np.zeros((steps, BATCH), np.int32)}
    with tempfile.TemporaryDirectory() as folder:
        program = staged(module, rng, steps, Path(folder))
        found = Compiled(program, Path(folder)).run(arrays, BATCH)
    return {key: array for key, array in found.items() if key in expected}, expected


def odd_network(seed: int) -> Network:
    """A dyadic network in which delays on cycles follow their operators, with weights and delays of other types."""
    rng, network = np.random.default_rng([seed, 99]), dyadic_network(seed)
    edges = []
    for p in network.projections:
        if p.is_back and rng.random() < 0.7:
            before = np.zeros((), np.int64) if rng.random() < 0.5 else rng.integers(0, 3, p.operator.input_shape)
            after = np.uint8(rng.integers(1, 4)) if rng.random() < 0.5 else rng.integers(1, 5, p.operator.output_shape)
            p = replace(p, delay_steps=freeze(before), target_delay_steps=freeze(after))
        edges.append(p)
    populations = []
    for p in network.populations:
        changes: dict[str, Any] = {}
        if p.neuron.fires and rng.random() < 0.4:
            changes = {"theta": freeze(rng.choice([0.0, -1 / 16, 1 / 8], p.shape)), "max_spikes": 1}
        elif p.neuron.fires and rng.random() < 0.4:
            changes = {"max_spikes": 5, "compare": ">="}
        if rng.random() < 0.3:
            changes |= {"a_syn": freeze(rng.choice([0, 1 / 2, -1 / 2], p.shape)), "g_mem": freeze(np.float64(-1))}
        populations.append(replace(p, neuron=replace(p.neuron, **changes)))
    order = rng.permutation(len(edges))
    return replace(network, populations=tuple(populations), projections=tuple(edges[k] for k in order))

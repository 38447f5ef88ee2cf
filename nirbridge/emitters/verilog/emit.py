"""Verilog as a target: a quantized network as a circuit for open tools, with a test bench and recorded tokens."""

from __future__ import annotations

from pathlib import Path

from nirbridge.emitters.artifact import Artifact, make_artifact
from nirbridge.emitters.target import Target, later
from nirbridge.emitters.verilog.bench import bench_text
from nirbridge.emitters.verilog.plan import Circuit, circuit
from nirbridge.emitters.verilog.render import core_text, hex_lines, memories, top_text
from nirbridge.files.regular import template_text
from nirbridge.network.neurons import ALL
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.storage.file import quantized_bytes

NETWORK = "network.q.npz"


def emit(quantized: QuantizedNetwork) -> Artifact:
    plan = circuit(quantized, {p.name: 4 for p in quantized.populations})
    return files_of(plan)


def template(name: str) -> str:
    """A file of the folder ``templates``."""
    return template_text(Path(__file__).with_name("templates") / f"{name}.txt")


def files_of(plan: Circuit) -> Artifact:
    parts = [text for core in plan.cores for text in (core.neuron.text, core_text(core))]
    texts = {
        "net.v": "\n".join([*parts, top_text(plan)]),
        "library.v": template("library.v"),
        "testbench.v": bench_text(plan, template("testbench.v"), 20),
        "main.cpp": template("main.cpp"),
        "clock.v": template("clock.v"),
    }
    for core in plan.cores:
        texts |= {name: hex_lines(words) for name, words in memories(core).items()}
    texts["vectors/in0.hex"]=""
    files = {path: text.encode("ascii") for path, text in texts.items()}
    files[NETWORK] = quantized_bytes(plan.quantized)
    facts = {"kind": "verilog", "schema": 1, "lanes": {c.population.name: c.stream.layout.lanes for c in plan.cores}}
    return make_artifact(files, facts)

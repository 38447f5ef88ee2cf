"""A plan as the source of a program. No name of the model enters it: identifiers are numbered, names are data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.lava.plan.model import Argument, LavaLayer, LavaPlan, LavaSynapse
from nirbridge.emitters.program import filled, with_host_code
from nirbridge.files.regular import template_text

TEMPLATES = Path(__file__).with_name("templates")
_IMPORTS = {
    "LIF": "lava.proc.lif.process",
    "Dense": "lava.proc.dense.process",
    "DelayDense": "lava.proc.dense.process",
    "Sparse": "lava.proc.sparse.process",
    "DelaySparse": "lava.proc.sparse.process",
    "Conv": "lava.proc.conv.process",
}
_INDENT = "    "


def network_text(plan: LavaPlan) -> str:
    """The file ``network.py``: every process and every connection, in order."""
    lines = [_template("network_head.py.txt").rstrip("\n"), "", *_imports(plan), ""]
    lines += [f'TAG = "{plan.tag}"', "", ""]
    if any(s.process in ("Sparse", "DelaySparse") for s in plan.synapses):
        lines += [_template("network_sparse.py.txt").rstrip("\n"), "", ""]
    lines += ["def build(data, inputs, wanted, folder, steps):"]
    lines += [_INDENT + line if line else "" for line in _template("network_doc.txt").rstrip("\n").split("\n")]
    lines += [_INDENT + line if line else "" for line in _body(plan)]
    return "\n".join(lines) + "\n"


def recorder_text(plan: LavaPlan) -> str:
    """The file ``processes/recorder.py``, with a port for every array that a run can keep."""
    number = "np.int32" if plan.tag == "fixed_pt" else "float"
    ports: list[str] = []
    types: list[str] = []
    for layer in plan.layers:
        for letter, port in (("s", "InPort"), ("u", "RefPort"), ("v", "RefPort")):
            ports.append(f"self.{letter}_{layer.id} = {port}(shape={layer.shape!r})")
            types.append(f"{letter}_{layer.id}: Py{port} = LavaPyType(Py{port}.VEC_DENSE, {number})")
    return filled(_template("recorder.py.txt"), {"PORTS": ports, "TYPES": types})


def weight_arrays(plan: LavaPlan) -> dict[str, Array]:
    """The arrays of ``weight_arrays.npz``: what the processes take, by ``process.argument``."""
    out: dict[str, Array] = {}
    for process in (*plan.layers, *plan.synapses):
        for name, value in process.arguments.items():
            if isinstance(value, np.ndarray):
                out[f"{process.id}.{name}"] = value
    return out


def static_files(plan: LavaPlan) -> Iterator[tuple[str, str]]:
    """Files that are the same for every program (custom neurons only where they are used)."""
    yield "run.py", with_host_code(_template("run.py.txt"))
    yield "lava_compat.py", _template("lava_compat.py.txt")
    yield "clean_exit.py", _template("clean_exit.py.txt")
    yield "processes/__init__.py", '"""Processes of this program that Lava does not have."""\n'
    if plan.definitions:
        functions = dict.fromkeys(text for layer in plan.layers for text in layer.functions)
        classes = [text.replace("NAME", name) for text, name in plan.definitions.items()]
        parts = [_template("neurons.py.txt"), *functions, *classes]
        yield "processes/neurons.py", "\n\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def readme_text(plan: LavaPlan) -> str:
    """The file ``README.md`` of the program."""
    kinds = "integers, bit for bit as Loihi computes them" if plan.tag == "fixed_pt" else "floating point"
    inputs = [f"| `{t.id}` | input | {_shape(t.shape)} |" for t in plan.inputs]
    layers = [f"| `{x.id}` | {plan.process(x)} | {_shape(x.shape)} |" for x in plan.layers]
    synapses = [f"| `{x.id}` | {x.process}, `{x.source}` to `{x.target}` | |" for x in plan.synapses]
    text = _template("README.md.txt").replace("@KIND@", kinds).replace("@PROCESSES@", str(plan.processes))
    return text.replace("@TABLE@", "\n".join([*inputs, *layers, *synapses]))


def _imports(plan: LavaPlan) -> list[str]:
    used = {x.process for x in (*plan.layers, *plan.synapses)}
    imported: dict[str, set[str]] = {"processes.recorder": {"Recorder"}}
    if plan.definitions:
        imported["processes.neurons"] = {*plan.definitions.values()}
    if plan.sources:
        imported["lava.proc.io.source"] = {"RingBuffer"}
    for name in used & {*_IMPORTS}:
        imported.setdefault(_IMPORTS[name], set()).add(name)
    if any(s.sign_mode for s in plan.synapses):
        imported["lava.utils.weightutils"] = {"SignMode"}
    if used & {"Sparse", "DelaySparse"}:
        imported["lava.utils.sparse"] = {"csr_matrix"}  # SciPy's, which Lava brings along
    return [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(imported.items())]


def _body(plan: LavaPlan) -> Iterator[str]:
    for source in plan.sources:
        yield f'{source.id} = RingBuffer(data=inputs["{source.id}"])'
    for layer in plan.layers:
        yield from _constructed(layer, plan.process(layer))
    yield ""
    for synapse in plan.synapses:
        yield from _constructed(synapse, synapse.process)
        yield f"{synapse.source}.s_out{_path(synapse.before)}.connect({synapse.id}.s_in)"
        yield f"{synapse.id}.a_out{_path(synapse.after)}.connect({synapse.target}.a_in)"
    yield ""
    yield "recorder = Recorder(wanted=wanted, folder=folder, steps=steps)"
    for layer in plan.layers:
        yield f"{layer.id}.s_out.connect(recorder.s_{layer.id})"
        for name in ("u", "v"):
            yield f'if "{name}_{layer.id}" in wanted:'
            yield f"{_INDENT}recorder.{name}_{layer.id}.connect_var({layer.id}.{name})"
    yield "return recorder"


def _constructed(process: LavaLayer | LavaSynapse, name: str) -> Iterator[str]:
    parts = list(_arguments(process))
    line = f"{process.id} = {name}({', '.join(parts)})"
    if len(line) <= 100:
        yield line
        return
    yield f"{process.id} = {name}("
    yield from (f"{_INDENT}{part}," for part in parts)
    yield ")"


def _arguments(process: LavaLayer | LavaSynapse) -> Iterator[str]:
    arguments = dict(process.arguments)
    if process.process in ("Sparse", "DelaySparse"):
        yield from _matrices(process.id, arguments)
    for name, value in arguments.items():
        yield f"{name}={_value(process.id, name, value)}"
    if isinstance(process, LavaSynapse) and process.sign_mode:
        yield f"sign_mode=SignMode.{process.sign_mode.upper()}"


def _matrices(id: str, arguments: dict[str, Argument]) -> Iterator[str]:
    shape = arguments.pop("matrix_shape")
    for name in ("data", "indices", "indptr"):
        arguments.pop(name)
    yield f'weights=sparse(data, "{id}", "data", {shape!r})'
    if arguments.pop("delays", None) is not None:
        yield f'delays=sparse(data, "{id}", "delays", {shape!r})'


def _value(id: str, name: str, value: Argument) -> str:
    """Numbers, known words and shapes as they are; arrays by where they lie."""
    if isinstance(value, np.ndarray):
        return f'data["{id}.{name}"]'
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _path(steps: tuple[tuple[str, tuple[int, ...]], ...]) -> str:
    return "".join(f".{word}({list(numbers) if word == 'transpose' else numbers!r})" for word, numbers in steps)


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "1"


def _template(name: str) -> str:
    return template_text(TEMPLATES / name)


def program_meta(plan: LavaPlan) -> Mapping[str, object]:
    """Entries of ``program.json`` besides nodes: chip, time step, latency, notes."""
    return {
        "schema": 1,
        "chip": plan.chip,
        "dt": plan.dt,
        "tag": plan.tag,
        "processes": plan.processes,
        "latency": dict(plan.latency),
        "notes": list(plan.notes),
        **plan.extra,
    }

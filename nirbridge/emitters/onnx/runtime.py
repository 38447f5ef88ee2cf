"""Runs an emitted ONNX model in ONNX Runtime, with the recorded variables as further outputs."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact
from nirbridge.emitters.host_outputs import needed_arrays, recorded_arrays
from nirbridge.emitters.onnx.plan import MODEL, NETWORK, PROGRAM, needed
from nirbridge.errors import Diagnostic, ModelError, UsageError, quoted
from nirbridge.network.model import Network, Population, Port, Timing
from nirbridge.network.neurons import neuron
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.storage.file import read_quantized
from nirbridge.simulators.fixed.host_io import fixed_channels, fixed_meta, integer_inputs, signature_network
from nirbridge.simulators.inputs import Input, open_inputs
from nirbridge.simulators.recording import ChannelRecorder, recording_channels, required_variables
from nirbridge.simulators.types import Key, Probe, Recording

TIMING = Timing(None, "euler", "to-value", ">", "per-second")


def run_program(
    artifact: Artifact,
    inputs: Mapping[str, Input] | Input,
    *,
    steps: int | None = None,
    record: Sequence[Probe] | None = None,
    progress: Progress = no_progress,
) -> Recording:
    """Runs a model on inputs.

    Args:
        artifact: an emitted model.
        inputs: see ``simulate``: ``[steps, *shape]`` or ``[steps, batch, *shape]``, by input name or one alone.
        steps: number of time steps; default: the length of the inputs.
        record: see ``simulate``, and ``simulate_fixed`` for a model in integers.
        progress: called with a stage and the completed fraction.

    Raises:
        UsageError: ONNX Runtime is not installed, or inputs or records that the model does not take.
        ModelError: ONNX Runtime refuses the model.
    """
    needed("onnx")
    needed("onnxruntime")
    progress("run", 0.0)
    facts = json.loads(artifact.files[PROGRAM])
    run = _integers if facts["numbers"] == "integers" else _reals
    recording = run(artifact, facts, inputs, steps, record)
    progress("run", 1.0)
    return recording


def _integers(
    artifact: Artifact, facts: Any, inputs: Any, steps: int | None, record: Sequence[Probe] | None
) -> Recording:
    quantized = _quantized(artifact.files[NETWORK])
    channels = fixed_channels(quantized, signature_network(quantized), record)
    arrays, batched = integer_inputs(quantized, inputs, steps)
    length, samples = next(iter(arrays.values())).shape[:2]
    requested = required_variables(channels)
    found, _ = _ran(artifact, facts, arrays, needed_arrays(quantized, requested))
    recorder = ChannelRecorder(channels, 0, length, samples)
    recorder.take(recorded_arrays(quantized, requested, found, arrays), length, np.asarray)
    return recorder.finish(batched, fixed_meta(quantized, length, 0, samples if batched else None, backend="onnx"))


def _quantized(content: bytes) -> QuantizedNetwork:
    with tempfile.TemporaryDirectory(prefix="nirbridge-onnx-") as folder:
        path = Path(folder) / NETWORK
        path.write_bytes(content)
        return read_quantized(path, max_bytes=sys.maxsize)


def _reals(artifact: Artifact, facts: Any, inputs: Any, steps: int | None, record: Sequence[Probe] | None) -> Recording:
    network = _signature(facts)
    opened = open_inputs(network, inputs, steps, 0, "float32")
    values = {name: np.asarray(a, np.float32) for name, a in opened.read(0, opened.steps).items()}
    channels = _channels(network, facts, record)
    populations = {p.name for p in network.populations}
    keys = {(c.node, c.source) for c in channels if c.node in populations}
    found, outputs = _ran(artifact, facts, values, keys)
    shapes = {p.name: p.shape for p in network.populations}
    taken = {key: a.reshape(*a.shape[:2], *shapes[key[0]]) for key, a in found.items()}
    taken |= {(name, variable): a for name, a in outputs.items() for variable in ("s", "v")}
    taken |= {(name, "s"): a for name, a in values.items()}
    recorder = ChannelRecorder(channels, 0, opened.steps, opened.batch or 1)
    recorder.take(taken, opened.steps, np.asarray)
    meta = {"dt": facts["dt"], "steps": opened.steps, "first_step": 0, "batch": opened.batch, "backend": "onnx"}
    meta |= {"dtype": "float32", "latency": {}, "outputs": [p.name for p in network.outputs]}
    return recorder.finish(opened.batch is not None, meta)


def _signature(facts: Any) -> Network:
    """A network of the names and shapes of a model, without projections."""
    populations = tuple(
        Population(
            n["name"],
            tuple(n["shape"]),
            neuron("IF", theta=1.0 if n["fires"] else None, max_spikes=n["max_spikes"]),
        )
        for n in facts["nodes"]
    )
    inputs, outputs = (tuple(Port(p["name"], tuple(p["shape"])) for p in facts[key]) for key in ("inputs", "outputs"))
    return Network(facts["dt"], TIMING, populations, (), inputs, outputs)


def _channels(network: Network, facts: Any, record: Sequence[Probe] | None) -> list[Any]:
    """The requested arrays, outputs in the type that the reference records."""
    wrong = [Diagnostic(f"record {quoted(p.node)}", "variable i", "", "a program records s, u and v")
             for p in record or () if "i" in p.variables]  # fmt: skip
    UsageError.raise_all(wrong)
    silent = {p["name"] for p in facts["outputs"] if p["reads_out"]}
    probes = record or [Probe(p.name, ("v" if p.name in silent else "s",)) for p in network.outputs]
    types = {p["name"]: p["dtype"] for p in facts["outputs"]}
    channels = recording_channels(network, probes, frozenset(), "float32")
    return [c if c.node not in types or c.variable != "s" else replace(c, dtype=types[c.node]) for c in channels]


def _ran(
    artifact: Artifact, facts: Any, values: Mapping[str, Array], keys: set[Key]
) -> tuple[dict[Key, Array], dict[str, Array]]:
    """(variables of populations, flat over neurons; outputs): ``[steps, samples, …]``."""
    import onnxruntime

    order = sorted(keys)
    tensors = {n["name"]: n["variables"] for n in facts["nodes"]}
    content = _with_outputs(artifact.files[MODEL], [tensors[name][variable] for name, variable in order])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        given = {p["id"]: np.ascontiguousarray(values[p["name"]], p["dtype"]) for p in facts["inputs"]}
        found = session.run(None, given)
    except Exception as error:  # ONNX Runtime raises its own kinds, of no common base
        raise ModelError.of("program", f"ONNX Runtime refuses it: {quoted(str(error), 300)}") from None
    count = len(facts["outputs"])
    outputs = {p["name"]: np.asarray(a) for p, a in zip(facts["outputs"], found[:count], strict=True)}
    variables = zip(order, found[count:], strict=True)
    integral = facts["numbers"] == "integers"
    return {key: np.asarray(a).astype(np.int64) if integral else np.asarray(a) for key, a in variables}, outputs


def _with_outputs(content: bytes, tensors: Sequence[str]) -> bytes:
    """The model with tensors of a time step as further outputs."""
    import onnx

    model: Any = onnx.load_model_from_string(content)
    (scan,) = (node for node in model.graph.node if node.op_type == "Scan")
    (body,) = (a.g for a in scan.attribute if a.name == "body")
    for k, tensor in enumerate(tensors):
        body.node.append(onnx.helper.make_node("Identity", [tensor], [f"record{k}_now"]))
        body.output.append(onnx.ValueInfoProto(name=f"record{k}_now"))
        scan.output.append(f"record{k}")
        model.graph.output.append(onnx.ValueInfoProto(name=f"record{k}"))
    return model.SerializeToString()

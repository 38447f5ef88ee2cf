"""Runs an emitted ONNX model in ONNX Runtime, with the recorded variables as further outputs."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact
from nirbridge.emitters.host_outputs import needed_arrays, recorded_arrays
from nirbridge.emitters.onnx.plan import MODEL, NETWORK, PROGRAM, needed
from nirbridge.emitters.real_recordings import population_keys, real_channels, real_recording, signature
from nirbridge.errors import ModelError, quoted
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.storage.file import read_quantized
from nirbridge.simulators.fixed.host_io import fixed_channels, fixed_meta, integer_inputs, signature_network
from nirbridge.simulators.inputs import Input, open_inputs
from nirbridge.simulators.recording import ChannelRecorder, required_variables
from nirbridge.simulators.types import Key, Probe, Recording


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
    network = signature(facts)
    opened = open_inputs(network, inputs, steps, 0, "float32")
    values = {name: np.asarray(a, np.float32) for name, a in opened.read(0, opened.steps).items()}
    channels = real_channels(network, facts, record)
    found, outputs = _ran(artifact, facts, values, population_keys(network, channels))
    return real_recording(network, channels, opened, found, outputs, backend="onnx")


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

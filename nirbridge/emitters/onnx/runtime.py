"""Runs an emitted ONNX model in ONNX Runtime, with the recorded variables as further outputs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact
from nirbridge.emitters.onnx.emit import MODEL, needed
from nirbridge.emitters.own_time import compile_time, own_time
from nirbridge.emitters.program_runs import Ran, record_program
from nirbridge.errors import ModelError, quoted
from nirbridge.simulators.inputs import Input
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
    recording = record_program(artifact, inputs, steps, record, partial(_ran, artifact.files[MODEL]))
    progress("run", 1.0)
    return recording


def _ran(model: bytes, facts: Any, values: Mapping[str, Array], keys: set[Key], steps: int) -> Ran:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # else Microsoft hears of each session
    import onnxruntime

    del steps  # those of the inputs
    order = sorted(keys)
    tensors = {n["name"]: n["variables"] for n in facts["nodes"]}
    content = _with_outputs(model, [tensors[name][variable] for name, variable in order])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        with compile_time():
            session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        given = {p["id"]: np.ascontiguousarray(values[p["name"]], p["dtype"]) for p in facts["inputs"]}
        with own_time():
            found = session.run(None, given)
    except Exception as error:  # ONNX Runtime raises its own kinds, of no common base
        raise ModelError.of("program", f"ONNX Runtime refuses it: {quoted(str(error), 300)}") from None
    count = len(facts["outputs"])
    outputs = {p["name"]: np.asarray(a) for p, a in zip(facts["outputs"], found[:count], strict=True)}
    return {key: np.asarray(a) for key, a in zip(order, found[count:], strict=True)}, outputs


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

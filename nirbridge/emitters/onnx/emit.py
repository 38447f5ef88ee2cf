"""ONNX as a target: a network in float32, or a quantized network in integers, as one model over time."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from typing import Any

from nirbridge._version import __version__
from nirbridge.emitters.artifact import Artifact, make_artifact
from nirbridge.emitters.ports import NETWORK, PROGRAM, PlannedState, ProgramNames
from nirbridge.emitters.readme import filled, shape_text, table_name
from nirbridge.emitters.target import Target, later
from nirbridge.errors import ModelError, ToolMissing
from nirbridge.files.npy import digest_of
from nirbridge.files.regular import template_bytes
from nirbridge.network.model import Network
from nirbridge.network.neurons import ALL
from nirbridge.network.storage.file import network_to_dict
from nirbridge.quantization.model import QuantizedNetwork

TEMPLATES = Path(__file__).with_name("templates")
MODEL = "model.onnx"
"""The file of the model."""
BYTES_MAX = 2**31 - 1
"""Limit of a protobuf file."""


def needed(package: str) -> None:
    """Raises ToolMissing where a package of the extra ``onnx`` is not installed."""
    if importlib.util.find_spec(package) is None:
        step = "install nirbridge[onnx]"
        raise ToolMissing.of("emitter 'onnx'", f"the package {package} is not installed", "", step)


def emit(model: Network | QuantizedNetwork) -> Artifact:
    """The ONNX model of a network in float32, or of a quantized network in integers; always the same bytes.

    Raises:
        UsageError: the package onnx is not installed.
        ModelError: no input, or what ONNX Runtime cannot compute; more than 2 GB.
    """
    content, names = model_bytes(model)
    files = {MODEL: content, PROGRAM: names.as_json(), "run.py": _template("run.py")}
    files["README.md"] = _readme(names)
    if isinstance(model, QuantizedNetwork):
        from nirbridge.quantization.storage.file import quantized_bytes

        files[NETWORK] = quantized_bytes(model)
    return make_artifact(files, {"kind": "onnx", "schema": 1, "numbers": names.facts["numbers"]})


def model_bytes(model: Network | QuantizedNetwork) -> tuple[bytes, ProgramNames]:
    """The file of a model, and its names. Raises as ``emit``."""
    needed("onnx")
    import onnx

    from nirbridge.emitters.onnx.scan import integer_model, real_model

    if not model.inputs:
        raise ModelError.of("network", "has no input", "an ONNX model takes time and batch from one", "add an input")
    proto, names = integer_model(model) if isinstance(model, QuantizedNetwork) else real_model(model)
    onnx.helper.set_model_props(proto, _metadata(model, names))
    content = proto.SerializeToString(deterministic=True)
    if len(content) > BYTES_MAX:
        raise ModelError.of("network", f"a model of {len(content):,} bytes", f"ONNX takes {BYTES_MAX:,}", "emit a part")
    return content, names


def _metadata(model: Network | QuantizedNetwork, names: ProgramNames) -> dict[str, str]:
    """Facts that the file of a model states of itself, in JSON; the same model has the same."""
    from nirbridge.quantization.storage.file import quantized_to_dict

    is_fixed = isinstance(model, QuantizedNetwork)
    ports = {
        key: [{"id": p.id, "name": p.name, "shape": p.shape} for p in each]
        for key, each in (("inputs", names.inputs), ("outputs", names.outputs))
    }
    states = [{"id": s.id, "name": s.name, "part": s.part, "shape": s.shape} for s in names.states or () if s.id]
    facts: dict[str, Any] = {**names.facts, **ports, "states": states, "version": __version__}
    facts["latency"] = dict(model.latency) if is_fixed else {p.name: 0 for p in model.outputs}
    if is_fixed:
        facts["scales"] = {p.name: p.scale for p in model.inputs if p.graded} | {
            p.name: {"scale": p.neuron.scale.tolist(), "v_offset": p.neuron.v_offset.tolist()}
            for p in model.populations
        }
    facts["source_sha256"] = digest_of(*(quantized_to_dict(model) if is_fixed else network_to_dict(model)))
    return {f"nirbridge.{key}": json.dumps(x, sort_keys=True) for key, x in sorted(facts.items())}


def _template(name: str) -> bytes:
    return template_bytes(TEMPLATES / f"{name}.txt")


def _readme(names: ProgramNames) -> bytes:
    text = _template("README.md").decode("utf-8")
    integers = names.facts["numbers"] == "integers"
    numbers = "the integers of a chip, int64; sums that are exact in float32 are made there" if integers else "float32"
    states = "\n".join(
        f"| `{s.id}` | {table_name(s.name)} | {s.part} | {_state_shape(s)} |" for s in names.states or () if s.id
    )
    return filled(text, {"NUMBERS": numbers, "PORTS": names.table(), "STATES": states}).encode("utf-8")


def _state_shape(state: PlannedState) -> str:
    depth = (state.depth,) if state.depth else ()
    return shape_text(("batch", *depth, math.prod(state.shape)))


ONNX = Target(
    name="onnx",
    summary="one model for ONNX Runtime, OpenVINO and others, with any number of time steps and samples",
    takes=(Network, QuantizedNetwork),
    hint="emit its quantized network or the network itself",
    make=lambda model, options: emit(model),
    start=later("nirbridge.emitters.onnx.runtime:run_program"),
    session=later("nirbridge.emitters.onnx.runtime:open_program"),
    carries=ALL,
)

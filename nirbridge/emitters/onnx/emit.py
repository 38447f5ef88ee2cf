"""ONNX as a target: a network in float32, or a quantized network in integers, as one model over time."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from nirbridge.emitters.artifact import Artifact, make_artifact
from nirbridge.emitters.ports import NETWORK, PROGRAM, ProgramNames
from nirbridge.emitters.readme import filled
from nirbridge.emitters.target import Target, later
from nirbridge.errors import ModelError, ToolMissing
from nirbridge.files.regular import template_bytes
from nirbridge.network.model import Network
from nirbridge.network.neurons import ALL
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
    from nirbridge.emitters.onnx.scan import integer_model, real_model

    if not model.inputs:
        raise ModelError.of("network", "has no input", "an ONNX model takes time and batch from one", "add an input")
    proto, names = integer_model(model) if isinstance(model, QuantizedNetwork) else real_model(model)
    content = proto.SerializeToString(deterministic=True)
    if len(content) > BYTES_MAX:
        raise ModelError.of("network", f"a model of {len(content):,} bytes", f"ONNX takes {BYTES_MAX:,}", "emit a part")
    return content, names


def _template(name: str) -> bytes:
    return template_bytes(TEMPLATES / f"{name}.txt")


def _readme(names: ProgramNames) -> bytes:
    text = _template("README.md").decode("utf-8")
    integers = names.facts["numbers"] == "integers"
    numbers = "the integers of a chip, int64; sums that are exact in float32 are made there" if integers else "float32"
    return filled(text, {"NUMBERS": numbers, "PORTS": names.table()}).encode("utf-8")


ONNX = Target(
    name="onnx",
    summary="one model for ONNX Runtime, OpenVINO and others, with any number of time steps and samples",
    takes=(Network, QuantizedNetwork),
    hint="emit its quantized network or the network itself",
    make=lambda model, options: emit(model),
    start=later("nirbridge.emitters.onnx.runtime:run_program"),
    carries=ALL,
)

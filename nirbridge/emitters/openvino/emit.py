"""OpenVINO as a target: the ONNX model of a network in float32, or with its products in int8 by NNCF."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact, make_artifact, npz_bytes
from nirbridge.emitters.lava.runtime.run import output_of_script
from nirbridge.emitters.onnx.emit import MODEL, model_bytes
from nirbridge.emitters.ports import PROGRAM, identifiers
from nirbridge.emitters.readme import filled
from nirbridge.emitters.script_runs import ScriptTool
from nirbridge.emitters.target import Target
from nirbridge.errors import UsageError, counted, quoted
from nirbridge.files.json_text import ANSWER_BYTES_MAX, parse_json
from nirbridge.files.npy import load_npz
from nirbridge.files.places import file_name
from nirbridge.files.regular import template_bytes, template_text
from nirbridge.files.scratch import unnamed_file
from nirbridge.network.model import Network
from nirbridge.network.neurons import ALL
from nirbridge.simulators.given import LABELS, read_given
from nirbridge.simulators.inputs import open_inputs

TEMPLATES = Path(__file__).with_name("templates")
INT8 = "model.xml"
"""The file of a model in int8, beside its weights in ``model.bin``."""
QUANTIZE_S = 900.0
TOOL = ScriptTool("openvino", ("openvino",), "openvino", "OpenVINO")
NNCF = ScriptTool("openvino", ("openvino", "nncf"), "openvino", "NNCF")
IN_FLOAT32 = "all of it in float32"


@dataclass(frozen=True, slots=True)
class OpenvinoOptions:
    """Options for emitting a program for OpenVINO; ``max_drop`` is a share of the samples, and needs ``labels``."""

    int8: Annotated[str, "Calibration data, DATA.npz: products in int8 by NNCF"] = ""
    max_drop: Annotated[float | None, "Loss of accuracy on its labels; products that lose more stay float32"] = None


def emit(network: Network, options: OpenvinoOptions | None = None) -> Artifact:
    """The ONNX model of a network, or one of OpenVINO in int8, and a script that runs it.

    The same network and options give the same bytes; those in int8 also depend on the versions of OpenVINO and NNCF.

    Raises:
        ToolMissing: the package onnx is not installed; for int8, openvino or nncf.
        UsageError: an option that does not apply, data that do not fit.
        FileError: data that cannot be read.
        ModelError: no input; NNCF refuses the model.
    """
    chosen = options or OpenvinoOptions()
    _check_options(chosen)
    content, names = model_bytes(network)
    content = _with_all_variables(content, [t for n in names.nodes for t in n.variables.values()])
    files, about, model = {MODEL: content}, "", MODEL
    if chosen.int8:
        files, about = _in_int8(network, content, chosen)
        model = INT8
    files |= {
        PROGRAM: names.as_json(),
        "run.py": _filled("run.py", MODEL=model, OUTPUTS=str(len(names.outputs))),
        "README.md": _filled("README.md", MODEL=model, NUMBERS=about or IN_FLOAT32, PORTS=names.table()),
    }
    facts = {"kind": "openvino", "schema": 1, "numbers": names.facts["numbers"], "notes": [about] if about else []}
    return make_artifact(files, facts)


def _with_all_variables(content: bytes, tensors: Sequence[str]) -> bytes:
    """The model, whose loop also returns the variables that nothing in it needs: OpenVINO reads no others."""
    import onnx

    model: Any = onnx.load_model_from_string(content)
    (scan,) = (node for node in model.graph.node if node.op_type == "Scan")
    (body,) = (a.g for a in scan.attribute if a.name == "body")
    used = {port.name for port in body.output}
    for node in reversed(body.node):
        used |= set(node.input) if used & set(node.output) else set()
    unused = sorted({*tensors} - used)
    for k, tensor in enumerate(unused):
        body.node.append(onnx.helper.make_node("Identity", [tensor], [f"unused{k}_now"]))
        body.output.append(onnx.ValueInfoProto(name=f"unused{k}_now"))
        scan.output.append(f"unused{k}")
    return model.SerializeToString(deterministic=True) if unused else content


def _filled(name: str, **marks: str) -> bytes:
    return filled(template_text(TEMPLATES / f"{name}.txt"), marks).encode()


def _check_options(options: OpenvinoOptions) -> None:
    """Raises UsageError for an option that does not apply."""
    subject, drop = "options of emitter 'openvino'", options.max_drop
    if drop is None:
        return
    if not options.int8:
        raise UsageError.of(subject, "max_drop without int8", "it is a limit of int8", "name data with int8")
    if not isinstance(drop, int | float) or not 0 <= drop < 1:
        raise UsageError.of(subject, f"max_drop {drop!r}", "a share from 0 to 1", "0.01 is one sample of 100")


def _in_int8(network: Network, model: bytes, options: OpenvinoOptions) -> tuple[dict[str, bytes], str]:
    """The files of the model in int8, and a sentence on them."""
    data = _calibration(network, options)
    NNCF.needed()
    files = {
        MODEL: model,
        "quantize.py": template_bytes(TEMPLATES / "quantize.py.txt"),
        "data.npz": npz_bytes(data),
        "order.json": json.dumps(options.max_drop).encode(),
    }
    content = output_of_script(files, "quantize.py", QUANTIZE_S, tool=NNCF.tool)
    with unnamed_file("int8.npz", content) as path:
        made = {name: values.tobytes() for name, values in load_npz(path, max_bytes=sys.maxsize).items()}
    facts: Any = parse_json(made.pop("facts.json"), "facts of NNCF", bytes_max=ANSWER_BYTES_MAX)
    return made, _about(facts)


def _calibration(network: Network, options: OpenvinoOptions) -> dict[str, Array]:
    """The data by tensor, ``[time, batch, *shape]``, and ``labels`` where the file has them."""
    given = read_given(network, load_npz(options.int8))
    labels = given.labels
    if labels is None and options.max_drop is not None:
        subject, limit = f"file {quoted(file_name(options.int8))}", "max_drop is measured on the class of each sample"
        raise UsageError.of(subject, "has no 'labels'", limit, "add them, or leave out max_drop")
    classes = math.prod(network.outputs[0].shape) if network.outputs else 0
    if labels is not None and not (labels.ndim == 1 and set(labels.tolist()) <= set(range(classes))):
        subject, limit = f"file {quoted(file_name(options.int8))}", f"whole numbers from 0 to {classes - 1}"
        raise UsageError.of(subject, "'labels' are no classes of the first output", limit, "one for each sample")
    opened, ids = open_inputs(network, given.inputs, None, 0, "float32"), identifiers(network)
    found = {ids[name]: np.asarray(a, np.float32) for name, a in opened.read(0, opened.steps).items()}
    return found if labels is None else {**found, LABELS: labels}


def _about(facts: Any) -> str:
    text = f"{facts['int8']} of {counted(facts['products'], 'product')} in int8, by NNCF"
    if "accuracy" in facts:
        text += "; accuracy on the calibration data {int8:.1%}, in float32 {float32:.1%}".format(**facts["accuracy"])
    return text


OPENVINO = Target(
    name="openvino",
    summary="the ONNX model in OpenVINO, in float32 or with products in int8 by NNCF",
    takes=(Network,),
    hint="emit the network itself, since OpenVINO computes whole numbers in 32 bits; --to onnx takes integers",
    options=OpenvinoOptions,
    make=emit,
    start=TOOL.run_program,
    carries=ALL,
)

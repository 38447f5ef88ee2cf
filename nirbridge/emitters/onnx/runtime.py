"""Emitted ONNX models in ONNX Runtime, in this process: runs and sessions, with recorded variables as more outputs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from time import perf_counter
from typing import Any

import numpy as np

from nirbridge._types import Progress, no_progress
from nirbridge.arrays import Array
from nirbridge.emitters.artifact import Artifact
from nirbridge.emitters.onnx.emit import MODEL, needed
from nirbridge.emitters.own_time import add_own_time, compile_time
from nirbridge.emitters.ports import END, PAST
from nirbridge.emitters.program_sessions import ProgramSession
from nirbridge.errors import ModelError, quoted
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.types import Probe, Recording

_KEPT = 8
"""Choices of recorded variables whose sessions of ONNX Runtime are kept."""


def run_program(
    artifact: Artifact,
    inputs: Mapping[str, Input] | Input,
    *,
    steps: int | None = None,
    record: Sequence[Probe] | None = None,
    progress: Progress = no_progress,
) -> Recording:
    """Runs a model on inputs; arguments as of ``ProgramSession.run``.

    Raises:
        UsageError: ONNX Runtime is not installed, or inputs or records that the model does not take.
        FileError: a program of a version of nirbridge whose models had no states.
        ModelError: ONNX Runtime refuses the model.
    """
    model = _loaded(artifact)
    progress("run", 0.0)
    recording = ProgramSession(artifact, model).run(inputs, steps=steps, record=record).recording
    progress("run", 1.0)
    return recording


def open_program(artifact: Artifact) -> ProgramSession:
    """A model that is loaded once and runs on from states. Raises as ``run_program``."""
    model = _loaded(artifact)
    model.opened(())
    return ProgramSession(artifact, model)


def _loaded(artifact: Artifact) -> _LoadedModel:
    needed("onnx")
    needed("onnxruntime")
    return _LoadedModel(artifact.files[MODEL])


class _LoadedModel:
    """See ``LoadedProgram``; a state of ONNX Runtime: the model's own inputs by id, pasts after the samples."""

    def __init__(self, content: bytes) -> None:
        self.opened = lru_cache(_KEPT)(partial(_Opened, content))

    def enter(self, arrays: Mapping[str, Array], batch: int) -> dict[str, Array]:
        """See ``LoadedProgram``."""
        del batch  # that of the arrays
        found = {}
        for key, a in arrays.items():
            axes = 2 if key.endswith(PAST) else 1
            rows = a.swapaxes(0, axes - 1)
            found[key] = np.ascontiguousarray(rows.reshape(*rows.shape[:axes], -1))
        return found

    def leave(self, state: dict[str, Array]) -> Mapping[str, Array]:
        """See ``LoadedProgram``."""
        return {key: a.swapaxes(0, 1) if key.endswith(PAST) else a for key, a in state.items()}

    def advance(
        self, state: dict[str, Array], values: Mapping[str, Array], names: Sequence[str], steps: int
    ) -> tuple[Mapping[str, Array], dict[str, Array]]:
        """See ``LoadedProgram``. Raises ModelError where ONNX Runtime refuses the model or its arrays."""
        opened = self.opened(tuple(names))
        start = perf_counter()
        try:
            found = opened.session.run(opened.outputs, {**values, **state})
        except Exception as error:  # ONNX Runtime raises its own kinds, of no common base
            raise _refused(error) from None
        add_own_time(perf_counter() - start)
        named: dict[str, Any] = dict(zip(opened.labels, found, strict=True))
        return named, {key: named[key + END] for key in state}


class _Opened:
    """A session of ONNX Runtime, whose outputs are also ``names``: tensors of a time step."""

    def __init__(self, content: bytes, names: Sequence[str]) -> None:
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # else Microsoft hears of each session
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # no warning for each state that has an initial value
        try:
            model = _with_outputs(content, names) if names else content
            with compile_time():
                self.session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise _refused(error) from None
        self.outputs = [port.name for port in self.session.get_outputs()]
        self.labels = [*self.outputs[: len(self.outputs) - len(names)], *names]


def _refused(error: Exception) -> ModelError:
    return ModelError.of("program", f"ONNX Runtime refuses it: {quoted(str(error), 300)}")


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

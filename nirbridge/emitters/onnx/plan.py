"""An ONNX model with the names of the network that its tensors stand for."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

from nirbridge.emitters.ports import ProgramNames
from nirbridge.errors import ToolMissing

MODEL = "model.onnx"
"""The file of the model."""


@dataclass(frozen=True, slots=True)
class OnnxPlan:
    """A model (``onnx.ModelProto``) and its names."""

    model: Any
    names: ProgramNames


def needed(package: str) -> None:
    """Raises ToolMissing where a package of the extra ``onnx`` is not installed."""
    if importlib.util.find_spec(package) is None:
        step = "install nirbridge[onnx]"
        raise ToolMissing.of("emitter 'onnx'", f"the package {package} is not installed", "", step)

"""An ONNX model with the names of the network that its tensors stand for."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nirbridge._types import Shape
from nirbridge.errors import ToolMissing

NETWORK, MODEL, PROGRAM = "network.q.npz", "model.onnx", "program.json"
"""Files of a program."""


@dataclass(frozen=True, slots=True)
class PlannedPort:
    """An input or output: its name in the network and in the model, and the type of its values in recordings.

    ``reads_out``: readouts alone lead to this output.
    """

    name: str
    shape: Shape
    id: str
    dtype: str
    reads_out: bool = False


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A population: the tensors of the body that hold its variables."""

    name: str
    shape: Shape
    fires: bool
    max_spikes: int
    variables: Mapping[str, str]
    dtype: str


@dataclass(frozen=True, slots=True)
class OnnxPlan:
    """A model (``onnx.ModelProto``) and its names; ``facts``: plain JSON on the numbers that it computes in."""

    model: Any
    inputs: tuple[PlannedPort, ...]
    nodes: tuple[PlannedNode, ...]
    outputs: tuple[PlannedPort, ...]
    facts: Mapping[str, Any]


def needed(package: str) -> None:
    """Raises ToolMissing where a package of the extra ``onnx`` is not installed."""
    if importlib.util.find_spec(package) is None:
        step = "install nirbridge[onnx]"
        raise ToolMissing.of("emitter 'onnx'", f"the package {package} is not installed", "", step)

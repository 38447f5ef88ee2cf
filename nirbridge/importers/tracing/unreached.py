"""Layers of a module that its forward never calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nirbridge.errors import quoted
from nirbridge.importers.dataflow import DataflowGraph
from nirbridge.importers.tracing.recorder import ForwardTrace


def with_unreached(flow: DataflowGraph, recording: ForwardTrace, module: Any) -> DataflowGraph:
    """The flow, with a note of the layers that forward did not call."""
    reached = set(recording.reached)
    paths = [p for p, m in module.named_modules() if p and p not in reached and _is_layer(m)]
    leaves = [p for p in paths if not any(r and p.startswith(f"{r}.") and r in _neuron_paths(flow) for r in reached)]
    if not leaves:
        return flow
    shown = ", ".join(quoted(p) for p in leaves[:5]) + (f" and {len(leaves) - 5} more" if len(leaves) > 5 else "")
    return replace(flow, notes=(*flow.notes, f"never called by forward, so not imported: {shown}"))


def _neuron_paths(flow: DataflowGraph) -> set[str]:
    return {c.path for c in flow.calls if c.kind == "neuron"}


def _is_layer(module: Any) -> bool:
    return not any(True for _ in module.children())

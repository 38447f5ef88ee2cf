"""Time batching: linear operators on inputs act on all time steps at once, before the loop over time. Needs xDSL."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from nirbridge.dialect.base import shape, stream_type
from nirbridge.dialect.module import DialectModule
from nirbridge.dialect.structure import ScanOp, user_of
from nirbridge.dialect.synapses import Synapse


def batch_time(module: DialectModule, indices: Collection[int] | None = None) -> DialectModule:
    """The module with the operators of projections from inputs before the scan; it is changed in place.

    An operator that comes after a delay stays in the loop, and so does every one after a neuron.

    Args:
        module: a module.
        indices: projections, by their position in the network; None: all.
    """
    moved = True
    while moved:
        moved = False
        for op in module.ops:
            if isinstance(op, Synapse) and isinstance(op.x.owner, ScanOp) and _is_chosen(op, indices):
                _moved_out(op)
                moved = True
    return module


def projection_of(op: Any) -> int:
    """The projection that an operation belongs to."""
    while "index" not in op.attributes:
        op = user_of(op.results[0])
    return op.attributes["index"].value.data


def _is_chosen(op: Any, indices: Collection[int] | None) -> bool:
    return indices is None or projection_of(op) in indices


def _moved_out(op: Any) -> None:
    """One operation and the scan before it change places."""
    scan, kind = op.x.owner, op.y.type
    whole = stream_type(kind.element, shape(op.y))
    outer = type(op).create(operands=[scan.x], result_types=[whole], attributes=dict(op.attributes))
    inner = ScanOp.create(operands=[outer.results[0]], result_types=[kind])
    block = op.parent
    block.insert_ops_before([outer, inner], op)
    op.y.replace_all_uses_with(inner.results[0])
    op.detach()
    op.erase()
    if not any(True for _ in scan.y.uses):
        scan.detach()
        scan.erase()

"""Forms of a network that compute the same: operators on all time steps at once, fused loops, products by events.

The choice is by an estimate of the work and of the memory that is read and written in a time step. What each form
gains was measured (docs/mlir.md); the constants below are where the measured times cross.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nirbridge.dialect.module import DialectModule

BATCH_MAX = 1
"""With several samples a product in the loop has rows that share each weight: 16 and 32 were slower when batched."""
WEIGHTS_MIN = 2**18
"""Fewer weights than this stay in a processor's cache between time steps: 4,096 gained 10 %, 784,000 gained 3.3 x."""
ACTIVITY_MAX = 0.4
"""Above this share of active sources the product takes less time than the search for them."""
SAMPLES_MAX = 8
"""Samples up to which events pay: each sample has its own, and reads its own weights."""


@dataclass(frozen=True, slots=True)
class Forms:
    """The chosen forms: projections by their position in the network.

    Attributes:
        batched: their operators act on all time steps at once, before the loop.
        fused: elementwise operations of projections and neurons are one loop per population.
        events: their products add a row of weights per active source.
    """

    batched: frozenset[int] = frozenset()
    fused: bool = True
    events: frozenset[int] = frozenset()


def choose_forms(
    module: DialectModule, *, batch: int | None = None, activity: Mapping[str, float] | None = None
) -> Forms:
    """The forms that are estimated to take the least time.

    Args:
        module: the module as it was made of a network.
        batch: number of samples; None: any, which counts as one.
        activity: share of active elements per time step of a source, measured on data; sources without one count as
            dense. Events suit compilers that make plain loops; leave it out for IREE, where each loop is a dispatch.
    """
    from nirbridge.dialect.passes.batch_time import projection_of
    from nirbridge.dialect.structure import ScanOp
    from nirbridge.dialect.synapses import ConvOp, DenseOp
    from nirbridge.dialect.values import shape_of, size_of

    batched, events, samples = set(), set(), batch or 1
    for op in module.operation.body.block.ops:
        if not isinstance(op, DenseOp | ConvOp):
            continue
        index, weights = projection_of(op), size_of(shape_of(op.weight))
        active = (activity or {}).get(_source(op), 1.0)
        if isinstance(op, DenseOp) and active <= ACTIVITY_MAX and samples <= SAMPLES_MAX:
            events.add(index)
        elif isinstance(op.x.owner, ScanOp) and weights >= WEIGHTS_MIN and samples <= BATCH_MAX:
            batched.add(index)
    return Forms(frozenset(batched), True, frozenset(events))


def apply_forms(module: DialectModule, forms: Forms) -> DialectModule:
    """The module in the chosen forms; it is changed in place."""
    from xdsl.dialects.builtin import UnitAttr

    from nirbridge.dialect.neurons import NeuronBase
    from nirbridge.dialect.passes.batch_time import batch_time, projection_of
    from nirbridge.dialect.structure import OutputOp
    from nirbridge.dialect.synapses import DenseOp

    for op in module.operation.body.block.ops:
        if isinstance(op, NeuronBase | OutputOp) and forms.fused:
            op.attributes["fused"] = UnitAttr()
        if isinstance(op, DenseOp) and projection_of(op) in forms.events:
            op.attributes["events"] = UnitAttr()
    return batch_time(module, forms.batched)


def _source(op: Any) -> str:
    """The node that drives an operator; empty where a reduction comes between."""
    from nirbridge.dialect.neurons import NeuronBase
    from nirbridge.dialect.structure import DelayOp, InputOp, ScanOp
    from nirbridge.dialect.synapses import IdentityOp, ReshapeOp
    from nirbridge.dialect.values import unescaped

    owner: Any = op.x.owner
    while isinstance(owner, DelayOp | IdentityOp | ReshapeOp | ScanOp):
        owner = owner.x.owner
    named: Any = owner.attributes.get("name")
    return unescaped(named.data) if isinstance(owner, NeuronBase | InputOp) else ""

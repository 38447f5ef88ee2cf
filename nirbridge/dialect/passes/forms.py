"""Forms of a network that compute the same: operators on all time steps at once, fused loops, products by events.

A form is chosen where the estimate of ``estimate.py`` expects at least ``GAIN`` of it, for the whole program: less than
that is lost in what the estimate does not know. What each form gains was measured (docs/stack.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nirbridge.dialect.module import DialectModule
    from nirbridge.dialect.passes.estimate import Compiler, Work

GAIN = 1.6
"""The least factor by which a chosen form is expected to make a time step shorter."""


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
    module: DialectModule,
    *,
    batch: int | None = None,
    steps: int | None = None,
    activity: Mapping[str, float] | None = None,
    compiler: Compiler = "iree",
) -> Forms:
    """The forms that are expected to gain.

    IREE fuses elementwise operations itself and starts each loop as a dispatch, so that time batching alone is for
    it. Plain loops gain by fusion and by events.

    Args:
        module: the module as it was made of a network.
        batch: number of samples; None: any, and nothing is chosen that one number of samples loses by.
        steps: number of time steps; None: any, many.
        activity: share of active elements per time step of a source, measured on data; sources without one count as
            dense.
        compiler: ``iree``, or ``loops`` for compilers that make plain loops of linalg (``mlir-opt`` and LLVM).
    """
    from nirbridge.dialect.passes.estimate import neurons, operators

    works, sizes = operators(module, activity), neurons(module)
    if compiler == "iree":
        return Forms(_batched(works, len(sizes), batch, steps) if batch is not None else frozenset(), False)
    return _in_loops(works, sizes, batch)


def _batched(works: list[Work], populations: int, batch: int, steps: int | None) -> frozenset[int]:
    """Projections whose products leave the loop, if the whole program gains."""
    from nirbridge.dialect.passes.estimate import DISPATCH, before_loop, in_loop, weight_bytes

    outside = [work for work in works if work.kind == "product" and work.before]
    inside = [work for work in works if not (work.kind == "product" and work.before)]

    def loop(some: list[Work]) -> float:
        weights = weight_bytes(some)
        return sum(in_loop(work, batch, weights) for work in some)

    fixed = DISPATCH * (len(works) + populations)
    moved = fixed + loop(inside) + sum(before_loop(work, batch, steps) for work in outside)
    gains = fixed + loop(works) >= GAIN * moved
    return frozenset(work.index for work in outside) if gains else frozenset()


def _in_loops(works: list[Work], sizes: list[int], batch: int | None) -> Forms:
    """Forms for plain loops; what holds for one sample and for many holds for any."""
    from nirbridge.dialect.passes.estimate import APART, FUSED, LOOP, dense_loops, event_loops

    numbers, fixed = (1, 32) if batch is None else (batch,), LOOP * (len(works) + len(sizes))

    def whole(n: int, events: set[Work], neuron: float) -> float:
        products = sum(event_loops(w, n) if w in events else dense_loops(w, n) for w in works)
        return fixed + products + neuron * sum(sizes) * n

    def pays(work: Work) -> bool:
        return work.by_events and all(dense_loops(work, n) >= GAIN * event_loops(work, n) for n in numbers)

    events = set(filter(pays, works))
    if not all(whole(n, set(), APART) >= GAIN * whole(n, events, APART) for n in numbers):
        events = set()
    fused = all(whole(n, events, APART) >= GAIN * whole(n, events, FUSED) for n in numbers)
    return Forms(frozenset(), fused, frozenset(w.index for w in events))


def apply_forms(module: DialectModule, forms: Forms) -> DialectModule:
    """The module in the chosen forms; it is changed in place."""
    from xdsl.dialects.builtin import UnitAttr

    from nirbridge.dialect.neurons import NeuronBase
    from nirbridge.dialect.passes.batch_time import batch_time, projection_of
    from nirbridge.dialect.structure import OutputOp
    from nirbridge.dialect.synapses import DenseOp

    for op in module.ops:
        if isinstance(op, NeuronBase | OutputOp) and forms.fused:
            op.attributes["fused"] = UnitAttr()
        if isinstance(op, DenseOp) and projection_of(op) in forms.events:
            op.attributes["events"] = UnitAttr()
    return batch_time(module, forms.batched)

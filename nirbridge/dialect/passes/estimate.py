"""Estimated time of a module in each form, in ns per time step of the whole batch, on one thread. Needs xDSL.

Two compilers are told apart, since the same form gains in one and loses in the other. The constants are times of one
processor with AVX-512, fitted to half of the networks of ``benchmarks/stack.py``; the other half is held out. The
choice needs their ratios alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from nirbridge.dialect.lowering.linear import MATRIX_MAX
from nirbridge.dialect.module import DialectModule
from nirbridge.dialect.neurons import NeuronBase
from nirbridge.dialect.passes.batch_time import projection_of
from nirbridge.dialect.structure import Delayed, InputOp, ScanOp
from nirbridge.dialect.synapses import ConvOp, DenseOp, IdentityOp, ReshapeOp, ScaleOp, SparseOp, SumPoolOp
from nirbridge.dialect.values import shape_of, size_of, unescaped

Compiler = Literal["iree", "loops"]
"""``loops``: linalg as loops of MLIR, then LLVM."""

CACHE = 2**21
"""Bytes of weights, of all products in the loop, that stay near the processor between time steps."""
NEAR, FAR = 50.0, 30.0
"""Bytes of weights per ns that a product of one sample reads, within ``CACHE`` and beyond."""
TERMS = 46.0
"""Products and sums per ns of many rows at once; in the loop, ``TERMS_LOOP`` with many samples."""
TERMS_LOOP = 51.0
SAMPLE = 200.0
"""Further samples of a product that waits for its weights: terms per ns."""
_IREE = {"rows": 1.0, "conv": 0.07, "pool": 0.2}
"""Times per term in IREE."""
DISPATCH = 1500.0
"""ns of starting an operation of IREE, once per operator and once per population."""


@dataclass(frozen=True, slots=True)
class Work:
    """An operator: the projection that it belongs to, its kind, its terms per sample and time step.

    ``before``: it may act before the loop; ``sources``: elements of its input; ``active``: share of them per time step.
    """

    index: int
    kind: Literal["product", "rows", "conv", "pool"]
    terms: int
    sources: int
    before: bool = False
    active: float = 1.0
    by_events: bool = False


def operators(module: DialectModule, activity: Mapping[str, float] | None) -> list[Work]:
    """The operators of a module that cost more than a pass over their elements."""
    found = []
    for op in module.ops:
        make = next((make for kind, make in _WORK.items() if isinstance(op, kind)), None)
        if make is not None:
            found.append(make(op, (activity or {}).get(_source(op), 1.0)))
    return found


def neurons(module: DialectModule) -> list[int]:
    """The size of each population."""
    return [size_of(op.shape) for op in module.ops if isinstance(op, NeuronBase)]


def _product(op: Any, active: float) -> Work:
    post, pre = shape_of(op.weight)
    return Work(projection_of(op), "product", post * pre, pre, _is_first(op), active, True)


def _sparse(op: Any, active: float) -> Work:
    pre, post = size_of(op.taken), size_of(op.given)
    if pre * post <= MATRIX_MAX:
        return Work(projection_of(op), "product", pre * post, pre, _is_first(op), active)
    return Work(projection_of(op), "rows", size_of(shape_of(op.data)), pre)


def _conv(op: Any, _: float) -> Work:
    taps = size_of(shape_of(op.weight)[1:])
    return Work(projection_of(op), "conv", size_of(op.given) * taps, size_of(op.taken))


def _pool(op: Any, _: float) -> Work:
    return Work(projection_of(op), "pool", size_of(op.taken), size_of(op.taken))


_WORK: Mapping[type, Callable[[Any, float], Work]] = {
    DenseOp: _product,
    SparseOp: _sparse,
    ConvOp: _conv,
    SumPoolOp: _pool,
}


def _is_first(op: Any) -> bool:
    """Whether only elementwise operations lie between an input and the operator, no delay."""
    owner = op.x.owner
    while isinstance(owner, ReshapeOp | IdentityOp | ScaleOp):
        owner = owner.x.owner
    return isinstance(owner, ScanOp)


def _source(op: Any) -> str:
    """The node that drives an operator; empty where a reduction comes between."""
    owner: Any = op.x.owner
    while isinstance(owner, Delayed | IdentityOp | ReshapeOp | ScanOp):
        owner = (owner.late if isinstance(owner, Delayed) else owner.x).owner
    named: Any = owner.attributes.get("name")
    return unescaped(named.data) if isinstance(owner, NeuronBase | InputOp) else ""


def in_loop(work: Work, batch: int, weights: int) -> float:
    """Time of an operator of IREE in the loop, whose products read ``weights`` bytes: it waits, or computes."""
    if work.kind != "product":
        return batch * work.terms * _IREE[work.kind]
    read = 4 * work.terms / (NEAR if weights <= CACHE else FAR)
    return max(read + batch * work.terms / SAMPLE, batch * work.terms / TERMS_LOOP)


def before_loop(work: Work, batch: int, steps: int | None) -> float:
    """Time per time step of a product of all time steps at once; few time steps have to read the weights, too."""
    computed = batch * work.terms / TERMS
    return computed if steps is None else max(computed, in_loop(work, batch, 4 * work.terms) / steps)


def weight_bytes(works: Iterable[Work]) -> int:
    """Bytes of the weights of products, which they read in every time step."""
    return sum(4 * work.terms for work in works if work.kind == "product")


_LOOPS = {"rows": 0.38, "conv": 0.25, "pool": 0.5, "product": 0.06}
"""Times per term in plain loops."""
ONE_ROW = 0.13
"""ns per term of a product of one sample with weights beyond ``CACHE``: it reads them for no other."""
ROW = 4.5
"""ns per source and sample of a product: the row of weights is begun."""
SEARCH, ADDED = 2.8, 0.16
"""ns per source of looking for the active ones, and per weight of theirs."""
FUSED, APART = 1.0, 3.5
"""ns per neuron of one loop over all of its operations, and of a loop for each."""
LOOP = 300.0
"""ns per operator and per population, in any form."""


def dense_loops(work: Work, batch: int) -> float:
    """Time of an operator in plain loops."""
    computed = batch * work.terms * _LOOPS[work.kind]
    if work.kind != "product":
        return computed
    least = ONE_ROW * work.terms if 4 * work.terms > CACHE else 0.0
    return max(least, computed + batch * ROW * work.sources)


def event_loops(work: Work, batch: int) -> float:
    """Time of a product by events, in plain loops."""
    return batch * (SEARCH * work.sources + ADDED * work.active * work.terms)

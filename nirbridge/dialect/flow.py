"""What the operations of a module make together: every value is used, every projection ends. Needs xDSL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from nirbridge.dialect.neurons import NeuronBase
from nirbridge.dialect.structure import CollectOp, DelayOp, OutputOp, ScanOp
from nirbridge.dialect.synapses import CurrentOp, RealOp, Synapse
from nirbridge.errors import Diagnostic

LINKS = (Synapse, RealOp, DelayOp, ScanOp, CollectOp)
"""Operations with one operand and one result, of which a projection is made."""


def diagnose_flow(ops: Sequence[Any]) -> Iterator[Diagnostic]:
    """Results that nothing uses, currents without one target, cycles without a neuron, names that two nodes have."""
    for op in ops:
        if isinstance(op, LINKS) and not isinstance(op, ScanOp):  # an input may have no use
            yield from _of_uses(op)
    if left := _on_cycles([op for op in ops if isinstance(op, LINKS)]):
        yield left[0].fault("it is on a cycle without a neuron", "neurons are between projections", "remove it")
    names = Counter(_name(op) for op in ops if isinstance(op, NeuronBase))
    for op in ops:
        if isinstance(op, NeuronBase) and names[_name(op)] > 1:
            yield op.fault("another population has this name", "names are unique", "rename it")


def _name(op: Any) -> str:
    return op.attributes["name"].data


def _of_uses(op: Any) -> Iterator[Diagnostic]:
    users = [use.operation for use in op.results[0].uses]
    if not users:
        yield op.fault("nothing uses its result", "a projection ends in a current and its target", "remove it")
    elif isinstance(op, CurrentOp) and not (len(users) == 1 and isinstance(users[0], NeuronBase | OutputOp)):
        is_before = len(users) == 1 and isinstance(users[0], ScanOp)  # moved out of the loop over time
        if not is_before:
            yield op.fault("its result has another use", "one neuron or output", "correct it")


def _on_cycles(links: Sequence[Any]) -> list[Any]:
    """Those of which each takes the result of another one, without end."""
    members = set(links)
    waiting = {op for op in links if op.operands[0].owner in members}
    ready = [op for op in links if op not in waiting]
    while ready:
        for use in ready.pop().results[0].uses:
            if use.operation in waiting:
                waiting.discard(use.operation)
                ready.append(use.operation)
    return [op for op in links if op in waiting]

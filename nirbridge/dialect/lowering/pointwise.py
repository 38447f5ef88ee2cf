"""Elementwise computations: a graph of scalar operations, written as one loop over the elements or as one for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.dialect.lowering.function import Body, Extent, FunctionText, Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A value per element: an operation on others, an element of a tensor, or a constant.

    ``text`` is the operation's name, or the constant; a tensor without leading axes has one element per neuron.
    """

    element: str
    text: str = ""
    args: tuple[Node, ...] = ()
    tensor: Tensor | None = None


class Pointwise:
    """Elementwise operations on tensors ``[*lead, *shape]``.

    ``fused``: all operations up to ``finish`` become one loop; else each becomes one, which is the form before fusion.
    """

    def __init__(self, f: FunctionText, lead: tuple[Extent, ...], shape: Shape, fused: bool = True) -> None:
        self.f, self.lead, self.shape, self.fused = f, lead, shape, fused

    def of(self, tensor: Tensor) -> Node:
        """The elements of a tensor."""
        return Node(tensor.element, tensor=tensor)

    def number(self, values: Any, element: str) -> Node:
        """A coefficient: one number, or one per neuron."""
        array = np.asarray(values)
        if array.size and bool((array == array.flat[0]).all()):
            return Node(element, self.f.scalar(array.flat[0], element))
        return Node(element, tensor=self.f.array(np.broadcast_to(array, self.shape), element))

    def op(self, name: str, *args: Node, element: str = "") -> Node:
        """An operation of arith or math; ``element`` where its result has another type than its operands."""
        node = Node(element or args[-1].element, name, args)
        return node if self.fused else self.of(self._loop([node])[0])

    def finish(self, nodes: Sequence[Node], into: Mapping[int, Tensor] | None = None) -> list[Tensor]:
        """The values as tensors; ``into`` are tensors, by position, that a value may overwrite."""
        whole = [k for k, n in enumerate(nodes) if n.tensor is None or not n.tensor.lead]
        places = [(into or {}).get(k) for k in whole]
        loop = dict(zip(whole, self._loop([nodes[k] for k in whole], places), strict=True)) if whole else {}
        return [loop.get(k) or node.tensor for k, node in enumerate(nodes)]  # type: ignore[misc]

    def _loop(self, nodes: Sequence[Node], into: Sequence[Tensor | None] = ()) -> list[Tensor]:
        """One ``linalg.generic`` that computes ``nodes``."""
        f, names, lines = self.f, {}, []  # type: ignore[var-annotated]
        places = into or [None] * len(nodes)
        leaves: dict[str, Tensor] = {}
        order = _ordered(nodes)
        for node in order:
            if node.tensor is not None:
                leaves.setdefault(node.tensor.name, node.tensor)
        arguments = {name: f.fresh() for name in leaves}
        for node in order:
            if node.tensor is not None:
                names[id(node)] = arguments[node.tensor.name]
            elif not node.args:
                names[id(node)] = node.text
            else:
                names[id(node)] = f.fresh()
                lines.append(f"{names[id(node)]} = {_written(node, [names[id(a)] for a in node.args])}")
        pairs = zip(nodes, places, strict=True)
        outs = [place or f.empty(node.element, self.lead, self.shape) for node, place in pairs]
        axes = len(self.lead) + len(self.shape)
        maps = [_map(axes, len(self.lead) if not t.lead else 0) for t in leaves.values()] + [_map(axes, 0)] * len(outs)
        arguments_all = [*arguments.values(), *(f.fresh() for _ in outs)]
        body = Body(arguments_all, lines, [names[id(node)] for node in nodes])
        return f.generic(maps, ["parallel"] * axes, list(leaves.values()), outs, body)


def _ordered(nodes: Sequence[Node]) -> list[Node]:
    """Every node after its operands."""
    order: dict[int, Node] = {}
    stack = [(node, False) for node in reversed(nodes)]
    while stack:
        node, done = stack.pop()
        if done:
            order.setdefault(id(node), node)
        elif id(node) not in order:
            stack.append((node, True))
            stack.extend((a, False) for a in reversed(node.args))
    return list(order.values())


def _map(axes: int, skipped: int) -> str:
    names = [f"d{k}" for k in range(axes)]
    return f"({', '.join(names)}) -> ({', '.join(names[skipped:])})"


def _written(node: Node, args: Sequence[str]) -> str:
    taken = node.args[-1].element
    if node.text in _CASTS:
        return f"{node.text} {args[0]} : {taken} to {node.element}"
    comma = "," if node.text.startswith(("arith.cmpf", "arith.cmpi")) else ""
    return f"{node.text}{comma} {', '.join(args)} : {taken}"


_CASTS = {"arith.sitofp", "arith.extf", "arith.truncf", "arith.extui", "arith.extsi", "arith.trunci"}

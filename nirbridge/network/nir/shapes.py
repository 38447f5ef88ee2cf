"""Shape inference over a NIR graph; nir's own is wrong for non-square kernels, groups and biases.

Shapes exclude batch and time. Nothing is changed in the graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge._types import Shape
from nirbridge.errors import Diagnostic, ModelError, counted
from nirbridge.network.graph import grouped
from nirbridge.network.nir.fields import ELEMENTWISE, kind_of, label
from nirbridge.network.nir.flatten import FlatGraph, edge_label, expand_graph
from nirbridge.network.nir.windows import value_text, whole_numbers, window_of


@dataclass(frozen=True, slots=True)
class NodeShapes:
    """Input and output shape of a node."""

    input_shape: Shape
    output_shape: Shape


#: Shapes of a node from the incoming shape (None: from its parameters alone); None if they are still open.
Rule = Callable[[str, Any, Shape | None], NodeShapes | None]


def infer_shapes(graph: Any) -> Mapping[str, NodeShapes]:
    """The shapes of every node of ``graph`` (a ``nir.NIRGraph`` or a ``FlatGraph``), by full name ``outer.inner``.

    The Inputs and Outputs of subgraphs are there too. Nodes whose parameters have a full shape know their own; other
    shapes travel along the edges until nothing changes, so cycles and several inputs are fine. A neuron, Scale or
    Delay with one parameter for all takes the shape that arrives.

    Raises:
        ModelError: with every problem: parameters that do not agree, edges between different shapes, nodes that no
            known shape reaches, and those of ``expand_graph``.
    """
    flat = graph if isinstance(graph, FlatGraph) else expand_graph(graph)
    problems: list[Diagnostic] = []
    shapes, broken = _propagate(flat, problems)
    problems += _edge_problems(flat, shapes)
    for name, node in flat.nodes.items():
        if name not in shapes and not broken:  # else it may only be the follower of a broken node
            problems.append(_unknown(name, node))
    ModelError.raise_all(problems)
    return MappingProxyType({name: shapes[name] for name in flat.nodes})


def _propagate(flat: FlatGraph, problems: list[Diagnostic]) -> tuple[dict[str, NodeShapes], set[str]]:
    """Known shapes and the nodes that failed."""
    shapes: dict[str, NodeShapes] = {}
    broken: set[str] = set()
    targets = grouped(flat.edges)

    def settle(name: str, arrives: Shape | None) -> bool:
        try:
            node_shapes = _RULES[kind_of(flat.nodes[name])](name, flat.nodes[name], arrives)
        except ModelError as error:
            problems.extend(error.problems)
            broken.add(name)
            return False
        if node_shapes is not None:
            shapes[name] = node_shapes
        return node_shapes is not None

    ready = [name for name in flat.nodes if settle(name, None)]
    # Where no known shape arrives, a node with one value for all takes the shape of that value.
    alone = (
        name
        for name, node in flat.nodes.items()
        if not (name in shapes or name in broken)
        and _has_one_value(node)
        and settle(name, _parameter_shape(name, node))
    )
    while ready or (ready := list(islice(alone, 1))):
        name = ready.pop()
        for target in targets.get(name, ()):
            if target not in shapes and target not in broken and settle(target, shapes[name].output_shape):
                ready.append(target)
    return shapes, broken


def _edge_problems(flat: FlatGraph, shapes: Mapping[str, NodeShapes]) -> Iterator[Diagnostic]:
    for source, target in flat.edges:
        if source not in shapes or target not in shapes:
            continue
        out, into = shapes[source].output_shape, shapes[target].input_shape
        if out != into:
            kinds = kind_of(flat.nodes[source]), kind_of(flat.nodes[target])
            hint = "put a Flatten between them" if math.prod(out) == math.prod(into) else "correct one of the two"
            yield Diagnostic(
                edge_label(source, target),
                f"{kinds[0]} puts out shape {out}",
                f"{kinds[1]} takes {into}",
                hint,
                MappingProxyType({"source": source, "target": target}),
            )


def _unknown(name: str, node: Any) -> Diagnostic:
    hint = "connect it to an Input"
    if kind_of(node) in ("Conv1d", "Conv2d"):
        hint = "store its input_shape, or " + hint
    ids = MappingProxyType({"node": name})
    return Diagnostic(label(name, node), "no known shape reaches it", "its own shape is not stored", hint, ids)


def _wrong(name: str, node: Any, found: str, limit: str, hint: str) -> ModelError:
    return ModelError(Diagnostic(label(name, node), found, limit, hint, MappingProxyType({"node": name})))


def _port(name: str, node: Any, arrives: Shape | None) -> NodeShapes | None:
    side = "input" if kind_of(node) == "Input" else "output"
    types = node.input_type if side == "input" else node.output_type
    shape = _declared(name, node, (types or {}).get(side))
    shape = arrives if shape is None else shape
    return None if shape is None else NodeShapes(shape, shape)


def _declared(name: str, node: Any, value: Any) -> Shape | None:
    """A stored shape as whole numbers; ``[]`` is the shape of one number."""
    if value is None:
        return None
    array = np.asarray(value)
    if array.size == 0:
        return ()
    problems: list[Diagnostic] = []
    numbers = whole_numbers(label(name, node), "shape", np.atleast_1d(array), array.size, 1, problems)
    if numbers is None:
        raise ModelError(*problems)
    return numbers


def _matrix(name: str, node: Any, arrives: Shape | None) -> NodeShapes:
    weight = np.shape(node.weight)
    if len(weight) < 2 or 0 in weight:
        found = f"weight has shape {weight}"
        raise _wrong(name, node, found, "it must be [out, in], none of them 0", "store the weight as torch does")
    shapes = NodeShapes((*weight[:-2], weight[-1]), (*weight[:-2], weight[-2]))
    if kind_of(node) == "Affine":
        bias = np.shape(node.bias)
        if node.bias is None or bias not in ((weight[-2],), shapes.output_shape):
            found = "it has no bias" if node.bias is None else f"bias has shape {bias}"
            allowed = " or ".join(str(s) for s in dict.fromkeys(((weight[-2],), shapes.output_shape)))
            raise _wrong(name, node, found, f"the weight's output needs {allowed}", "correct the bias, or use Linear")
    return shapes


def _conv(name: str, node: Any, arrives: Shape | None) -> NodeShapes | None:
    window = window_of(name, node)
    weight = np.shape(node.weight)
    if node.bias is None or np.shape(node.bias) != weight[:1]:
        found = "it has no bias" if node.bias is None else f"bias has shape {np.shape(node.bias)}"
        raise _wrong(name, node, found, f"its weight has {weight[0]} output channels", "store one bias per channel")
    channels, axes = weight[1] * window.groups, len(window.kernel)
    if node.input_shape is not None:
        arrives = (channels, *_spatial(name, node, axes))
    if arrives is None:
        return None
    if len(arrives) != axes + 1 or arrives[0] != channels:
        limit = f"it takes {counted(channels, 'channel')} and {axes} spatial axes"
        raise _wrong(name, node, f"shape {arrives} arrives", limit, "correct the weight, groups or the source")
    return NodeShapes(arrives, (weight[0], *_slide(name, node, arrives)))


def _spatial(name: str, node: Any, axes: int) -> Shape:
    """The stored input_shape; unlike a stride, one number cannot stand for two axes."""
    if np.size(node.input_shape) != axes:
        found = f"input_shape is {value_text(node.input_shape)}"
        raise _wrong(name, node, found, f"it needs {axes} numbers", "store the spatial shape without channels")
    problems: list[Diagnostic] = []
    spatial = whole_numbers(label(name, node), "input_shape", node.input_shape, axes, 1, problems)
    if spatial is None:
        raise ModelError(*problems)
    return spatial


def _slide(name: str, node: Any, shape: Shape) -> Shape:
    window = window_of(name, node)
    spatial = window.slide(shape[1:])
    if min(spatial) < 1:
        found = f"its window {window.kernel} (dilation {window.dilation}) is larger than the padded input {shape[1:]}"
        raise _wrong(name, node, found, "at least one window must fit", "use a smaller kernel or more padding")
    return spatial


def _pool(name: str, node: Any, arrives: Shape | None) -> NodeShapes | None:
    window_of(name, node)
    if arrives is None:
        return None
    if len(arrives) != 3:
        limit = "it takes (channels, rows, columns)"
        raise _wrong(name, node, f"shape {arrives} arrives", limit, "correct the source's shape")
    return NodeShapes(arrives, (arrives[0], *_slide(name, node, arrives)))


def _flatten(name: str, node: Any, arrives: Shape | None) -> NodeShapes | None:
    shape = _declared(name, node, (node.input_type or {}).get("input"))
    shape = arrives if shape is None else shape
    if shape is None:
        return None
    axes, problems = max(len(shape), 1), list[Diagnostic]()
    ends = [
        whole_numbers(label(name, node), field, getattr(node, field), 1, -(2**31), problems)
        for field in ("start_dim", "end_dim")
    ]
    ModelError.raise_all(problems)
    start, end = (e[0] + axes if e[0] < 0 else e[0] for e in ends if e)
    if not 0 <= start <= end < axes:
        found = f"start_dim {node.start_dim}, end_dim {node.end_dim} on an input of shape {shape}"
        limit = f"dims go from {-axes} to {axes - 1} without the batch, start before end"
        raise _wrong(name, node, found, limit, "correct start_dim or end_dim")
    return NodeShapes(shape, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


def _has_one_value(node: Any) -> bool:
    fields = ELEMENTWISE.get(kind_of(node), ())
    return bool(fields) and all(np.size(getattr(node, f)) == 1 for f in fields)  # None counts as one


def _parameter_shape(name: str, node: Any) -> Shape:
    """The one shape of all parameters of an elementwise node; those with one element fit any."""
    fields: dict[Shape, str] = {}
    small: Shape = ()
    for field in ELEMENTWISE[kind_of(node)]:
        shape = np.shape(getattr(node, field))  # () for None
        if 0 in shape:
            raise _wrong(name, node, f"{field} has shape {shape}", "it must not be empty", f"give {field} a value")
        if math.prod(shape) == 1:
            small = max(small, shape, key=len)
        else:
            fields.setdefault(shape, field)
    if len(fields) > 1:
        text = ", ".join(f"{field} {shape}" for shape, field in fields.items())
        raise _wrong(
            name, node, f"parameters of different shapes: {text}", "one shape, or one value", "make them equal"
        )
    return next(iter(fields), small)


def _elementwise(name: str, node: Any, arrives: Shape | None) -> NodeShapes | None:
    parameters = _parameter_shape(name, node)
    shape = arrives if _has_one_value(node) else parameters
    return None if shape is None else NodeShapes(shape, shape)


_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **dict.fromkeys(ELEMENTWISE, _elementwise),
        **dict.fromkeys(("Input", "Output"), _port),
        **dict.fromkeys(("Linear", "Affine"), _matrix),
        **dict.fromkeys(("Conv1d", "Conv2d"), _conv),
        **dict.fromkeys(("SumPool2d", "AvgPool2d"), _pool),
        "Flatten": _flatten,
    }
)

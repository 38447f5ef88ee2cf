"""Builds nir nodes from a scanned file, field by field; nir's own reader and constructors never see the data.

Arrays are stand-ins of the declared shape until every check that needs no values has passed; then they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge.errors import Diagnostic, quoted
from nirbridge.importers.nirfile.hdf5.items import Branch, Leaf, array_of, metadata_of, text_of, texts_of
from nirbridge.importers.nirfile.hdf5.scan import ScanLimits
from nirbridge.network.nir.fields import ELEMENTWISE, NODE_TYPES, WEIGHTED

_MAX_AXES = 32
_POOL = ("kernel_size", "stride", "padding")
_CONV = ("stride", "padding", "dilation", "groups")

#: Fields that hold whole numbers (or a word, for padding) and must be there.
_WHOLE = MappingProxyType(
    {
        "Conv1d": _CONV,
        "Conv2d": _CONV,
        "SumPool2d": _POOL,
        "AvgPool2d": _POOL,
        "Input": ("shape",),
        "Output": ("shape",),
    }
)
#: Fields that may be missing, and their defaults. v_reset came with nir 1.0.6, CubaLI with 1.0.5.
_OPTIONAL: MappingProxyType[str, MappingProxyType[str, Any]] = MappingProxyType(
    {
        "IF": MappingProxyType({"v_reset": None}),
        "LIF": MappingProxyType({"v_reset": None}),
        "CubaLIF": MappingProxyType({"v_reset": None, "w_in": 1.0}),
        "CubaLI": MappingProxyType({"w_in": 1.0}),
        "Conv1d": MappingProxyType({"input_shape": None}),
        "Conv2d": MappingProxyType({"input_shape": None}),
        "Flatten": MappingProxyType({"start_dim": 1, "end_dim": -1, "input_type": None}),
    }
)


@dataclass(slots=True, eq=False)
class GraphDraft:
    """A graph under construction: its problems so far, and the arrays that are still to be read."""

    limits: ScanLimits
    problems: list[Diagnostic] = field(default_factory=list)
    unread: list[tuple[str, Any, str, Leaf]] = field(default_factory=list)
    nodes: int = 0

    def report(self, subject: str, found: str, limit: str, hint: str, node: str = "") -> None:
        """Note a problem of one node."""
        self.problems.append(Diagnostic(subject, found, limit, hint, MappingProxyType({"node": node})))

    def try_read(self, subject: str, node: str, read: Callable[[], Any]) -> Any:
        """The result of ``read``, or None and a problem if it raises."""
        try:
            return read()
        except (OSError, RuntimeError, ValueError, TypeError, MemoryError) as error:
            reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            self.report(subject, f"it cannot be read ({reason})", "", "write the file again with nir.write", node)
            return None


def draft_graph(branch: Branch, draft: GraphDraft, prefix: str = "") -> Any:
    """The ``nir.NIRGraph`` of one group; ``prefix`` is the full name of the graph with a dot, empty for the top."""
    import nir

    subject = f"subgraph {quoted(prefix[:-1])}" if prefix else "graph"
    _check_members(branch, {"type", "nodes", "edges", "metadata"}, subject, prefix[:-1], draft)
    nodes: dict[str, Any] = {}
    inside = branch.branch("nodes")
    if inside is None:
        draft.report(subject, "its group of nodes is missing", "", "write the file again with nir.write", prefix[:-1])
    else:
        for name, item in _node_branches(inside, "", prefix, draft):
            draft.nodes += 1
            if draft.nodes > draft.limits.max_nodes:
                limit = f"at most {draft.limits.max_nodes:,} are read"
                draft.report(subject, "it has too many nodes", limit, "raise max_nodes where load is called")
                break
            node = _draft_node(name, item, prefix, draft)
            if node is not None:
                nodes[name] = node
    graph = nir.NIRGraph({}, [], metadata={}, type_check=False)
    graph.nodes, graph.edges = nodes, _edges(branch, subject, prefix, draft)
    graph.metadata = _metadata(branch, subject, prefix[:-1], draft)
    return graph


def stored_kind(branch: Branch) -> str | None:
    """The stored type of a group, None if it has none that is short text."""
    leaf = branch.leaf("type")
    if leaf is None or leaf.content != "text" or leaf.size != 1:
        return None
    return text_of(leaf)


def _node_branches(branch: Branch, start: str, prefix: str, draft: GraphDraft) -> Iterator[tuple[str, Branch]]:
    """The groups of nodes with their names; HDF5 stores a node called ``a/b`` as group ``b`` in group ``a``."""
    for name, item in branch.members.items():
        full = start + name
        if isinstance(item, Leaf):
            subject = f"node {quoted(prefix + full)}"
            draft.report(subject, "it is a dataset", "a node is a group with a type", "remove it", prefix + full)
            continue
        if item.members and all(isinstance(member, Branch) for member in item.members.values()):
            yield from _node_branches(item, full + "/", prefix, draft)
            continue
        yield full, item
        yield from _node_branches(_slashed(item), full + "/", prefix, draft)


def _slashed(item: Branch) -> Branch:
    """The groups inside a node that are nodes themselves (``a/b`` beside ``a``)."""
    return Branch(
        item.path,
        {
            name: member
            for name, member in item.members.items()
            if isinstance(member, Branch) and name not in ("nodes", "metadata") and "type" in member.members
        },
    )


def _draft_node(name: str, branch: Branch, prefix: str, draft: GraphDraft) -> Any:
    full = prefix + name
    subject = f"node {quoted(full)}"
    kind = draft.try_read(subject, full, lambda: stored_kind(branch))
    if kind is None:
        draft.report(subject, "its type is missing or no text", "every node has one", "write the file again", full)
        return None
    if kind not in NODE_TYPES:
        hint = f"use one of {', '.join(NODE_TYPES)}"
        draft.report(subject, f"its type {quoted(kind)} is not known", "", hint, full)
        return None
    if kind == "NIRGraph":
        return draft_graph(branch, draft, full + ".")
    return _plain_node(kind, full, branch, draft)


def _plain_node(kind: str, full: str, branch: Branch, draft: GraphDraft) -> Any:
    import nir

    subject = f"node {quoted(full)} ({kind})"
    reals = (*ELEMENTWISE.get(kind, ()), *WEIGHTED.get(kind, ()))
    optional = _OPTIONAL.get(kind, {})
    wholes = (*_WHOLE.get(kind, ()), *(f for f in optional if f not in reals))
    _check_members(branch, {"type", "metadata", *reals, *wholes}, subject, full, draft)
    cls = getattr(nir, kind)
    node = cls.__new__(cls)
    node.input_type, node.output_type = {"input": None}, {"output": None}
    for name in (*reals, *wholes):
        leaf = branch.leaf(name)
        if leaf is None and name not in optional:
            draft.report(subject, f"{name} is missing", f"{kind} needs it", "write the file again with nir.write", full)
        value = optional.get(name)
        if leaf is not None:
            value = (
                _stand_in(leaf, name, subject, full, draft)
                if name in reals
                else _whole(leaf, name, subject, full, draft)
            )
            if name in reals:
                draft.unread.append((full, node, name, leaf))
        _place(node, name, value)
    node.metadata = _metadata(branch, subject, full, draft)
    return node


def _place(node: Any, name: str, value: Any) -> None:
    """Stores a field; the stored names of shapes differ from the fields of nir's classes."""
    if name == "shape":
        node.input_type, node.output_type = {"input": value}, {"output": value}
    elif name == "input_type":
        node.input_type = {"input": value}
    else:
        setattr(node, name, value)


def _check_members(branch: Branch, known: set[str], subject: str, full: str, draft: GraphDraft) -> None:
    slashed = _slashed(branch).members
    for name, member in branch.members.items():
        if name in slashed:
            continue
        if name not in known:
            found = f"it has an unknown field {quoted(name)}"
            draft.report(subject, found, "known: " + ", ".join(sorted(known)), "remove it, or put it in metadata", full)
        elif isinstance(member, Branch) != (name in ("nodes", "metadata")):
            kind = "group" if isinstance(member, Branch) else "dataset"
            draft.report(subject, f"{name} is a {kind}", "", "write the file again with nir.write", full)


def _stand_in(leaf: Leaf, name: str, subject: str, full: str, draft: GraphDraft) -> Any:
    """An array of the declared shape that takes no memory."""
    if leaf.content != "number":
        content = "text" if leaf.content == "text" else "truth values"
        draft.report(subject, f"{name} holds {content}", "it must be real numbers", "store it as floats", full)
    elif not leaf.size:
        draft.report(subject, f"{name} is empty (shape {leaf.shape})", "it needs values", "store its values", full)
    return np.broadcast_to(np.zeros(()), leaf.shape if leaf.size else ())


def _whole(leaf: Leaf, name: str, subject: str, full: str, draft: GraphDraft) -> Any:
    """A small field: whole numbers as an array, or a word."""
    if leaf.size > _MAX_AXES:
        draft.report(subject, f"{name} has {leaf.size:,} elements", f"at most {_MAX_AXES}", f"correct {name}", full)
        return np.int64(1)
    if leaf.content == "text" and leaf.size == 1 and name == "padding":
        return draft.try_read(subject, full, lambda: text_of(leaf))
    if leaf.content != "number":
        draft.report(subject, f"{name} holds no numbers", "it must be whole numbers", f"correct {name}", full)
        return np.int64(1)
    value = draft.try_read(subject, full, lambda: array_of(leaf))
    return np.int64(1) if value is None else value


def _edges(branch: Branch, subject: str, prefix: str, draft: GraphDraft) -> list[tuple[str, str]]:
    leaf, full = branch.leaf("edges"), prefix[:-1]
    if leaf is None:
        draft.report(subject, "its edges are missing", "", "write the file again with nir.write", full)
        return []
    if not leaf.size:
        return []
    if leaf.content != "text" or len(leaf.shape) != 2 or leaf.shape[1] != 2:
        found = f"its edges are {leaf.content} of shape {leaf.shape}"
        draft.report(subject, found, "they must be pairs of node names, [edges, 2]", "write the file again", full)
        return []
    if leaf.shape[0] > draft.limits.max_edges:
        found, limit = f"it has {leaf.shape[0]:,} edges", f"at most {draft.limits.max_edges:,} are read"
        draft.report(subject, found, limit, "raise max_edges where load is called", full)
        return []
    rows = draft.try_read(subject, full, lambda: texts_of(leaf))
    return [(a, b) for a, b in rows or ()]


def _metadata(branch: Branch, subject: str, full: str, draft: GraphDraft) -> dict[str, Any]:
    inside = branch.branch("metadata")
    if inside is None:
        return {}
    metadata = draft.try_read(subject, full, lambda: metadata_of(inside)) or {}
    for key in ("dt", "nirbridge:dt"):
        value = np.asarray(metadata.get(key, 1.0))
        if key == "dt" and value.dtype.kind not in "iuf":
            continue  # another tool's word, with a meaning of its own
        if value.dtype.kind not in "iuf" or value.size != 1 or not (np.isfinite(value).all() and (value > 0).all()):
            shown = quoted(metadata[key])
            limit = "it must be one finite number above 0 s"
            draft.report(subject, f"metadata {quoted(key)} is {shown}", limit, "store dt in seconds", full)
    return metadata

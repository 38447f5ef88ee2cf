"""Sparse matrices between images in NIR: plain nodes that compute them, and the matrix again for nirbridge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nirbridge.arrays import Array, freeze
from nirbridge.errors import ModelError
from nirbridge.network import Network, Population, Port, Projection, Timing, from_nir, same_network, to_nir
from nirbridge.network.apply import apply
from nirbridge.network.compose import parts_of
from nirbridge.network.neurons import neuron
from nirbridge.network.nir import raise_sparse
from nirbridge.network.operators import Conv, Identity, Sparse

Shape = tuple[int, ...]
RNG = np.random.default_rng(4)


def sparse(rows: Any, columns: Any, values: Any, source: Shape, target: Shape) -> Sparse:
    """Entries in any order."""
    rows, columns = np.asarray(rows).reshape(-1), np.asarray(columns).reshape(-1)
    values = np.broadcast_to(np.asarray(values, np.float32), rows.shape)
    order = np.lexsort((columns, rows))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=int(np.prod(target))))])
    return Sparse(freeze(indptr, np.int64), freeze(columns[order], np.int64), freeze(values[order]), source, target)


def selected(source: Shape, select: Callable[[Array], Array]) -> Sparse:
    """The positions that ``select`` leaves of numbered ones; -1 stands for zero."""
    found = select(np.arange(np.prod(source)).reshape(source))
    rows = np.flatnonzero(found.reshape(-1) >= 0)
    return sparse(rows, found.reshape(-1)[rows], 1.0, source, found.shape)


def enlarged(x: Array) -> Array:
    return x.repeat(2, -2).repeat(3, -1)


def stuffed(x: Array) -> Array:
    out = np.full((*x.shape[:-1], 2 * x.shape[-1] - 1), -1)
    out[..., ::2] = x
    return out


def by_chance(source: Shape, target: Shape, share: float = 0.3) -> Sparse:
    rows, columns = np.nonzero(RNG.random((int(np.prod(target)), int(np.prod(source)))) < share)
    return sparse(rows, columns, RNG.normal(size=len(rows)), source, target)


def window_means() -> Sparse:
    """Means over windows of unequal size: 5 rows to 2, 4 columns as they are."""
    rows = [(c, h, w) for c in range(2) for h in range(2) for w in range(4) for _ in range(3)]
    flat = [np.ravel_multi_index(place, (2, 2, 4)) for place in rows]
    columns = [np.ravel_multi_index((c, 2 * h + k % 3, w), (2, 5, 4)) for k, (c, h, w) in enumerate(rows)]
    return sparse(flat, columns, 1 / 3, (2, 5, 4), (2, 2, 4))


MAPS: dict[str, tuple[Sparse, list[str]]] = {
    "upsampling": (selected((3, 4, 5), enlarged), ["Conv2d", "Linear", "Conv2d"]),
    "rows alone": (selected((3, 4, 5), lambda x: x.repeat(2, 1)), ["Conv2d", "Conv2d"]),
    "columns alone": (selected((3, 4, 5), lambda x: x.repeat(2, 2)), ["Linear"]),
    "zeros between": (selected((3, 4, 5), stuffed), ["Linear"]),
    "a crop": (selected((3, 4, 5), lambda x: x[:, 1:-1, 1:-2]), ["Conv2d", "Linear", "Conv2d"]),
    "flipped": (selected((3, 4, 5), lambda x: x[:, ::-1, ::-1]), ["Conv2d", "Linear", "Conv2d"]),
    "channels moved": (selected((3, 4, 5), lambda x: x[[2, 0, 1, 1]]), ["Conv2d"]),
    "channels joined": (selected((2, 4, 5), lambda x: np.concatenate([x, np.full((3, 4, 5), -1)])), ["Conv2d"]),
    "channels to one pixel": (selected((6, 1, 1), lambda x: x.reshape(2, 3, 1)), ["Conv2d"]),
    "one pixel to images": (selected((24, 1, 1), lambda x: x.reshape(2, 3, 4)), ["Conv2d"]),
    "one pixel to images, turned": (selected((24, 1, 1), lambda x: x.reshape(2, 3, 4)[::-1]), ["Conv2d", "Conv2d"]),
    "one place to signals": (selected((12, 1), lambda x: x.reshape(3, 4)), ["Conv1d"]),
    "transposed": (selected((3, 4, 5), lambda x: x.transpose(0, 2, 1)), ["Conv2d", "Conv2d"]),
    "pixels shuffled": (
        selected((4, 2, 3), lambda x: x.reshape(2, 2, 2, 3).transpose(2, 0, 3, 1).reshape(1, 4, 6)),
        ["Conv2d", "Conv2d"],
    ),
    "means of rows": (window_means(), ["Conv2d", "Conv2d"]),
    "by chance": (by_chance((2, 3, 4), (3, 2, 5)), ["Conv2d", "Conv2d"]),
    "nothing arrives": (by_chance((2, 3, 4), (3, 2, 5), 0.0), ["Conv2d", "Conv2d"]),
    "signal, enlarged": (selected((3, 4), lambda x: x.repeat(2, 1)), ["Linear"]),
    "signal, channels moved": (selected((3, 4), lambda x: x[[1, 1, 0, 2]]), ["Conv1d"]),
    "signal, by chance": (by_chance((3, 4), (2, 5)), ["Conv1d", "Conv1d"]),
}
"""Matrices, and the nodes that they become."""


def network(operator: Any, bias: Array | None = None) -> Network:
    """Two populations with the operator between them."""
    lif = neuron("LIF", a_mem=0.75, theta=1.0)
    ends = operator.input_shape, operator.output_shape
    delay = freeze(np.int64(0))
    return Network(
        1e-3, Timing(1e-3, "euler", "to-value", ">", "per-second"),
        (Population("a", ends[0], lif), Population("b", ends[1], lif)),
        (Projection("in", "a", Identity(ends[0]), None, delay), Projection("a", "b", operator, bias, delay),
         Projection("b", "out", Identity(ends[1]), None, delay)),
        (Port("in", ends[0]),), (Port("out", ends[1]),))  # fmt: skip


def nodes_between(graph: Any) -> list[Any]:
    return [node for name, node in graph.nodes.items() if name.startswith("a_b")]


def computed(found: Network, x: Array) -> Array:
    """What arrives at ``b``."""
    p = next(p for p in found.projections if p.target == "b")
    total = apply(p.operator, x)
    return total if p.bias is None else total + p.bias


@pytest.mark.parametrize("name", MAPS)
def test_the_matrix_is_read_again(name: str) -> None:
    built = network(MAPS[name][0])
    graph = to_nir(built)
    assert [type(node).__name__ for node in nodes_between(graph)] == MAPS[name][1]
    assert same_network(from_nir(graph), built)


@pytest.mark.parametrize("name", MAPS)
def test_other_tools_compute_the_same(name: str) -> None:
    operator = MAPS[name][0]
    graph = to_nir(network(operator))
    for node in nodes_between(graph):
        node.metadata.clear()
    x = RNG.normal(size=operator.input_shape)
    plain = from_nir(graph)
    assert not any(
        isinstance(p, Sparse) and p.indptr is operator.indptr for p in parts_of(plain.projections[1].operator)
    )
    np.testing.assert_allclose(computed(plain, x), apply(operator, x), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("name", MAPS)
def test_large_groups_have_grouped_convolutions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raise_sparse, "_UNGROUPED_MAX", 0)
    operator = MAPS[name][0]
    graph = to_nir(network(operator))
    assert same_network(from_nir(graph), network(operator))
    for node in nodes_between(graph):
        node.metadata.clear()
    x = RNG.normal(size=operator.input_shape)
    np.testing.assert_allclose(computed(from_nir(graph), x), apply(operator, x), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("name", ["upsampling", "columns alone", "channels moved", "by chance", "signal, by chance"])
@pytest.mark.parametrize("is_uniform", [True, False])
def test_a_bias_is_plain_where_each_channel_has_one(name: str, is_uniform: bool) -> None:
    operator = MAPS[name][0]
    shape = operator.output_shape
    per_channel = np.linspace(0.25, 1.0, shape[0]).reshape(-1, *(1,) * (len(shape) - 1))
    bias = freeze(np.broadcast_to(per_channel, shape) if is_uniform else RNG.normal(size=shape), np.float64)
    built = network(operator, bias)
    graph = to_nir(built)
    assert same_network(from_nir(graph), built)
    assert any("nirbridge:bias" in node.metadata for node in nodes_between(graph)) is not is_uniform
    for node in nodes_between(graph):
        node.metadata.clear()
    x = RNG.normal(size=operator.input_shape)
    wanted = apply(operator, x) + (bias if is_uniform else 0)
    np.testing.assert_allclose(computed(from_nir(graph), x), wanted, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_nodes_that_were_changed_mean_what_they_are(place: int) -> None:
    operator = MAPS["upsampling"][0]
    graph = to_nir(network(operator))
    changed = nodes_between(graph)[place]
    changed.weight[(0,) * changed.weight.ndim] += 1
    found = from_nir(graph)
    kinds = [type(part) for part in parts_of(found.projections[1].operator)]
    assert kinds == [Conv, Sparse, Conv]
    x = np.ones(operator.input_shape)
    assert not np.allclose(computed(found, x), apply(operator, x))


@pytest.mark.parametrize(
    ("key", "value"),
    [("nodes", 0), ("nodes", 4), ("nodes", 2.5), ("nodes", [1, 2]), ("indptr", [0, 1]), ("data", [1.0]), ("data", "x")],
)  # fmt: skip
def test_metadata_that_does_not_fit_is_left_aside(key: str, value: Any) -> None:
    operator = MAPS["upsampling"][0]
    graph = to_nir(network(operator))
    nodes_between(graph)[0].metadata[f"nirbridge:{key}"] = np.asarray(value)
    found = from_nir(graph)
    assert len(parts_of(found.projections[1].operator)) == 3
    x = RNG.normal(size=operator.input_shape)
    np.testing.assert_allclose(computed(found, x), apply(operator, x), rtol=1e-6, atol=1e-12)


def test_values_that_are_not_finite_are_left_aside() -> None:
    operator = MAPS["upsampling"][0]
    graph = to_nir(network(operator))
    nodes_between(graph)[0].metadata["nirbridge:data"][3] = np.nan
    assert len(parts_of(from_nir(graph).projections[1].operator)) == 3


def test_a_group_that_others_hear_is_none() -> None:
    operator = MAPS["rows alone"][0]
    graph = to_nir(network(operator))
    first = next(name for name in graph.nodes if name.startswith("a_b"))
    second = [name for name in graph.nodes if name.startswith("a_b")][1]
    import nir

    graph.nodes["other"] = nir.Conv2d((1, 5), graph.nodes[second].weight, (1, 1), (7, 0), (1, 1), 1, np.zeros(3))
    graph.edges += [(first, "other"), ("other", "out")]
    kinds = [type(p).__name__ for p in parts_of(from_nir(graph).projections[1].operator)]
    assert kinds == ["Conv", "Conv"]


def test_a_matrix_too_large_for_plain_nodes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raise_sparse, "WEIGHTS_MAX", 100)
    with pytest.raises(ModelError, match=r"a sparse matrix onto neurons of shape \(3, 2, 5\)"):
        to_nir(network(MAPS["by chance"][0]))
    with pytest.raises(ModelError, match=r"a sparse matrix onto neurons of shape"):
        to_nir(network(replace(MAPS["upsampling"][0])))


def test_other_counts_of_axes_are_refused() -> None:
    with pytest.raises(ModelError, match=r"a sparse matrix onto neurons of shape \(2, 3, 1\)"):
        to_nir(network(selected((6,), lambda x: x.reshape(2, 3, 1))))

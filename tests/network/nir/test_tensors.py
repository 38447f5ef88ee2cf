"""Graphs that hold tensors are read as the same graphs of arrays."""

from __future__ import annotations

from typing import Any

import nir
import numpy as np
import pytest

import nirbridge as nb
from nirbridge.network import network_differences
from nirbridge.network.nir.tensors import without_tensors
from tests.network.graphs import graph_of, lif, out, port

torch = pytest.importorskip("torch", reason="torch is not installed")


def graph(convert: Any) -> nir.NIRGraph:
    """A subgraph, an Affine in float32 and neurons, every array converted."""
    rng = np.random.default_rng(0)
    inner = {
        "a": port(4),
        "w": nir.Affine(rng.normal(size=(3, 4)).astype(np.float32), np.ones(3, np.float32)),
        "b": out(3),
    }
    sub = nir.NIRGraph(inner, [("a", "w"), ("w", "b")], type_check=False)
    nodes = {"in": port(4), "sub": sub, "l": lif(3), "out": out(3)}
    for node in (inner["w"], nodes["l"]):
        for name, value in vars(node).items():
            if isinstance(value, np.ndarray):
                setattr(node, name, convert(value))
    return graph_of(nodes, [("in", "sub"), ("sub", "l"), ("l", "out")], dt=1e-4, reset="to-value")


def test_tensors_are_read_as_arrays_of_the_same_values() -> None:
    given = graph(lambda a: torch.nn.Parameter(torch.from_numpy(a)))
    before = given.nodes["sub"].nodes["w"].weight
    found = nb.load(given)
    assert network_differences(found, nb.load(graph(np.array))) == ()
    assert found.projections[0].operator.weight.dtype == np.float32
    assert given.nodes["sub"].nodes["w"].weight is before


def test_a_graph_without_tensors_stays_the_same_object() -> None:
    plain = graph(np.array)
    assert without_tensors(plain) is plain


def test_values_of_bfloat16_are_kept() -> None:
    given = graph(lambda a: torch.from_numpy(a).to(torch.bfloat16))
    values = without_tensors(given).nodes["sub"].nodes["w"].weight
    assert values.dtype == np.float32
    assert np.array_equal(values, given.nodes["sub"].nodes["w"].weight.to(torch.float64).numpy())


@pytest.mark.filterwarnings("ignore")  # nirtorch deprecates what sinabs calls
def test_what_sinabs_exports_is_read() -> None:
    pytest.importorskip("sinabs", reason="sinabs is not installed")
    from sinabs.layers import LIF  # type: ignore[import-not-found]
    from sinabs.nir import to_nir  # type: ignore[import-not-found]

    module = torch.nn.Sequential(
        torch.nn.Linear(4, 3), LIF(tau_mem=torch.full((3,), 5.0), spike_threshold=torch.ones(3))
    )
    exported = to_nir(module, torch.rand(1, 10, 4))
    weight = next(node.weight for node in exported.nodes.values() if type(node).__name__ == "Affine")
    assert hasattr(weight, "detach")
    plain = without_tensors(exported)
    found = next(node.weight for node in plain.nodes.values() if type(node).__name__ == "Affine")
    assert np.array_equal(found, weight.detach().numpy())
    assert not any(hasattr(v, "detach") for node in plain.nodes.values() for v in vars(node).values())

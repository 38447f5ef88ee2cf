"""Model files as the page reads them, against what Python reads: nodes, types, edges, every parameter's values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nir
import numpy as np
import pytest

from nirbridge.importers.nirfile.reader import read_nir
from nirbridge.network.nir.fields import ELEMENTWISE, WEIGHTED, kind_of
from nirbridge.network.nir.flatten import flatten_graph
from tests.viewer.files import FILES
from tests.viewer.reader import Reader


@pytest.mark.parametrize("name", FILES)
def test_a_model_is_read_as_python_reads_it(name: str, reader: Reader, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.nir"
    FILES[name](path)
    document = reader.file(path)
    expected = flatten_graph(read_nir(path))
    graph = document["graph"]
    assert document["kind"] == "network"
    assert document["title"] == path.name
    assert document["notes"] == []
    assert {node["id"]: node["type"] for node in graph["nodes"]} == {n: kind_of(x) for n, x in expected.nodes.items()}
    assert [(edge["source"], edge["target"]) for edge in graph["edges"]] == list(expected.edges)
    for node in graph["nodes"]:
        check_parameters(node, expected.nodes[node["id"]])


def check_parameters(shown: dict[str, Any], node: Any) -> None:
    """Every real parameter has the values of Python's; those that a file leaves out are not shown."""
    fields = (*ELEMENTWISE.get(shown["type"], ()), *WEIGHTED.get(shown["type"], ()))
    params = {param["name"]: param for param in shown["params"]}
    assert set(params) <= set(fields)
    assert set(fields) - set(params) <= {"v_reset", "w_in"}
    for field, param in params.items():
        value = np.asarray(getattr(node, field))
        assert np.array_equal(np.broadcast_to(param["values"].reshape(param["shape"]), value.shape), value), field
        assert param["note"] == ""


def test_the_facts_of_a_model(reader: Reader) -> None:
    document = reader.read(
        "mlp.nir", (Path(__file__).resolve().parents[2] / "examples/models/digits_mlp.nir").read_bytes()
    )
    facts = dict(document["facts"])
    assert facts["nodes"] == "6"
    assert facts["edges"] == "5"
    assert facts["written with nir"] == nir.version
    assert facts["time step"] == "100 µs"
    assert facts["integrator"] == "euler"
    assert {node["id"]: node["shape"] for node in document["graph"]["nodes"]} == {
        "input": "64", "linear_0": "64 → 64", "leaky_1": "64", "linear_2": "64 → 10", "leaky_3": "10", "output": "10"
    }  # fmt: skip

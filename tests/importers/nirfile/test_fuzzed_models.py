"""Faults found by fuzzing the readers of models, each with a minimal file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import nir
import numpy as np
import pytest

from nirbridge.errors import FileError, ModelError
from nirbridge.importers.nirfile.reader import read_nir
from nirbridge.network import from_nir
from tests.importers.nirfile.hostile import conv_graph
from tests.network.graphs import graph_of, lif, out, port


@pytest.mark.parametrize("node", [nir.Scale(np.full((1, 1, 1), 2.0)), nir.Delay(np.full((1, 1, 1), 1e-3))])
def test_one_value_with_more_axes_than_the_layer_is_for_all_of_it(node: Any, tmp_path: Path) -> None:
    nodes = {"in": port(5), "node": node, "lif": lif(5), "out": out(5)}
    nir.write(tmp_path / "a.nir", graph_of(nodes, [("in", "node"), ("node", "lif"), ("lif", "out")], dt=1e-3))
    [into, _] = from_nir(read_nir(tmp_path / "a.nir")).projections
    if isinstance(node, nir.Scale):
        assert np.array_equal(into.operator.scale, np.full(5, 2.0))  # type: ignore[union-attr]
    else:
        assert np.all(into.delay_steps == 1)


def test_a_wrong_array_of_numbers_is_told_in_one_line(tmp_path: Path) -> None:
    nir.write(tmp_path / "a.nir", conv_graph())
    with h5py.File(tmp_path / "a.nir", "r+") as file:
        nodes: Any = file["node/nodes"]
        del nodes["pool/stride"]
        nodes["pool/stride"] = np.ones((3, 3), np.int64)
    with pytest.raises(FileError, match=r"stride is an array of shape \(3, 3\), it must be 1 or 2 whole") as caught:
        read_nir(tmp_path / "a.nir")
    assert str(caught.value).isprintable()


def test_a_wrong_input_shape_is_told_in_one_line() -> None:
    node = nir.Conv1d(None, np.ones((3, 2, 3)), 1, 0, 1, 1, np.zeros(3))
    node.input_shape = np.ones((3, 3))
    nodes = {"in": port(2, 8), "conv": node, "lif": lif(3, 6), "out": out(3, 6)}
    with pytest.raises(ModelError, match=r"input_shape is an array of shape \(3, 3\), it needs 1 numbers") as caught:
        from_nir(graph_of(nodes, [("in", "conv"), ("conv", "lif"), ("lif", "out")]))
    assert str(caught.value).isprintable()

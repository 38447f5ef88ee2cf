# ruff: noqa: E501  (tables of messages read better in one line)
"""Network files: networks come back bit for bit, sparse matrices are never made dense, other files are refused."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from scipy import sparse

from nirbridge.arrays import Array, freeze, same_array
from nirbridge.errors import FileError, ModelError, UsageError
from nirbridge.network import sparse_operator
from nirbridge.network.model import Network, Port, Projection, Timing
from nirbridge.network.operators import Chain, Dense, Identity, Reshape, Sparse, SumPool
from nirbridge.network.storage.file import (
    ELEMENTS_MAX,
    FORMAT,
    is_network_file,
    load_network_file,
    network_to_dict,
    read_network,
    write_network,
)
from nirbridge.testing import networks
from tests.cases import cases
from tests.network.storage.nets import reservoir, small
from tests.quantization.nets import layer, lif
from tests.record_files import npy, written


def assert_same(a: Any, b: Any) -> None:
    """Equal in every field, arrays bit for bit; the order of everything counts."""
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert same_array(a, b)
        assert not b.flags.writeable
    elif isinstance(a, tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif hasattr(a, "__dataclass_fields__"):
        for f in fields(a):
            assert_same(getattr(a, f.name), getattr(b, f.name))
    else:
        assert a == b


def round_trip(network: Network, path: Path) -> Network:
    digest = write_network(network, path)
    first = path.read_bytes()
    back = read_network(path)
    assert_same(network, back)
    assert write_network(back, path) == digest
    assert path.read_bytes() == first
    return back


@settings(max_examples=cases(20, 60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(networks())
def test_what_was_saved_comes_back(tmp_path: Path, network: Network) -> None:
    round_trip(network, tmp_path / "a.net.npz")


def test_every_operator_comes_back(tmp_path: Path) -> None:
    round_trip(small(), tmp_path / "a.net.npz")


def test_a_reservoir_is_never_dense(tmp_path: Path) -> None:
    """Its matrix would have 10^10 weights."""
    back = round_trip(reservoir(100_000, 3), tmp_path / "a.net.npz")
    loop = back.projections[1].operator
    assert isinstance(loop, Sparse)
    assert loop.data.size > 290_000
    assert (tmp_path / "a.net.npz").stat().st_size < 10 * loop.data.size


def test_repeated_values_are_stored_once_and_count_as_bytes(tmp_path: Path) -> None:
    """A network of shapes alone stays one: its weights have stride 0."""
    weights = np.broadcast_to(np.float32(0.5), (20_000, 30_000))
    network = layer(np.ones((1, 1)), lif(a_mem=0.9))
    (into, out) = network.projections
    network = replace(
        network,
        populations=(replace(network.populations[0], shape=(20_000,)),),
        projections=(replace(into, operator=Dense(freeze(weights))), replace(out, operator=Identity((20_000,)))),
        inputs=(Port("in", (30_000,)),),
        outputs=(Port("out", (20_000,)),),
    )
    path = tmp_path / "a.net.npz"
    write_network(network, path)
    assert path.stat().st_size < 10_000
    with pytest.raises(FileError, match="file 'a.net.npz': array 'a\\d+': declares more bytes .* raise --max-bytes"):
        read_network(path, max_bytes=2_400_000_000)
    back = read_network(path, max_bytes=2_400_010_000).projections[0].operator
    assert isinstance(back, Dense)
    assert (back.weight.shape, back.weight.strides, back.weight.dtype) == ((20_000, 30_000), (0, 0), np.float32)


def test_equal_arrays_are_stored_once_and_other_byte_orders_as_usual() -> None:
    weight = np.arange(6.0).reshape(2, 3)
    network = layer(weight, lif(a_mem=0.5, a_syn=0.5))
    swapped = replace(network.projections[0], operator=Dense(freeze(weight.astype(">f8"))))
    record, arrays = network_to_dict(replace(network, projections=(swapped, *network.projections[1:])))
    cell = record["populations"][0]["neuron"]
    assert cell["a_mem"] == cell["a_syn"] != cell["g_mem"]
    keys = {(a.dtype.str, a.shape, a.tobytes()) for a in arrays.values()}
    assert len(keys) == len(arrays)
    assert ("<f8", (2, 3), weight.tobytes()) in keys


# -- refusals ----------------------------------------------------------------------------------------------------------


def changed(**own: Any) -> Network:
    """``small`` with another neuron of 'b', or other fields."""
    network = small()
    population = network.populations[1]
    cell = {f.name: own.pop(f.name) for f in fields(population.neuron) if f.name in own}
    populations = (network.populations[0], replace(population, neuron=replace(population.neuron, **cell)))
    return replace(network, **{"populations": populations, **own})


def rows(**own: Array) -> Network:
    """``small`` with other lists in its sparse matrix."""
    network = small()
    loop = network.projections[2]
    assert isinstance(loop.operator, Sparse)
    ways = (*network.projections[:2], replace(loop, operator=replace(loop.operator, **own)), network.projections[3])
    return replace(network, projections=ways)


WIDE = Chain((Reshape((3,), (1, 3)), SumPool((1,), (1,), ((0, ELEMENTS_MAX),), (1, 3), 1.0), SumPool((ELEMENTS_MAX + 1,), (1,), ((0, 0),), (1, ELEMENTS_MAX + 3), 1.0), Reshape((1, 3), (3,))))  # fmt: skip
REFUSED = {
    "kind": (changed(kind="Soma"), "population 'b': a neuron of kind 'Soma', one of I, IF"),
    "readout": (changed(kind="CubaLI"), "population 'b': CubaLI with a threshold, LI, CubaLI, I never fire"),
    "no threshold": (changed(theta=None, v_min=None), "population 'b': CubaLIF without a threshold"),
    "float32": (changed(a_mem=freeze(np.float32(0.5))), "neuron a_mem of type float32, float64 is expected; convert it"),
    "count": (changed(max_spikes=2**31), "a count of 2,147,483,648, at most 2,147,483,647"),
    "refractory": (changed(refractory_steps=freeze([0, 0, 2**31], np.int64)), "a count of 2,147,483,648"),
    "nan": (changed(bias=freeze([0.0, np.nan, 0.0])), "population 'b': neuron bias is not finite"),
    "name": (changed(inputs=(Port("\udc80", (1, 3, 3)),)), "its name cannot be stored, UTF-8 of at most 1,000 bytes"),
    "long name": (changed(inputs=(Port("é" * 501, (1, 3, 3)),)), "its name cannot be stored"),
    "note": (changed(notes=("ok", "\ud800")), "network: its notes cannot be stored, UTF-8"),
    "dt": (changed(dt=2.0), "network: dt is 2.0 s, its timing says 1.0 s"),
    "ports": (changed(inputs=tuple(Port(str(k), (1,)) for k in range(9_998))), "10,001 populations, inputs and outputs"),
    "projections": (changed(projections=small().projections * 25_001), "network: 100,004 projections, at most 100,000"),
    "size": (changed(inputs=(*small().inputs, Port("x", (2**14, 2**14)))), "values to keep"),
    "chain": (replace(layer(np.ones((3, 3)), lif()), projections=(Projection("in", "p", WIDE),)), "operator over 268,435,4"),
    "truth values": (replace(layer(np.ones((3, 3)), lif()), projections=(Projection("in", "p", Dense(freeze(np.ones((3, 3), bool)))),)), "values of type bool, real numbers"),
    "columns": (rows(indices=freeze([1, 3], np.int64)), "a sparse column index is out of range, 3 columns"),
    "negative column": (rows(indices=freeze([-1, 0], np.int64)), "a sparse column index is out of range"),
    "unsigned": (rows(indices=freeze([1, 0], np.uint64)), "its sparse lists are not along one axis"),
    "axes": (rows(data=freeze(np.ones((2, 1)))), "its sparse lists are not along one axis"),
    "rows": (rows(indptr=freeze([0, 1, 1], np.int64)), "its sparse rows do not cover its data, 3 rows"),
    "overflow": (rows(indptr=freeze([0, 2**63 - 1, -2, 2], np.int64)), "its sparse rows do not cover its data"),
    "data": (rows(data=freeze([1.0, np.inf])), "a weight of its Sparse is not finite"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_network_that_could_not_be_read_is_not_written(tmp_path: Path, name: str) -> None:
    network, message = REFUSED[name]
    with pytest.raises(ModelError) as caught:
        write_network(network, tmp_path / "a.net.npz")
    assert message in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [name for name in REFUSED if name not in ("dt", "projections")])
def test_a_file_of_such_a_network_is_refused(tmp_path: Path, name: str) -> None:
    network, message = REFUSED[name]
    path = written(tmp_path / "a.net.npz", FORMAT, *network_to_dict(network))
    with pytest.raises(FileError) as caught:
        read_network(path)
    assert str(caught.value).startswith("file 'a.net.npz': ")
    assert message in str(caught.value)
    assert str(caught.value).endswith("write it again with nirbridge.save")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r, a: r.update(more=1), "'more' is missing or unknown"),
        (lambda r, a: r.update(file=None), "'file' is missing or unknown"),
        (lambda r, a: r.pop("notes"), "'notes' is missing or unknown"),
        (lambda r, a: r["populations"][0].pop("neuron"), "Population has other fields: 'neuron' is missing or unknown"),
        (lambda r, a: r["populations"][1]["neuron"].update(x=1), "Neuron has other fields: 'x' is missing or unknown"),
        (lambda r, a: a.update(a99=np.zeros(3)), "array 'a99' is not used"),
        (lambda r, a: r["projections"][2]["operator"]["data"].update(shape=[-1]), "is repeated to no shape"),
        (lambda r, a: r["projections"][2]["operator"]["data"].update(shape=[3]), "cannot be read as a network"),
        (lambda r, a: r.update(kind="nirbridge-quantized"), "is not a network; give a .nir or .net.npz file"),
        (lambda r, a: r.update(schema=2), "schema 2, this nirbridge reads 1"),
        (lambda r, a: r.update(digest="0" * 64), "its digest does not match, the file was changed or damaged"),
    ],
)
def test_records_with_anything_else_are_refused(tmp_path: Path, change: Any, message: str) -> None:
    record, arrays = network_to_dict(small())
    record = json.loads(json.dumps(record))
    change(record, arrays)
    with pytest.raises(FileError) as caught:
        read_network(written(tmp_path / "a.net.npz", FORMAT, record, arrays))
    assert message in str(caught.value).replace('"', "").replace("\\", "")


def test_other_content_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.net.npz"
    write_network(small(), path)
    with pytest.raises(FileError, match="at most 100 are read"):
        read_network(path, max_bytes=100)
    record, arrays = network_to_dict(small())
    pickled = npy(np.array([object()]), allow_pickle=True)
    with pytest.raises(FileError, match="array 'a0': not an array of plain numbers"):
        read_network(written(path, FORMAT, record, arrays, a0=pickled))
    path.write_bytes(b"not a zip")
    with pytest.raises(FileError, match="'a.net.npz': cannot be read"):
        read_network(path)
    with pytest.raises(FileError, match="does not exist; check the path"):
        read_network(tmp_path / "none.net.npz")
    with pytest.raises(FileError, match="its folder does not exist"):
        write_network(small(), tmp_path / "no folder" / "a.net.npz")


def test_options_that_would_change_its_meaning_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.net.npz"
    write_network(small(), path)
    assert_same(load_network_file(path, Timing(dt=1.0, integrator="euler", compare=">")), small())
    with pytest.raises(UsageError) as caught:
        load_network_file(path, Timing(dt=0.5, integrator="zoh", reset="to-value"), ["norse"])
    assert [str(p) for p in caught.value.problems] == [
        "file 'a.net.npz': dt 0.5 is requested, it has 1.0, a .net.npz file holds a network in discrete time; "
        "leave the option out",
        "file 'a.net.npz': integrator zoh is requested, it has euler, a .net.npz file holds a network in discrete time; "
        "leave the option out",
        "file 'a.net.npz': repair 'norse' is requested, exporters write .nir files; leave the option out",
    ]


def test_a_network_file_is_known_by_its_name_or_its_content(tmp_path: Path) -> None:
    write_network(small(), tmp_path / "model")
    (tmp_path / "damaged.net.npz").write_bytes(b"?")
    (tmp_path / "model.nir").write_bytes(b"\x89HDF\r\n\x1a\n")
    assert [is_network_file(tmp_path / name) for name in ("model", "damaged.net.npz", "model.nir")] == [
        True,
        True,
        False,
    ]
    with pytest.raises(FileError, match="it is a folder, a model file is expected"):
        is_network_file(tmp_path)


def test_matrices_of_scipy_become_operators() -> None:
    values, columns = np.array([7.0, 2.0, 0.0, 1.0, 4.0], np.float32), np.array([2, 1, 0, 3, 3])
    matrix = sparse.csr_array((values, columns, np.array([0, 2, 3, 5])), shape=(3, 4))  # unsorted, one place twice
    before = matrix.toarray()
    part = sparse_operator(matrix, (2, 2), (3, 1))
    assert (part.input_shape, part.output_shape) == ((2, 2), (3, 1))
    lists = [[0, 2, 3, 4], [1, 2, 0, 3], [2, 7, 0, 5]]
    assert [values.tolist() for values in (part.indptr, part.indices, part.data)] == lists
    assert matrix.indices.tolist() == columns.tolist()
    assert [values.dtype for values in (part.indptr, part.indices, part.data)] == [np.int64, np.int64, np.float32]
    assert (matrix.toarray() == before).all()
    assert sparse_operator(matrix).input_shape == (4,)
    with pytest.raises(UsageError, match="a matrix of 3 x 4, from .3,. to .3,.; give"):
        sparse_operator(matrix, (3,))
    with pytest.raises(UsageError, match="a ndarray|an ndarray"):
        sparse_operator(before)

from __future__ import annotations

import copy
import ctypes
import ctypes.util
import os
import random
import struct
import sys
from itertools import pairwise
from pathlib import Path

import h5py
import nir
import numpy as np
import pytest

from nirbridge.errors import FileError, ModelError
from nirbridge.importers import file_sha256, load_nir, save_nir
from tests.importers.nirfile import hostile

A = np.array


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "model.nir"
    nir.write(path, hostile.good_graph())
    return path


def spoiled(path: Path, graph: nir.NIRGraph, spoil: hostile.Spoil) -> Path:
    nir.write(path, graph)
    with h5py.File(path, "r+") as file:
        spoil(file)
    return path


def refusal(path: Path, **limits: int) -> str:
    """The message of the one FileError that comes of a file; every line of it names the file and a next step."""
    with pytest.raises(FileError) as caught:
        load_nir(path, **limits)
    assert caught.value.exit_code == 2
    for line in str(caught.value).splitlines():
        assert line.startswith(f"'{path.name}'")
        assert "; " in line
    return str(caught.value)


@pytest.mark.parametrize("name", hostile.VARIANTS)
def test_a_spoiled_file_is_refused_clearly(name: str, tmp_path: Path) -> None:
    spoil, message = hostile.VARIANTS[name]
    path = spoiled(tmp_path / "model.nir", hostile.good_graph(), spoil)
    with pytest.raises(FileError, match=message):
        load_nir(path)
    refusal(path)


@pytest.mark.parametrize("name", hostile.CONV_VARIANTS)
def test_a_spoiled_convolution_is_refused_clearly(name: str, tmp_path: Path) -> None:
    spoil, message = hostile.CONV_VARIANTS[name]
    path = spoiled(tmp_path / "model.nir", hostile.conv_graph(), spoil)
    with pytest.raises(FileError, match=message):
        load_nir(path)
    refusal(path)


def test_the_unspoiled_files_are_read(good: Path, tmp_path: Path) -> None:
    assert list(load_nir(good).nodes) == ["fc", "input", "lif", "output"]
    nir.write(tmp_path / "conv.nir", hostile.conv_graph())
    assert load_nir(tmp_path / "conv.nir").nodes["conv"].output_type["output"].tolist() == [6, 6, 6]


def test_all_problems_are_listed(good: Path) -> None:
    with h5py.File(good, "r+") as file:
        file[f"{hostile.LIF}/tau"][...] = -1
        file[f"{hostile.FC}/weight"][...] = np.nan
        hostile.edges(*hostile.GOOD_EDGES, ("fc", "fc"), ("a", "b"))(file)
    lines = refusal(good).splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        "'model.nir', edge 'fc' -> 'fc'",
        "'model.nir', edge 'a' -> 'b'",
        "'model.nir', edge 'a' -> 'b'",
        "'model.nir', node 'fc' (Affine)",
        "'model.nir', node 'lif' (LIF)",
    ]


def test_a_long_list_of_problems_is_cut(good: Path) -> None:
    with h5py.File(good, "r+") as file:
        hostile.edges(*((f"x{i}", f"y{i}") for i in range(3000)))(file)
    lines = refusal(good).splitlines()
    assert len(lines) == 101
    assert lines[-1] == "'model.nir': 5,900 problems more; repair these first"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "^'model.nir': it is empty, a .nir file is HDF5; write it again with nir.write$"),
        (b"import os", "^'model.nir': it is not an HDF5 file"),
        (b"\x89HDF\r\n\x1a\n", "it is damaged or cut off"),
        (b"\x89HDF\r\n\x1a\n" + bytes(4096), "it is damaged or cut off"),
        (b"\x89HDF\r\n\x1a\n" + b"\xff" * 4096, "it is damaged or cut off"),
    ],
)
def test_a_file_that_is_no_hdf5_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.nir"
    path.write_bytes(content)
    with pytest.raises(FileError, match=message):
        load_nir(path)


@pytest.mark.parametrize("keep", [9, 100, 1000, 5000])
def test_a_truncated_file_is_refused(keep: int, good: Path) -> None:
    good.write_bytes(good.read_bytes()[:keep])
    assert "it is damaged or cut off" in refusal(good)


def test_folders_pipes_and_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="it is a folder, a .nir file is expected; give the path of a file$"):
        load_nir(tmp_path)
    with pytest.raises(FileError, match=r"^'none.nir': it cannot be opened \(No such file or directory\); check"):
        load_nir(tmp_path / "none.nir")
    os.mkfifo(tmp_path / "pipe.nir")
    with pytest.raises(FileError, match="^'pipe.nir': it is not a regular file"):
        load_nir(tmp_path / "pipe.nir")
    with pytest.raises(FileError, match="it cannot be opened"):
        load_nir("a\0b.nir")
    with pytest.raises(FileError, match="it cannot be opened"):
        file_sha256(tmp_path / "none.nir")


def test_a_damaged_heap_of_texts_is_refused(good: Path) -> None:
    hostile.damage_heap(good)
    assert "a heap of texts is damaged" in refusal(good)


def test_a_loop_in_a_heap_of_names_is_refused(good: Path) -> None:
    hostile.loop_in_free_names(good)
    assert refusal(good).startswith("'model.nir': it is damaged (a heap of names is damaged); copy it again")


def test_weights_may_look_like_a_heap(tmp_path: Path) -> None:
    graph = hostile.good_graph()
    raw = b"HEAP" + bytes(4) + struct.pack("<QQQ", 64, 0, 0) + bytes(32)
    graph.nodes["fc"].weight = np.frombuffer(raw, dtype="<f4")[:16].reshape(4, 4)
    nir.write(tmp_path / "w.nir", graph, compression=None)
    assert load_nir(tmp_path / "w.nir").nodes["fc"].weight.tobytes() == graph.nodes["fc"].weight.tobytes()


def test_limits_can_be_chosen(good: Path, tmp_path: Path) -> None:
    assert "raise the limit with --max-bytes" in refusal(good, max_bytes=1000)
    assert "at most 3 are read; raise max_nodes where load is called" in refusal(good, max_nodes=3)
    assert "it holds 6 texts, at most 4 are read; raise max_edges where load is called" in refusal(good, max_edges=2)
    many = spoiled(tmp_path / "many.nir", hostile.good_graph(), hostile.many_nodes)
    assert "it declares" in refusal(many, max_nodes=2)
    big = spoiled(tmp_path / "big.nir", hostile.good_graph(), hostile.declare("node/metadata/big", (2**20,)))
    assert load_nir(big).metadata["big"].shape == (2**20,)
    assert "it declares" in refusal(big, max_bytes=2**20)


def _opened_files(folder: Path, act: object) -> set[str]:
    """Names of the files in a folder that are opened while ``act`` runs (Linux's inotify)."""
    libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    in_open = 0x20
    assert libc.inotify_add_watch(watch, os.fsencode(folder), in_open) >= 0
    try:
        act()  # type: ignore[operator]
        try:
            events = os.read(watch, 65536)
        except BlockingIOError:
            events = b""
    finally:
        os.close(watch)
    names, at = set(), 0
    while at < len(events):
        length = int.from_bytes(events[at + 12 : at + 16], sys.byteorder)
        names.add(events[at + 16 : at + 16 + length].rstrip(b"\0").decode())
        at += 16 + length
    return names


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify tells of opened files on Linux only")
@pytest.mark.parametrize("how", ["link", "node-link", "storage", "virtual"])
def test_no_other_file_is_ever_opened(how: str, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "elsewhere.h5", "w") as file:
        file["x"] = np.ones(hostile.N, dtype="f4")
    (tmp_path / "elsewhere.bin").write_bytes(bytes(64))
    target = str(tmp_path / "elsewhere.h5")

    def spoil(file: h5py.File) -> None:
        tau = f"{hostile.LIF}/tau"
        if how == "link":
            hostile.link(tau, h5py.ExternalLink(target, "/x"))(file)
        elif how == "node-link":
            hostile.link(hostile.LIF, h5py.ExternalLink(target, "/"))(file)
        else:
            del file[tau]
        if how == "storage":
            outside = [(str(tmp_path / "elsewhere.bin"), 0, 64)]
            file.create_dataset(tau, shape=(hostile.N,), dtype="f4", external=outside)
        if how == "virtual":
            layout = h5py.VirtualLayout(shape=(hostile.N,), dtype="f4")
            layout[:] = h5py.VirtualSource(target, "x", shape=(hostile.N,))
            file.create_virtual_dataset(tau, layout)

    path = spoiled(tmp_path / "model.nir", hostile.good_graph(), spoil)
    assert _opened_files(tmp_path, lambda: refusal(path)) == {"model.nir"}

    def careless() -> None:
        with h5py.File(path) as file:
            _ = file[hostile.LIF if how == "node-link" else f"{hostile.LIF}/tau"]
            if how != "node-link":
                _ = _[()]

    assert len(_opened_files(tmp_path, careless)) == 2  # the detector does see a reader that follows


def test_only_file_errors_come_of_flipped_bits(good: Path, tmp_path: Path) -> None:
    data, rng = good.read_bytes(), random.Random(5)
    told = [i for i, byte in enumerate(data) if byte]
    path, outcomes = tmp_path / "flipped.nir", {"read": 0, "refused": 0}
    for _ in range(400):
        changed = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            changed[rng.choice(told)] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        try:
            load_nir(path)
            outcomes["read"] += 1
        except FileError:
            outcomes["refused"] += 1
    assert outcomes["refused"] > 100
    assert sum(outcomes.values()) == 400


def all_classes() -> nir.NIRGraph:
    """A sound graph with every one of the 19 node classes in it."""
    v = np.arange(1, 7, dtype=np.float32)
    inner = nir.NIRGraph(
        {"in": nir.Input(A([6])), "cubalif": nir.CubaLIF(v, v, v, v, v, -v, v), "out": nir.Output(A([6]))},
        [("in", "cubalif"), ("cubalif", "out"), ("cubalif", "cubalif")],
    )
    nodes = {
        "input": nir.Input(A([4, 8, 6])),
        "conv2d": nir.Conv2d(
            (8, 6), np.random.default_rng(0).normal(size=(6, 2, 3, 1)), (1, 1), (1, 0), (1, 1), 2, np.ones(6)
        ),
        "if": nir.IF(*[np.full((6, 8, 6), x) for x in (1.0, 2.0, 0.5)]),
        "sum": nir.SumPool2d(A([2, 2]), A([2, 2]), A([0, 0])),
        "avg": nir.AvgPool2d(A([2, 3]), A([2, 3]), A([0, 0])),
        "flatten": nir.Flatten({"input": A([6, 2, 1])}, 1, -1),
        "conv1d": nir.Conv1d(2, np.ones((3, 6, 2)), 1, "same", 1, 1, np.zeros(3)),
        "flat2": nir.Flatten({"input": A([3, 2])}, 0),
        "linear": nir.Linear(np.eye(6)),
        "affine": nir.Affine(np.eye(6), v),
        "scale": nir.Scale(v),
        "delay": nir.Delay(v * 1e-3),
        "threshold": nir.Threshold(v),
        "lif": nir.LIF(v, v, v, v, v),
        "sub": inner,
        "li": nir.LI(v, v, v),
        "cubali": nir.CubaLI(v, v, v, v, v),
        "i": nir.I(v),
        "output": nir.Output(A([6])),
    }
    names = list(nodes)
    edges = list(pairwise(names))
    return nir.NIRGraph(nodes, edges, metadata={"made": "by hand"}, type_check=False)


def assert_same(a: nir.NIRGraph, b: nir.NIRGraph) -> None:
    assert sorted(a.nodes) == sorted(b.nodes)
    assert a.edges == b.edges
    for name in a.nodes:
        one, two = a.nodes[name], b.nodes[name]
        assert type(one) is type(two)
        if isinstance(one, nir.NIRGraph):
            assert_same(one, two)
            continue
        assert vars(one).keys() == vars(two).keys()
        for key in vars(one).keys() - {"input_type", "output_type", "metadata"}:
            np.testing.assert_array_equal(getattr(one, key), getattr(two, key), err_msg=f"{name}.{key}")
            assert np.asarray(getattr(one, key)).dtype == np.asarray(getattr(two, key)).dtype


def test_all_19_classes_come_back(tmp_path: Path) -> None:
    graph = all_classes()
    kinds = {type(node).__name__ for g in (graph, graph.nodes["sub"]) for node in g.nodes.values()}
    assert len(kinds) == 19
    nir.write(tmp_path / "nir.nir", graph)
    save_nir(graph, tmp_path / "own.nir")
    for name in ("nir.nir", "own.nir"):
        read = load_nir(tmp_path / name)
        assert_same(graph, read)
        assert read.metadata == {"made": "by hand"}
        assert read.nodes["conv2d"].output_type["output"].tolist() == [6, 8, 6]
        assert read.nodes["sub"].input_type["in"].tolist() == [6]
    assert_same(nir.read(tmp_path / "own.nir", type_check=False), nir.read(tmp_path / "nir.nir", type_check=False))


def test_saving_is_deterministic_and_changes_nothing(tmp_path: Path) -> None:
    graph = all_classes()
    before = copy.deepcopy(graph)
    save_nir(graph, tmp_path / "a.nir")
    save_nir(load_nir(tmp_path / "a.nir"), tmp_path / "b.nir")
    save_nir(load_nir(tmp_path / "b.nir"), tmp_path / "c.nir")
    assert_same(graph, before)
    assert file_sha256(tmp_path / "b.nir") == file_sha256(tmp_path / "c.nir")
    assert len(file_sha256(tmp_path / "a.nir")) == 64
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.nir", "b.nir", "c.nir"]


NAMES = ["it's", 'say "hi"', "two\nlines", "..", "名前", "ζ щ", "a.b", "a/b", "a/b/../c", " ", "-rf", "\x1b[31m", "\\0"]


@pytest.mark.parametrize("name", NAMES)
def test_odd_names_are_carried(name: str, tmp_path: Path) -> None:
    graph = hostile.good_graph()
    graph.nodes[name] = graph.nodes.pop("fc")
    graph.edges = [("input", name), (name, "lif"), ("lif", "output")]
    graph.nodes["lif"].metadata = {name.replace("/", "|"): name}
    save_nir(graph, tmp_path / "odd.nir")
    read = load_nir(tmp_path / "odd.nir")
    assert_same(graph, read)
    assert read.nodes["lif"].metadata == graph.nodes["lif"].metadata


def test_a_name_inside_another_is_carried(tmp_path: Path) -> None:
    graph = hostile.good_graph()
    graph.nodes["lif/fc"] = graph.nodes.pop("fc")
    graph.edges = [("input", "lif/fc"), ("lif/fc", "lif"), ("lif", "output")]
    save_nir(graph, tmp_path / "odd.nir")
    assert_same(graph, load_nir(tmp_path / "odd.nir"))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (".", "is empty or '.'"),
        ("/a", "is empty or '.' between its slashes"),
        ("a//b", "is empty or '.' between its slashes"),
        ("a/./b", "is empty or '.' between its slashes"),
        ("a\0b", "holds a NUL"),
        ("\ud800", "is not valid Unicode"),
        ("x" * 1001, "has 1,001 bytes, at most 1,000 are stored"),
        ("lif/tau", "would be stored inside node 'lif'"),
    ],
)
def test_names_that_hdf5_would_change_are_refused(name: str, why: str, tmp_path: Path) -> None:
    graph = hostile.good_graph()
    graph.nodes[name] = graph.nodes.pop("fc")
    graph.edges = [("input", name), (name, "lif"), ("lif", "output")]
    with pytest.raises(FileError) as caught:
        save_nir(graph, tmp_path / "odd.nir")
    assert f": its name {why}" in str(caught.value)
    assert str(caught.value).endswith("HDF5 cannot store it; rename the node")
    assert list(tmp_path.iterdir()) == []


def test_metadata_is_kept(tmp_path: Path) -> None:
    graph = hostile.good_graph()
    kept = {"s": "text", "n": 3, "f": 0.5, "b": True, "a": A([[1.0, 2.0]]), "l": ["x", "y"], "d": {"deep": "er"}}
    graph.metadata = kept | {"nirbridge:dt": 1e-4}
    graph.nodes["lif"].metadata = dict(kept)
    save_nir(graph, tmp_path / "m.nir")
    read = load_nir(tmp_path / "m.nir")
    for found in (read.metadata, read.nodes["lif"].metadata):
        np.testing.assert_array_equal(found.pop("a"), kept["a"])
        assert {k: v for k, v in found.items() if k != "nirbridge:dt"} == {k: v for k, v in kept.items() if k != "a"}
    assert read.metadata["nirbridge:dt"] == 1e-4
    graph.metadata = {"bad/key": 1, "object": object()}
    with pytest.raises(FileError, match="a key of its metadata 'bad/key' holds a slash(.|\n)*'object' is an object"):
        save_nir(graph, tmp_path / "m2.nir")


def test_nothing_half_written_is_left(tmp_path: Path, good: Path) -> None:
    before = good.read_bytes()
    bad = hostile.good_graph()
    bad.nodes["lif"].tau = np.zeros(4)
    with pytest.raises(ModelError, match=r"^node 'lif' \(LIF\): tau\[0\] is 0, it must be above 0 s"):
        save_nir(bad, good)
    with pytest.raises(FileError, match="^'x.nir': its folder does not exist; create it$"):
        save_nir(hostile.good_graph(), tmp_path / "none" / "x.nir")
    assert good.read_bytes() == before
    assert list(tmp_path.iterdir()) == [good]


def test_a_graph_that_leaves_shapes_open_is_stored_with_them(tmp_path: Path) -> None:
    nodes = {
        "input": nir.Input(A([1, 8, 6])),
        "conv": nir.Conv2d(None, np.ones((2, 1, 3, 1)), 1, "same", 1, 1, np.ones(2)),
        "if": nir.IF(A(1.0), A(1.0), A(0.0)),
        "flatten": nir.Flatten(None, 0, -1),
        "output": nir.Output(None),
    }
    names = list(nodes)
    graph = nir.NIRGraph(nodes, list(pairwise(names)), type_check=False)
    save_nir(graph, tmp_path / "open.nir")
    read = load_nir(tmp_path / "open.nir")
    assert read.nodes["conv"].input_shape == (8, 6)
    assert read.nodes["output"].output_type["output"].tolist() == [96]
    assert np.shape(read.nodes["if"].r) == ()
    assert graph.nodes["conv"].input_shape is None


@pytest.mark.parametrize("packing", [None, "gzip", "lzf", 9])
def test_packed_files_are_read(packing: object, tmp_path: Path) -> None:
    nir.write(tmp_path / "p.nir", hostile.good_graph(), compression=packing)
    assert_same(load_nir(tmp_path / "p.nir"), nir.read(tmp_path / "p.nir"))


def test_checksummed_shuffled_and_big_endian_arrays_are_read(good: Path) -> None:
    with h5py.File(good, "r+") as file:
        options = {"compression": "gzip", "shuffle": True, "fletcher32": True}
        hostile.put(f"{hostile.LIF}/tau", np.arange(1, 5, dtype=">f8"), **options)(file)
    tau = load_nir(good).nodes["lif"].tau
    assert tau.tolist() == [1, 2, 3, 4]
    assert tau.dtype.isnative


def test_files_of_nir_before_1_0_6_get_a_reset_of_zero(good: Path) -> None:
    with h5py.File(good, "r+") as file:
        del file[f"{hostile.LIF}/v_reset"]
        del file["version"]
    assert load_nir(good).nodes["lif"].v_reset.tolist() == [0, 0, 0, 0]


def test_one_value_for_all_neurons_is_spread(good: Path) -> None:
    with h5py.File(good, "r+") as file:
        hostile.put(f"{hostile.LIF}/tau", 0.25)(file)
    assert load_nir(good).nodes["lif"].tau.tolist() == [0.25] * 4


@pytest.mark.parametrize(
    ("name", "nodes"),
    [("01_lif/lif_norse.nir", 4), ("02_cnn/cnn_sinabs.nir", 15), ("03_rnn/braille_noDelay_bias_zero.nir", 7)],
)
def test_published_files_are_read(name: str, nodes: int, shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "nir_paper" / name
    read = load_nir(path)
    assert len(read.nodes) == nodes
    theirs = nir.read(path)
    for key, node in theirs.nodes.items():
        for field in vars(node).keys() - {"input_type", "output_type", "metadata"}:
            np.testing.assert_array_equal(getattr(node, field), getattr(read.nodes[key], field))
        assert node.output_type["output"].tolist() == read.nodes[key].output_type["output"].tolist()
    assert read.edges == theirs.edges
    save_nir(read, tmp_path / "again.nir")
    assert_same(read, load_nir(tmp_path / "again.nir"))

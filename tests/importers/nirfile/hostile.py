"""A small valid file and ways to corrupt it, each with its expected message."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import nir
import numpy as np

Spoil = Callable[[h5py.File], None]

N = 4


def good_graph() -> nir.NIRGraph:
    ones = np.ones(N, dtype=np.float32)
    nodes = {
        "input": nir.Input(np.array([N])),
        "fc": nir.Affine(np.eye(N, dtype=np.float32), ones),
        "lif": nir.LIF(ones, ones, ones, ones),
        "output": nir.Output(np.array([N])),
    }
    return nir.NIRGraph(nodes, [("input", "fc"), ("fc", "lif"), ("lif", "output")])


def conv_graph() -> nir.NIRGraph:
    nodes = {
        "input": nir.Input(np.array([4, 8, 6])),
        "conv": nir.Conv2d(None, np.ones((6, 2, 3, 1)), 1, 0, 1, 2, np.ones(6)),
        "pool": nir.SumPool2d(np.array([2, 2]), np.array([2, 2]), np.array([0, 0])),
        "flat": nir.Flatten({"input": np.array([6, 3, 3])}, 0, -1),
        "output": nir.Output(np.array([54])),
    }
    nodes["conv"].input_shape = (8, 6)
    edges = [("input", "conv"), ("conv", "pool"), ("pool", "flat"), ("flat", "output")]
    return nir.NIRGraph(nodes, edges, type_check=False)


def put(path: str, value: Any, **options: Any) -> Spoil:
    """Replaces a dataset (or adds it)."""

    def spoil(file: h5py.File) -> None:
        if path in file:
            del file[path]
        file.create_dataset(path, data=value, **options)

    return spoil


def drop(path: str) -> Spoil:
    def spoil(file: h5py.File) -> None:
        del file[path]

    return spoil


def both(*spoils: Spoil) -> Spoil:
    def spoil(file: h5py.File) -> None:
        for one in spoils:
            one(file)

    return spoil


def edges(*pairs: tuple[str, str]) -> Spoil:
    return put("node/edges", [list(pair) for pair in pairs])


GOOD_EDGES = (("input", "fc"), ("fc", "lif"), ("lif", "output"))
FC, LIF = "node/nodes/fc", "node/nodes/lif"


def declare(path: str, shape: tuple[int, ...], dtype: str = "f4", **options: Any) -> Spoil:
    """A dataset that declares a shape and stores nothing."""

    def spoil(file: h5py.File) -> None:
        if path in file:
            del file[path]
        file.create_dataset(path, shape=shape, dtype=dtype, **options)

    return spoil


def link(path: str, target: Any) -> Spoil:
    def spoil(file: h5py.File) -> None:
        if path in file:
            del file[path]
        file[path] = target

    return spoil


def alias(path: str, target: str) -> Spoil:
    def spoil(file: h5py.File) -> None:
        if path in file:
            del file[path]
        file[path] = file[target]

    return spoil


def virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout(shape=(N,), dtype="f4")
    layout[:] = h5py.VirtualSource("elsewhere.h5", "x", shape=(N,))
    del file[f"{LIF}/tau"]
    file.create_virtual_dataset(f"{LIF}/tau", layout)


def external_storage(file: h5py.File) -> None:
    del file[f"{LIF}/tau"]
    file.create_dataset(f"{LIF}/tau", shape=(N,), dtype="f4", external=[("elsewhere.bin", 0, h5py.h5f.UNLIMITED)])


def references(file: h5py.File) -> None:
    del file[f"{LIF}/tau"]
    file.create_dataset(f"{LIF}/tau", data=[file["node"].ref] * N, dtype=h5py.ref_dtype)


def stored_type(file: h5py.File) -> None:
    file[f"{LIF}/odd"] = np.dtype("f4")


def empty_value(file: h5py.File) -> None:
    del file[f"{LIF}/tau"]
    file.create_dataset(f"{LIF}/tau", data=h5py.Empty("f4"))


def deep_groups(file: h5py.File) -> None:
    group = file["node/nodes"]
    for _ in range(100):
        group = group.create_group("a")


def deep_graphs(file: h5py.File) -> None:
    group = file["node/nodes"]
    for _ in range(34):
        group = group.create_group("sub")
        group["type"] = "NIRGraph"
        group.create_dataset("edges", data=np.zeros((0, 2)))
        group = group.create_group("nodes")


def not_utf8(file: h5py.File) -> None:
    h5py.h5g.create(file["node/nodes"].id, b"caf\xe9")


def unknown_filter(file: h5py.File) -> None:
    chunk_with_filter(file, 333, (1,))


def chunk_with_filter(file: h5py.File, code: int, values: tuple[int, ...]) -> None:
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((N,))
    plist.set_filter(code, h5py.h5z.FLAG_OPTIONAL, values)
    del file[f"{LIF}/tau"]
    space = h5py.h5s.create_simple((N,))
    h5py.h5d.create(file[LIF].id, b"tau", h5py.h5t.IEEE_F32LE, space, plist)


def twice_packed(file: h5py.File) -> None:
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((N,))
    plist.set_deflate(9)
    plist.set_shuffle()
    del file[f"{LIF}/tau"]
    space = h5py.h5s.create_simple((N,))
    h5py.h5d.create(file[LIF].id, b"tau", h5py.h5t.IEEE_F32LE, space, plist)


def swollen_chunk(file: h5py.File) -> None:
    """A chunk of 16 declared bytes that unpacks to 1 MB."""
    import zlib

    del file[f"{LIF}/tau"]
    made = file.create_dataset(f"{LIF}/tau", shape=(N,), dtype="f4", chunks=(N,), compression="gzip")
    made.id.write_direct_chunk((0,), zlib.compress(b"\0" * 2**20))


def chunked_text(file: h5py.File) -> None:
    del file["node/edges"]
    file.create_dataset("node/edges", data=[list(p) for p in GOOD_EDGES], dtype=h5py.string_dtype(), chunks=(1, 2))


def many_nodes(file: h5py.File) -> None:
    for i in range(40):
        group = file.create_group(f"node/nodes/n{i}")
        group["type"] = "Scale"
        group["scale"] = np.ones(N)


def damage_heap(path: Path) -> None:
    """Objects of size 0 and wrong sizes in the heap of texts: the HDF5 library can loop on these."""
    data = bytearray(path.read_bytes())
    at = data.index(b"GCOL")
    data[at + 16 : at + 48] = struct.pack("<HHIQ", 1, 1, 0, 2**40) * 2
    path.write_bytes(data)


def loop_in_free_names(path: Path) -> None:
    """A list of free space that leads back to its first entry: the HDF5 library fills the memory with it."""
    data = bytearray(path.read_bytes())
    at = data.index(b"HEAP")
    offset, start = struct.unpack_from("<QQ", data, at + 16)
    struct.pack_into("<Q", data, start + offset, offset)
    path.write_bytes(data)


#: name: (how to spoil the good file, what the message must say)
VARIANTS: dict[str, tuple[Spoil, str]] = {
    "external-link": (
        link(f"{LIF}/tau", h5py.ExternalLink("elsewhere.h5", "/x")),
        "'node/nodes/lif/tau': it is a link to another file",
    ),
    "external-link-node": (
        link(FC, h5py.ExternalLink("/dev/zero", "/x")),
        "'node/nodes/fc': it is a link to another file",
    ),
    "external-link-root": (
        link("extra", h5py.ExternalLink("elsewhere.h5", "/x")),
        "'extra': it is a link to another file",
    ),
    "soft-link": (link(f"{LIF}/tau", h5py.SoftLink(f"/{LIF}/r")), "'node/nodes/lif/tau': it is a soft link"),
    "soft-link-dangling": (link(f"{LIF}/tau", h5py.SoftLink("/nowhere")), "'node/nodes/lif/tau': it is a soft link"),
    "soft-link-loop": (link("node/nodes/loop", h5py.SoftLink("/node")), "'node/nodes/loop': it is a soft link"),
    "hard-link-cycle": (alias("node/nodes/loop", "node"), "has another name too, each may be there once; store a copy"),
    "hard-link-root": (
        alias("node/nodes/loop", "/"),
        "'node/nodes/loop': it is a group or dataset that has another name",
    ),
    "shared-node": (alias("node/nodes/twin", LIF), "has another name too"),
    "shared-array": (alias(f"{LIF}/r", f"{LIF}/tau"), "has another name too"),
    "virtual-dataset": (virtual, "'node/nodes/lif/tau': it is a virtual dataset, other files are never read"),
    "external-storage": (external_storage, "'node/nodes/lif/tau': its data lie in another file"),
    "unknown-filter": (unknown_filter, "'node/nodes/lif/tau': filter 333 is not known"),
    "odd-filters": (twice_packed, "its filters are chained as gzip, shuffle"),
    "swollen-chunk": (swollen_chunk, "a chunk unpacks to more than its dataset declares"),
    "size-bomb": (
        declare(f"{FC}/weight", (2**20, 2**20)),
        r"declares 4,398,0\d\d,\d{3},\d{3} bytes or more, at most 2,147,483,648 are read; raise .* --max-bytes",
    ),
    "size-bomb-packed": (declare(f"{FC}/weight", (2**18, 2**18), compression="gzip"), "--max-bytes"),
    "chunk-bomb": (
        declare(f"{LIF}/tau", (1,), chunks=(2**29,), maxshape=(None,)),
        r"declares 2,147,483,\d{3} bytes or more",
    ),
    "tiny-chunks": (
        declare(f"{FC}/weight", (2**20,), chunks=(1,)),
        r"declares 1,048,\d{3} chunks or more, at most 100,000",
    ),
    "metadata-bomb": (declare("node/metadata/big", (2**40,)), "--max-bytes"),
    "deep-groups": (deep_groups, "groups are nested 73 deep, at most 72 levels"),
    "deep-graphs": (deep_graphs, "nested"),
    "not-utf8": (not_utf8, r"its name is not UTF-8, names must be UTF-8; rename it"),
    "long-name": (put("node/nodes/" + "x" * 2000, 1), "its name has 2,000 bytes, at most 1,000; rename it"),
    "long-type": (put(f"{LIF}/type", "x" * (2**20 + 1)), "it holds a text of 1,048,577 bytes"),
    "references": (references, r"unusual type \(references\)"),
    "compound": (
        put(f"{LIF}/tau", np.zeros(N, dtype=[("a", "f4"), ("b", "f4")])),
        r"unusual type \(compound or complex\)",
    ),
    "complex": (put(f"{LIF}/tau", np.ones(N, dtype=np.complex64)), "unusual type"),
    "opaque": (put(f"{LIF}/tau", np.zeros(N, dtype="V4")), r"unusual type \(HDF5 class 5\)"),
    "ragged": (declare(f"{LIF}/tau", (N,), dtype=h5py.vlen_dtype("f4")), r"unusual type \(lists of varying length\)"),
    "long-double": (put(f"{LIF}/tau", np.ones(N, dtype=np.longdouble)), "unusual type"),
    "stored-type": (stored_type, "'node/nodes/lif/odd': it is a stored type"),
    "null": (empty_value, r"'node/nodes/lif/tau': it is empty \(null\)"),
    "text-parameter": (
        put(f"{LIF}/tau", "0.1"),
        r"node 'lif' \(LIF\): tau holds text, it must be real numbers; store it as floats",
    ),
    "bool-parameter": (put(f"{LIF}/tau", np.ones(N, dtype=bool)), "tau holds truth values"),
    "empty-parameter": (put(f"{LIF}/tau", np.ones(0)), r"tau is empty \(shape \(0,\)\)"),
    "nan": (
        put(f"{FC}/weight", np.diag([1, 1, np.nan, 1])),
        r"node 'fc' \(Affine\): weight\[2, 2\] is NaN or infinite, every parameter must be finite; repair",
    ),
    "infinite": (put(f"{LIF}/v_leak", np.full(N, -np.inf)), r"v_leak\[0\] is NaN or infinite"),
    "infinite-both": (put(f"{LIF}/v_leak", [np.inf, -np.inf, 0, 0]), r"v_leak\[0\] is NaN or infinite"),
    "tau-zero": (
        put(f"{LIF}/tau", [1.0, 0.0, 1.0, 1.0]),
        r"node 'lif' \(LIF\): tau\[1\] is 0, it must be above 0 s; give a time constant",
    ),
    "tau-negative": (put(f"{LIF}/tau", np.full(N, -2e-3)), r"tau\[0\] is -0.002, it must be above 0 s"),
    "dt-zero": (
        put("node/metadata/nirbridge:dt", 0.0),
        r"graph: metadata 'nirbridge:dt' is '0.0', it must be one finite number above 0 s; store dt",
    ),
    "dt-nan": (put(f"{LIF}/metadata/nirbridge:dt", np.nan), r"node 'lif' \(LIF\): metadata 'nirbridge:dt' is 'nan'"),
    "dt-text": (
        put("node/metadata/nirbridge:dt", "1e-4"),
        "metadata 'nirbridge:dt' is '1e-4', it must be one finite number",
    ),
    "dt-negative": (put("node/metadata/dt", -1), "metadata 'dt' is '-1'"),
    "unknown-type": (
        put(f"{LIF}/type", "LIFE"),
        "node 'lif': its type 'LIFE' is not known; use one of Affine, AvgPool2d",
    ),
    "type-is-python": (put(f"{LIF}/type", "__import__('os').system('true')"), r"its type '__import__\(\\'os\\'\)"),
    "type-is-number": (put(f"{LIF}/type", 3), "node 'lif': its type is missing or no text"),
    "type-missing": (drop(f"{LIF}/type"), "node 'lif': its type is missing or no text, every node has one"),
    "type-base-class": (put(f"{LIF}/type", "NIRNode"), "its type 'NIRNode' is not known"),
    "missing-field": (drop(f"{LIF}/tau"), r"node 'lif' \(LIF\): tau is missing, LIF needs it; write the file again"),
    "unknown-field": (
        put(f"{LIF}/gain", 1.0),
        r"node 'lif' \(LIF\): it has an unknown field 'gain', known: metadata, r, tau,",
    ),
    "type-check-field": (put("node/type_check", False), "graph: it has an unknown field 'type_check'"),
    "field-is-group": (both(drop(f"{LIF}/tau"), put(f"{LIF}/tau/x", 1.0)), "tau is a group"),
    "metadata-is-dataset": (put(f"{LIF}/metadata", 1.0), "metadata is a dataset"),
    "node-is-dataset": (
        put("node/nodes/x", 1.0),
        "node 'x': it is a dataset, a node is a group with a type; remove it",
    ),
    "no-node-group": (drop("node"), "it holds no NIR graph, a group 'node' is expected"),
    "top-not-graph": (put("node/type", "LIF"), "the top node is a 'LIF', a NIRGraph is expected"),
    "no-nodes": (drop("node/nodes"), "graph: its group of nodes is missing"),
    "no-edges": (drop("node/edges"), "graph: its edges are missing"),
    "no-input": (
        both(drop("node/nodes/input"), edges(*GOOD_EDGES[1:])),
        "graph: it has no Input node, it needs at least one; add a nir.Input",
    ),
    "no-output": (both(drop("node/nodes/output"), edges(*GOOD_EDGES[:2])), "graph: it has no Output node"),
    "dangling": (
        edges(*GOOD_EDGES, ("lif", "outptu")),
        "edge 'lif' -> 'outptu': there is no node 'outptu'; did you mean 'output'?",
    ),
    "dangling-far": (edges(*GOOD_EDGES, ("lif", "zzz")), "there is no node 'zzz'; add the node or remove the edge"),
    "edges-triples": (
        put("node/edges", [["a", "b", "c"]]),
        r"its edges are text of shape \(1, 3\), they must be pairs",
    ),
    "edges-numbers": (put("node/edges", [[0, 1]]), r"its edges are number of shape \(1, 2\)"),
    "edges-flat": (put("node/edges", ["input", "fc"]), r"its edges are text of shape \(2,\)"),
    "edge-twice": (
        edges(*GOOD_EDGES, GOOD_EDGES[0]),
        "edge 'input' -> 'fc': it is listed twice, NIR allows an edge once",
    ),
    "edge-chunked": (chunked_text, "its text is stored in chunks or in the header"),
    "edge-not-utf8": (put("node/edges", np.array([[b"caf\xe9", b"fc"]])), "it cannot be read .*utf-8"),
    "self-loop": (
        edges(*GOOD_EDGES, ("fc", "fc")),
        "edge 'fc' -> 'fc': the Affine node feeds itself within one time step, a loop needs a neuron",
    ),
    "into-input": (edges(*GOOD_EDGES, ("lif", "input")), "edge 'lif' -> 'input': it leads into an Input"),
    "from-output": (edges(*GOOD_EDGES, ("output", "fc")), "edge 'output' -> 'fc': it starts at an Output"),
    "weight-shape": (
        put(f"{FC}/weight", np.ones((N, 5))),
        r"edge 'input' -> 'fc': Input puts out shape \(4,\), Affine takes \(5,\); correct",
    ),
    "weight-flat": (
        put(f"{FC}/weight", np.ones(N)),
        r"node 'fc' \(Affine\): weight has shape \(4,\), it must be \[out, in\]",
    ),
    "bias-shape": (
        put(f"{FC}/bias", np.ones(1)),
        r"node 'fc' \(Affine\): bias has shape \(1,\), the weight's output needs \(4,\)",
    ),
    "neuron-shape": (
        put(f"{LIF}/tau", np.ones(3)),
        r"node 'lif' \(LIF\): parameters of different shapes: tau \(3,\), r \(4,\)",
    ),
    "shape-zero": (put("node/nodes/input/shape", [0]), r"node 'input' \(Input\): shape is \[0\], it must be from 1"),
    "shape-float": (put("node/nodes/input/shape", [4.0]), r"shape is \[4.0\], it must be"),
    "shape-many": (put("node/nodes/input/shape", np.ones(33, dtype=int)), "shape has 33 elements, at most 32"),
    "shape-huge": (
        both(
            put("node/nodes/input/shape", [2**31 - 1] * 3),
            put("node/nodes/output/shape", [2**31 - 1] * 3),
            edges(("input", "output")),
        ),
        "elements, at most 4,294,967,296",
    ),
}

CONV = "node/nodes/conv"

CONV_VARIANTS: dict[str, tuple[Spoil, str]] = {
    "stride-zero": (put(f"{CONV}/stride", [0, 1]), r"node 'conv' \(Conv2d\): stride is \[0, 1\], it must be from 1"),
    "dilation-negative": (put(f"{CONV}/dilation", [-1, 1]), r"dilation is \[-1, 1\], it must be from 1"),
    "padding-negative": (put(f"{CONV}/padding", -1), "padding is -1, it must be from 0"),
    "padding-word": (put(f"{CONV}/padding", "reflect"), "padding is 'reflect', it must be 'same', 'valid' or whole"),
    "padding-same-stride": (both(put(f"{CONV}/padding", "same"), put(f"{CONV}/stride", 2)), "'same' needs stride 1"),
    "stride-three": (put(f"{CONV}/stride", [1, 1, 1]), r"stride is \[1, 1, 1\], it must be 1 or 2 whole numbers"),
    "stride-float": (put(f"{CONV}/stride", 1.5), "stride is 1.5, it must be 1 or 2 whole numbers"),
    "stride-text": (put(f"{CONV}/stride", "1"), "stride holds no numbers"),
    "stride-overflow": (put(f"{CONV}/stride", 2**40), "stride is 1099511627776, it must be from 1"),
    "groups-divide": (put(f"{CONV}/groups", 4), "groups is 4, the weight has 6 output channels, groups must divide"),
    "groups-zero": (put(f"{CONV}/groups", 0), "groups is 0, it must be from 1"),
    "channels": (
        put(f"{CONV}/groups", 3),
        r"edge 'input' -> 'conv': Input puts out shape \(4, 8, 6\), Conv2d takes \(6, 8, 6\)",
    ),
    "kernel-large": (
        put(f"{CONV}/weight", np.ones((6, 2, 9, 1))),
        r"its window \(9, 1\) .* is larger than the padded input \(8, 6\)",
    ),
    "weight-3d": (put(f"{CONV}/weight", np.ones((6, 2, 3))), r"weight has shape \(6, 2, 3\), it must be"),
    "conv-bias": (put(f"{CONV}/bias", np.ones(5)), r"bias has shape \(5,\), its weight has 6 output channels"),
    "conv-no-bias": (drop(f"{CONV}/bias"), "bias is missing, Conv2d needs it"),
    "input-shape": (put(f"{CONV}/input_shape", [9, 6]), r"Conv2d takes \(4, 9, 6\)"),
    "pool-kernel": (put("node/nodes/pool/kernel_size", [0, 2]), r"node 'pool' \(SumPool2d\): kernel_size is \[0, 2\]"),
    "pool-large": (put("node/nodes/pool/kernel_size", [7, 2]), "is larger than the padded input"),
    "flatten-dims": (
        put("node/nodes/flat/start_dim", 3),
        r"node 'flat' \(Flatten\): start_dim 3, end_dim -1 on an input",
    ),
    "flatten-type": (
        put("node/nodes/flat/input_type", [6, 3, 4]),
        r"edge 'pool' -> 'flat': SumPool2d puts out shape \(6, 3, 3\)",
    ),
}

"""Model files in many forms of HDF5: every storage that h5py offers, subgraphs, odd names, large groups."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import nir
import numpy as np

from nirbridge.importers import save_nir
from nirbridge.network.nir.to_nir import to_nir
from nirbridge.testing.examples import example_networks
from tests.importers.nirfile.hostile import conv_graph, good_graph

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "examples/models"
PAPER = ROOT.parent / "shared/data/nir_paper"

Write = Callable[[Path], object]


def rewritten(libver: str, change: Callable[[Any], Any] = lambda values: values, **storage: Any) -> Write:
    """Writes the digits CNN again, each array with this storage."""

    def write(path: Path) -> None:
        with h5py.File(MODELS / "digits_cnn.nir") as source, h5py.File(path, "w", libver=libver) as target:
            _copy(source, target, change, storage)

    return write


def _copy(source: Any, target: Any, change: Callable[[Any], Any], storage: dict[str, Any]) -> None:
    for name, item in source.items():
        if isinstance(item, h5py.Group):
            _copy(item, target.create_group(name), change, storage)
        elif item.dtype.kind == "f" and item.shape:
            chunks = storage.get("chunks")
            given = (
                {**storage, "chunks": tuple(min(chunks, n) for n in item.shape)} if isinstance(chunks, int) else storage
            )
            target.create_dataset(name, data=change(item[()]), **given)
        elif item.dtype.kind == "O":
            target.create_dataset(name, data=item[()], dtype=h5py.string_dtype())
        else:
            target[name] = item[()]


def low_level(libver: str, prepare: Callable[[Any, Any], None]) -> Write:
    """Writes the digits CNN again, each array with a property list that ``prepare`` has changed."""

    def write(path: Path) -> None:
        rewritten(libver)(path)
        with h5py.File(path, "r+", libver=libver) as file:
            arrays: list[str] = []
            file.visititems(lambda name, item: arrays.append(name) if _is_array(item) else None)
            for name in arrays:
                values = file[name][()]
                del file[name]
                properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                prepare(properties, values)
                space = h5py.h5s.create_simple(values.shape)
                made = h5py.h5d.create(file.id, name.encode(), h5py.h5t.py_create(values.dtype), space, properties)
                made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(values))

    return write


def _is_array(item: Any) -> bool:
    return isinstance(item, h5py.Dataset) and item.dtype.kind == "f" and bool(item.shape)


def noisy(values: Any) -> Any:
    """Values that hardly shrink."""
    return values * 1.1 + np.random.default_rng(3).random(values.shape)


def compact(properties: Any, values: Any) -> None:
    if values.nbytes < 2**15:
        properties.set_layout(h5py.h5d.COMPACT)


def early(properties: Any, values: Any) -> None:
    properties.set_chunk(tuple(min(3, n) for n in values.shape))
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)


def sparse_chunks(path: Path) -> None:
    """A bias of which one chunk of three was written; the others are its fill value."""
    nir.write(path, good_graph())
    with h5py.File(path, "r+") as file:
        del file["node/nodes/fc/bias"]
        made = file.create_dataset("node/nodes/fc/bias", (4,), ">f4", chunks=(3,), fillvalue=2.5, compression="gzip")
        made[3:] = -1.0


def nested() -> nir.NIRGraph:
    """A subgraph in a subgraph, each with two inputs that are named, and nodes whose names have slashes and dots."""
    ones = np.ones(3)
    inner = nir.NIRGraph(
        {"a": nir.Input(np.array([3])), "b": nir.Input(np.array([3])), "lif": nir.LIF(ones, ones, ones, ones),
         "out": nir.Output(np.array([3]))},
        [("a", "lif"), ("b", "lif"), ("lif", "out"), ("lif", "lif")], type_check=False,
    )  # fmt: skip
    outer = nir.NIRGraph(
        {"input": nir.Input(np.array([3])), "in.ner": inner, "w": nir.Scale(ones), "w/x": nir.Linear(np.eye(3)),
         "output": nir.Output(np.array([3]))},
        [("input", "in.ner.a"), ("input", "w/x"), ("w/x", "in.ner.b"), ("in.ner", "w"), ("w", "output")],
        type_check=False,
    )  # fmt: skip
    nodes = {"input": nir.Input(np.array([3])), "sub": outer, "output": nir.Output(np.array([3]))}
    return nir.NIRGraph(nodes, [("input", "sub"), ("sub", "output")], type_check=False)


def long_chain(libver: str, nodes: int) -> Write:
    """A chain of so many scales: groups with many members."""

    def write(path: Path) -> None:
        names = [f"scale_{k}" for k in range(nodes)]
        with h5py.File(path, "w", libver=libver) as file:
            file["version"] = "1.0.8"
            top = file.create_group("node")
            top["type"] = "NIRGraph"
            chain = ["input", *names, "output"]
            top["edges"] = np.array([[a, b] for a, b in pairwise(chain)], dtype=h5py.string_dtype())
            inside = top.create_group("nodes")
            for k, name in enumerate(names):
                group = inside.create_group(name)
                group["type"], group["scale"] = "Scale", np.array([k + 0.5])
            for name in ("input", "output"):
                group = inside.create_group(name)
                group["type"], group["shape"] = name.title(), np.array([1])

    return write


def written(graph: Callable[[], Any]) -> Write:
    return lambda path: nir.write(path, graph())


def of_network(index: int) -> Write:
    return lambda path: save_nir(to_nir(example_networks()[index]), path)


def copied(source: Path) -> Write:
    return lambda path: shutil.copy(source, path)


FILES: dict[str, Write] = {
    **{path.stem: copied(path) for path in sorted(MODELS.glob("*.nir"))},
    **{path.stem: copied(path) for path in sorted(PAPER.rglob("*.nir"))},
    "affine": written(good_graph),
    "convolution": written(conv_graph),
    "nested": written(nested),
    **{f"network-{k}": of_network(k) for k in range(3)},
    "gzip": rewritten("earliest", chunks=True, compression="gzip"),
    "lzf": rewritten("earliest", chunks=True, compression="lzf", shuffle=True),
    "lzf-noise": rewritten("earliest", noisy, chunks=True, compression="lzf"),
    "all-filters": rewritten("earliest", chunks=3, compression="gzip", shuffle=True, fletcher32=True),
    "big-endian": rewritten("earliest", lambda values: values.astype(">f8")),
    "half": rewritten("earliest", lambda values: values.astype("f2"), chunks=True, shuffle=True),
    "integers": rewritten("earliest", lambda values: (np.sign(values) * np.ceil(np.abs(values))).astype(">i2")),
    "ordered": rewritten("earliest", track_order=True, track_times=True),
    "compact": low_level("earliest", compact),
    "early": low_level("earliest", early),
    "latest": rewritten("latest"),
    "latest-one-chunk": rewritten("latest", chunks=10**6, compression="gzip"),
    "latest-one-plain-chunk": rewritten("latest", chunks=10**6),
    "latest-array-of-chunks": rewritten("latest", chunks=3, compression="gzip", shuffle=True, fletcher32=True),
    "latest-pages-of-chunks": rewritten("latest", chunks=1),
    "latest-compact": low_level("latest", compact),
    "latest-early": low_level("latest", early),
    "v110": rewritten("v110", chunks=2, compression="gzip"),
    "fill-values": sparse_chunks,
    "chain": long_chain("earliest", 700),
    "latest-chain": long_chain("latest", 700),
}  # fmt: skip

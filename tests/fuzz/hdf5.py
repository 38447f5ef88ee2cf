"""Mutations of ``.nir`` files through the HDF5 library, so that the result is an HDF5 file with unusual content."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import h5py
import numpy as np

from tests.fuzz.choices import Choices
from tests.fuzz.values import NUMBERS, OTHERS, TEXTS, mutate_bytes

DECOY = "decoy.h5"
"""A file beside the one that is read; nothing may open it."""
KINDS = (
    *("Input", "Output", "Affine", "Linear", "Scale", "Conv1d", "Conv2d", "SumPool2d", "AvgPool2d", "Flatten", "Delay"),
    *("LIF", "IF", "LI", "I", "CubaLIF", "CubaLI", "Threshold", "NIRGraph", "Sequence", "nothing", ""),
)
FIELDS = (
    *("type", "weight", "bias", "tau", "r", "v_leak", "v_threshold", "v_reset", "threshold", "delay", "shape", "scale"),
    *("stride", "padding", "dilation", "groups", "input_shape", "kernel_size", "start_dim", "end_dim", "input_type"),
    *("tau_mem", "tau_syn", "w_in", "metadata", "edges", "nodes", "version", "nirbridge:dt", "nirbridge:reset"),
)
SHAPES = ((), (0,), (1,), (2, 3), (3, 0), (1, 1, 1), (2**20,), (2**12, 2**12), (2**31,), (2**40,), (2**62, 2**62))
Mutation = Callable[[h5py.File, Any, Choices], None]


def mutate_hdf5(image: bytes, c: Choices, *, attributes: bool = False) -> bytes:
    """A file near the one whose bytes are ``image``: content changed, or (more seldom) the bytes.

    ``attributes``: they are of use to the reader, and half of all changes are of one.
    """
    if c.chance(8):
        return mutate_bytes(image, c)
    with h5py.File.in_memory(image) as file:
        for _ in range(c.several(4)):
            items: list[str] = []
            file.visit(lambda name, items=items: items.append(name))
            if not items:
                break
            item = file[c.pick(items)]
            try:
                (change_attribute if attributes and c.chance(2) else c.pick(MUTATIONS))(file, item, c)
            except (ValueError, TypeError, KeyError, RuntimeError, OSError, OverflowError, MemoryError):
                continue  # the library makes no such thing: the next mutation takes its place
        file.flush()
        return file.id.get_file_image()


def _value(item: Any) -> Any:
    return item[()] if isinstance(item, h5py.Dataset) else None


def _put(file: h5py.File, item: Any, value: Any, **options: Any) -> None:
    name = item.name
    del file[name]
    file.create_dataset(name, data=value, **options)


def change_number(file: h5py.File, item: Any, c: Choices) -> None:
    """One element becomes an odd number, or all of them."""
    value = np.array(_value(item), dtype=float if c.chance(2) else None)
    if value.dtype.kind in "biuf" and value.size:
        value.reshape(-1)[0 if c.chance(3) else slice(None) if c.chance(3) else c.below(value.size)] = c.pick(NUMBERS)
        _put(file, item, value)


def change_shape(file: h5py.File, item: Any, c: Choices) -> None:
    """An axis more, fewer, longer or turned."""
    value = np.array(_value(item))
    made = (value[None], value[..., None], value.reshape(-1), value.reshape(-1)[:1], value.T, np.stack([value, value]))
    _put(file, item, c.pick((*made, value.reshape(-1)[:1].reshape(()), value[:0] if value.ndim else value)))


def change_type(file: h5py.File, item: Any, c: Choices) -> None:
    """The same values in another type."""
    types = ("i1", "u1", "<i8", ">i8", "<u8", "f2", "f4", ">f8", "c8", "?", "S5", h5py.string_dtype(), h5py.ref_dtype)
    made = c.pick(types)
    if made is types[-1]:
        _put(file, item, [file.ref] * 2, dtype=h5py.ref_dtype)
    elif made is types[-2]:
        _put(file, item, [str(x) for x in np.ravel(_value(item))[:50]], dtype=made)
    else:
        _put(file, item, np.array(_value(item)).astype(made))


def put_text(file: h5py.File, item: Any, c: Choices) -> None:
    """A word that a reader may know, or an odd text."""
    text = c.pick(c.pick((KINDS, TEXTS, ("same", "valid", "euler", "subtract", "to-value", ">", "per-step", "1.0.5"))))
    _put(file, item, text.encode("utf-8", "surrogatepass") if c.chance(3) else text)


def put_kind(file: h5py.File, item: Any, c: Choices) -> None:
    """Another class of node."""
    group = item if isinstance(item, h5py.Group) else item.parent
    if "type" in group:
        del group["type"]
    group["type"] = c.pick(KINDS)


def declare(file: h5py.File, item: Any, c: Choices) -> None:
    """A dataset that promises a shape and stores nothing."""
    name, shape = item.name, c.pick(SHAPES)
    options: dict[str, Any] = {}
    if shape and c.chance(2):
        options = {"chunks": tuple(min(max(n, 1), 64) for n in shape), "compression": c.pick((None, "gzip", "lzf"))}
    if c.chance(3):
        options["fillvalue"] = c.pick((1.0, float("nan"), 3e38))
    del file[name]
    file.create_dataset(name, shape, c.pick(("f4", "f8", "i8", "u1")), **options)


def store_again(file: h5py.File, item: Any, c: Choices) -> None:
    """The same values in another layout."""
    value = np.atleast_1d(_value(item))
    filters = ({"compression": "gzip"}, {"compression": "lzf"}, {"shuffle": True}, {"fletcher32": True}, {})
    limit = {"maxshape": (None,) * value.ndim} if c.chance(2) else {}
    _put(file, item, value, chunks=tuple(max(1, n) for n in value.shape), **c.pick(filters), **limit)


def lie_in_a_chunk(file: h5py.File, item: Any, c: Choices) -> None:
    """A chunk whose stored bytes are something else."""
    import zlib

    value = np.atleast_1d(_value(item))
    _put(file, item, value, chunks=value.shape, compression="gzip")
    made = file[item.name].id
    stored = c.pick(
        (zlib.compress(b"\0" * 2**20), zlib.compress(b"")[:4], b"", c.bytes(8), zlib.compress(b"\0" * 2**26))
    )
    made.write_direct_chunk((0,) * value.ndim, stored, filter_mask=c.pick((0, 0, 1, 7)))


def remove(file: h5py.File, item: Any, c: Choices) -> None:
    """One item less."""
    del file[item.name]


def rename(file: h5py.File, item: Any, c: Choices) -> None:
    """Another name."""
    names = [t for t in (*TEXTS, *FIELDS, *KINDS) if t and t.isprintable() and "/" not in t]
    file.move(item.name, f"{item.parent.name}/{c.pick(names)}")


def copy(file: h5py.File, item: Any, c: Choices) -> None:
    """The item once more, perhaps in a place of its own kind."""
    target = c.pick(("node/nodes", "node", item.parent.name, item.name))
    file.copy(item, f"{target}/{c.pick(FIELDS)}")


def add(file: h5py.File, item: Any, c: Choices) -> None:
    """A field that may or may not belong there."""
    group = item if isinstance(item, h5py.Group) else item.parent
    value = c.pick((*NUMBERS[:8], 1.5, float("nan"), *TEXTS[:12], *OTHERS[1:6], np.ones((2, 2)), h5py.Empty("f4")))
    name = c.pick(FIELDS)
    if name in group:
        del group[name]
    group[name] = value


def link(file: h5py.File, item: Any, c: Choices) -> None:
    """A link: to another file, to itself, to what is not there, to what is there already."""
    name, kind = item.name, c.below(6)
    target = item.parent.name if kind == 2 else "/node"
    if c.chance(2):
        del file[name]
    else:
        name = f"{item.parent.name}/{c.pick(FIELDS)}"
    if kind < 2:
        file[name] = h5py.ExternalLink(c.pick((DECOY, f"./{DECOY}", f"../{DECOY}")), c.pick(("/x", "/", "/node")))
    elif kind < 4:
        file[name] = h5py.SoftLink(c.pick((target, "/", "/nothing", ".", name)))
    else:
        file[name] = file[target]


def data_elsewhere(file: h5py.File, item: Any, c: Choices) -> None:
    """A dataset whose values lie in another file, or come from one."""
    shape = np.shape(_value(item)) or (2,)
    name = item.name
    del file[name]
    if c.chance(2):
        file.create_dataset(name, shape, "f4", external=[(DECOY, 0, h5py.h5f.UNLIMITED)])
        return
    layout = h5py.VirtualLayout(shape, "f4")
    layout[...] = h5py.VirtualSource(DECOY, "x", shape)
    file.create_virtual_dataset(name, layout)


def nest(file: h5py.File, item: Any, c: Choices) -> None:
    """Groups in groups, with or without what makes graphs of them."""
    group = item if isinstance(item, h5py.Group) else item.parent
    is_graph = c.chance(2)
    for _ in range(c.pick((1, 2, 40, 100))):
        group = group.create_group("sub")
        if is_graph:
            group["type"] = "NIRGraph"
            group["edges"] = np.zeros((0, 2))
            group = group.create_group("nodes")


def edges(file: h5py.File, item: Any, c: Choices) -> None:
    """Other edges between the nodes that there are."""
    graph: Any = file["node"]
    names = [*graph["nodes"], "nothing", ""]
    pairs = [[c.pick(names), c.pick(names)] for _ in range(c.below(12))]
    if c.chance(2) and isinstance(graph["edges"], h5py.Dataset):
        pairs += [list(pair) for pair in graph["edges"].asstr()[()]]
    del graph["edges"]
    graph["edges"] = pairs if pairs else np.zeros((0, 2))


def swap(file: h5py.File, item: Any, c: Choices) -> None:
    """Two items change places."""
    items: list[str] = []
    file.visit(items.append)
    first, second = item.name, "/" + c.pick(items)
    if not first.startswith(second) and not second.startswith(first):
        file.move(first, "/between")
        file.move(second, first)
        file.move("/between", second)


def attribute(file: h5py.File, item: Any, c: Choices) -> None:
    """An attribute, which nobody has use for."""
    item.attrs[c.pick(FIELDS)] = c.pick((1, "x", np.zeros(3)))


def change_attribute(file: h5py.File, item: Any, c: Choices) -> None:
    """Another value of an attribute that there is, in the item or the first group in it that has one, or none of it."""
    while isinstance(item, h5py.Group) and not item.attrs and len(item):
        item = item[c.pick(list(item))]
    item = item if len(item.attrs) else item.parent
    name = c.pick(list(item.attrs) or ["__type__"])
    kinds = ("NIRNodeData", "NIRGraphData", "TimeGriddedData", "EventData", "ValuedEventData")
    if c.chance(6):
        del item.attrs[name]
    else:
        item.attrs[name] = c.pick(c.pick((kinds, NUMBERS, TEXTS, (np.ones(3), np.float32(0.001), np.int8(5), b"x"))))


MUTATIONS: tuple[Mutation, ...] = (
    *(change_number, change_number, change_number, change_shape, change_shape, change_type, put_text, put_kind),
    *(declare, store_again, lie_in_a_chunk, remove, rename, copy, add, add, link, data_elsewhere, nest, edges, swap),
    attribute,
)

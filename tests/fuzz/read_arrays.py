"""Readers of arrays and tables: inputs, events, recordings, rates, calibration data, labels, weights, sweeps."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nirbridge import pipeline
from nirbridge.errors import FileError, UsageError
from nirbridge.simulators.simulate import Recording
from tests.events.writers import aedat2, aedat4, davis, dvs128, table
from tests.fuzz import models
from tests.fuzz.archives import TYPES, mutate_array, mutate_npz, npy, npz
from tests.fuzz.choices import Choices
from tests.fuzz.hdf5 import mutate_hdf5
from tests.fuzz.shown import page, shown
from tests.fuzz.values import NUMBERS, TEXTS, json_bytes, mutate_bytes, mutate_json, odd


def make_npy(c: Choices) -> bytes:
    """An array for one input."""
    return mutate_array(next(iter(models.inputs().values())).astype(c.pick(("u1", "<f4", "<f8", "|b1"))), c)


def read_npy(path: Path) -> object:
    """As ``simulate --input`` does with one array, for a network of one input."""
    network = models.network()
    one = replace(
        network, inputs=network.inputs[:1], projections=tuple(p for p in network.projections if p.source != "more")
    )
    return pipeline.simulate_network(one, pipeline.load_inputs(path), backend="auto")


def make_npz(c: Choices) -> bytes:
    """Arrays for all inputs."""
    return mutate_npz(models.inputs(), c)


def read_npz(path: Path) -> object:
    """As ``simulate --input`` does with arrays by name."""
    return pipeline.simulate_network(models.network(), pipeline.load_inputs(path), backend="auto")


def make_recording(c: Choices) -> bytes:
    """A recording; its description is changed as JSON."""
    arrays = dict(models.recording_arrays())
    if c.chance(3):
        document = json.loads(str(arrays["meta"]))
        for _ in range(c.several(2)):
            document = mutate_json(document, c)
        arrays["meta"] = np.array(json.dumps(document))
        return npz([(f"{name}.npy", npy(a)) for name, a in arrays.items()])
    return mutate_npz(arrays, c)


def read_recording(path: Path) -> object:
    """As ``compare``, ``show``, ``diff`` and ``report --recording`` do."""
    from nirbridge.report.compare import compare_document, compare_text

    found = pipeline.read_recording(path)
    shown(pipeline.SavedFile("recording", found))
    page(recordings={"r.npz": found})
    good = models.recording_arrays()
    arrays = {(k.rpartition("/")[0], k.rpartition("/")[2]): a for k, a in good.items() if k != "meta"}
    other = Recording(arrays, json.loads(str(good["meta"])))
    compared = pipeline.compare(found, other, latency="auto")
    return compare_text(compared), compare_document(compared, "a", "b"), pipeline.compare(found, other, latency="auto")


def make_rates(c: Choices) -> bytes:
    """Rates of some populations and inputs."""
    return mutate_npz({"in": np.full(5, 0.1), "a": np.float64(0.02), "b": np.full(3, 0.5, np.float32)}, c)


def read_rates(path: Path) -> object:
    """As ``map --rates`` does."""
    return pipeline.read_rates(path, models.network())


def make_calibration(c: Choices) -> bytes:
    """Data for ``quantize --calibrate`` or, without time steps, for ``import --calibrate``."""
    given = models.inputs()
    return mutate_npz({**given, "labels": np.array([0, 2])} if c.chance(2) else {n: a[0] for n, a in given.items()}, c)


def read_calibration(path: Path) -> object:
    """As ``import --calibrate`` does, and, where that refuses it, as ``quantize --calibrate`` does."""
    from nirbridge.cli.options import importer_arguments
    from nirbridge.importers.ann.replay import calibration_arrays
    from nirbridge.pipeline.quantize import calibration_data, observe_reference

    network = models.network()
    given = importer_arguments("torch", {"calibration": str(path)})["calibration"]
    try:
        return calibration_arrays(given, network.inputs)
    except UsageError:
        return observe_reference(network, calibration_data(network, pipeline.load_inputs(path)))


def make_labels(c: Choices) -> bytes:
    """The right class of each sample."""
    return mutate_array(np.array([0, 2]), c)


def read_labels(path: Path) -> object:
    """As ``compare --labels`` does."""
    good = models.recording_arrays()
    arrays = {(k.rpartition("/")[0], k.rpartition("/")[2]): a for k, a in good.items() if k != "meta"}
    both = Recording(arrays, json.loads(str(good["meta"])))
    return pipeline.compare(both, both, latency="auto", labels=pipeline.load_npy(path))


# -- events ----------------------------------------------------------------------------------------------------------

CHIPS = ("ch.unizh.ini.jaer.chip.retina.DVS128", "eu.seebetter.ini.chips.davis.DAVIS240C", None, "com.example.Camera9")


def make_aedat2(c: Choices) -> bytes:
    """A file of AEDAT 2: addresses and times are changed, or bytes."""
    chip = c.pick(CHIPS)
    place = davis if chip and "DAVIS" in chip else dvs128
    pairs = [(place(x, y, p), t) for x, y, t, p in models.event_rows()]
    for _ in range(c.below(4)):
        at = c.below(len(pairs))
        times = (0, -1, 2**31 - 1, -(2**31), 10**6)
        pairs[at] = (pairs[at][0] ^ 1 << c.below(32), pairs[at][1]) if c.chance(2) else (pairs[at][0], c.pick(times))
    data = aedat2(pairs, chip)
    return mutate_bytes(data, c) if c.chance(3) else data


def make_aedat4(c: Choices) -> bytes:
    """A file of AEDAT 4: events, the description, packings and the numbers of headers and packets are changed."""
    rows = [list(row) for row in models.event_rows()]
    for _ in range(c.below(4)):
        row, column = c.pick(rows), c.below(4)
        tops = ((-1, 6, 2**15 - 1), (-1, 6, 2**15 - 1), (-1, 2**40, 2**63 - 1), (0, 1, 1))
        row[column] = c.pick(tops[column])
    text = None
    if c.chance(4):
        text = aedat4([]).decode("latin-1").partition("<dv")[2].partition("</dv>")[0]
        text = mutate_bytes(f"<dv{text}</dv>".encode(), c).decode("utf-8", "replace")
    events = [(x, y, t, p) for x, y, t, p in rows]
    size = c.pick(((6, 6), (6, 6), (346, 260), (0, -1), (2**31 - 1, 7)))
    end = c.pick((0, 700, 2**62)) if c.chance(12) else -1
    packing = c.pick((None, None, "lz4", "zstd"))
    data = bytearray(aedat4(events, packing, size, text=text, others=c.chance(2), end=end))
    for _ in range(c.below(3)):  # any number of 16 or 32 bits: FlatBuffers are made of these
        at, width = 14 + 2 * c.below(c.pick((20, (len(data) - 18) // 2))), c.pick((2, 4))
        number = int.from_bytes(data[at : at + width], "little")
        number = c.pick((0, 1, number + 1, number - 1, number * 2, 2**31 - 1, 2**31, 2**32 - 1))
        data[at : at + width] = (number % 256**width).to_bytes(width, "little")
    return mutate_bytes(bytes(data), c) if c.chance(6) else bytes(data)


def make_columns(c: Choices) -> bytes:
    """A structured array, or an archive of columns."""
    columns = table(models.event_rows())
    if c.chance(3):
        return mutate_npz({name: columns[name] for name in c.pick(("xytp", "xt", "xtp"))}, c)
    names = list("xytp")
    if c.chance(4):
        names[c.below(4)] = c.pick(("time", "\xe9"))
    kinds = [c.pick(TYPES) if c.chance(4) else columns.dtype[n].str for n in "xytp"]
    array = np.zeros(len(columns), np.dtype({"names": names, "formats": kinds}, align=c.chance(2)))
    for name, column in zip(names, "xytp", strict=True):
        with np.errstate(all="ignore"):
            values = columns[column].astype(np.float64)
            values[c.below(len(values))] = c.pick((0, 0, -1, 7, 2**40, 0.5, float("nan"), float("inf")))
            array[name] = values.astype(array.dtype[name]) if array.dtype[name].kind != "V" else array[name]
    array = c.pick((array, array, array, array.reshape(2, -1), array[:0], array[:1]))
    data = npy(array)
    return mutate_bytes(data, c) if c.chance(5) else data


def read_events(path: Path) -> object:
    """As ``show`` and every ``--input`` do: each event is in one time step, or counted as one after the last."""
    saved = pipeline.load_saved(path)
    shown(saved)
    data: Any = saved.value
    options = pipeline.EventOptions(origin="first", bin=1e-4)
    found = pipeline.binned_events(models.pooled(), data, options, max_bytes=2**24)
    assert int(found.array.sum(dtype=np.int64)) == found.events
    cut = pipeline.binned_events(models.pooled(), data, options, steps=2, max_bytes=2**24)
    assert int(cut.array.sum(dtype=np.int64)) + cut.beyond == cut.events == found.events
    assert np.array_equal(cut.array[: len(found.array)], found.array[:2])
    return found


def make_nir_data(c: Choices) -> bytes:
    """Data of ``nir.write_data``, or a recording as such data: attributes are changed, and content as of models."""
    return mutate_hdf5(c.pick(models.data_images()), c, attributes=True)


def read_nir_data(path: Path) -> object:
    """As ``show``, ``simulate --input`` and, where the file is a recording, ``compare`` do."""
    saved = pipeline.load_saved(path)
    shown(saved)
    data: Any = saved.value
    if data.recording is not None:
        return read_recording(path)
    given = pipeline.read_inputs(models.network(), data, max_bytes=2**26)
    return pipeline.simulate_network(models.network(), given.inputs, backend="auto")


# -- weights ---------------------------------------------------------------------------------------------------------


def make_weights(c: Choices) -> bytes:
    """A file of ``torch.save``: other tensors, other members of the archive, other bytes."""
    state = dict(models.small_module().state_dict())
    kind = c.below(8)
    for _ in range(c.several(2) if kind < 4 else 0):
        _change_state(state, c)
    saved: Any = {"epoch": 3, c.pick(("state_dict", "model", "x")): state} if c.chance(8) else state
    data = models.saved_state(saved, archive=not c.chance(4))
    if kind < 4:
        return data
    if kind < 6 and data.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(name, archive.read(name)) for name in archive.namelist()]
        at, how = c.below(len(members)), c.pick((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
        name, inner = members[at]
        other = c.pick((inner[: len(inner) // 2], inner * 2, mutate_bytes(inner, c), b"\0" * c.pick((0, 2**24))))
        members[at] = c.pick(((name, other), (name, other), (c.pick(TEXTS)[:1000].replace("\ud800", ""), inner)))
        return npz(members, how)
    return mutate_bytes(data, c)


def _change_state(state: dict[str, Any], c: Choices) -> None:
    """One tensor of another name, shape, type or value, none of it, or something else in its place."""
    import torch

    name = c.pick(list(state) or ["0.weight"])
    tensor, kind = state.pop(name, torch.zeros(3, 2, 2)), c.below(9)
    if kind == 0 or not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided or tensor.is_meta:
        return
    changed = {
        1: lambda: tensor[None],
        2: lambda: tensor.reshape(-1)[:0],
        3: lambda: tensor.to(c.pick((torch.float64, torch.int8, torch.bool, torch.complex64, torch.bfloat16))),
        4: lambda: torch.full_like(tensor, float(np.clip(c.pick(NUMBERS[:17]), 0, 100))),
        5: lambda: torch.zeros(1).expand(*tensor.shape, 10 ** c.below(9)),  # of one number, told as many
        6: lambda: tensor.to_sparse() if tensor.ndim else tensor.to("meta"),
        7: lambda: odd(c),
        8: lambda: tensor,
    }[kind]()
    state[c.pick(TEXTS) if kind == 8 else name] = changed


def make_safetensors(c: Choices) -> bytes:
    """A ``.safetensors`` file: another header, other bytes."""
    header: Any = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, tensor in models.small_module().state_dict().items():
        kind, array = "F32" if tensor.is_floating_point() else "I64", tensor.numpy()
        places = [len(data), len(data) + array.nbytes]
        header[name], data = {"dtype": kind, "shape": list(array.shape), "data_offsets": places}, data + array.tobytes()
    kind = c.below(6)
    for _ in range(c.several(2) if kind < 2 else 0):
        header = mutate_json(header, c)
    text = json_bytes(header)
    length = len(text) if kind != 2 else c.pick((0, len(text) - 1, len(text) + 1, 2**40, 2**64 - 1))
    whole = length.to_bytes(8, "little") + text + data
    return whole if kind < 4 else mutate_bytes(whole, c)


def read_weights(path: Path) -> object:
    """As ``--weights`` does; a module that took them is run once."""
    import torch

    from nirbridge.importers.weights import load_weights

    module = copy.deepcopy(models.small_module())
    load_weights(module, path)
    return module(torch.ones(1, 2, 4))


# -- sweeps ----------------------------------------------------------------------------------------------------------


def make_part(c: Choices) -> bytes:
    """The kept row of a point."""
    row: Any = dict(c.pick(models.sweep().table))
    for _ in range(c.several(3)):
        if isinstance(row, dict) and "error" in row and c.chance(2):
            _change_row(row, c)
        else:
            row = mutate_json(row, c)
    data = json_bytes(row)
    return mutate_bytes(data, c) if c.chance(10) else data


def read_part(path: Path) -> object:
    """As ``sweep -o`` does with rows of an earlier run: one that is taken is in the text and the files of the table."""
    from nirbridge.sweeps import table
    from nirbridge.sweeps.model import Sweep
    from nirbridge.sweeps.run import kept_rows

    plan = models.sweep().plan
    rows = [kept_rows(str(path.parent), [point]) for point in plan.points]
    if not any(rows):
        raise FileError.of("part", "is not a row of the sweep")
    found = Sweep(plan, tuple(row for kept in rows for row in kept.values()))
    _printable(found.summary())
    return table._csv(found.table), table._json(found.table), table._parquet(found.table), repr(found)


def make_table(c: Choices) -> bytes:
    """The ``.parquet`` file of a sweep: other values, columns and bytes."""
    import pyarrow
    from pyarrow import parquet

    from nirbridge.sweeps.table import _parquet

    rows = [dict(row) for row in models.sweep().table]
    for _ in range(c.several(3)):
        _change_row(c.pick(rows), c)
    whole = parquet.read_table(io.BytesIO(_parquet(rows)))
    kind = c.below(8)
    if kind == 0:
        whole = whole.select(whole.column_names[: 1 + c.below(len(whole.column_names))])
    elif kind == 1:
        name = c.pick(whole.column_names)
        at = whole.column_names.index(name)
        whole = whole.set_column(at, name, pyarrow.array([c.pick((1, 1.5, "x", [1], None, b"x"))] * 2))
    elif kind == 2:
        whole = whole.replace_schema_metadata(c.pick((None, {b"nirbridge:sweep": b"\xff"}, {b"x": b"y"})))
    elif kind == 3:
        whole = pyarrow.concat_tables([whole] * 10 ** c.below(5)).combine_chunks()
    out = io.BytesIO()
    parquet.write_table(whole, out, compression=c.pick(("zstd", "none", "gzip", "snappy")))
    return mutate_bytes(out.getvalue(), c) if kind > 4 else out.getvalue()


def _change_row(row: dict[str, Any], c: Choices) -> None:
    """None, or another value of the type of the column, in one of them; often in that of errors."""
    from nirbridge.sweeps.model import type_of

    name = "error" if c.chance(4) else c.pick(list(row))
    values: dict[type, tuple[Any, ...]] = {
        str: tuple(text for text in TEXTS if text != "\ud800"),
        float: tuple(float(n) for n in NUMBERS if n != 10**400),
        int: (0, -1, 2**31, 2**53, 2**62, -(2**62)),
        bool: (True, False),
    }
    row[name] = c.pick((None, *values[type_of(name)]))


def read_table(path: Path) -> object:
    """As ``plot_pareto`` does, up to the points of the picture; the rows are also shown as text."""
    from nirbridge.report.plots.pareto import QUANTITIES, pareto_points
    from nirbridge.sweeps import table
    from nirbridge.sweeps.table import sweep_text

    rows = table.read_table(path)
    _printable(sweep_text(rows))
    names = list(QUANTITIES)
    return [pareto_points(rows, x, y) for x in names for y in names if x != y]


def _printable(text: str) -> None:
    assert all(line.isprintable() for line in text.split("\n")), repr(text)[:160]

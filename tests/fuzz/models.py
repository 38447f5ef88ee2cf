"""Valid files of every kind, created once per process: the starting points of mutations."""

from __future__ import annotations

import functools
import hashlib
import io
import itertools
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import nir
import numpy as np

from nirbridge.errors import UsageError
from nirbridge.files.npy import load_npz
from nirbridge.mapping.storage.file import map_bytes, map_to_dict
from nirbridge.network import Network, from_nir
from nirbridge.network.storage.file import network_to_dict
from nirbridge.pipeline import MapOptions, load_chip, map_retimed, retime, write_recording
from nirbridge.quantization.quantize import quantize
from tests.events.writers import random_events
from tests.network.graphs import graph_of, lif, out, port
from tests.network.storage.nets import small


def dense_graph() -> nir.NIRGraph:
    """Two inputs, a loop with a delay, neurons of two kinds, a read-out of potentials; metadata of ours."""
    rng = np.random.default_rng(0)
    cuba = nir.CubaLIF(*(np.full(3, x) for x in (2e-3, 2e-3, 1.0, 0.0, 0.6)), w_in=np.full(3, 2.0))
    a = lif(4, tau=2e-3, theta=0.5)
    a.metadata = {"nirbridge:reset": "subtract", "nirbridge:refractory_steps": 1}
    nodes = {"in": port(5), "more": port(3), "w": nir.Affine(rng.normal(0.3, 0.5, (4, 5)), np.full(4, 0.1)), "a": a}
    nodes |= {"late": nir.Delay(np.array([1, 2, 1, 3]) * 1e-3), "loop": nir.Linear(rng.normal(0, 0.3, (4, 4)))}
    nodes |= {"x": nir.Linear(rng.normal(0.2, 0.5, (3, 4))), "b": cuba, "out": out(3), "seen": out(4)}
    edges = [("in", "w"), ("w", "a"), ("a", "late"), ("late", "loop"), ("loop", "a"), ("a", "x"), ("x", "b")]
    return graph_of(nodes, [*edges, ("more", "b"), ("b", "out"), ("a", "seen")], dt=1e-3, reset="to-value")


def conv_graph() -> nir.NIRGraph:
    """Convolutions of one and two axes, a pool, Flatten, Threshold and a read-out."""
    nodes = {
        "in": port(2, 6, 6),
        "conv": nir.Conv2d((6, 6), np.full((4, 1, 3, 3), 0.25), 1, 1, 1, 2, np.zeros(4)),
        "if": nir.IF(r=np.full((4, 6, 6), 1e3), v_threshold=np.ones((4, 6, 6))),
        "pool": nir.SumPool2d(np.array([2, 2]), np.array([2, 2]), np.array([0, 0])),
        "avg": nir.AvgPool2d(np.array([3, 3]), np.array([3, 3]), np.array([0, 0])),
        "flat": nir.Flatten({"input": np.array([4, 1, 1])}, 0, -1),
        "scale": nir.Scale(np.full(4, 2.0)),
        "th": nir.Threshold(np.full(4, 0.5)),
        "w": nir.Linear(np.ones((3, 4))),
        "li": nir.LI(tau=np.full(3, 2e-3), r=np.ones(3), v_leak=np.zeros(3)),
        "out": out(3),
    }
    names = [*nodes]
    return graph_of(nodes, list(itertools.pairwise(names)))


def nested_graph() -> nir.NIRGraph:
    """A subgraph, a sequence of one axis, CubaLI and I."""
    inner = {"input": port(2, 8), "conv": nir.Conv1d(8, np.ones((3, 2, 3)), 2, "valid", 1, 1, np.zeros(3))}
    inner |= {"lif": lif(3, 3, tau=2e-3), "output": out(3, 3)}
    links = [("input", "conv"), ("conv", "lif"), ("lif", "output")]
    nodes = {"in": port(2, 8), "sub": nir.NIRGraph(inner, links, type_check=False)}
    nodes |= {"flat": nir.Flatten({"input": np.array([3, 3])}, 0, -1), "w": nir.Linear(np.ones((2, 9)))}
    nodes |= {"i": nir.I(r=np.ones(2)), "out": out(2)}
    return graph_of(nodes, [("in", "sub"), ("sub", "flat"), ("flat", "w"), ("w", "i"), ("i", "out")])


@functools.cache
def nir_images() -> tuple[bytes, ...]:
    """``.nir`` files: as nir writes them, and with text of varying length."""
    return tuple(_image(make()) for make in (dense_graph, conv_graph, nested_graph))


def _image(graph: nir.NIRGraph) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.nir")
        nir.write(path, graph)
        with h5py.File(path, "r+") as file:  # a few hundred bytes less to mutate
            file.attrs.clear()
        return path.read_bytes()


@functools.cache
def network() -> Network:
    """The network of ``dense_graph``."""
    return from_nir(dense_graph())


@functools.cache
def pooled() -> Network:
    """The network of ``conv_graph``, with pools that can be neurons of their own."""
    return from_nir(conv_graph())


@functools.cache
def chip() -> Any:
    """The chip that the files are for."""
    return load_chip("loihi2")


@functools.cache
def quantized() -> Any:
    """The network in integers."""
    return quantize(retime(network(), chip()), chip())


@functools.cache
def sparse_network() -> tuple[dict[str, Any], dict[str, Any]]:
    """Record and arrays of a file of a network with every operator, a sparse one among them."""
    return network_to_dict(small())


@functools.cache
def verification() -> tuple[dict[str, Any], dict[str, Any]]:
    """Record and arrays of a verification of the network: three ways on two samples."""
    from nirbridge.verification.storage import verification_to_dict
    from nirbridge.verification.verify import verify

    done = verify(network(), quantized(), inputs(), steps=2, mapping=mapped(), labels=np.array([0, 2]))
    return verification_to_dict(done)


@functools.cache
def mapped() -> Any:
    """The network mapped, a layer at a time."""
    return map_retimed(retime(network(), chip()), chip(), MapOptions(method="sequential", effort="fast"))


@functools.cache
def sha256() -> str:
    """Of the model file."""
    return hashlib.sha256(nir_images()[0]).hexdigest()


@functools.cache
def map_text() -> str:
    """The map file."""
    return map_bytes(map_to_dict(mapped(), "a.nir", sha256())).decode()


@functools.cache
def chip_text() -> str:
    """The chip file, as JSON of what its TOML holds."""
    return json.dumps(chip().record, default=dict)


@functools.cache
def mlir_text() -> str:
    """A module of snn-mlir."""
    return Path(__file__).parents[1].joinpath("dialect/golden/snn_mlir.mlir").read_text(encoding="utf-8")


@functools.cache
def dialect_text() -> str:
    """A module of nirbridge's dialect."""
    return Path(__file__).parents[1].joinpath("dialect/golden/several_ports.mlir").read_text(encoding="utf-8")


@functools.cache
def recording_arrays() -> dict[str, Any]:
    """Of a recording of every variable."""
    from nirbridge.simulators.simulate import Probe, simulate

    ran = simulate(network(), inputs(), record=[Probe("*", ("s", "v", "count"))]).recording
    with tempfile.TemporaryDirectory() as folder:
        write_recording(ran, Path(folder, "a.npz"))
        with np.load(Path(folder, "a.npz")) as file:
            return dict(file)


@functools.cache
def state() -> tuple[dict[str, Any], dict[str, Any]]:
    """Record and arrays of the state of the network after some time steps."""
    from nirbridge.simulators.simulate import simulate
    from nirbridge.simulators.state_file import FORMAT, write_state

    with tempfile.TemporaryDirectory() as folder:
        write_state(Path(folder, "s.npz"), simulate(network(), inputs()).state, network())
        arrays = load_npz(Path(folder, "s.npz"))
    record = json.loads(arrays.pop("meta").tobytes())
    assert record["kind"] == FORMAT.kind
    return {key: value for key, value in record.items() if key not in ("kind", "schema", "digest")}, arrays


def inputs(steps: int = 6) -> dict[str, Any]:
    """Spikes of two samples for both inputs."""
    rng = np.random.default_rng(1)
    return {p.name: (rng.random((steps, 2, *p.shape)) < 0.4).astype(np.uint8) for p in network().inputs}


@functools.cache
def event_rows() -> list[tuple[int, int, int, int]]:
    """Events for the input of ``conv_graph``."""
    return random_events(4, 20, 6, 6, 2000)


@functools.cache
def data_images() -> tuple[bytes, ...]:
    """NIR's own data for both inputs of ``dense_graph``: grids, events with and without values, and a recording."""
    from nirbridge.simulators.simulate import Probe, simulate

    grids = {name: nir.TimeGriddedData(a.swapaxes(0, 1).astype(bool), 1e-3) for name, a in inputs().items()}
    events = {name: grid.to_event(2 * grid.data.shape[1]) for name, grid in grids.items()}
    valued = {n: nir.ValuedEventData(e.idx, e.time, e.n_neurons, e.t_max, e.time * 2) for n, e in events.items()}
    ran = simulate(network(), inputs(), record=[Probe("*", ("s", "v", "count"))]).recording
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.h5")
        images = []
        for data in (grids, events, valued):
            nir.write_data(path, nir.NIRGraphData({n: nir.NIRNodeData({"spikes": each}) for n, each in data.items()}))
            images.append(path.read_bytes())
        write_recording(ran, path)
        return (*images, path.read_bytes())


@functools.cache
def program_files() -> dict[str, bytes]:
    """An emitted program."""
    from nirbridge.emitters.lava.emit import emit

    return dict(emit(quantized()).files)


@functools.cache
def small_module() -> Any:
    """A torch module whose weights are read from a file: parameters, and buffers of two types."""
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv1d(2, 3, 2), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2)).eval()


def saved_state(state: Any, *, archive: bool = True) -> bytes:
    """What ``torch.save`` writes: an archive, or the pickles of older versions of torch."""
    import torch

    out = io.BytesIO()
    torch.save(state, out, _use_new_zipfile_serialization=archive)
    return out.getvalue()


@functools.cache
def sweep() -> Any:
    """A sweep of two points, the second of which has an error in place of figures; both keys are ``part``."""
    from nirbridge.sweeps.model import COLUMNS, Sweep
    from nirbridge.sweeps.plan import SweepPlan, make_plan
    from nirbridge.sweeps.run import compute_point
    from nirbridge.sweeps.spec import spec_from_dict

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.nir").write_bytes(nir_images()[0])
        record = {"models": ["a.nir"], "chips": ["loihi2"], "bits": [4, 8], "effort": "fast"}
        points = make_plan(spec_from_dict(record, folder, "sweep", UsageError)).points
        whole = {**compute_point(points[0]), "measured_wall_s": 0.5, "measured_cpu_s": 0.25, "key": "part"}
    one, two = (replace(point, key="part", files=()) for point in points)
    failed = {name: getattr(two, name, None) for name in COLUMNS} | {"steps": None, "samples": None}
    return Sweep(SweepPlan((one, two)), (whole, {**failed, "error": "model 'a.nir': does not fit"}))


def toml(record: Any) -> bytes:
    """A record as TOML: scalars and lists of the top first, then a table for each mapping."""
    lines = io.StringIO()
    plain = record if isinstance(record, dict) else {"value": record}
    for key, value in plain.items():
        if not isinstance(value, dict):
            lines.write(f"{json.dumps(str(key))} = {_toml_value(value)}\n")
    for key, value in plain.items():
        if isinstance(value, dict):
            lines.write(f"[{json.dumps(str(key))}]\n")
            lines.writelines(f"{json.dumps(str(k))} = {_toml_value(v)}\n" for k, v in value.items())
    return lines.getvalue().encode("utf-8", "surrogatepass")


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(k))} = {_toml_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    text = json.dumps("null" if value is None else value)
    return text.replace("\\ud8", "\\ue8")  # no TOML has half of a surrogate pair; the reader is to see other things

"""NIR's own data: files of the nir package read, recordings written, read by nir, and read back exactly."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import nir
import numpy as np
import pytest

import nirbridge as nb
from nirbridge import pipeline
from nirbridge.errors import FileError, UsageError
from nirbridge.simulators.types import Recording


def save(path: Path, observables: dict[str, Any], node: str = "input") -> Path:
    nir.write_data(path, nir.NIRGraphData({node: nir.NIRNodeData(observables)}))
    return path


def same(a: Recording, b: Recording) -> bool:
    plain = [json.loads(json.dumps(dict(each.meta), default=dict)) for each in (a, b)]
    arrays = a.arrays.keys() == b.arrays.keys() and all(
        x.dtype == b.arrays[k].dtype and x.shape == b.arrays[k].shape and x.tobytes() == b.arrays[k].tobytes()
        for k, x in a.arrays.items()
    )
    return arrays and plain[0] == plain[1]


@pytest.mark.parametrize("batch", [None, 1, 3])
@pytest.mark.parametrize("suffix", [".h5", ".nirdata.h5", ".hdf5"])
def test_a_recording_comes_back_exactly(tmp_path: Path, tiny_events: Any, batch: int | None, suffix: str) -> None:
    network, _ = tiny_events
    given = np.random.default_rng(0).integers(0, 2, (9, *(() if batch is None else (batch,)), 2, 3, 4), np.uint8)
    run = nb.simulate(network, given, record=["*:s,count", "lif:v,u", nb.Probe("input", ("s",))])
    every = nb.simulate(network, given, record=[nb.Probe("lif", ("v",), 4)])
    for each in (run, every):
        path = tmp_path / f"r{suffix}"
        nb.save(each, path)
        assert same(nb.load_recording(path), each)
        first = path.read_bytes()
        nb.save(each, path)
        assert path.read_bytes() == first
    nb.save(run, tmp_path / "r.h5")
    read = nir.read_data(str(tmp_path / "r.h5"))
    assert read.nodes.keys() == {node for node, _ in run.arrays}
    spikes: Any = read.nodes["output"].observables["spikes"]  # pyright: ignore[reportAttributeAccessIssue]
    assert (spikes.dt, spikes.data.dtype) == (1e-4, bool)
    np.testing.assert_array_equal(spikes.data.swapaxes(0, 1).reshape(run["output"].shape), run["output"])


def test_spikes_of_a_recording_are_inputs_again(tmp_path: Path, tiny_events: Any) -> None:
    network, events = tiny_events
    run = nb.simulate(network, events, record=["input:s", "output:s"])
    nb.save(run, tmp_path / "r.h5")
    again = nb.simulate(network, nb.read_events(tmp_path / "r.h5", network))
    np.testing.assert_array_equal(again["output"][:, 0], run["output"])
    assert again.meta["reading"] == f"{len(run['output'])} time steps of 0.0001 s, as a grid of NIR's data"


def test_event_data_of_nir_equal_its_own_grid(tmp_path: Path, tiny_events: Any) -> None:
    """A grid as events (nir) and binned (nirbridge) is the grid: also where nir's own way back misplaces an event."""
    network, _ = tiny_events
    rng = np.random.default_rng(1)
    misplaced = 0
    for steps, dt in ((400, 1e-4), (400, 0.1), (400, 3e-3)):
        grid = nir.TimeGriddedData(rng.random((3, steps, 24)) < 0.05, dt)
        events = grid.to_event(2 * steps)
        misplaced += int((events.to_time_gridded(dt).data != grid.data).sum())
        path = save(tmp_path / "e.h5", {"spikes": events})
        found = nb.read_events(path, network, bin=dt)
        assert found.array.shape == (steps, 3, 2, 3, 4)
        np.testing.assert_array_equal(found.array.reshape(steps, 3, 24), grid.data.swapaxes(0, 1))
        assert found.events == int(grid.data.sum())
        save(tmp_path / "g.h5", {"spikes": grid})
        np.testing.assert_array_equal(nb.read_events(tmp_path / "g.h5", network, bin=dt).array, found.array)
    assert misplaced > 0


def test_values_of_events_are_summed(tmp_path: Path, tiny_events: Any) -> None:
    idx, time = np.array([[3, 3, -1]]), np.array([[1e-4, 1.5e-4, np.inf]])
    valued = nir.ValuedEventData(idx, time, 24, 4e-4, np.array([[0.5, 0.25, 9.0]]))
    found = nb.read_events(save(tmp_path / "v.h5", {"spikes": valued}), tiny_events[0])
    assert found.array.shape == (4, 1, 2, 3, 4)
    assert found.array.reshape(4, 24)[1, 3] == 0.75
    assert found.array.sum() == 0.75
    assert (found.events, found.several) == (2, 1)


def test_several_inputs_and_nested_graphs_by_name(tmp_path: Path) -> None:
    path = save(tmp_path / "a.h5", {"spikes": nir.TimeGriddedData(np.ones((1, 2, 3), bool), 1e-3)})
    with h5py.File(path, "a") as file:  # nir 1.0.8 cannot write a graph within a graph
        inner = file.create_group("nodes/sub")
        inner.attrs["__type__"] = "NIRGraphData"
        file.copy(file["nodes/input"], inner.create_group("nodes"), "lif")
    data = pipeline.load_data(path)
    assert set(data.nodes) == {"input", "sub.lif"}


REFUSED = (
    (lambda f: f.attrs.__delitem__("__type__"), "item '/': has no type, expected is NIRGraphData"),
    (lambda f: f.attrs.__setitem__("__type__", "NIRGraph"), "its type is 'NIRGraph'"),
    (lambda f: f.attrs.__setitem__("__type__", np.arange(3)), "has no type"),
    (lambda f: f["nodes/input"].attrs.__setitem__("__type__", "x" * 9000), "its type is 'xxx"),
    (lambda f: f["nodes/input/observables/spikes"].attrs.__setitem__("dt", np.nan), "dt is 'nan', a finite number"),
    (lambda f: f["nodes/input/observables/spikes"].attrs.__setitem__("dt", -1.0), "its dt is -1"),
    (lambda f: f["nodes/input/observables/spikes"].attrs.__setitem__("dt", "1e-4"), "dt is '1e-4', a finite number"),
    (
        lambda f: f["nodes/input/observables/spikes"].attrs.__setitem__("dt", np.ones(4)),
        "dt is 'None', a finite number",
    ),
    (lambda f: f.__setitem__("nodes/evil", h5py.ExternalLink("decoy.h5", "/")), "a link to another file"),
    (lambda f: f.__setitem__("nodes/evil", h5py.SoftLink("/nodes/input")), "a soft link"),
    (lambda f: f["nodes"].create_dataset("evil", data=1), "it is a dataset, nodes are groups"),
    (
        lambda f: f["nodes/input/observables/spikes"].create_dataset("big", shape=(2**40,), dtype="f8"),
        "it declares .* bytes or more",
    ),
    (lambda f: f["nodes/input/observables/spikes"].__delitem__("data"), "has no array 'data' of 3 axes"),
)


@pytest.mark.parametrize(("change", "says"), REFUSED)
def test_hostile_files_are_refused(tmp_path: Path, change: Any, says: str) -> None:
    path = save(tmp_path / "a.h5", {"spikes": nir.TimeGriddedData(np.ones((1, 2, 24), bool), 1e-4)})
    with h5py.File(path, "a") as file:
        change(file)
    with pytest.raises(FileError, match=says):
        pipeline.load_data(path)


def test_odd_events_are_refused(tmp_path: Path) -> None:
    idx, time = np.array([[0, 5]]), np.array([[0.0, 1e-3]])
    cases = (
        (nir.EventData(idx, time, 5, 1.0), "an index of 5, there are 5 neurons"),
        (nir.EventData(idx, -time, 9, 1.0), "t is -0.001 at event 1"),
        (nir.EventData(idx - 5, time, 9, 1.0), "x is -5 at event 0"),
        (nir.EventData(idx, np.array([[np.nan, 0.0]]), 9, 1.0), "t is nan at event 0"),
        (nir.EventData(idx, time, -9, 1.0), "n_neurons is -9"),
        (nir.ValuedEventData(idx, time, 9, 1.0, np.array([[0.0, np.inf]])), "a value that is not finite"),
    )
    for data, says in cases:
        with pytest.raises(FileError, match=says):
            pipeline.load_data(save(tmp_path / "a.h5", {"spikes": data}))


def test_a_damaged_heap_of_texts_is_refused(tmp_path: Path) -> None:
    """The library would follow the sizes that a heap states; attributes are texts in one."""
    data = save(tmp_path / "a.h5", {"spikes": nir.TimeGriddedData(np.ones((1, 2, 24), bool), 1e-4)}).read_bytes()
    at = data.index(b"GCOL")
    refused = 0
    for place, value in ((8, 2**60), (8, 0), (16 + 8, 2**50), (16 + 8, 2**64 - 1)):
        bad = data[: at + place] + value.to_bytes(8, "little") + data[at + place + 8 :]
        (tmp_path / "b.h5").write_bytes(bad)
        with pytest.raises(FileError, match="damaged"):
            pipeline.load_data(tmp_path / "b.h5")
        refused += 1
    assert refused == 4


def test_grids_of_another_dt_or_size_are_refused(tmp_path: Path, tiny_events: Any) -> None:
    network, _ = tiny_events
    path = save(tmp_path / "a.h5", {"spikes": nir.TimeGriddedData(np.ones((1, 2, 24), bool), 1e-3)})
    with pytest.raises(UsageError, match="a grid of 0.001 s, a time step has 0.0001 s; give --bin 0.001"):
        nb.read_events(path, network)
    assert nb.read_events(path, network, bin=1e-3, steps=1).text.endswith(
        "24 values other than 0 after the last time step left out"
    )
    path = save(tmp_path / "b.h5", {"spikes": nir.TimeGriddedData(np.ones((1, 2, 23), bool), 1e-4)})
    with pytest.raises(UsageError, match="23 neurons, the input has 24"):
        nb.read_events(path, network)
    with pytest.raises(FileError, match="was not written by nirbridge"):
        nb.load_recording(path)
    two = {"a": nir.TimeGriddedData(np.ones((1, 2, 24)), 1e-4), "b": nir.TimeGriddedData(np.ones((1, 2, 24)), 1e-4)}
    with pytest.raises(UsageError, match="node 'input' has 'a', 'b'"):
        nb.read_events(save(tmp_path / "c.h5", two), network)


def test_names_that_nir_cannot_hold_are_refused(tmp_path: Path, tiny_events: Any) -> None:
    run = nb.simulate(*tiny_events)
    odd = replace(run, arrays={("a/b", "s"): run["output"]})
    no_dt = replace(run, meta={k: v for k, v in run.meta.items() if k != "dt"})
    for each, says in ((odd, "the name 'a/b' has a slash"), (no_dt, "states no dt")):
        with pytest.raises(UsageError, match=says):
            nb.save(each, tmp_path / "r.h5")
    assert not list(tmp_path.iterdir())


def test_a_graph_is_no_data_and_data_no_graph(tmp_path: Path, tiny_events: Any) -> None:
    nb.save(tiny_events[0], tmp_path / "n.nir")
    with pytest.raises(FileError, match="it holds a graph of NIR"):
        pipeline.load_data(tmp_path / "n.nir")
    path = save(tmp_path / "a.h5", {"spikes": nir.TimeGriddedData(np.ones((1, 2, 24), bool), 1e-4)})
    assert (pipeline.kind_of_file(path), pipeline.kind_of_file(tmp_path / "n.nir")) == ("events", "model")

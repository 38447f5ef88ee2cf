"""Arrays of the user, read by named axes: every order, what contradicts it, and runs in integers that are drained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nir
import numpy as np
import pytest

import nirbridge as nb
from nirbridge.errors import FileError, ModelError, UsageError
from nirbridge.network.axes import Axes, parse_axes
from nirbridge.network.model import Network, Port
from nirbridge.network.nir.from_nir import from_nir
from nirbridge.network.nir.to_nir import to_nir
from nirbridge.simulators.fixed.simulate import simulate_fixed
from nirbridge.simulators.given import read_given
from nirbridge.simulators.inputs import from_chunks
from nirbridge.simulators.types import Probe
from tests.network.graphs import chain, lif, out, port

STEPS, SAMPLES = 5, 3
FIRST = np.arange(STEPS * SAMPLES * 8).reshape(STEPS, SAMPLES, 2, 4)
"""As the simulators take it: time steps, samples, values."""


def net(axes: Axes = ()) -> Any:
    return SimpleNamespace(inputs=(Port("in", (2, 4)),), axes=axes)


@pytest.mark.parametrize(
    ("axes", "given"),
    [
        ("time,sample", FIRST),
        ("sample,time", FIRST.swapaxes(0, 1)),
        ("sample,...,time", np.moveaxis(FIRST, 0, -1)),
        ("...,time,sample", np.moveaxis(FIRST, (0, 1), (-2, -1))),
        ("time,...,sample", np.moveaxis(FIRST, 1, -1)),
        ("3*time", FIRST.swapaxes(0, 1).reshape(-1, 2, 4)),
        ("sample*5", FIRST.swapaxes(0, 1).reshape(-1, 2, 4)),
        ("time*3", FIRST.reshape(-1, 2, 4)),
        ("5*sample", FIRST.reshape(-1, 2, 4)),
    ],
)
def test_every_order_is_read_into_the_same_data(axes: str, given: np.ndarray) -> None:
    for read in (read_given(net(), given, axes=axes), read_given(net(parse_axes(axes)), {"in": given})):
        inputs = read.inputs["in"] if isinstance(read.inputs, dict) else read.inputs
        assert np.array_equal(inputs, FIRST)
        assert read.reading.startswith("3 samples of 5 time steps (axes ")
    assert read_given(net(), FIRST).reading == "3 samples of 5 time steps (axes time, sample: the default order)"


@pytest.mark.parametrize("axes", ["time,sample", "sample,time"])
def test_without_an_axis_of_samples_time_is_first(axes: str) -> None:
    read = read_given(net(parse_axes(axes)), FIRST[:, 0])
    assert np.array_equal(read.inputs, FIRST[:, 0])
    assert read.reading.startswith("5 time steps (axes ")


def test_still_images_are_presented_for_every_time_step() -> None:
    still = net(("sample", "time=10"))
    for given, steps, shape in (
        (FIRST[0], None, (10, 3, 2, 4)),
        (FIRST[0], 4, (4, 3, 2, 4)),
        (FIRST[0, 0], 4, (4, 2, 4)),
    ):
        read = read_given(still, given, steps=steps)
        assert read.inputs.shape == shape
        assert np.array_equal(read.inputs[-1], given)
    assert np.array_equal(read_given(still, FIRST).inputs, FIRST)  # whole sequences, time steps first


@pytest.mark.parametrize(
    "text",
    ["time", "sample,time", "time,sample,...", "sample,time=7", "...,sample,time", " sample , time ", "12*time"],
)
def test_axes_of_a_text_and_of_its_words_are_the_same(text: str) -> None:
    assert parse_axes(text) == parse_axes(text.split(","))
    assert parse_axes(",".join(parse_axes(text))) == parse_axes(text)


@pytest.mark.parametrize(
    "text",
    ["", "sample", "time,time", "time,batch", "sample,time,time=3", "time=0", "4*time,sample", "4*4", "time*sample",
     "time,...,...", "99999999999*time", "time=9999999999", "5", "sample;time", "...", "x" * 100_000],
)  # fmt: skip
def test_axes_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_given(net(), FIRST, axes=text)
    assert str(caught.value).startswith("--axes: ")
    assert len(str(caught.value)) < 400


def test_labels_of_another_number_are_refused_with_both_numbers() -> None:
    with pytest.raises(UsageError, match=r"5 labels for 3 samples of 5 time steps.*axes='sample,time'"):
        read_given(net(), FIRST, labels=np.zeros(5, int))
    with pytest.raises(UsageError, match=r"3 labels for 5 samples of 3 time steps.*axes='time,sample'"):
        read_given(net(("sample", "time")), {"in": FIRST, "labels": [0, 1, 2]})
    with pytest.raises(UsageError, match=r"4 labels for 3 samples, one for each sample; give the class"):
        read_given(net(), FIRST, labels=[0, 1, 2, 3])
    assert read_given(net(("sample", "time")), FIRST.swapaxes(0, 1), labels=[0, 1, 2]).labels == [0, 1, 2]


@pytest.mark.parametrize("names", [("x", "y"), ("data", "labels"), ("in", "labels")])
def test_one_input_and_its_labels_may_have_any_names(names: tuple[str, str]) -> None:
    given = dict(zip(names, (FIRST.swapaxes(0, 1), np.arange(SAMPLES)), strict=True))
    read = read_given(net(), given, axes="sample,time")
    assert list(read.inputs) == ["in"]
    assert np.array_equal(read.inputs["in"], FIRST)
    assert list(read.labels) == [0, 1, 2]
    assert list(read.with_labels) == ["in", "labels"]
    assert read_given(net(), FIRST, labels=[0, 1, 2]).with_labels.keys() == {"in", "labels"}


@pytest.mark.parametrize("other", [FIRST, np.float64(1e-3), np.zeros(SAMPLES), [0, 1, 2]])
def test_names_are_kept_where_it_is_not_clear_which_array_is_the_input(other: Any) -> None:
    given = {"x": FIRST, "z": other}
    assert read_given(net(), given).inputs.keys() == given.keys()
    two = SimpleNamespace(inputs=(Port("a", (2, 4)), Port("b", (2, 4))), axes=())
    read = read_given(two, FIRST, labels=[0, 1, 2])
    assert read.with_labels is read.inputs  # one array, which is refused with the names of both


def test_arrays_of_other_axes_are_refused_where_axes_are_named() -> None:
    with pytest.raises(UsageError, match=r"shape \(2, 4\), the axes sample,time are \[sample, time, 2, 4\]"):
        read_given(net(("sample", "time")), FIRST[0, 0])
    with pytest.raises(UsageError, match=r"the axes sample,\.\.\.,time are \[sample, 2, 4, time\]"):
        read_given(net(), FIRST[None], axes="sample,...,time")
    with pytest.raises(UsageError, match=r"an axis of 3, '2\*time' needs a multiple of 2"):
        read_given(net(), FIRST[0], axes="2*time")
    wrong = np.zeros((1, 1, 1, 1, 1, 1))
    assert read_given(net(), wrong).inputs is wrong  # said by the simulator itself


def network() -> Network:
    rng = np.random.default_rng(1)
    weights = [rng.normal(size=shape) * 90 for shape in ((6, 4), (5, 6), (3, 5))]
    parts = [part for w in weights for part in (nir.Linear(w), lif(len(w)))]
    return from_nir(chain(port(4), *parts, out(3)), nb.Timing(dt=1e-3))


@pytest.mark.filterwarnings("ignore::nirbridge.errors.ExportWarning")
def test_axes_are_saved_with_every_form_of_a_network(tmp_path: Path) -> None:
    known = replace(network(), axes=("sample", "...", "time"))
    for name in ("model.net.npz", "model.nir"):
        nb.save(known, tmp_path / name)
        assert nb.load(tmp_path / name).axes == known.axes
    quantized = nb.quantize(known, "loihi1")
    nb.save(quantized, tmp_path / "model.q.npz")
    assert nb.load_quantized(tmp_path / "model.q.npz").axes == quantized.axes == known.axes
    nb.save(network(), tmp_path / "old.net.npz")
    assert nb.load(tmp_path / "old.net.npz").axes == ()
    assert nb.apply(known, "eliminate-dead").axes == known.axes


def test_axes_of_a_file_that_name_none_are_refused(tmp_path: Path) -> None:
    graph = to_nir(network())
    for value in ("sample", b"\xff", 5):
        graph.metadata["nirbridge:axes"] = value
        with pytest.raises(ModelError, match="nirbridge:axes"):
            from_nir(graph)
    nb.save(replace(network(), axes=("time", "time")), tmp_path / "wrong.net.npz")
    with pytest.raises(FileError, match="axes is"):
        nb.load(tmp_path / "wrong.net.npz")


# -- every stage ----------------------------------------------------------------------------------------------------


def data() -> tuple[np.ndarray, np.ndarray]:
    """100 samples of 16 time steps, samples first, and labels."""
    rng = np.random.default_rng(2)
    return (rng.random((100, 16, 4)) < 0.4).astype(np.uint8), rng.integers(0, 3, 100)


def test_stages_read_samples_first_alike() -> None:
    x, y = data()
    known, plain, first = replace(network(), axes=("sample", "time")), network(), x.swapaxes(0, 1)
    run = nb.simulate(known, x)
    assert run.meta["batch"] == 100
    assert run.meta["reading"] == "100 samples of 16 time steps (axes sample, time: the order of the module)"
    assert np.array_equal(run["out"], nb.simulate(plain, first)["out"])
    assert np.array_equal(run["out"], nb.simulate(plain, x, axes="sample,time")["out"])
    assert np.array_equal(run["out"], nb.simulate(known, first, axes=["time", "sample"])["out"])
    profiled, expected = (nb.profile(n, "loihi1", v, y) for n, v in ((known, x), (plain, first)))
    assert profiled.points[0].about["samples"] == 100
    assert profiled.points[0].row() == expected.points[0].row()
    quantized = nb.quantize(known, "loihi1", calibrate=(x, y), tight=True)
    assert (
        quantized.report[0].measured
        == nb.quantize(plain, "loihi1", calibrate=(first, y), tight=True).report[0].measured
    )
    verified = nb.verify(known, "loihi1", x, labels=y)
    assert (verified.steps, verified.holds) == (16, True)
    assert "100 samples of 16 time steps" in verified.input_said
    for stage in (nb.profile, nb.verify):
        with pytest.raises(UsageError, match="100 labels for 16 samples of 100 time steps"):
            stage(plain, "loihi1", x, labels=y)
    with pytest.raises(UsageError, match="100 labels for 16 samples of 100 time steps"):
        nb.quantize(plain, "loihi1", calibrate=(x, y))


# -- drained runs ---------------------------------------------------------------------------------------------------

RECORD = [Probe("*", ("s", "v", "count"))]


def expected_of(longer: Any, latency: Any, steps: int) -> dict[Any, np.ndarray]:
    """The arrays of a longer run of the hardware, each node from its latency on."""
    kept = {key: a[latency[key[0]] :][:steps] for key, a in longer.arrays.items() if key[1] != "count"}
    return kept | {key: kept[key[0], "s"].sum(axis=0) for key in longer.arrays if key[1] == "count"}


@pytest.mark.parametrize("backend", ["fixed", "mapped"])
def test_a_drained_run_has_every_output_of_every_node(backend: str) -> None:
    x = data()[0][:4].swapaxes(0, 1)
    mapped = nb.map(network(), "loihi1", effort="fast")
    quantized = nb.quantize(network(), "loihi1")
    model = quantized if backend == "fixed" else mapped
    assert quantized.latency["out"] == 3
    longer = simulate_fixed(quantized, x, steps=19, record=RECORD).recording
    wanted = expected_of(longer, quantized.latency, 16)
    run = nb.simulate(model, x, record=RECORD)
    assert all(np.array_equal(run.arrays[key], a) for key, a in wanted.items())
    assert run.arrays.keys() == wanted.keys()
    assert run.meta["steps"] == 16
    assert run.meta["drained"]["out"] == 3
    assert run.meta["latency"]["out"] == 0
    hardware = nb.simulate(model, x, drain=False)
    assert np.array_equal(hardware["out"], longer["out"][:16])
    assert hardware.meta["latency"]["out"] == 3
    assert "drained" not in hardware.meta
    every = nb.simulate(model, x, steps=13, record=[Probe("out", ("s",), 5)])["out"]
    cut = simulate_fixed(quantized, x[:13], steps=16).recording["out"][3:]
    assert np.array_equal(every, cut[4::5])


def test_spikes_of_the_last_time_steps_decide() -> None:
    """A class that only the last input names: without draining, every sample is decided by nothing."""
    x, y = np.zeros((6, 3, 3), np.uint8), np.arange(3)
    x[-1] = np.eye(3)
    parts = [part for _ in range(3) for part in (nir.Linear(np.eye(3) * 2000.0), lif(3))]
    quantized = nb.quantize(from_nir(chain(port(3), *parts, out(3)), nb.Timing(dt=1e-3)), "loihi1")
    assert quantized.latency["out"] == 3
    assert np.array_equal(nb.simulate(quantized, x)["out"].sum(axis=0).argmax(axis=1), y)
    assert nb.simulate(quantized, x, drain=False)["out"].sum() == 0


def test_streams_are_drained_without_a_call_after_their_end() -> None:
    x = data()[0][:2].swapaxes(0, 1)
    quantized = nb.quantize(network(), "loihi1")
    wanted = simulate_fixed(quantized, x, drain=True).recording["out"]
    stream = from_chunks(iter(np.split(x, 4)))
    assert np.array_equal(simulate_fixed(quantized, stream, steps=16, drain=True).recording["out"], wanted)
    state = simulate_fixed(quantized, x).state
    with pytest.raises(UsageError, match="cannot be drained"):
        simulate_fixed(quantized, x, state=state, drain=True)


def test_programs_are_drained_and_read_as_the_simulator() -> None:
    pytest.importorskip("onnxruntime")
    x = data()[0][:2]
    quantized = nb.quantize(replace(network(), axes=("sample", "time")), "loihi1")
    program, run = nb.emit(quantized, "onnx"), nb.simulate(quantized, x)
    found = nb.run(program, x)
    assert np.array_equal(found["out"], run["out"])
    assert (found.meta["reading"], found.meta["latency"]) == (run.meta["reading"], run.meta["latency"])
    hardware = nb.run(program, x, drain=False)
    assert np.array_equal(hardware["out"], nb.simulate(quantized, x, drain=False)["out"])


@pytest.mark.parametrize("texts", [["out:count"], ["*:count"], ["*:s,count"], ["out:s", "*:count"]])
def test_counts_of_a_drained_program_are_of_the_time_steps_that_are_kept(texts: list[str]) -> None:
    pytest.importorskip("onnxruntime")
    x = data()[0][:5].swapaxes(0, 1)
    quantized = nb.quantize(network(), "loihi1")
    found, expected = nb.run(nb.emit(quantized, "onnx"), x, record=texts), nb.simulate(quantized, x, record=texts)
    assert found.arrays.keys() == expected.arrays.keys()
    for key, array in expected.arrays.items():
        assert array.any()
        assert found.arrays[key].dtype == array.dtype
        assert np.array_equal(found.arrays[key], array)

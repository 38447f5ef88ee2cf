"""``nirbridge.open``: named and measured back ends, whose results and errors are those of ``simulate``."""

from __future__ import annotations

import pickle
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nirbridge as nb
from nirbridge.arrays import freeze
from nirbridge.emitters.artifact import make_artifact
from nirbridge.emitters.c.options import COptions
from nirbridge.emitters.c.run import find_compiler
from nirbridge.errors import FileError, ModelError, UsageError
from nirbridge.files.npy import write_record
from nirbridge.network.model import Projection
from nirbridge.network.operators import Dense
from nirbridge.pipeline import network_of_shapes
from nirbridge.simulators.backends import EXACT
from nirbridge.simulators.inputs import from_chunks
from nirbridge.simulators.state_file import FORMAT, read_state, write_state
from nirbridge.simulators.steps import read_step
from nirbridge.simulators.types import SimulationState


def _weighted(p: Projection) -> Projection:
    """Weights that make neurons spike, in place of those of a shape."""
    if not isinstance(p.operator, Dense):
        return p
    weight = np.random.default_rng(p.operator.weight.size).uniform(-0.3, 1, p.operator.weight.shape) * 40
    return replace(p, operator=Dense(freeze(weight)))


SHAPES = network_of_shapes("4 dense3 lif dense2 lif")
NETWORK = replace(SHAPES, projections=tuple(_weighted(p) for p in SHAPES.projections))
OUT = NETWORK.outputs[0].name
INTEGERS = nb.quantize(NETWORK, "loihi2")
X = (np.random.default_rng(3).random((12, 5, 4)) < 0.6).astype(np.uint8)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIRBRIDGE_CACHE", str(tmp_path / "cache"))


def fastest(name: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A bench in which this back end is the fastest; the names of those that it measures."""
    measured: list[str] = []

    def row(contender: Any, *_: Any) -> Any:
        measured.append(contender.name)
        times = MappingProxyType({1: 1.0 if contender.name == name else 2.0})
        return replace(contender.row("equal"), us_per_step=times, us_per_run=MappingProxyType({1: 0.0}))

    monkeypatch.setattr("nirbridge.pipeline.bench._measured", row)
    return measured


def equal(a: nb.Recording, b: nb.Recording) -> bool:
    return a.arrays.keys() == b.arrays.keys() and all(
        a.arrays[key].dtype == b.arrays[key].dtype and np.array_equal(a.arrays[key], b.arrays[key]) for key in a.arrays
    )


def need_tool(name: str) -> None:
    if name == "onnx":
        pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    try:
        find_compiler() if name == "c" else None
    except UsageError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("record", [None, "*:s,v"])
@pytest.mark.parametrize("name", EXACT)
def test_reals_have_the_same_bits_whatever_is_chosen(name: str, record: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fastest(name, monkeypatch)
    session = nb.open(NETWORK, backend="best")
    assert session.backend == name
    assert equal(session.run(X, record=record), nb.simulate(NETWORK, X, backend="reference", record=record))


@pytest.mark.parametrize("record", [None, "*:s,u,v", [OUT, f"{OUT}:count"]])
@pytest.mark.parametrize("name", ["fixed", "onnx", "c"])
def test_integers_have_the_same_bits_whatever_is_chosen(
    name: str, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_tool(name)
    fastest(name, monkeypatch)
    mapped = nb.map(NETWORK, "loihi2")
    for model in (INTEGERS, mapped):
        session = nb.open(model, backend="best")
        assert session.backend == name
        assert (session.program is None) == (name == "fixed")
        assert equal(session.run(X, record=record), nb.simulate(model, X, record=record, drain=False))


def test_a_choice_is_measured_once_for_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    measured, told = fastest("event", monkeypatch), []
    session = nb.open(NETWORK, backend="best", progress=lambda stage, done: told.append(stage))
    assert measured == list(EXACT)
    assert told == [f"bench {name}" for name in EXACT]
    again = nb.open(NETWORK, backend="best", steps=1000)
    assert measured == list(EXACT)
    assert session.why == "event, 100 us per run of 100 time steps at batch 1, 2 times as fast as fast (200 us)"
    assert again.why == "event, 1 ms per run of 1,000 time steps at batch 1, 2 times as fast as fast (2 ms)"
    assert repr(session) == f"Session: event: {session.why}"


def test_a_bench_by_hand_is_what_open_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = nb.bench(NETWORK, X, backends=EXACT, batches=[5], repeats=1, best=True)  # really measured
    (choice,) = bench.choices
    assert choice.is_kept
    assert choice.us_per_run == dict.fromkeys(choice.us_per_step, 0.0)
    monkeypatch.setattr("nirbridge.pipeline.bench.bench_network", lambda *_, **__: pytest.fail("measured again"))
    assert nb.open(NETWORK, backend="best", batch=5).backend == next(iter(choice.us_per_step))


def test_what_the_choice_cannot_prepare_the_simulator_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: Any) -> Any:
        raise ModelError.of("program", "the compiler refused it")

    fastest("c", monkeypatch)
    monkeypatch.setattr("nirbridge.emitters.c.session.open_program", failing)
    session = nb.open(INTEGERS, backend="best")
    assert (session.backend, session.why) == ("fixed", "as of simulate, not measured: program: the compiler refused it")
    with pytest.raises(ModelError, match="^program: the compiler refused it$"):
        nb.open(INTEGERS, backend="c")  # named: its failure is told


def test_a_stream_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    need_tool("c")
    session = nb.open(INTEGERS, backend="c")
    found = session.run(from_chunks(iter(np.split(X, 3))), steps=12)
    assert equal(found, nb.simulate(INTEGERS, X, drain=False))


@pytest.mark.parametrize(
    ("model", "backend", "reason"),
    [(INTEGERS, "fixed", "model: no back end has run it, each has 30 s"), (NETWORK, "fast", "the reference: too slow")],
)
def test_a_model_that_is_too_slow_for_the_trial_runs_all_the_same(
    model: Any, backend: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nirbridge.pipeline.bench._measured", lambda row, *_: row.row("time limit", "too slow"))
    session = nb.open(model, backend="best")
    assert session.backend == backend
    assert session.why.startswith(f"as of simulate, not measured: {reason}")
    assert equal(session.run(X), nb.simulate(model, X, drain=False))


@pytest.mark.parametrize(
    ("model", "backend", "message"),
    [
        (NETWORK, "fsat", "^backend 'fsat': unknown, .*did you mean 'fast'"),
        (NETWORK, "fixed", "^model of backend 'fixed': is of type Network, .*; quantize the network for a chip$"),
        (INTEGERS, "numpy", "^model of backend 'numpy': is of type QuantizedNetwork, "),
        (INTEGERS, "torch", "^model of backend 'torch': is of type QuantizedNetwork, "),
        (NETWORK, "torch", "^backend 'torch': keeps no state from one run to the next, "),
        (NETWORK, "c", "^model of backend 'c': is of type Network, .*; quantize the network for a chip$"),
    ],
)
def test_wrong_names_are_refused(model: Any, backend: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        nb.open(model, backend=backend)


@pytest.mark.parametrize(
    ("model", "backend"), [(NETWORK, "fast"), (INTEGERS, "fixed"), (nb.map(NETWORK, "loihi2"), "mapped")]
)
def test_auto_is_that_of_simulate(model: Any, backend: str, tmp_path: Path) -> None:
    place = tmp_path / "m.q.npz"
    INTEGERS.save(place)
    with nb.open(place if model is INTEGERS else model) as session:
        assert (session.backend, session.why) == (backend, "as of simulate")
        assert equal(session.run(X), nb.simulate(model, X, drain=False))
        session.reset()
        assert session.run(X, steps=3)[OUT].shape == (3, 5, 2)


# -- time ------------------------------------------------------------------------------------------------------------

BACKENDS = ["reference", "numpy", "fast", "event", "fixed", "mapped", "c", "onnx"]
MAPPED = replace(nb.map(NETWORK, "loihi2"), quantized=INTEGERS)
MODELS = {"fixed": INTEGERS, "c": INTEGERS, "onnx": INTEGERS, "mapped": MAPPED}


def opened(name: str, **options: Any) -> nb.Session:
    need_tool(name)
    return nb.open(MODELS.get(name, NETWORK), backend=name, **options)


@pytest.mark.parametrize("name", BACKENDS)
def test_time_goes_on_from_call_to_call(name: str) -> None:
    session = opened(name)
    whole = session.run(X, record=["*:s,v", OUT])
    last = session.state()
    session.reset()
    first = session.run(X[:4])[OUT]
    steps = [session.step(X[t])[OUT] for t in range(4, 9)]
    rest = session.run(X[9:])
    assert rest.meta["first_step"] == 9
    assert session.state().step == 12
    found = np.concatenate([first, np.stack(steps), rest[OUT]])
    assert found.dtype == whole[OUT].dtype
    assert np.array_equal(found, whole[OUT])
    assert whole[OUT].any()
    assert all(np.array_equal(values, last.arrays[key]) for key, values in session.state().arrays.items())


@pytest.mark.parametrize("name", BACKENDS)
def test_a_step_has_a_batch_axis_where_its_input_has_one(name: str) -> None:
    session = opened(name)
    plain = [session.step(x[0])[OUT] for x in X]
    assert plain[0].shape == (2,)
    session.reset()
    one = [session.step({NETWORK.inputs[0].name: x[:1]})[OUT] for x in X]
    assert one[0].shape == (1, 2)
    assert np.array_equal(np.stack(plain), np.stack(one)[:, 0])
    session.reset()
    assert session.step(X[0])[OUT].shape == (5, 2)
    with pytest.raises(UsageError, match=r"^input '0_input': an array of shape \(4,\), one time step takes"):
        session.step(X[0, 0])
    with pytest.raises(UsageError, match="^input '0_input': a batch of 3, the run of this session has 5; reset"):
        session.run(X[:, :3])
    assert session.state().step == 1


@pytest.mark.parametrize("name", BACKENDS)
def test_a_wrong_step_changes_nothing(name: str) -> None:
    session, other = opened(name, batch=5), opened(name, batch=5)
    session.step(X[0])
    other.step(X[0])
    wrong: list[Any] = [X[1, :3], X[1, :, :2], "text", [[1, 2], [3]], X[1].astype(complex), {"x": X[1]}, None, X[:, 0]]
    wrong += [np.where(X[1] > 0, bad, 0) for bad in (np.nan, np.inf, 1e39)]
    wrong += [X[1] * 7, X[1] * 0.5, -X[1].astype(float)] if name in MODELS else []
    for inputs in wrong:
        with pytest.raises(UsageError, match="^input"):
            session.step(inputs)
    assert np.array_equal(session.step(X[1])[OUT], other.step(X[1])[OUT])
    assert all(np.array_equal(a, other.state().arrays[key]) for key, a in session.state().arrays.items())


@pytest.mark.parametrize("name", ["fixed", "c", "onnx", "onnx in reals"])
def test_values_that_are_not_finite_do_not_reach_the_state(name: str) -> None:
    backend = name.split()[0]
    need_tool(backend)
    model = NETWORK if "reals" in name else nb.quantize(NETWORK, "loihi2", graded={NETWORK.inputs[0].name: (1.0, 8)})
    session = nb.open(model, backend=backend)
    session.step(X[0, 0])
    good = session.state()
    for value in (np.nan, np.inf, 1e39, 1e308):
        with pytest.raises(UsageError, match="^input '0_input': .*at time step 1.*(finite|remove|quantize)"):
            session.step(np.where(X[1, 0] < 2, value, 0))
    assert all(np.array_equal(a, good.arrays[key]) for key, a in session.state().arrays.items())
    assert session.state().step == 1


@pytest.mark.parametrize("name", BACKENDS)
def test_what_a_session_gave_stays(name: str) -> None:
    session = opened(name)
    outputs = [session.step(x)[OUT] for x in X[:6]]
    state, copies = session.state(), [x.copy() for x in outputs]
    arrays = {key: a.copy() for key, a in state.arrays.items()}
    for x in X[6:]:
        session.step(x)[OUT][:] = 1  # the caller's
    session.run(X)
    assert all(np.array_equal(a, b) for a, b in zip(outputs, copies, strict=True))
    assert all(np.array_equal(a, state.arrays[key]) for key, a in arrays.items())
    assert not any(a.flags.writeable for a in state.arrays.values())
    session.resume(state)
    again = nb.simulate(session.model, X, drain=False, backend="auto" if name in MODELS else name)
    assert np.array_equal(np.stack([session.step(x)[OUT] for x in X[6:]]), again[OUT][6:])


def test_of_several_inputs_those_are_named_that_do_not_fit() -> None:
    ports = [SimpleNamespace(name="a", shape=(2,)), SimpleNamespace(name="b", shape=())]
    values, size = read_step(ports, {"a": np.ones((3, 2)), "b": [1, 0, 1]}, None)
    assert (size, values["b"].tolist()) == (3, [1, 0, 1])
    limit = "one time step takes numbers of shape"
    for inputs, batch, problems in (
        ({"a": np.ones((3, 2)), "b": "x"}, None, [f"'b': of type <U1, {limit} [] or [batch]"]),
        ({"a": np.ones((3, 2)), "b": [1, 2]}, 3, [f"'b': an array of shape (2,), {limit} [3]"]),
        (
            {"a": np.ones((3, 2)), "b": 1},
            None,
            [f"'a': an array of shape (3, 2), {limit} [2] or [batch, 2]", f"'b': an array of shape (), {limit} [] or"],
        ),
    ):
        with pytest.raises(UsageError) as error:
            read_step(ports, inputs, batch)
        assert len(error.value.problems) == len(problems)
        assert all(str(p).startswith(f"input {text}") for p, text in zip(error.value.problems, problems, strict=True))


def test_every_input_may_be_a_tensor_or_a_list() -> None:
    session = opened("numpy")
    torch = pytest.importorskip("torch", reason="an optional framework")
    as_tensor = session.step(torch.tensor(X[0, 0], dtype=torch.float32, requires_grad=True))
    session.reset()
    assert np.array_equal(session.step(X[0, 0].tolist())[OUT], as_tensor[OUT])


def test_events_of_several_time_steps_are_no_batch() -> None:
    session, events = opened("numpy"), nb.read_events({"x": [0, 3], "t": [0, 10**6]}, NETWORK, bin=0.5)
    for inputs in (events, {NETWORK.inputs[0].name: events}):
        with pytest.raises(UsageError, match="^input: events of 3 time steps, .* takes one; give them to run"):
            session.step(inputs)
    assert session.run(events)[OUT].shape == (3, 2)


# -- programs --------------------------------------------------------------------------------------------------------


def test_an_emitted_program_is_opened_in_memory_or_in_its_folder(tmp_path: Path) -> None:
    need_tool("c")
    artifact = nb.emit(INTEGERS, "c")
    artifact.save(tmp_path / "program")
    expected = nb.simulate(INTEGERS, X, drain=False)
    for program in (artifact, tmp_path / "program", str(tmp_path / "program")):
        session = nb.open(program)
        assert (session.backend, session.why, session.model) == ("c", "that of the program", None)
        assert equal(session.run(X), expected)
    with pytest.raises(UsageError, match="^backend 'fixed': does not apply here, the program is one of 'c'"):
        nb.open(artifact, backend="fixed")
    with pytest.raises(UsageError, match="^backend 'lava': keeps no state from one run to the next"):
        nb.open(nb.emit(INTEGERS, "lava"))


def test_events_are_binned_by_the_dt_of_a_program() -> None:
    need_tool("onnx")
    model = nb.quantize(network_of_shapes("2x4x4 conv2k3 lif"), "loihi2")
    events = np.zeros(3, [("x", "u2"), ("y", "u2"), ("t", "u8"), ("p", "u1")])
    events["t"] = 0, 3_500, 7_200
    found, expected = (nb.open(each).run(events) for each in (nb.emit(model, "onnx"), model))
    assert found.meta["reading"] == expected.meta["reading"] != ""
    assert equal(found, expected)
    assert found.meta["steps"] == 8


def test_a_program_whose_files_do_not_belong_together_is_refused(tmp_path: Path) -> None:
    need_tool("c")
    files = dict(nb.emit(INTEGERS, "c").files)
    other = nb.emit(nb.quantize(network_of_shapes("4 dense6 lif dense2 lif"), "loihi2"), "c").files
    mixed = make_artifact({**files, "network.q.npz": other["network.q.npz"]}, {"kind": "c", "options": {}})
    with pytest.raises(ModelError, match=r"^program: its field p0_v has 12 bytes, network\.q\.npz needs 24 bytes"):
        nb.open(mixed)
    del files["network.q.npz"]
    with pytest.raises(ModelError, match=r"^program: has no file network\.q\.npz"):
        nb.open(make_artifact(files, {"kind": "c", "options": {}}))
    with pytest.raises(ModelError, match=r"^program: has no hops, sessions of C run a chip's integers"):
        nb.open(nb.emit(INTEGERS, "c", options=COptions(hops=False)))
    with pytest.raises(ModelError, match=r"^program: computes in float32, sessions of C run a chip's integers"):
        nb.open(nb.emit(NETWORK, "c", options=COptions(dtype="float32")))
    hostile = make_artifact(dict(nb.emit(INTEGERS, "c").files), {"kind": "c", "options": {"prefix": "x; system(1)"}})
    with pytest.raises(UsageError, match="^options of emitter 'c': prefix 'x; system"):
        nb.open(hostile)


# -- preparation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "place"), [("fixed", "fixed.simulate.population_groups"), ("mapped", "mapped.simulate.load_board")]
)
def test_a_model_in_integers_is_prepared_once(name: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, calls = replace(MODELS[name]), list[int]()
    module, _, attribute = f"nirbridge.simulators.{place}".rpartition(".")
    real = getattr(import_module(module), attribute)

    def counted(*args: Any) -> Any:
        calls.append(1)
        return real(*args)

    monkeypatch.setattr(f"{module}.{attribute}", counted)
    runs = [nb.simulate(model, X) for _ in range(3)]
    assert equal(runs[0], runs[2])
    nb.open(model).run(X)
    assert len(calls) == 1
    nb.simulate(replace(model), X)
    assert len(calls) == 2


# -- states ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BACKENDS)
def test_a_saved_state_goes_on_in_another_session(name: str, tmp_path: Path) -> None:
    session, path = opened(name), tmp_path / "state.npz"
    whole = session.run(X)[OUT]
    session.reset()
    session.run(X[:7])
    session.save(path)
    data = path.read_bytes()
    session.save(path)
    assert path.read_bytes() == data
    for other in BACKENDS:
        if (other in MODELS) == (name in MODELS):
            later = opened(other)
            later.resume(path)
            assert np.array_equal(later.run(X[7:])[OUT], whole[7:]), other


@pytest.mark.parametrize("name", ["fixed", "onnx"])
def test_a_state_of_something_else_is_refused(name: str, tmp_path: Path) -> None:
    session, path = opened(name, batch=5), tmp_path / "state.npz"
    session.run(X)
    session.save(path)
    good = session.state()
    cells = INTEGERS.populations[0]
    longer = replace(cells, neuron=replace(cells.neuron, dv=freeze(np.int64(7))))
    other = nb.open(replace(INTEGERS, populations=(longer, *INTEGERS.populations[1:])), backend=name)
    with pytest.raises(FileError, match=r"^file 'state\.npz': is a state of another model"):
        other.resume(path)
    with pytest.raises(FileError, match=r"^file 'state\.npz': is a state of another model"):
        opened("numpy").resume(path)
    with pytest.raises(UsageError, match="of 5 samples, this session has 2"):
        opened("fixed", batch=2).resume(path)
    with pytest.raises(UsageError, match="^state, "):
        opened("numpy").resume(good)
    with pytest.raises(UsageError, match="Session.resume"):
        session.resume(12)  # type: ignore[arg-type]
    with pytest.raises(FileError, match="does not exist"):
        session.resume(tmp_path / "none.npz")
    with pytest.raises(FileError, match=r"^file '\.': is a folder"):
        session.save(".")
    nb.simulate(INTEGERS, X).save(tmp_path / "run.npz")
    with pytest.raises(FileError, match=r"^file 'run\.npz'"):
        session.resume(tmp_path / "run.npz")
    assert session.state() is good  # nothing of it was taken over


def changed(state: SimulationState, **parts: Any) -> SimulationState:
    name = INTEGERS.populations[0].name
    return replace(state, arrays={**state.arrays, **{(name, part): values for part, values in parts.items()}})


@pytest.mark.parametrize("name", ["fixed", "mapped", "c", "onnx"])
def test_values_that_no_run_reaches_are_refused(name: str, tmp_path: Path) -> None:
    session = opened(name)
    session.run(X)
    good = session.state()
    v, past = good.arrays[INTEGERS.populations[0].name, "v"], good.arrays[INTEGERS.populations[0].name, "past"]
    wrong = [
        changed(good, v=np.full_like(v, 2**40)),
        changed(good, v=v.astype(np.int32)),
        changed(good, v=v[:, :1]),
        changed(good, past=np.full_like(past, 2)),
        changed(good, past=past - 1),
        changed(good, past=past[:0]),
        changed(good, refractory=np.full_like(v, 10**6)),
        changed(good, w=v),
        replace(good, arrays={}),
        replace(good, arrays={key: a[:, :0] if key[1] == "past" else a[:0] for key, a in good.arrays.items()}),
        replace(good, step=-1),
        replace(good, step=2**70),
    ]
    no_arrays = [changed(good, v=v.tolist()), changed(good, v=None), replace(good, arrays={**good.arrays, 3: v})]
    for state in no_arrays:
        with pytest.raises(UsageError, match="^state"):
            session.resume(state)
    for at, state in enumerate(wrong):
        with pytest.raises(UsageError, match="^state"):
            session.resume(state)
        if state.step < 2**63 and all(a.dtype.str == "<i8" for a in state.arrays.values()):
            write_state(tmp_path / f"{at}.npz", state, INTEGERS)
            with pytest.raises(UsageError, match="^state"):
                session.resume(tmp_path / f"{at}.npz")
    assert session.state() is good


def test_a_state_that_no_run_of_reals_reaches_is_refused() -> None:
    session = opened("numpy")
    session.run(X)
    good, key = session.state(), (NETWORK.populations[0].name, "refractory")
    for value in (-1, 1):
        with pytest.raises(UsageError, match=f"^state, 'refractory' of .*: {value}, runs of this network have 0 to 0;"):
            session.resume(replace(good, arrays={**good.arrays, key: good.arrays[key] + value}))
    key = (NETWORK.populations[0].name, "v")
    for value in (np.nan, np.inf):
        with pytest.raises(UsageError, match="^state, 'v' of .*: has NaN or infinity, states are finite numbers;"):
            session.resume(replace(good, arrays={**good.arrays, key: np.full_like(good.arrays[key], value)}))
    assert session.state() is good


@pytest.mark.parametrize("name", ["numpy", "fixed"])
def test_a_state_is_a_constant_that_may_be_sent_to_another_process(name: str) -> None:
    session = opened(name)
    session.run(X)
    state = session.state()
    session.resume(pickle.loads(pickle.dumps(state)))
    assert all(np.array_equal(a, state.arrays[key]) for key, a in session.state().arrays.items())
    with pytest.raises(AttributeError):
        state.arrays.clear()  # type: ignore[attr-defined]
    for wrong in ({"step": 1.5}, {"arrays": None}):
        with pytest.raises(UsageError, match=r"^(step|arrays) of a state: is of type"):
            replace(state, **wrong)  # type: ignore[arg-type]


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    session, path = opened("fixed"), tmp_path / "state.npz"
    session.run(X)
    session.save(path)
    data, good = path.read_bytes(), session.state()
    rng = np.random.default_rng(0)
    for at in rng.integers(0, len(data), 60):
        path.write_bytes(data[:at])
        with pytest.raises(FileError, match=r"^file 'state\.npz'"):
            session.resume(path)
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << int(rng.integers(8)))]) + data[at + 1 :])
        try:
            session.resume(path)  # a bit of the archive that says nothing of the content
        except FileError:
            continue
        assert all(np.array_equal(a, session.state().arrays[key]) for key, a in good.arrays.items())
    record = {"step": 3, "parts": [["a", "v"]], "model": ""}
    array = {"0": np.zeros((1, 3), np.int64)}
    wrong: list[tuple[Any, Any]] = [
        ({**record, "step": 1.5}, array),
        ({**record, "parts": [["a"]]}, array),
        ({**record, "parts": [["a", "v"], ["a", "v"]]}, {**array, "1": array["0"]}),
        ({**record, "parts": "av"}, array),
        (record, {}),
        (record, {**array, "1": array["0"]}),
        (record, {"0": np.zeros((1, 3), np.float16)}),
        ({"step": 3, "model": ""}, array),
    ]
    for content, arrays in wrong:
        write_record(path, FORMAT, content, arrays)
        with pytest.raises(FileError, match=r"^file 'state\.npz'"):
            session.resume(path)
    write_record(path, FORMAT, record, {"0": np.zeros(10**6, np.int64)})  # 8 kB that declare 8 MB
    with pytest.raises(FileError, match="8,000,000 bytes"):
        read_state(path, INTEGERS, max_bytes=10**6)


def test_a_block_ends_with_the_run() -> None:
    with opened("fixed") as session:
        session.run(X)
        state = session.state()
    for call in (lambda: session.step(X[0]), lambda: session.run(X), session.state, lambda: session.resume(state)):
        with pytest.raises(UsageError, match="^session: is closed, its block has ended; open the model again"):
            call()

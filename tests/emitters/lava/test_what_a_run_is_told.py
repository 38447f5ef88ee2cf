"""Inputs, time steps, limits, end and log of a Lava run; no process is started."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nirbridge.emitters.artifact import MANIFEST, make_artifact, npz_bytes
from nirbridge.emitters.lava.plan.model import LavaLayer, LavaPlan, LavaSynapse
from nirbridge.emitters.lava.runtime import run
from nirbridge.emitters.program import InputSpec
from nirbridge.errors import FileError, NirbridgeError, UsageError

ONE = {"inputs": [{"name": "in", "id": "input0", "shape": [3]}]}
TWO = {"inputs": [*ONE["inputs"], {"name": "b", "id": "input1", "shape": [2, 2]}]}


def refused(kind: type[NirbridgeError], call: Any, *args: Any) -> str:
    with pytest.raises(kind) as caught:
        call(*args)
    return str(caught.value)


def test_the_limit_of_a_run_counts_its_start_its_processes_and_its_steps() -> None:
    assert run.RunLimits().seconds(7, 11) == 120 + 2 * 11 + 5 * 7
    assert run.RunLimits(1.0, 0.5, 0.25).seconds(8, 4) == 5.0
    assert run.RunLimits().quiet_s == 180.0


def test_processes_of_a_run_are_counted_with_the_recorder() -> None:
    used, unused = (InputSpec(name, (3,), name, 1, 1.0) for name in ("input0", "input1"))
    synapse = LavaSynapse("synapse0", "Dense", "input0", "layer0", {})
    layers = (LavaLayer("layer0", "LIF", (3,), {}),) * 3
    own = LavaPlan("c", 1e-3, "fixed_pt", layers, (synapse,) * 5, (used, unused), (), (), {})
    assert own.sources == (used,)
    assert own.processes == 1 + 3 + 5 + 1


def test_arrays_of_inputs_by_identifier() -> None:
    arrays, steps, samples = run.opened_inputs([[1, 2, 3]], ONE, None)
    assert ({key: a.tolist() for key, a in arrays.items()}, steps, samples) == ({"input0": [[1, 2, 3]]}, 1, 1)
    arrays, steps, samples = run.opened_inputs({"b": np.ones((4, 5, 2, 2)), "in": np.zeros((4, 5, 3))}, TWO, 6)
    assert {key: a.shape for key, a in arrays.items()} == {"input0": (6, 5, 3), "input1": (6, 5, 2, 2)}
    assert (arrays["input1"].sum(), steps, samples) == (4 * 5 * 4, 6, 5)
    assert run.opened_inputs({}, {"inputs": []}, 7) == ({}, 7, 1)
    streamed = run.opened_inputs(lambda start, stop: np.ones((stop - start, 2, 3)), ONE, 3)
    assert (streamed[0]["input0"].shape, streamed[1:]) == ((3, 2, 3), (3, 2))


@pytest.mark.parametrize(
    ("inputs", "program", "steps", "message"),
    [
        (np.ones(3), TWO, None, "inputs: one array, the network has 2 inputs; give each by name: 'in', 'b'"),
        ({"in": np.ones((1, 3))}, TWO, None, "input 'b': is missing; give an array for it"),
        ({"x": 1}, {"inputs": []}, 1, "input 'x': the network has no input of that name; inputs: "),
        (
            {"in": np.ones(3)},
            ONE,
            None,
            "input 'in': an array of shape (3,), it takes [steps, 3] or [steps, batch, 3]; "
            "add an axis of time steps, as x[None]",
        ),
        ({}, {"inputs": []}, None, "steps: are not given, no input is an array with a length; give steps"),
        (np.zeros((0, 3)), ONE, None, "steps: 0, at least 1; give more"),
        (np.zeros((4, 3)), ONE, -1, "steps: -1, at least 1; give more"),
    ],
)
def test_inputs_and_steps_that_a_program_does_not_take(inputs: Any, program: Any, steps: Any, message: str) -> None:
    assert refused(UsageError, run.opened_inputs, inputs, program, steps) == message


# -- the end of a run --------------------------------------------------------------------------------------------------


def judged(folder: Path, why: str, code: int | None, log: str | None = "", result: bool = False) -> tuple[str, Any]:
    """Kind and message of the error of a run that ended so; ("", None) where it went well."""
    for name, text in (("log", log), ("out.npz", "" if result else None)):
        (folder / name).unlink(missing_ok=True)
        if text is not None:
            (folder / name).write_text(text)
    try:
        run.judge(Path("/x/program"), {"why": why, "code": code}, folder, 12.4, 7.6)
    except NirbridgeError as error:
        return type(error).__name__, str(error)
    return "", None


P = "program 'program': "
QUIET = "made no progress for 8 s and was killed"


@pytest.mark.parametrize(
    ("why", "code", "log", "result", "end"),
    [
        ("ended", 0, "x", True, ("", None)),
        ("ended", 0, "", False, ("ModelError", P + "failed with exit code 0; it wrote no log")),
        ("ended", 0, None, False, ("ModelError", P + "failed with exit code 0; it wrote no log")),
        ("ended", 1, "a\nb", True, ("ModelError", P + "failed with exit code 1; its log ends with:\na\nb")),
        ("ended", 2, "a", True, ("ModelError", P + "failed with exit code 2; its log ends with:\na")),
        ("ended", 2, "a error: b\nerror: bad \n", True, ("UsageError", P + "bad; see its README.md")),
        ("ended", 1, "error: b", True, ("ModelError", P + "failed with exit code 1; its log ends with:\nerror: b")),
        ("quiet", 2, "error: b", True, ("ModelError", P + QUIET + "; its log ends with:\nerror: b")),
        ("quiet", 0, "", True, ("ModelError", P + QUIET + "; it wrote no log")),
        ("seconds", None, "", True, ("ModelError", P + "did not end within 12 s and was killed; it wrote no log")),
        ("guard", None, "", False, ("ModelError", P + "was killed together with its guard; it wrote no log")),
    ],
)  # fmt: skip
def test_how_a_run_ended(why: str, code: int, log: str, result: bool, end: Any, tmp_path: Path) -> None:
    assert judged(tmp_path, why, code, log, result) == end


def test_the_error_of_a_run_has_its_log_and_its_reason(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("error: b")
    for why, code, ids in (("quiet", 1, {"log": "error: b", "why": "quiet"}), ("ended", 2, {"log": "error: b"})):
        with pytest.raises(NirbridgeError) as caught:
            run.judge(Path("p"), {"why": why, "code": code}, tmp_path, 1.0, 1.0)
        assert dict(caught.value.problems[0].ids) == ids


def test_a_log_is_its_last_6000_bytes_and_only_what_prints(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert run.log_text(path) == ""
    path.write_bytes(b" a\x1b[1m\tb\xff\n\nc \n")
    assert run.log_text(path) == "a?[1m?b\ufffd\n\nc"
    for size in (5999, 6000, 6001):
        path.write_bytes(b"x" + b"y" * (size - 1))
        assert run.log_text(path) == ("y" * 6000 if size > 6000 else "x" + "y" * (size - 1))


# -- a program on disk -------------------------------------------------------------------------------------------------

GOOD = {
    "processes": 5,
    "inputs": [{"name": "in", "id": "input0", "shape": [3, 0]}, {"name": "", "id": "", "shape": []}],
}


def ports(**changes: Any) -> dict[str, Any]:
    return GOOD | {"inputs": [GOOD["inputs"][0], GOOD["inputs"][0] | changes]}  # type: ignore[index]


@pytest.mark.parametrize(
    ("program", "good"),
    [
        (GOOD, True),
        (GOOD | {"inputs": []}, True),
        (GOOD | {"processes": 0}, True),
        (GOOD | {"processes": 10**7}, True),
        (GOOD | {"processes": 10**7 + 1}, False),
        (GOOD | {"processes": -1}, False),
        (GOOD | {"processes": True}, False),
        (GOOD | {"processes": 1.0}, False),
        (GOOD | {"inputs": {}}, False),
        (ports(), True),
        (ports(name=1), False),
        (ports(id=None), False),
        (ports(shape=(3,)), False),
        (ports(shape=[3, 2**31]), True),
        (ports(shape=[3, 2**31 + 1]), False),
        (ports(shape=[2**31 + 1, 3]), False),
        (ports(shape=[3, -1]), False),
        (GOOD | {"inputs": [GOOD["inputs"][0], []]}, False),  # type: ignore[index]
        ([], False),
        (None, False),
    ],
)
def test_what_is_read_of_a_program_has_its_types_and_sizes(program: Any, good: bool) -> None:
    assert run._is_program(program) is good


def test_a_program_is_a_folder_of_ours_for_lava(tmp_path: Path) -> None:
    made = make_artifact({"program.json": json.dumps(GOOD).encode()}, {"kind": "lava"})
    assert run._program(made) == GOOD
    folder = tmp_path / "p"
    folder.mkdir()
    none = "folder 'p': is not a program of nirbridge; make one with nirbridge emit"
    damaged = "folder 'p': its program.json is damaged; make it again with nirbridge emit --to lava"
    for manifest, program, message in (
        (None, None, none),
        ('{"kind": "lava"}', None, none),
        ("{", json.dumps(GOOD), none),
        ("[" * 10**5, json.dumps(GOOD), none),
        ('{"kind": "lava"}', "{", none),
        ('["lava"]', json.dumps(GOOD), "folder 'p': is not a Lava program; make one with nirbridge emit --to lava"),
        ("{}", json.dumps(GOOD), "folder 'p': is not a Lava program; make one with nirbridge emit --to lava"),
        ('{"kind": "lava"}', "{}", damaged),
    ):  # fmt: skip
        for name, text in ((MANIFEST, manifest), ("program.json", program)):
            if text is not None:
                (folder / name).write_text(text)
        assert refused(FileError, run._program, folder) == message
    (folder / "program.json").write_text(json.dumps(GOOD))
    assert run._program(str(folder)) == GOOD


def test_a_program_in_memory_is_written_beside_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_artifact({"a.txt": b"1"}, {})
    assert run._written(made, tmp_path) == tmp_path / "program"
    assert sorted(p.name for p in (tmp_path / "program").iterdir()) == ["a.txt", "manifest.json"]
    monkeypatch.chdir(tmp_path)
    assert run._written("program", tmp_path / "x") == tmp_path / "program"


def test_a_run_is_started_with_its_input_its_records_and_its_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line of the program, and the longest time: of two samples, twice the steps and the processes."""
    from contextlib import contextmanager

    told: list[Any] = []

    @contextmanager
    def guarded() -> Any:
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        yield "guard", tmp_path

    def supervised(*args: Any) -> dict[str, Any]:
        told.extend(args)
        (tmp_path / "out.npz").write_bytes(npz_bytes({"meta": np.array('{"schema": 1}'), "a/s": np.ones(1)}))
        return {"why": "ended", "code": 0}

    monkeypatch.setattr(run, "start_guard", guarded)
    monkeypatch.setattr(run, "run_supervised", supervised)
    monkeypatch.setattr(run, "sweep_shared", lambda: told.append("swept"))
    made = make_artifact({"program.json": json.dumps({"processes": 5, **ONE}).encode()}, {"kind": "lava"})
    limits = run.RunLimits(1, 10, 100, 33)
    for inputs, samples in ((np.ones((4, 3)), 1), (np.ones((4, 2, 3)), 2)):
        told.clear()
        ran = run.run_program(made, inputs, record=["a:s"], python="py", limits=limits, progress=print)
        assert set(ran.arrays) == {("a", "s")}
        end = ["--scratch", str(tmp_path), "--steps", "4", "--records", f"{tmp_path}/records.json"]
        line = ["py", f"{tmp_path}/program/run.py", "--input", f"{tmp_path}/in.npz", "-o", f"{tmp_path}/out.npz", *end]
        assert told == ["swept", "guard", line, tmp_path, 1 + 50 * samples + 400 * samples, 33, 4, print]
        assert json.loads((tmp_path / "records.json").read_text()) == ["a:s"]
        with np.load(tmp_path / "in.npz") as file:
            assert {name: file[name].shape for name in file} == {"input0": inputs.shape}
    monkeypatch.setattr(run, "find_python", lambda: Path("found"))
    told.clear()
    run.run_program(made, np.ones((4, 3)))
    assert (told[2][0], told[4], told[5], told[7]) == ("found", 120 + 2 * 5 + 5 * 4, 180, None)
    assert json.loads((tmp_path / "records.json").read_text()) == []

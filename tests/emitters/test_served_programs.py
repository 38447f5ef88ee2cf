"""Programs in a process that stays open: states, long messages, errors, and every end of the process."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path

import numpy as np
import pytest

from nirbridge.emitters.lava.runtime.run import RunLimits
from nirbridge.emitters.served_programs import ServedProgram
from nirbridge.errors import ModelError

SERVED = b"""
import os
import sys
import time

class State:
    alive = 0
    def __init__(self, v):
        State.alive, self.v = State.alive + 1, v
    def __del__(self):
        State.alive -= 1

def enter(arrays, batch):
    return State(arrays["v"])

def leave(state):
    return {"v": state.v, "alive": [State.alive]}

def advance(state, values, names, steps):
    if names == ["late"]:
        time.sleep(60)
    if names[:1] == ["forged"]:
        os.write(int(sys.argv[1]), bytes.fromhex(names[1]))
    sums = state.v + values["in0"].cumsum(0)
    return {"out0": sums, **{name: sums[:, 0] > 0 for name in names}}, State(sums[steps - 1])
"""


def opened(start_s: float = 60.0) -> ServedProgram:
    return ServedProgram({"served.py": SERVED}, RunLimits(start_s, 0.0, 0.0), "a tool")


def processes(text: str) -> list[int]:
    """Processes whose command has the text."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found += [int(folder.name)] if text in (folder / "cmdline").read_bytes().decode() else []
        except OSError:
            continue
    return found


def test_states_are_values_and_are_dropped_in_the_process() -> None:
    program = opened()
    start, x = program.enter({"v": np.arange(3)}, 1), np.ones((2, 1, 3), np.int64)
    found, state = {}, start
    for _ in range(5):
        found, state = program.advance(state, {"in0": x}, (), 2)
    assert found["out0"].tolist() == [[[9, 10, 11]], [[10, 11, 12]]]
    assert program.leave(start)["v"].tolist() == [0, 1, 2]
    left = program.leave(state)
    assert (left["v"].tolist(), left["alive"].tolist()) == ([[10, 11, 12]], [2])


def test_arrays_of_any_size_and_other_ones_in_the_next_message() -> None:
    program, rng = opened(), np.random.default_rng(0)
    state = program.enter({"v": np.zeros(5)}, 1)
    for steps, names in ((1, ()), (200_000, ("p0.s", "p1.s")), (1, ()), (1, ())):
        x = rng.normal(size=(steps, 2, 5))
        found, _ = program.advance(state, {"in0": x}, names, steps)
        assert np.array_equal(found["out0"], x.cumsum(0))
        assert [found[name].dtype for name in names] == [bool] * len(names)


def test_an_error_of_a_call_leaves_the_states() -> None:
    program = opened()
    state = program.enter({"v": np.zeros(3)}, 1)
    with pytest.raises(ModelError, match=r"(?s)^program: failed in a tool:\nTraceback .*KeyError: 'in0'"):
        program.advance(state, {}, (), 1)
    assert program.leave(state)["alive"].tolist() == [1]


def test_the_process_ends_with_the_session() -> None:
    program = opened()
    scratch = program._scratch
    assert processes(f"{scratch}/program/serve.py")
    del program
    gc.collect()
    assert not scratch.exists()
    assert not processes(f"{scratch}/program/serve.py")


@pytest.mark.parametrize("way", ["killed", "late"])
def test_a_process_that_ends_is_one_error(way: str) -> None:
    program = opened()
    how = "gave no answer within 1 s and was ended" if way == "late" else "ended"
    state = program.enter({"v": np.zeros(3)}, 1)
    program._limits = RunLimits(1.0, 0.0, 0.0)
    (served,) = processes(f"{program._scratch}/program/serve.py")
    if way == "killed":
        os.kill(served, 9)
    start = time.monotonic()
    with pytest.raises(ModelError, match=f"^program: its process in a tool {how}; it wrote no log; open it again$"):
        program.advance(state, {"in0": np.zeros((1, 3))}, (way,), 1)
    with pytest.raises(ModelError, match="^program: its process in a tool ended; it wrote no log; open it again$"):
        program.leave(state)
    assert time.monotonic() - start < 10
    assert not program._scratch.exists()


def test_an_interrupted_call_has_no_answer_later(monkeypatch: pytest.MonkeyPatch) -> None:
    program = opened()
    state = program.enter({"v": np.zeros(3)}, 1)

    def interrupted() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(program._link, "receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            program.leave(state)
    with pytest.raises(ModelError, match="ended; it wrote no log; open it again$"):
        program.advance(state, {"in0": np.zeros((1, 3))}, (), 1)


@pytest.mark.parametrize("sent", ["ff" * 16, "0300000000000000" + "00" * 8 + "7b7b7b", "01" + "00" * 15 + "35"])
def test_an_answer_that_is_none_ends_the_process(sent: str) -> None:
    program = opened()
    start = program.enter({"v": np.arange(3)}, 1)
    with pytest.raises(ModelError, match="gave an answer that is none"):
        program.advance(start, {"in0": np.ones((1, 1, 3), np.int64)}, ["forged", sent], 1)

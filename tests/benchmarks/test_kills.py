"""Killed commands leave no half-written files; ``benchmarks/kills.py`` runs hundreds of trials."""

from __future__ import annotations

import pytest

from benchmarks import kills
from tests.cases import cases


def test_trials_depend_on_the_seed_alone() -> None:
    a, b, c = (list(kills.trials(42, seed, ("map", "run"))) for seed in (1, 1, 2))
    assert a == b != c
    assert {(t.command, t.signal) for t in a} == {(n, s) for n in ("map", "run") for s in kills.SIGNALS}


def test_some_kills_leave_nothing() -> None:
    outcomes = kills.campaign(cases(3, 6), seed=3, names=("quantize", "emit"))
    assert [(o.trial, o.faults) for o in outcomes if o.faults] == []
    assert any(o.code for o in outcomes), "all were done before they were killed"


@pytest.mark.slow
def test_kills_of_every_command_leave_nothing() -> None:
    outcomes = kills.campaign(70, seed=4)
    assert [(o.trial, o.faults) for o in outcomes if o.faults] == []
    assert {o.trial.command for o in outcomes} == set(kills.COMMANDS)


def test_a_program_that_keeps_no_promise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The campaign itself: a command that writes half a file, ignores signals and leaves files has every fault."""
    bad = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "open('out.q.npz', 'w').write('half')\n"
        "open(os.environ['TMPDIR'] + '/left', 'w')\n"
        "open('cnn.nir', 'a').write('x')\n"
        "print('Traceback', flush=True)\n"
        "time.sleep(60)\n"
    )
    monkeypatch.setattr(kills, "SIGNALS", kills.SIGNALS[1:2])
    monkeypatch.setattr(kills, "HANG_SECONDS", 1.0)
    place = kills.Place
    monkeypatch.setattr(kills, "measured", lambda base, names: place(*_prepared(base)))
    monkeypatch.setattr(kills, "ENTRY", bad)
    monkeypatch.setattr(
        kills,
        "_sweeps",
        lambda trial, folder, temporary, pid, outcome: outcome.faults.extend(
            kills._left(trial, folder, temporary, pid)
        ),
    )
    (outcome,) = kills.campaign(1, names=("quantize",), signals=kills.SIGNALS)
    said = "\n".join(outcome.faults)
    for fault in ("hung over 1 s", "Traceback", "exit code -9", "inputs changed: cnn.nir", "out.q.npz is half", "left"):
        assert fault in said, fault


def _prepared(base):
    inputs = base / "inputs"
    inputs.mkdir()
    (inputs / "cnn.nir").write_bytes(b"model")
    return inputs, kills.content(inputs), {"quantize": {"out.q.npz": {".": "whole"}}}, {"quantize": 3.0}

"""The bound on a population's spikes per time step, used in the overflow proof, against hand counts."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

room = importlib.import_module("nirbridge.quantization.quantize")  # the room has a function of that name
DECLARED = 10**6
REACH = 3.0
"""The most that arrives in a step."""


def most(monkeypatch: pytest.MonkeyPatch, declared: int = DECLARED, **changed: Any) -> int:
    monkeypatch.setattr(room, "input_range", lambda incoming, size: SimpleNamespace(high=REACH, low=-100.0))
    fields = {
        "reset": "to-value", "reset_amount": np.array([1.0, 2.0]), "theta": np.array([1.0, 2.0]),
        "a_syn": np.array([0.0, 0.5]), "bias": np.array([0.5, 2.5]), "v_start": np.array([0.0, 0.25]),
        "v_min": None,
    } | changed  # fmt: skip
    neuron = SimpleNamespace(reset=fields.pop("reset"), reset_amount=fields.pop("reset_amount"))
    folded: Any = SimpleNamespace(neuron=neuron, population=SimpleNamespace(size=2), **fields)
    return room._most_spikes(folded, [], declared)


def test_membrane_and_drive_over_the_least_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    carried, drive = 2.0, REACH / 0.5 + 2.5
    assert most(monkeypatch) == int(1.05 * (carried + drive) / 1.0) + 2 == 13
    assert most(monkeypatch, v_start=np.array([0.0, 40.0])) == int(1.05 * (40 + drive)) + 2 == 52
    assert most(monkeypatch, v_min=np.array(40.0)) == 52
    assert most(monkeypatch, v_min=np.array([-9.0, 1.0])) == 13
    assert most(monkeypatch, theta=np.array([3.0, 2.0]), reset_amount=np.full(2, 9.0)) == int(1.05 * 11.5 / 2) + 2 == 8


def test_a_current_that_never_fades_counts_as_one_of_4096_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    assert most(monkeypatch, a_syn=np.array([1.0, 0.0])) == int(1.05 * (2.0 + REACH * 4096 + 2.5)) + 2 == 12909


def test_never_more_than_declared_and_never_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [most(monkeypatch, declared) for declared in (1, 12, 13, 14)] == [1, 12, 13, 13]
    low = {"a_syn": np.zeros(2), "bias": np.full(2, -100.0)}
    assert most(monkeypatch, **low) == 1


def test_resets_that_may_leave_a_membrane_above_its_threshold_keep_what_is_declared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for options in (
        {"theta": None},
        {"reset": "none"},
        {"reset": "subtract", "reset_amount": np.array([1.0, 1.5])},
        {"reset": "subtract", "reset_amount": np.array([0.5, 2.0])},
    ):
        assert most(monkeypatch, **options) == DECLARED
    assert most(monkeypatch, reset="subtract") == 13
    assert most(monkeypatch, reset="to-value", reset_amount=np.zeros(2)) == 13

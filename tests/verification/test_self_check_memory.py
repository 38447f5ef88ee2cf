"""The self-check respects its memory limit: fewer time steps and samples, or a reason why it does not run."""

from __future__ import annotations

import json
from typing import Any

import pytest

torch = pytest.importorskip("torch")
snn = pytest.importorskip("snntorch")
from torch import nn  # noqa: E402

from nirbridge.importers import from_snntorch  # noqa: E402
from nirbridge.importers.tracing import memory  # noqa: E402
from nirbridge.network import from_nir  # noqa: E402
from nirbridge.verification import self_check as checks  # noqa: E402
from nirbridge.verification.module_facts import PARAMETER_BYTES, VALUE_BYTES, trial_bytes  # noqa: E402
from nirbridge.verification.sample_axes import EFFORTS, trial_readings  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::nirbridge.errors.ExportWarning")
VALUES = 16 + 4 + 12 + 4
"""Neurons, inputs and outputs."""
PARAMETERS = 12 * 16 + 16 + 16 * 4 + 4


def net() -> Any:
    torch.manual_seed(0)
    neuron = {"beta": 0.9, "init_hidden": True}
    return nn.Sequential(nn.Linear(12, 16), snn.Leaky(**neuron), nn.Linear(16, 4), snn.Leaky(**neuron))


def outcome(check: int | None = None) -> dict[str, Any]:
    graph = from_snntorch(net(), torch.zeros(12), check=check)
    return json.loads(graph.metadata["nirbridge:self_check"])


def size(effort: int) -> int:
    return PARAMETER_BYTES * PARAMETERS + VALUE_BYTES * VALUES * EFFORTS[effort].steps * EFFORTS[effort].batch


def test_bytes_by_hand() -> None:
    module = net()
    network = from_nir(from_snntorch(module, torch.zeros(12), check=0))
    assert trial_bytes(network, module, 7, 3) == PARAMETER_BYTES * PARAMETERS + VALUE_BYTES * VALUES * 21


@pytest.mark.parametrize("effort", range(len(EFFORTS)))
def test_the_most_thorough_effort_that_fits_is_taken(effort: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "ROOM", size(effort))
    found = outcome()
    assert found["outputs"] == 3 * EFFORTS[effort].steps * EFFORTS[effort].batch * 4
    monkeypatch.setattr(checks, "ROOM", size(effort) - 1)
    if effort + 1 < len(EFFORTS):
        assert outcome()["outputs"] == 3 * EFFORTS[effort + 1].steps * EFFORTS[effort + 1].batch * 4
    else:
        assert outcome()["outcome"] == "reduced"


@pytest.mark.parametrize("check", [None, 1])
def test_what_does_not_fit_is_said_with_a_way_out(check: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "ROOM", 1000)  # sampled neurons take more, too
    assert outcome(check)["text"] == (
        f"skipped: the check would take about {size(2):,} bytes of memory, it may take 1,000; "
        f"set NIRBRIDGE_RECORDING_BYTES={size(2)} for more"
    )
    monkeypatch.setenv(memory.VARIABLE, str(size(2)))
    assert outcome(check)["outcome"] == "identical"


def test_readings_with_more_time_steps_are_left_out_where_they_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Any] = []
    really = checks.outcome_of
    monkeypatch.setattr(
        checks, "outcome_of", lambda t, options, *rest: (tried.extend(options), really(t, options, *rest))[1]
    )
    assert outcome()["outcome"] == "identical"
    assert tried == trial_readings([(12,)], [(12,)], EFFORTS[0])
    whole = len(tried)
    tried.clear()
    monkeypatch.setattr(checks, "ROOM", size(0))
    assert outcome()["outcome"] == "identical"
    assert {r.steps for r in tried} == {EFFORTS[0].steps}
    assert 0 < len(tried) < whole

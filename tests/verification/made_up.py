"""Trials of the self-check with artificial runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from nirbridge.network.model import Network, Population, Port, Timing
from nirbridge.network.neurons import neuron
from nirbridge.verification.original_runs import NeuronObservation, OriginalRun
from nirbridge.verification.sample_axes import TrialReading
from nirbridge.verification.trials import STEPS, Trial, Trials
from nirbridge.verification.verdicts import ValueDifference, Verdict

TIMING = Timing(1e-4, "euler", "subtract", ">", "per-second")
READING = TrialReading(None, 0, ((3,),), 32, 4, is_stepwise=True)
WRONG = ValueDifference("output 'o'", 1, 0, (0,), "the module gives 1, the import 0")


def network(firing: str = "ab") -> Network:
    cells = [Population(n, (3,), neuron("IF", theta=1.0 if n in firing else None)) for n in "abm"]
    return Network(1e-4, TIMING, tuple(cells), (), (Port("in", (3,)),), (Port("o", (3,)),))


def trials(firing: str = "ab", **own: Any) -> Trials:
    made = Trials(network(firing), {}, [np.zeros(3)], lambda: None, [])
    for name, value in own.items():
        setattr(made, name, value)
    return made


def trial(
    *,
    equal: bool = True,
    populations: int = 1,
    overlap: float = 1.0,
    busy: int = 50,
    size: int = 100,
    form: str = STEPS,
) -> Trial:
    verdict = Verdict(8, 1.0, populations, overlap, busy, 0, 0, difference=None if equal else WRONG)
    return Trial(READING, form, verdict, size)


def recorded(returned: list[float], spikes: list[float], membranes: list[float | None]) -> OriginalRun:
    shown = [None if m is None else np.array(m) for m in membranes]
    probe = NeuronObservation(SimpleNamespace(), None, [np.array(s) for s in spikes], shown)  # type: ignore[arg-type]
    return OriginalRun([[("a", np.array(v))] for v in returned], {"p": probe})

"""The outcome of a self-check, from trials on random inputs, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nirbridge.errors import Diagnostic, UnequalImport
from nirbridge.verification.measured import Measurement
from nirbridge.verification.sample_axes import TrialReading
from nirbridge.verification.spike_differences import SpikeDifference, added, differences_text
from nirbridge.verification.trials import Trial, Trials

AFFORDABLE = 100_000_000
"""Multiplications of all runs up to which the check is a default: a quarter of a second of one core."""
_RISK = "report the module as a fault of the importer, or import with check=0 (--no-check) at your own risk"
_NOT_FINITE = "correct the parameters by which values overflow or are not numbers, or import with check=0 (--no-check)"


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """``outcome``: ``identical``, ``accepted`` (deviations that the user accepts), ``noise``, ``skipped``, ``not-run``.

    ``reduced`` and ``sampled``: equal, in the check of a large module.
    ``outputs``: values compared; ``ties``: samples whose first difference rounding decides, in words; ``populations``:
    spikes of both, with accepted deviations; ``measured``: both on the user's data.
    """

    outcome: str
    text: str
    outputs: int = 0
    inputs: int = 0
    ties: tuple[str, ...] = ()
    populations: tuple[SpikeDifference, ...] = ()
    measured: Measurement | None = None

    def document(self) -> dict[str, Any]:
        """The outcome as plain JSON; spikes by population and a measurement where there are any."""
        more: dict[str, Any] = {"populations": [one.document() for one in self.populations]}
        more["measured"] = None if self.measured is None else self.measured.document()
        values = {**asdict(self), "ties": list(self.ties), **more}
        return {name: value for name, value in values.items() if name not in more or value}


def skipped(why: str) -> SelfCheck:
    """No check, and why."""
    limit = f"by default at most {AFFORDABLE:,} multiplications in all runs"
    return SelfCheck("skipped", f"skipped: {why}, {limit}; force it with check=1 (--check 1)")


def outcome_of(
    trials: Trials, options: Sequence[TrialReading], inputs: int, accepted: Sequence[str] = (), notes: str = ""
) -> SelfCheck:
    """The module and the import on several inputs, under the reading that fits. Raises UnequalImport."""
    first: list[Trial] = []
    for candidate in trials.candidates(options):
        tried = _on_every_input(trials, candidate, inputs)
        refuting = [trial for trial in tried if trial.verdict.difference is not None]
        first = first or tried
        trials.chosen = (first if refuting else tried)[0]
        if not refuting:
            return _identical(tried, inputs)
        trials.refuted += refuting
    if not first:
        found = "the module and the import could not be compared on any random input"
        return SelfCheck("not-run", f"not run: {found} ({trials.why(notes)})")
    return _differing(trials, first, inputs, accepted)


def _on_every_input(trials: Trials, candidate: Trial, inputs: int) -> list[Trial]:
    done = [candidate, *(trials.again(candidate, number) for number in range(1, inputs))]
    done += [trials.in_own_precision(candidate)] if trials.wide else []
    return [trial for trial in done if trial is not None]


def _differing(trials: Trials, tried: Sequence[Trial], inputs: int, accepted: Sequence[str]) -> SelfCheck:
    if trials.is_noisy(tried[0]):
        return SelfCheck("noise", "not compared: the module itself gives different outputs for the same input")
    if accepted:
        share = min(trial.verdict.share_equal for trial in tried)
        text = f"{share:.2%} of the outputs are equal, with the deviations accepted: {', '.join(accepted)}"
        spikes = added(trial.verdict.spikes for trial in tried[:inputs])
        text += f"; {differences_text(spikes)}" if spikes else ""
        return SelfCheck("accepted", text, sum(t.verdict.outputs for t in tried), inputs, populations=spikes)
    raise UnequalImport(unequal(next(trial for trial in tried if trial.verdict.difference is not None)))


def _identical(trials: Sequence[Trial], inputs: int) -> SelfCheck:
    outputs = sum(t.verdict.outputs for t in trials)
    ties = tuple(str(tie) for t in trials for tie in t.verdict.ties)
    fired, neurons = max((t.verdict.fired, t.verdict.neurons) for t in trials)
    number = "1 random input" if inputs == 1 else f"{inputs} random inputs"
    text = f"identical on {outputs:,} outputs ({number}, {trials[0].reading.words}"
    text += f"; {fired:,} of {neurons:,} neurons fired)" if neurons else ")"
    text += f"; rounding decides the first difference of {len(ties)} samples: {ties[0]}" if ties else ""
    return SelfCheck("identical", text, outputs, inputs, ties)


def unequal(trial: Trial) -> Diagnostic:
    """Where the two differ first, and how much of the outputs is equal."""
    verdict = trial.verdict
    assert verdict.difference is not None
    found = str(verdict.difference.text)
    place = str(verdict.difference).removesuffix(f": {found}")
    first = verdict.first_population
    text = f"{found}; {verdict.share_equal:.2%} of the outputs are equal" if verdict.outputs else found
    text += f"; the first population that differs: {first}" if first and first != verdict.difference else ""
    limit = f"the import must compute the same as the module (random input, {trial.reading.words})"
    risk = _NOT_FINITE if verdict.difference.is_not_finite else _RISK
    return Diagnostic(f"self-check: {place}", text, limit, risk)

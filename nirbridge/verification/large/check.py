"""The check of a module that is too large for the default one: fewer time steps, else sampled neurons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from nirbridge.arrays import Array
from nirbridge.errors import UnequalImport, counted
from nirbridge.importers.neuron_specs import NeuronSpecs
from nirbridge.importers.tracing.run import copy_in_eval_mode, deep_copy
from nirbridge.network.apply import fan_in
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network
from nirbridge.verification.large.restricted import MOST_SYNAPSES, NEURONS
from nirbridge.verification.large.sampled import SampledRuns, SampledTrial, best_trial, sampled_text
from nirbridge.verification.module_facts import (
    CALL,
    leaf_modules,
    module_tensors,
    network_multiplications,
    trial_bytes,
)
from nirbridge.verification.outcomes import SelfCheck, outcome_of, unequal
from nirbridge.verification.rounding import MOST_SEARCHED
from nirbridge.verification.sample_axes import short_readings
from nirbridge.verification.trials import Trials

REDUCED_STEPS = (8, 4, 2)
"""Time steps of a reduced check, which compares one sample on one random input."""
REDUCED = 400_000_000
"""Multiplications of all runs of a reduced check, its search for the loudness of the input included."""
_REDUCED_RUNS = 9
_COPIES = 2
"""The module in double precision lives beside the import while both are compared."""
SAMPLED_STEPS = (8, 4, 2, 1)
"""Time steps of a check of sampled neurons."""
SAMPLED = 20_000_000_000
"""Multiplications of one run of the module in a check of sampled neurons: about a second of one core."""
_SAMPLED_RUNS = 3
"""Readings of the sample that are compared in such a check, at most."""
SYNAPSE_BYTES = 80
"""Bytes for each synapse of the sampled neurons of one population: indices, weights, their sizes."""


def sampled_bytes(network: Network, steps: int) -> int:
    """Bytes that a check of sampled neurons takes: outputs of all neurons, those of one layer, weights of samples."""
    largest = max((p.size for p in network.populations), default=0)
    rows = [NEURONS * max(map(fan_in, parts_of(p.operator)), default=0) for p in network.projections]
    return steps * (network.neurons + 3 * 4 * largest) + SYNAPSE_BYTES * min(max(rows, default=0), MOST_SYNAPSES)


@dataclass(frozen=True, slots=True)
class LargeCheck:
    """The check of a module that is too large for the default one: fewer time steps, else sampled neurons."""

    network: Network
    module: Any
    forms: NeuronSpecs
    samples: list[Array]
    private: Callable[..., Any] | None
    accepted: Sequence[str]
    notes: str
    room: int

    def outcome(self) -> SelfCheck | None:
        """Of the first of the two that is affordable and can be made; None: neither is. Raises UnequalImport."""
        reduced = self._reduced()
        return reduced if reduced is not None and reduced.outcome != "not-run" else self._sampled() or reduced

    @property
    def _shapes(self) -> tuple[list[Any], list[Any]]:
        return [s.shape for s in self.samples], [p.shape for p in self.network.inputs]

    def _reduced(self) -> SelfCheck | None:
        per_step = network_multiplications(self.network) + CALL * leaf_modules(self.module)
        most = int(REDUCED / (_REDUCED_RUNS * per_step))
        steps = next((n for n in REDUCED_STEPS if n <= most and self._has_room(n)), None)
        if steps is None:
            return None
        options = [r for r in short_readings(*self._shapes, steps, most) if self._has_room(r.steps)]
        copy = partial(self.private or deep_copy, self.module)
        trials = Trials(self.network, self.forms, self.samples, copy, module_tensors(self.module))
        found = outcome_of(trials, options, 1, self.accepted, self.notes)
        if found.outcome != "identical" or trials.chosen is None:
            return found
        text = f"reduced: equal in {counted(trials.chosen.size, 'time step')}, 1 sample; {found.text}"
        return replace(found, outcome="reduced", text=text)

    def _has_room(self, steps: int) -> bool:
        return _COPIES * trial_bytes(self.network, self.module, steps, 1) <= self.room

    def _sampled(self) -> SelfCheck | None:
        most = int(SAMPLED / network_multiplications(self.network))
        steps = next((n for n in SAMPLED_STEPS if n <= most and sampled_bytes(self.network, n) <= self.room), None)
        if steps is None:
            return None
        copy = partial(self.private or _call, self.module, copy_in_eval_mode)
        tensors = module_tensors(self.module, MOST_SEARCHED)
        runs = SampledRuns(self.network, self.module, self.forms, self.samples, copy, tensors)
        options = short_readings(*self._shapes, steps, most)
        options.sort(key=lambda r: f"was read as {r.words.partition('], ')[0]}]" not in self.notes)
        tried: list[SampledTrial] = []
        for trial in islice(runs.tried(options), _SAMPLED_RUNS):
            tried.append(trial)
            is_whole = trial.populations == len(self.network.populations) and 2 * trial.steps >= steps
            if trial.difference is None and is_whole:
                break
        return self._sampled_outcome(runs, tried)

    def _sampled_outcome(self, runs: SampledRuns, tried: Sequence[SampledTrial]) -> SelfCheck:
        best = best_trial(tried)
        if best is None:
            why = "; ".join(f"as {words}: {text}" for words, text in list(runs.failures.items())[:1])
            return SelfCheck("not-run", f"not run: no neuron of the module could be compared ({why})")
        if best.difference is None:
            return SelfCheck(
                "sampled", sampled_text(best, self.network), sum(t.verdict.outputs for t in best.trials), 1
            )
        if self.accepted:
            return SelfCheck(
                "accepted", f"sampled neurons differ, with the deviations accepted: {', '.join(self.accepted)}"
            )
        raise UnequalImport(unequal(best.difference))


def _call(module: Any, copy: Callable[[Any], Any]) -> Any:
    return copy(module)

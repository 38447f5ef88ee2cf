"""The check of a module that is too large for the default one: fewer time steps, else sampled neurons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from nirbridge._types import IMPORT_PROGRESS
from nirbridge.arrays import Array
from nirbridge.errors import UnequalImport, counted
from nirbridge.importers.neuron_specs import NeuronSpecs, neuron_spec_of
from nirbridge.importers.tracing.memory import collect_memory
from nirbridge.importers.tracing.run import copy_in_eval_mode, deep_copy
from nirbridge.network.apply import fan_in
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network, Population, Port
from nirbridge.network.operators import Identity
from nirbridge.simulators.simulate import Probe, simulate
from nirbridge.verification.large.restricted import MOST_SYNAPSES, NEURONS, TooManySynapses, restricted_network
from nirbridge.verification.matching import (
    matched_membranes,
    matched_outputs,
    matched_spikes,
    population_names,
    spike_value,
)
from nirbridge.verification.module_facts import CALL, leaf_modules, module_tensors, network_multiplications, trial_bytes
from nirbridge.verification.original_runs import NeuronObservation, OriginalRun, run_original
from nirbridge.verification.outcomes import SelfCheck, outcome_of, unequal
from nirbridge.verification.random_inputs import draw_values
from nirbridge.verification.rounding import MOST_SEARCHED, SINGLE, ModuleConstants, rounding_bounds
from nirbridge.verification.sample_axes import TrialReading, short_readings
from nirbridge.verification.trials import STATIC, STEPS, Trial, Trials
from nirbridge.verification.verdicts import RunEvidence, Verdict

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


# -- sampled -------------------------------------------------------------------------------------------------------
# The check of an import that is too large to be run: sampled neurons on the module's own recorded activity.
#
# The module runs for a few time steps of one sample, and the outputs of all its neurons are recorded. Of each
# population up to 64 neurons are computed by the import, from the recorded outputs of their sources; their spikes and
# membranes must be those of the module, within the bounds of rounding in float32. So are the outputs. The import itself
# is never run.

WHOLE = 4096
"""Neurons up to which an output is compared."""
_GAINS = (2.0, 8.0, 32.0)
"""Factors on the values of the sample."""
_LIVELY = 0.2
"""Share of the neurons of each population that has to fire, else the next factor is tried."""


@dataclass(frozen=True, slots=True)
class SampledTrial:
    """One reading of the sample: a trial for each population or output that was compared, the first difference first.

    ``neurons``: the most that were compared of one population; ``populations``: how many were, of ``all``.
    """

    trials: tuple[Trial, ...]
    neurons: int
    populations: int
    steps: int

    @property
    def difference(self) -> Trial | None:
        """The first in causal order that differs."""
        return next((trial for trial in self.trials if trial.verdict.difference is not None), None)


class SampledRuns:
    """Runs of the module, and what the import makes of its recorded activity.

    ``private`` makes a copy of the module that may be run; ``firing`` have a module of their own.
    """

    def __init__(
        self,
        network: Network,
        module: Any,
        forms: NeuronSpecs,
        samples: Sequence[Array],
        private: Callable[[], Any],
        tensors: list[Array],
    ) -> None:
        import torch

        self.network, self.forms, self.samples, self.private = network, forms, samples, private
        self.constants = ModuleConstants(tensors)
        parts: Any = torch.nn.Module.named_modules(module)
        names = population_names([path for path, inner in parts if neuron_spec_of(inner, forms) is not None])
        known = {p.name: p for p in network.populations}
        self.paths = {path: known[name] for path, name in names.items() if name in known}
        self.rows = {path: (self._sampled(p), p.size) for path, p in self.paths.items()}
        self.failures: dict[str, str] = {}
        self.gains = _GAINS

    def _sampled(self, population: Population) -> Array:
        """Neurons of a population: all where it is an output, else 64 at random, its first and last ones included."""
        size = population.size
        if size <= NEURONS or (self._copies(population) and size <= WHOLE):
            return np.arange(size)
        inner = np.random.default_rng(size).choice(np.arange(1, size - 1), NEURONS - 2, replace=False)
        return np.sort(np.concatenate([[0, size - 1], inner]))

    def _copies(self, population: Population) -> list[Port]:
        """The outputs that are those of a population as they are."""
        incoming = {o.name: [p for p in self.network.projections if p.target == o.name] for o in self.network.outputs}
        return [
            port
            for port in self.network.outputs
            if len(ways := incoming[port.name]) == 1
            and ways[0].source == population.name
            and isinstance(ways[0].operator, Identity)
            and port.size == population.size
        ]

    def tried(self, options: Sequence[TrialReading]) -> Iterator[SampledTrial]:
        """The readings that the module accepts, each compared."""
        for reading in options:
            arrays, run = self._lively(reading)
            runs: list[OriginalRun | None] = [run]
            if run is not None and run.is_stopped:  # one call ran several time steps
                runs.append(self._ran(reading, arrays, stops=False))
            for run in (run for run in runs if run is not None):
                form, fed = STEPS, arrays
                if run.is_stopped:
                    form, fed = STATIC, [np.repeat(a[:1], run.iterations, axis=0) for a in arrays]
                trial = self._compared(replace(reading, steps=len(fed[0])), form, fed, run)
                if trial is None:
                    self.failures.setdefault(reading.words, "none of its neurons is one of the import")
                else:
                    yield trial

    def _lively(self, reading: TrialReading) -> tuple[list[Array], OriginalRun | None]:
        """Inputs, the least loud with which neurons of every population fire, else the loudest; and the run on them."""
        arrays: list[Array] = []
        run: OriginalRun | None = None
        for gain in self.gains:
            arrays = [
                draw_values(s, (reading.steps, 1, int(np.prod(shape))), k, derived=True, gain=gain)
                for k, (s, shape) in enumerate(zip(self.samples, reading.step_shapes, strict=True))
            ]
            run = self._ran(reading, arrays, stops=reading.is_stepwise)
            if run is None:
                break
            if self._least_share(run) >= _LIVELY:
                self.gains = (gain,)
                break
        return arrays, run

    def _least_share(self, run: OriginalRun) -> float:
        """The share of neurons that fired, of the population with the fewest."""
        firing = [probe for path, probe in run.probes.items() if path in self.paths and self.paths[path].neuron.fires]
        return min((float(np.concatenate(p.sent).any(axis=0).mean()) for p in firing), default=1.0)

    def _ran(self, reading: TrialReading, arrays: Sequence[Array], *, stops: bool) -> OriginalRun | None:
        try:
            calls, options = reading.calls(arrays), {"wide": False, "seed": 0, "rows": self.rows}
            return run_original(self.private, self.forms, calls, stops_at_loops=stops, **options)
        except Exception as error:  # whatever the user's code raises
            text = (str(error).splitlines() or [""])[0]
            self.failures.setdefault(reading.words, f"{type(error).__name__}: {text}")
            return None
        finally:
            collect_memory()

    def _compared(
        self, reading: TrialReading, form: str, arrays: Sequence[Array], run: OriginalRun
    ) -> SampledTrial | None:
        activity = {port.name: a.reshape(len(a), -1) for port, a in zip(self.network.inputs, arrays, strict=True)}
        probes = {self.paths[path].name: probe for path, probe in run.probes.items() if path in self.paths}
        for name, probe in probes.items():
            sent, worth = np.concatenate(probe.sent), spike_value(probe)
            if len(sent) == len(arrays[0]) and worth:
                activity[name] = sent if worth == 1 else (sent / worth)
        trials: list[Trial] = []
        compared = [p for p in self.network.populations if p.name in activity and self._hears(p.name, activity)]
        done = 0
        for p in compared:
            IMPORT_PROGRESS.get()("comparing sampled neurons", done / len(compared))
            verdict = self._verdict(p, self._copies(p), activity, run)
            done += verdict is not None
            trials += [] if verdict is None else [Trial(reading, form, verdict, len(arrays[0]))]
        copied = {port.name for p in compared for port in self._copies(p)}
        for port in self.network.outputs:
            if port.name not in copied and port.size <= WHOLE and self._hears(port.name, activity):
                verdict = self._verdict(None, [port], activity, run)
                trials += [] if verdict is None else [Trial(reading, form, verdict, len(arrays[0]))]
        most = max((min(NEURONS, p.size) for p in compared), default=0)
        return SampledTrial(tuple(trials), most, done, len(arrays[0])) if done else None

    def _hears(self, target: str, activity: Mapping[str, Array]) -> bool:
        return all(p.source in activity for p in self.network.projections if p.target == target)

    def _verdict(
        self, p: Population | None, outputs: list[Port], activity: Mapping[str, Array], run: OriginalRun
    ) -> Verdict | None:
        """The import's values of a population or an output beside those of the module; None: they are too many."""
        path = next((path for path, known in self.paths.items() if known is p), "")
        rows = self.rows[path][0] if p is not None else np.arange(0)
        outputs = outputs if p is None or len(rows) == p.size else []
        try:
            part = restricted_network(self.network, p, rows, outputs)
        except TooManySynapses:
            return None
        network = part.network
        fed = {
            port: np.asarray(activity[source][:, columns], np.float64)[:, None]
            for port, (source, columns) in part.sources.items()
        }
        steps = len(next(iter(activity.values())))
        variables = ("u", "v", "i") if p is None or not p.neuron.fires else ("s", "u", "v", "i")
        record = [Probe(one.name, variables) for one in network.populations] + [Probe(o.name, ("s",)) for o in outputs]
        recording = simulate(network, fed, steps=steps, record=record, dtype="float64", backend="numpy").recording
        values = {**recording.arrays, **{(name, "s"): array for name, array in fed.items()}}
        probes: dict[str, NeuronObservation] = {} if p is None else {path: run.probes[path]}
        limits = rounding_bounds(network, values, self.constants, SINGLE)
        own = OriginalRun(run.returned, probes)
        shown = (
            matched_outputs(own, 1, network, values, limits),
            matched_spikes(own, network, values),
            matched_membranes(own, network, values, limits),
        )
        shapes = {n.name: n.shape for n in (*self.network.populations, *self.network.outputs)}
        places = {} if p is None else {p.name: rows}
        return RunEvidence(network, values, limits, self.constants, *shown, 1, shapes, places).verdict()


def best_trial(trials: Sequence[SampledTrial]) -> SampledTrial | None:
    """The reading with the most populations; one without a difference comes first, unless longer ones contradict it."""

    def is_contradicted(trial: SampledTrial) -> bool:
        """True if it is equal in a time step or two, while one of far more time steps differs."""
        return any(t.difference and t.populations >= trial.populations and t.steps > 2 * trial.steps for t in trials)

    return max(
        trials,
        key=lambda t: (t.populations, t.difference is None and not is_contradicted(t), bool(t.difference), t.steps),
        default=None,
    )


def sampled_text(trial: SampledTrial, network: Network) -> str:
    """The neurons, populations and time steps that were compared, and how many neurons fired."""
    every = len(network.populations)
    of_all = (
        counted(every, "population") if trial.populations == every else f"{trial.populations} of {every} populations"
    )
    fired, firing = (sum(getattr(t.verdict, name) for t in trial.trials) for name in ("fired", "neurons"))
    text = f"sampled: equal in up to {counted(trial.neurons, 'neuron')} of each of {of_all}, "
    return f"{text}{counted(trial.steps, 'time step')}, 1 sample ({fired:,} of {firing:,} sampled neurons fired)"

"""The integer simulator: a quantized network bit for bit, as its chip (and Lava's ``fixed_pt`` models) computes it."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from nirbridge._types import Progress
from nirbridge.arrays import Array
from nirbridge.errors import UsageError, did_you_mean, quoted
from nirbridge.network.graph import PopulationGroup, population_groups
from nirbridge.network.model import Network
from nirbridge.network.neurons import beyond_kernels
from nirbridge.program.rules import states_of
from nirbridge.quantization.model import FixedProjection, QuantizedNetwork
from nirbridge.quantization.operators import weights_of
from nirbridge.quantization.overflow import largest_sum, prove
from nirbridge.simulators.fixed.runs import IntegerRun, IntegerSimulator
from nirbridge.simulators.fixed.semantics import REFERENCE, FixedAccumulate, FixedBackend, FixedNeurons, FixedState
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.retained import retained
from nirbridge.simulators.types import Key, Probe, SimulationResult, SimulationState

_BACKENDS = ("auto", "reference", "fast")


def simulate_fixed(
    quantized: QuantizedNetwork,
    inputs: Mapping[str, Input] | Input,
    *,
    steps: int | None = None,
    state: SimulationState | None = None,
    record: Sequence[Probe] | None = None,
    backend: str = "auto",
    threads: int = 1,
    drain: bool = False,
    progress: Progress | None = None,
) -> SimulationResult:
    """Run a quantized network in integers.

    Args:
        quantized: the network to run.
        inputs: see ``simulate``: arrays ``[steps, *shape]`` or ``[steps, batch, *shape]``, or streams. An input takes
            0 and 1, or, quantized as graded, real values that are rounded to its integers.
        steps: number of hardware time steps; default: the length of the arrays. Time step t of the reference is time
            step ``t + L`` of a node of latency L (``latency`` in meta).
        state: the state after an earlier run.
        record: the variables to record: ``s``, ``u`` (the current), ``v`` (after the reset) and ``count`` of a
            population, all integers; ``s`` of an input or output (a readout sends its v in reals to an output).
            Default: ``s`` of every output (``v`` where only a readout leads to it).
        backend: ``auto`` (``fast`` where numba is installed), ``reference`` or ``fast``: the same bits.
        threads: how many threads share the samples of the batch; the result has the same bits for any number.
        drain: run on without input, and record ``steps`` time steps of each node from its latency on.
        progress: called with a stage and the completed fraction.

    Raises:
        UsageError: wrong inputs, state, record or options; ``drain`` of a run that continues one.
    """
    shared = {"steps": steps, "state": state, "record": record, "threads": threads, "progress": progress}
    return retained_fixed(quantized, backend).run(inputs, drain=drain, **shared)


def retained_fixed(quantized: QuantizedNetwork, backend: str = "auto") -> FixedSimulator:
    """The simulator of a network, from the cache where the last call had the same backend."""
    return retained(quantized, ("fixed", backend), lambda own: FixedSimulator(own, backend))


class FixedSimulator(IntegerSimulator):
    """A quantized network prepared to be run many times; no state of a run is kept."""

    def __init__(self, quantized: QuantizedNetwork, backend: str = "auto") -> None:
        self.parts = _parts(backend)
        super().__init__(quantized, backend="fixed", kernel=self.parts.name)
        self.groups: Sequence[PopulationGroup] = population_groups(cast(Network, quantized))
        reach = {name: max(abs(x) for x in bounds.a_in) for name, bounds in prove(quantized).items()}
        self.steps: dict[str, FixedNeurons] = {
            p.name: (REFERENCE if beyond_kernels(p.neuron) else self.parts).steps(p, reach[p.name])
            for p in quantized.populations
        }
        self.into: dict[str, list[tuple[str, FixedAccumulate]]] = {p.name: [] for p in quantized.populations}
        self.kind = _kind(quantized, self.parts, max(reach.values(), default=0))
        for p in quantized.projections:
            add = self.parts.adds(_checked(p), self.kind, self.sent[p.source] is np.int8)
            self.into[p.target].append((p.source, add))

    def start(self, batch: int, state: SimulationState | None) -> FixedRun:
        """See ``IntegerSimulator``."""
        return FixedRun(self, batch, state)


class FixedRun(IntegerRun):
    """One run: states of the neurons, and the last outputs of each source."""

    def __init__(self, simulator: FixedSimulator, batch: int, state: SimulationState | None) -> None:
        super().__init__(simulator, batch, state)
        self.simulator, arrays = simulator, self.first.arrays
        self.neurons: dict[str, FixedState] = {}
        for p in simulator.quantized.populations:
            parts = {name: arrays[p.name, name] for name in states_of(p.neuron)}
            self.neurons[p.name] = {k: x.reshape(batch, -1).astype(np.int64, order="C") for k, x in parts.items()}

    def states(self) -> Mapping[Key, Array]:
        """See ``IntegerRun``."""
        return {(name, part): values for name, parts in self.neurons.items() for part, values in parts.items()}

    def advance(self, history: Mapping[str, Array], steps: int, traces: Mapping[Key, Array]) -> None:
        """See ``IntegerRun``."""
        for group in self.simulator.groups:
            for t in range(steps) if group.has_cycle else (slice(0, steps),):
                part = t if isinstance(t, slice) else slice(t, t + 1)
                for p in group.populations:
                    self._population(p.name, p.size, part, history, traces)

    def _population(
        self, name: str, size: int, part: slice, history: Mapping[str, Array], traces: Mapping[Key, Array]
    ) -> None:
        of = self.simulator
        a_in = np.zeros((part.stop - part.start, self.batch, size), of.kind)
        for source, add in of.into[name]:
            add(history[source], of.depths[source] + part.start, a_in)
        trace_part = {x: traces[name, x][part] for x in ("u", "v") if (name, x) in traces}
        depth = of.depths[name]
        of.steps[name](a_in, self.neurons[name], history[name][depth + part.start : depth + part.stop], trace_part)


def _parts(backend: str) -> FixedBackend:
    if backend not in _BACKENDS:
        step = did_you_mean(backend, _BACKENDS) or f"choose one of {', '.join(_BACKENDS)}"
        raise UsageError.of(f"backend {quoted(backend)}", "unknown", "of the integer simulator", step)
    is_compiled = importlib.util.find_spec("numba") is not None
    if backend == "reference" or (backend == "auto" and not is_compiled):
        return REFERENCE
    if not is_compiled:
        step = "install numba, or choose the backend 'reference'"
        raise UsageError.of(f"backend {quoted(backend)}", "numba is not installed", "", step)
    from nirbridge.simulators.fixed.kernels import FAST

    return FAST


def _kind(quantized: QuantizedNetwork, parts: FixedBackend, reach: int) -> type:
    """int32 for sums that are proved to fit it, of weights that fit 16 bits; else int64."""
    sizes = [np.abs(weights_of(p.operator)).max(initial=0) << max(0, p.weight_exp) for p in quantized.projections]
    if any(p.weight_exp < 0 for p in quantized.projections):  # sums are larger before they are shifted
        reach = largest_sum(quantized)
    narrow = reach < 2**31 and all(size < 2**15 for size in sizes)
    return np.int32 if narrow and parts.name == "fast" else np.int64


def _checked(p: FixedProjection) -> FixedProjection:
    if int(p.delay_steps.min()) < 1 or bool(np.any(p.target_delay_steps)):
        subject = f"projection {quoted(p.source)} -> {quoted(p.target)}"
        raise UsageError.of(
            subject, "a delay below 1, or one per target", "every hop takes one time step", "retime the network"
        )
    return p

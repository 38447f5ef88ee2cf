"""The integer simulator: a quantized network bit for bit, as its chip (and Lava's ``fixed_pt`` models) computes it."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import cast

import numpy as np

from nirbridge._types import Progress
from nirbridge.arrays import Array, freeze
from nirbridge.errors import UsageError, did_you_mean, quoted
from nirbridge.network.graph import PopulationGroup, population_groups
from nirbridge.network.model import Network
from nirbridge.network.neurons import beyond_kernels
from nirbridge.program.rules import states_of
from nirbridge.quantization.model import FixedProjection, QuantizedNetwork
from nirbridge.quantization.operators import weights_of
from nirbridge.quantization.overflow import largest_sum, prove
from nirbridge.simulators.checks import check_state
from nirbridge.simulators.crew import Crew
from nirbridge.simulators.fixed import host_io
from nirbridge.simulators.fixed.host_io import fixed_channels, fixed_meta, integer_values, readout_values
from nirbridge.simulators.fixed.semantics import REFERENCE, FixedAccumulate, FixedBackend, FixedNeurons, FixedState
from nirbridge.simulators.inputs import Input, Inputs, open_inputs
from nirbridge.simulators.recording import ChannelRecorder, required_variables
from nirbridge.simulators.reference.state import check_history
from nirbridge.simulators.threads import joined_state, run_parts, split_samples, start_parts
from nirbridge.simulators.types import Probe, SimulationResult, SimulationState

_BACKENDS = ("auto", "reference", "fast")
CHUNK_BYTES = 32 * 2**20
CHUNK_STEPS = 1024
WHOLE_STEPS = 32
"""Longer stretches are multiples of this, so that every block of time steps of a kernel is full."""


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
    return FixedSimulator(quantized, backend).run(inputs, drain=drain, **shared)


class FixedSimulator:
    """A quantized network prepared to be run many times; no state of a run is kept."""

    def __init__(self, quantized: QuantizedNetwork, backend: str = "auto") -> None:
        self.quantized, self.parts = quantized, _parts(backend)
        self.outline = host_io.signature_network(quantized)
        self.groups: Sequence[PopulationGroup] = population_groups(cast(Network, quantized))
        reach = {name: max(abs(x) for x in bounds.a_in) for name, bounds in prove(quantized).items()}
        self.steps: dict[str, FixedNeurons] = {
            p.name: (REFERENCE if beyond_kernels(p.neuron) else self.parts).steps(p, reach[p.name])
            for p in quantized.populations
        }
        self.into: dict[str, list[tuple[str, FixedAccumulate]]] = {p.name: [] for p in quantized.populations}
        self.kind = _kind(quantized, self.parts, max(reach.values(), default=0))
        self.sent: dict[str, type] = _sent_types(quantized)
        self.depths = {x.name: 0 for x in (*quantized.inputs, *quantized.populations)}
        for p in quantized.projections:
            add = self.parts.adds(_checked(p), self.kind, self.sent[p.source] is np.int8)
            self.into[p.target].append((p.source, add))
            self.depths[p.source] = max(self.depths[p.source], int(p.delay_steps.max()))
        for read in quantized.reads:
            self.depths[read.source] = max(self.depths[read.source], int(read.delay_steps.max()))

    def run(
        self,
        inputs: Mapping[str, Input] | Input,
        *,
        steps: int | None = None,
        state: SimulationState | None = None,
        record: Sequence[Probe] | None = None,
        threads: int = 1,
        drain: bool = False,
        progress: Progress | None = None,
    ) -> SimulationResult:
        """Run the network. See ``simulate_fixed``."""
        with Crew(threads) as crew:
            opened = open_inputs(self.outline, inputs, steps, 0 if state is None else state.step, "float64", crew)
            return self._run(crew, opened, state, record, host_io.late_of(self.quantized, state, drain=drain), progress)

    def _run(
        self,
        crew: Crew,
        opened: Inputs,
        state: SimulationState | None,
        record: Sequence[Probe] | None,
        late: Mapping[str, int],
        progress: Progress | None,
    ) -> SimulationResult:
        first, steps = opened.first_step, opened.steps
        opened = opened.longer(max(late.values())) if late else opened
        channels = fixed_channels(self.quantized, self.outline, record)
        batch = 1 if opened.batch is None else opened.batch
        parts = split_samples(opened.batch, crew.count)
        runs = start_parts(parts, state, self.blank, partial(_FixedRun, self))
        recorder, requested = ChannelRecorder(channels, first, steps, batch, late), required_variables(channels)
        recorders, stretch = recorder.split(parts), self._stretch(batch)

        def advance(part: int, values: Mapping[str, Array], start: int, stop: int) -> None:
            integers = self._integers(values, first + start)
            recorders[part].take(runs[part].chunk(integers, values, stop - start, requested), stop - start, np.asarray)

        try:
            run_parts(crew, opened, parts, stretch, Inputs.read, advance, progress)
        except UsageError:  # of a value in one part: the first one of the whole batch is named
            for start in range(0, 0 if opened.has_streams else opened.steps, stretch):
                self._integers(opened.read(start, min(start + stretch, opened.steps)), first + start)
            raise
        meta = fixed_meta(self.quantized, steps, first, opened.batch, late, backend="fixed", kernel=self.parts.name)
        return SimulationResult(recorder.finish(opened.batch is not None, meta), joined_state([r.end() for r in runs]))

    def _integers(self, values: Mapping[str, Array], first_step: int) -> dict[str, Array]:
        return {p.name: integer_values(p, values[p.name], first_step) for p in self.quantized.inputs}

    def _stretch(self, batch: int) -> int:
        elements = self.quantized.neurons + sum(int(np.prod(p.shape)) for p in self.quantized.inputs)
        steps = max(1, min(CHUNK_STEPS, CHUNK_BYTES // max(1, 8 * elements * batch)))
        return steps if steps < 2 * WHOLE_STEPS else steps - steps % WHOLE_STEPS

    def blank(self, batch: int) -> SimulationState:
        """The initial state."""
        q = self.quantized
        check_history((*q.inputs, *q.populations), (*q.projections, *q.reads), batch)
        arrays: dict[tuple[str, str], Array] = {}
        for p in self.quantized.populations:
            for name, value in states_of(p.neuron).items():
                arrays[p.name, name] = freeze(np.broadcast_to(value, (batch, *p.shape)))
        for x in (*self.quantized.inputs, *self.quantized.populations):
            if self.depths[x.name]:
                arrays[x.name, "past"] = freeze(np.zeros((self.depths[x.name], batch, *x.shape), np.int64))
        return SimulationState(0, MappingProxyType(arrays))


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


def _sent_types(quantized: QuantizedNetwork) -> dict[str, type]:
    """int8 where a node sends spikes, 0 or 1; int64 for several spikes, graded values and the v of a readout."""
    is_binary = {p.name: not p.graded for p in quantized.inputs}
    is_binary |= {p.name: p.neuron.fires and p.neuron.max_spikes == 1 for p in quantized.populations}
    return {name: np.int8 if single else np.int64 for name, single in is_binary.items()}


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


class _FixedRun:
    """One run: states of the neurons, and the last outputs of each source."""

    def __init__(self, simulator: FixedSimulator, batch: int, state: SimulationState | None) -> None:
        self.of, self.batch = simulator, batch
        start = simulator.blank(batch)
        if state is not None:
            check_state(state, start)
            start = state
        self.step = start.step
        self.states: dict[str, FixedState] = {}
        for p in simulator.quantized.populations:
            parts = {name: start.arrays[p.name, name] for name in states_of(p.neuron)}
            self.states[p.name] = {k: x.reshape(batch, -1).astype(np.int64, order="C") for k, x in parts.items()}
        self.past = {
            n: a.reshape(*a.shape[:2], -1).astype(simulator.sent[n])
            for (n, part), a in start.arrays.items()
            if part == "past"
        }

    def chunk(
        self,
        values: Mapping[str, Array],
        input_values: Mapping[str, Array],
        steps: int,
        requested: Mapping[str, frozenset[str]],
    ) -> dict[tuple[str, str], Array]:
        """Advance by ``steps`` time steps; the requested variables, ``[steps, batch, *shape]``."""
        q, of = self.of.quantized, self.of
        history = {x.name: self._room(x.name, int(np.prod(x.shape)), steps) for x in (*q.inputs, *q.populations)}
        for name, array in values.items():
            history[name][of.depths[name] :] = array
        traces: dict[tuple[str, str], Array] = {}
        for p in q.populations:
            need = requested.get(p.name, frozenset())
            traces |= {(p.name, x): np.zeros((steps, self.batch, p.size), np.int64) for x in ("u", "v") if x in need}
        for group in of.groups:
            for t in range(steps) if group.has_cycle else (slice(0, steps),):
                part = t if isinstance(t, slice) else slice(t, t + 1)
                for p in group.populations:
                    self._population(p.name, p.size, part, history, traces)
        self.step += steps
        self.past = {n: history[n][len(history[n]) - d :] for n, d in of.depths.items() if d}
        return self._found(input_values, steps, history, traces, requested)

    def _room(self, name: str, size: int, steps: int) -> Array:
        depth = self.of.depths[name]
        room = np.zeros((depth + steps, self.batch, size), self.of.sent[name])
        if depth:
            room[:depth] = self.past[name]
        return room

    def _population(
        self, name: str, size: int, part: slice, history: Mapping[str, Array], traces: Mapping[tuple[str, str], Array]
    ) -> None:
        of = self.of
        a_in = np.zeros((part.stop - part.start, self.batch, size), of.kind)
        for source, add in of.into[name]:
            add(history[source], of.depths[source] + part.start, a_in)
        trace_part = {x: traces[name, x][part] for x in ("u", "v") if (name, x) in traces}
        depth = of.depths[name]
        of.steps[name](a_in, self.states[name], history[name][depth + part.start : depth + part.stop], trace_part)

    def _found(
        self,
        input_values: Mapping[str, Array],
        steps: int,
        history: Mapping[str, Array],
        traces: Mapping[tuple[str, str], Array],
        requested: Mapping[str, frozenset[str]],
    ) -> dict[tuple[str, str], Array]:
        q, lead = self.of.quantized, (steps, self.batch)
        recorded: dict[tuple[str, str], Array] = {(name, "s"): array for name, array in input_values.items()}
        for p in q.populations:
            recorded[p.name, "s"] = history[p.name][self.of.depths[p.name] :].reshape(*lead, *p.shape)
            recorded |= {k: a.reshape(*lead, *p.shape) for k, a in traces.items() if k[0] == p.name}
        for port in q.outputs:
            if port.name in requested:
                values = readout_values(q, port, steps, history, self.of.depths)
                recorded[port.name, "s"] = recorded[port.name, "v"] = values
        return recorded

    def end(self) -> SimulationState:
        """The state after the last time step."""
        arrays: dict[tuple[str, str], Array] = {}
        for p in self.of.quantized.populations:
            arrays |= {(p.name, k): freeze(a.reshape(self.batch, *p.shape)) for k, a in self.states[p.name].items()}
        for x in (*self.of.quantized.inputs, *self.of.quantized.populations):
            if x.name in self.past:
                arrays[x.name, "past"] = freeze(self.past[x.name].reshape(-1, self.batch, *x.shape), np.int64)
        return SimulationState(self.step, MappingProxyType(arrays))

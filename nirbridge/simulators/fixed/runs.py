"""A quantized network on one back end of integers: the host's part of a run, shared by simulators and programs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from nirbridge._types import Progress
from nirbridge.arrays import Array, freeze
from nirbridge.errors import UsageError
from nirbridge.program.interval import Interval, first_values, intervals, settled
from nirbridge.program.rewrites import in_halves
from nirbridge.program.rules import states_of, traced_step
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.quantization.overflow import prove
from nirbridge.simulators.checks import check_limits, check_state
from nirbridge.simulators.crew import Crew
from nirbridge.simulators.fixed.host_io import (
    fixed_channels,
    fixed_meta,
    integer_values,
    late_of,
    readout_values,
    signature_network,
)
from nirbridge.simulators.inputs import Input, Inputs, open_inputs
from nirbridge.simulators.recording import ChannelRecorder, required_variables
from nirbridge.simulators.reference.state import check_history
from nirbridge.simulators.steps import ChunkRunner
from nirbridge.simulators.threads import joined_state, run_parts, split_samples, start_parts
from nirbridge.simulators.types import Key, Probe, SimulationResult, SimulationState

CHUNK_BYTES = 32 * 2**20
CHUNK_STEPS = 1024
WHOLE_STEPS = 32
"""Longer stretches are multiples of this, so that every block of time steps of a kernel is full."""


class IntegerSimulator(ABC):
    """A quantized network prepared to be run many times on one back end; no state of a run is kept.

    ``sent``: the type of what each source sends. ``depths``: past time steps that the projections and reads of each
    source need. ``facts``: what the back end adds to the meta of its recordings.
    """

    def __init__(self, quantized: QuantizedNetwork, **facts: Any) -> None:
        self.quantized, self.facts = quantized, facts
        self.signature = signature_network(quantized)
        self.sent: dict[str, type] = sent_types(quantized)
        self.depths = {x.name: 0 for x in (*quantized.inputs, *quantized.populations)}
        for p in (*quantized.projections, *quantized.reads):
            self.depths[p.source] = max(self.depths[p.source], int(p.delay_steps.max()))

    @abstractmethod
    def start(self, batch: int, state: SimulationState | None) -> IntegerRun:
        """A run from a state, else from the initial one. Raises UsageError for a state of another form."""

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
            opened = open_inputs(self.signature, inputs, steps, 0 if state is None else state.step, "float64", crew)
            return self._run(crew, opened, state, record, late_of(self.quantized, state, drain=drain), progress)

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
        channels = fixed_channels(self.quantized, self.signature, record)
        batch = 1 if opened.batch is None else opened.batch
        parts = split_samples(opened.batch, crew.count)
        runs = start_parts(parts, state, self.blank, self.start)
        recorder, requested = ChannelRecorder(channels, first, steps, batch, late), required_variables(channels)
        recorders, stretch = recorder.split(parts), self.stretch(batch)

        def advance(part: int, values: Mapping[str, Array], start: int, stop: int) -> None:
            integers = self.integers(values, first + start)
            recorders[part].take(runs[part].chunk(integers, values, stop - start, requested), stop - start, np.asarray)

        try:
            run_parts(crew, opened, parts, stretch, Inputs.read, advance, progress)
        except UsageError:  # of a value in one part: the first one of the whole batch is named
            for start in range(0, 0 if opened.has_streams else opened.steps, stretch):
                self.integers(opened.read(start, min(start + stretch, opened.steps)), first + start)
            raise
        meta = fixed_meta(self.quantized, steps, first, opened.batch, late, **self.facts)
        return SimulationResult(recorder.finish(opened.batch is not None, meta), joined_state([r.end() for r in runs]))

    def runner(self, batch: int, state: SimulationState | None = None) -> ChunkRunner:
        """See ``Continued``."""
        run, channels = self.start(batch, state), fixed_channels(self.quantized, self.signature, None)
        requested = required_variables(channels)
        self.check_values(state)

        def advance(values: Mapping[str, Array]) -> Mapping[Key, Array]:
            return run.chunk(self.integers(values, run.step), values, 1, requested)

        return ChunkRunner(advance, channels, run.end)

    def integers(self, values: Mapping[str, Array], first_step: int) -> dict[str, Array]:
        """Inputs ``[steps, batch, *shape]`` as integers, flat. Raises UsageError for values that one does not take."""
        return {p.name: integer_values(p, values[p.name], first_step) for p in self.quantized.inputs}

    def stretch(self, batch: int) -> int:
        """Time steps of a chunk at most."""
        elements = self.quantized.neurons + sum(int(np.prod(p.shape)) for p in self.quantized.inputs)
        steps = max(1, min(CHUNK_STEPS, CHUNK_BYTES // max(1, 8 * elements * batch)))
        return steps if steps < 2 * WHOLE_STEPS else steps - steps % WHOLE_STEPS

    def blank(self, batch: int) -> SimulationState:
        """The initial state."""
        q = self.quantized
        check_history((*q.inputs, *q.populations), (*q.projections, *q.reads), batch)
        arrays: dict[Key, Array] = {}
        for p in q.populations:
            for name, value in states_of(p.neuron).items():
                arrays[p.name, name] = freeze(np.broadcast_to(value, (batch, *p.shape)))
        for x in (*q.inputs, *q.populations):
            if self.depths[x.name]:
                arrays[x.name, "past"] = freeze(np.zeros((self.depths[x.name], batch, *x.shape), np.int64))
        return SimulationState(0, arrays)

    @cached_property
    def limits(self) -> Mapping[Key, Interval]:
        """The least and the greatest value of every part of a state, over all runs: those of the proof of widths."""
        return state_limits(self.quantized)

    def check_values(self, state: SimulationState | None) -> None:
        """Raise UsageError for a state with a value that no run of the network reaches."""
        if state is not None:
            check_limits(state, self.limits)


def sent_types(quantized: QuantizedNetwork) -> dict[str, type]:
    """int8 where a node sends spikes, 0 or 1; int64 for several spikes, graded values and the v of a readout."""
    is_binary = {p.name: not p.graded for p in quantized.inputs}
    is_binary |= {p.name: p.neuron.fires and p.neuron.max_spikes == 1 for p in quantized.populations}
    return {name: np.int8 if single else np.int64 for name, single in is_binary.items()}


def state_limits(quantized: QuantizedNetwork) -> dict[Key, Interval]:
    """The least and the greatest value of every part of a state, over all runs."""
    bounds = prove(quantized)
    limits: dict[Key, Interval] = {
        (p.name, "past"): (-p.value_max if p.graded else 0, p.value_max if p.graded else 1) for p in quantized.inputs
    }
    for p in quantized.populations:
        step, first = in_halves(traced_step(p.neuron)), first_values(p.neuron, bounds[p.name].a_in)
        low, high = intervals(step, first)[id(step.sent)]
        limits[p.name, "past"] = min(low, 0), max(high, 0)  # nothing was sent before the first time step
        reached = settled(step, first)
        for name, value in states_of(p.neuron).items():
            initial = int(np.min(value, initial=0)), int(np.max(value, initial=0))
            limits[p.name, name] = reached.get(f"state.{name}", initial)
    return limits


class IntegerRun(ABC):
    """One run: its time step and the last outputs of each source; the back end has the states of the neurons."""

    def __init__(self, of: IntegerSimulator, batch: int, state: SimulationState | None) -> None:
        self.of, self.batch = of, batch
        blank = of.blank(batch)
        if state is not None:
            check_state(state, blank)
        self.first = blank if state is None else state
        self.step = self.first.step
        self.past = {
            n: a.reshape(*a.shape[:2], -1).astype(of.sent[n])
            for (n, part), a in self.first.arrays.items()
            if part == "past"
        }

    @abstractmethod
    def advance(self, history: Mapping[str, Array], steps: int, traces: Mapping[Key, Array]) -> None:
        """Advance the neurons by ``steps`` time steps.

        ``history``: of each source ``[depth + steps, batch, neurons]``, the past first; that of inputs is full, and
        that of populations is to be filled with what they send. ``traces``: u and v to be filled, without the past.
        """

    @abstractmethod
    def states(self) -> Mapping[Key, Array]:
        """The states of the neurons, each ``[batch, neurons]``."""

    def chunk(
        self,
        values: Mapping[str, Array],
        input_values: Mapping[str, Array],
        steps: int,
        requested: Mapping[str, frozenset[str]],
    ) -> dict[Key, Array]:
        """Advance by ``steps`` time steps; the requested variables, ``[steps, batch, *shape]``."""
        q, of = self.of.quantized, self.of
        history = {x.name: self._room(x.name, int(np.prod(x.shape)), steps) for x in (*q.inputs, *q.populations)}
        for name, array in values.items():
            history[name][of.depths[name] :] = array
        traces: dict[Key, Array] = {}
        for p in q.populations:
            need = requested.get(p.name, frozenset())
            traces |= {(p.name, x): np.zeros((steps, self.batch, p.size), np.int64) for x in ("u", "v") if x in need}
        self.advance(history, steps, traces)
        self.step += steps
        self.past = {n: history[n][len(history[n]) - d :] for n, d in of.depths.items() if d}
        return self._found(input_values, steps, history, traces, requested)

    def _room(self, name: str, size: int, steps: int) -> Array:
        depth = self.of.depths[name]
        room = np.zeros((depth + steps, self.batch, size), self.of.sent[name])
        if depth:
            room[:depth] = self.past[name]
        return room

    def _found(
        self,
        input_values: Mapping[str, Array],
        steps: int,
        history: Mapping[str, Array],
        traces: Mapping[Key, Array],
        requested: Mapping[str, frozenset[str]],
    ) -> dict[Key, Array]:
        q, lead = self.of.quantized, (steps, self.batch)
        recorded: dict[Key, Array] = {(name, "s"): array for name, array in input_values.items()}
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
        q, arrays = self.of.quantized, dict[Key, Array]()
        shapes = {x.name: x.shape for x in (*q.inputs, *q.populations)}
        for key, values in self.states().items():
            arrays[key] = freeze(values.reshape(self.batch, *shapes[key[0]]), np.int64)
        for name, past in self.past.items():
            arrays[name, "past"] = freeze(past.reshape(-1, self.batch, *shapes[name]), np.int64)
        return SimulationState(self.step, arrays)

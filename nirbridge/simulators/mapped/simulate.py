"""The mapped simulator: a quantized network on the cores of its map, axon by axon.

Each core holds its own slices, the synapse lists of its input axons and ring buffers for delays. It receives only what
arrives on its axons, and spikes travel only along routes of the map. The result equals that of the fixed simulator bit
for bit, computed from the map alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nirbridge._types import Progress
from nirbridge.arrays import Array
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.storage.file import map_bytes, map_to_dict
from nirbridge.mapping.storage.record import MapRecord, map_from_dict
from nirbridge.program.rules import states_of
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.fixed.runs import IntegerRun, IntegerSimulator
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.mapped.core import RunningCore
from nirbridge.simulators.mapped.tables import load_board
from nirbridge.simulators.threads import refuse_threads
from nirbridge.simulators.types import Key, Probe, Recording, SimulationResult, SimulationState


def simulate_mapped(
    quantized: QuantizedNetwork,
    mapping: MappedNetwork | MapRecord,
    inputs: Mapping[str, Input] | Input,
    *,
    steps: int | None = None,
    record: Sequence[Probe] | None = None,
    drain: bool = False,
    progress: Progress | None = None,
) -> Recording:
    """Run a quantized network core by core on its map.

    Args:
        quantized: the network in integers.
        mapping: its map, computed or loaded from a file.
        inputs: see ``simulate``: ``[steps, *shape]`` or ``[steps, batch, *shape]``, by input name or one alone.
        steps: number of time steps; default: the length of the inputs.
        record: see ``simulate_fixed``.
        drain: see ``simulate_fixed``.
        progress: called with a stage and the completed fraction.

    Raises:
        IllegalMapping: the map is not of this network, does not hold every neuron once, or lacks a route or an axon.
        UsageError: wrong inputs or records.
    """
    simulator = MappedSimulator(quantized, mapping)
    return simulator.run(inputs, steps=steps, record=record, drain=drain, progress=progress).recording


class MappedSimulator(IntegerSimulator):
    """A quantized network on the cores of its map, prepared to be run many times. Errors as of ``simulate_mapped``."""

    def __init__(self, quantized: QuantizedNetwork, mapping: MappedNetwork | MapRecord) -> None:
        self.board = board = load_board(quantized, map_record(mapping))
        super().__init__(quantized, backend="mapped", cores=len(board.cores), routes=len(board.routes))

    def run(self, inputs: Mapping[str, Input] | Input, *, threads: int = 1, **options: Any) -> SimulationResult:
        """See ``IntegerSimulator``; in one thread."""
        refuse_threads("mapped", threads)
        return super().run(inputs, **options)

    def start(self, batch: int, state: SimulationState | None) -> MappedRun:
        """See ``IntegerSimulator``."""
        return MappedRun(self, batch, state)

    def stretch(self, batch: int) -> int:
        """See ``IntegerSimulator``."""
        return min(16, super().stretch(batch))


def map_record(mapping: MappedNetwork | MapRecord) -> MapRecord:
    """The map in the form of its file."""
    if isinstance(mapping, MapRecord):
        return mapping
    return map_from_dict(json.loads(map_bytes(map_to_dict(mapping, "mapped", ""))), "mapping")


class MappedRun(IntegerRun):
    """The samples of a batch, each on cores of its own."""

    def __init__(self, simulator: MappedSimulator, batch: int, state: SimulationState | None) -> None:
        super().__init__(simulator, batch, state)
        self.board, quantized = simulator.board, simulator.quantized
        self.populations = {p.name: p for p in quantized.populations}
        cores = self.board.cores
        self.samples = [
            [RunningCore(core, self.populations, self.board.longest_delay) for core in cores] for _ in range(batch)
        ]
        if state is not None:
            for sample in range(batch):
                self._restore(sample)

    def _restore(self, sample: int) -> None:
        """The neurons and, of what was sent before, the weights that are still to arrive."""
        for core in self.samples[sample]:
            for cells in core.cells:
                name = cells.piece.population
                for part in states_of(self.populations[name].neuron):
                    values = self.first.arrays[name, part][sample].reshape(-1)
                    setattr(cells, part, values[cells.piece.neurons])
        for age in range(max(map(len, self.past.values()), default=0), 0, -1):
            sent = {
                name: past[-age, sample]
                for name, past in self.past.items()
                if len(past) >= age and (name not in self.populations or self.populations[name].neuron.fires)
            }
            for core in self.samples[sample]:
                for cells in core.cells:
                    piece, values = cells.piece, sent.get(cells.piece.population)
                    core.sent[piece.start : piece.stop] = 0 if values is None else values[piece.neurons]
            self._deliver(sample, self.step - age, sent)

    def _deliver(self, sample: int, step: int, sent: Mapping[str, Array]) -> None:
        """Take the spikes of a time step along the routes; ``sent``: of the inputs that there are, flat."""
        cores = self.samples[sample]
        for route in self.board.routes:
            spikes = sent.get(route.source_input or "") if route.source is None else cores[route.source].sent
            if spikes is None:
                continue
            counts = spikes[route.slots].astype(np.int64)
            active = np.flatnonzero(counts)
            if len(active):
                cores[route.target].receive(step, route.axons[active], counts[active], self.step)

    def advance(self, history: Mapping[str, Array], steps: int, traces: Mapping[Key, Array]) -> None:
        """See ``IntegerRun``."""
        first, depths = self.step, self.of.depths
        for sample, cores in enumerate(self.samples):
            for t in range(steps):
                for core in cores:
                    core.step(first + t)
                sent = {p.name: history[p.name][depths[p.name] + t, sample] for p in self.of.quantized.inputs}
                self._deliver(sample, first + t, sent)
                self._keep(cores, {n: history[n][depths[n] + t, sample] for n in self.populations}, sample, t, traces)

    def _keep(
        self, cores: Sequence[RunningCore], sent: Mapping[str, Array], sample: int, t: int, traces: Mapping[Key, Array]
    ) -> None:
        """Copy what populations sent (v of a readout), and the traces."""
        for core in cores:
            for cells in core.cells:
                piece, name = cells.piece, cells.piece.population
                fires = self.populations[name].neuron.fires
                sent[name][piece.neurons] = core.sent[piece.start : piece.stop] if fires else cells.v
                for variable, values in (("u", cells.u), ("v", cells.v)):
                    if (name, variable) in traces:
                        traces[name, variable][t, sample, piece.neurons] = values

    def states(self) -> Mapping[Key, Array]:
        """See ``IntegerRun``."""
        found = {
            (p.name, part): np.zeros((self.batch, p.size), np.int64)
            for p in self.populations.values()
            for part in states_of(p.neuron)
        }
        for sample, cores in enumerate(self.samples):
            for cells in (cells for core in cores for cells in core.cells):
                name = cells.piece.population
                for part in states_of(self.populations[name].neuron):
                    found[name, part][sample, cells.piece.neurons] = getattr(cells, part)
        return found

"""The mapped simulator: a quantized network on the cores of its map, axon by axon.

Each core holds its own slices, the synapse lists of its input axons and ring buffers for delays. It receives only what
arrives on its axons, and spikes travel only along routes of the map. The result equals that of the fixed simulator bit
for bit, computed from the map alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from nirbridge._types import Progress
from nirbridge.arrays import Array
from nirbridge.mapping.model import MappedNetwork
from nirbridge.mapping.storage.file import map_bytes, map_to_dict
from nirbridge.mapping.storage.record import MapRecord, map_from_dict
from nirbridge.quantization.model import QuantizedNetwork
from nirbridge.simulators.fixed.host_io import (
    fixed_channels,
    fixed_meta,
    integer_inputs,
    late_of,
    readout_values,
    signature_network,
)
from nirbridge.simulators.inputs import Input
from nirbridge.simulators.mapped.core import RunningCore
from nirbridge.simulators.mapped.tables import LoadedBoard, load_board
from nirbridge.simulators.recording import ChannelRecorder, required_variables
from nirbridge.simulators.reference.state import check_history
from nirbridge.simulators.types import Key, Probe, Recording


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
    board = load_board(quantized, map_record(mapping))
    check_history((*quantized.inputs, *quantized.populations), (*quantized.projections, *quantized.reads), 1)
    channels = fixed_channels(quantized, signature_network(quantized), record)
    late = late_of(quantized, drain=drain)
    input_values, batched = integer_inputs(quantized, inputs, steps, max(late.values(), default=0))
    length, samples = next(iter(input_values.values())).shape[:2]
    kept = length - max(late.values(), default=0)
    recorder = ChannelRecorder(channels, 0, kept, samples, late)
    requested = required_variables(channels)
    recorded = {key: _blank(quantized, key, length, samples) for key in _needed(quantized, requested)}
    for sample in range(samples):
        run = _MappedRun(board, quantized, {name: values[:, sample] for name, values in input_values.items()})
        for step in range(length):
            run.step(step)
            run.keep(step, sample, recorded)
            if progress is not None and step % 16 == 0:
                progress("mapped", (sample * length + step) / (samples * length))
    recorder.take(_found(quantized, requested, recorded, input_values), length, np.asarray)
    facts = {"late": late, "backend": "mapped", "cores": len(board.cores), "routes": len(board.routes)}
    return recorder.finish(batched, fixed_meta(quantized, kept, 0, samples if batched else None, **facts))


def map_record(mapping: MappedNetwork | MapRecord) -> MapRecord:
    """The map in the form of its file."""
    if isinstance(mapping, MapRecord):
        return mapping
    return map_from_dict(json.loads(map_bytes(map_to_dict(mapping, "mapped", ""))), "mapping")


class _MappedRun:
    """One sample on all cores."""

    def __init__(self, board: LoadedBoard, quantized: QuantizedNetwork, input_values: Mapping[str, Array]) -> None:
        populations = {p.name: p for p in quantized.populations}
        self.board, self.input_values = board, input_values
        self.cores = [RunningCore(core, populations, board.longest_delay) for core in board.cores]

    def step(self, step: int) -> None:
        """Advance every core by one time step, then deliver the spikes."""
        inputs = {name: values[step].reshape(-1) for name, values in self.input_values.items()}
        for core in self.cores:
            core.step(step)
        for route in self.board.routes:
            spikes = inputs[route.source_input or ""] if route.source is None else self.cores[route.source].sent
            counts = spikes[route.slots]
            active = np.flatnonzero(counts)
            if len(active):
                self.cores[route.target].receive(step, route.axons[active], counts[active])

    def keep(self, step: int, sample: int, recorded: Mapping[Key, Array]) -> None:
        """Copy the recorded variables."""
        for core in self.cores:
            for cells in core.cells:
                piece = cells.piece
                values = {"s": core.sent[piece.start : piece.stop], "u": cells.u, "v": cells.v}
                for variable, values_of_slice in values.items():
                    array = recorded.get((piece.population, variable))
                    if array is not None:
                        array[step, sample].reshape(-1)[piece.neurons] = values_of_slice


# -- recorded arrays -------------------------------------------------------------------------------------------------


def _needed(quantized: QuantizedNetwork, requested: Mapping[str, frozenset[str]]) -> list[Key]:
    """Variables that the run stores: the requested ones, and those that requested outputs are read from."""
    fires = {p.name: p.neuron.fires for p in quantized.populations}
    keys = [
        (node, variable) for node, variables in requested.items() for variable in sorted(variables) if node in fires
    ]
    sources = [p.source for p in quantized.reads if p.target in requested and p.source in fires]
    return list(dict.fromkeys([*keys, *((name, "s" if fires[name] else "v") for name in sources)]))


def _blank(quantized: QuantizedNetwork, key: Key, steps: int, samples: int) -> Array:
    p = quantized.population(key[0])
    return np.zeros((steps, samples, *p.shape), "int16" if key[1] == "s" else "int32")


def _found(
    quantized: QuantizedNetwork,
    requested: Mapping[str, frozenset[str]],
    recorded: Mapping[Key, Array],
    input_values: Mapping[str, Array],
) -> dict[Key, Array]:
    """All requested arrays; the host computes outputs from the arrays of their sources."""
    worth = {p.name: p.scale for p in quantized.inputs}
    complete = {**recorded, **{(name, "s"): values * worth.get(name, 1.0) for name, values in input_values.items()}}
    for port in quantized.outputs:
        if port.name not in requested:
            continue
        reads_of_port = [p for p in quantized.reads if p.target == port.name]
        depths = {
            p.source: max(int(q.delay_steps.max()) for q in reads_of_port if q.source == p.source)
            for p in reads_of_port
        }
        sent = {name: _before(_sent(name, recorded, input_values), depth) for name, depth in depths.items()}
        steps = len(next(iter(input_values.values())))
        complete[port.name, "s"] = complete[port.name, "v"] = readout_values(quantized, port, steps, sent, depths)
    return complete


def _sent(name: str, recorded: Mapping[Key, Array], input_values: Mapping[str, Array]) -> Array:
    if name in input_values:
        return input_values[name]
    return recorded[name, "s"] if (name, "s") in recorded else recorded[name, "v"]


def _before(sent: Array, steps: int) -> Array:
    """Flat over neurons, with ``steps`` silent time steps prepended."""
    flat = sent.reshape(*sent.shape[:2], -1)
    return np.concatenate([np.zeros((steps, *flat.shape[1:]), flat.dtype), flat])

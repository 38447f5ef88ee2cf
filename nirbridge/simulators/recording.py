"""Validation of probes, and the arrays that a run fills."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import Diagnostic, UsageError, nearest, quoted
from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network, Population, Port
from nirbridge.network.operators import Identity, Reshape
from nirbridge.simulators.types import Probe, Recording

VARIABLES = ("s", "v", "u", "i", "count")
ALL = "*"
_LARGEST = np.iinfo(np.int16).max


@dataclass(frozen=True, slots=True)
class Channel:
    """One array of a recording: ``variable`` is stored, ``source`` is the variable of the run it is made from."""

    node: str
    variable: str
    source: str
    shape: tuple[int, ...]
    dtype: str
    every: int


def recording_channels(
    network: Network, records: Sequence[Probe] | None, binary: frozenset[str], dtype: str
) -> list[Channel]:
    """Every requested array, in order; ``'*'`` stands for all populations and outputs that have the variable.

    Raises:
        UsageError: unknown nodes (with the nearest names), variables that a node does not have, contradictions.
    """
    types = output_dtypes(network, binary, dtype)
    probes = default_probes(network) if records is None else records
    by_key: dict[tuple[str, str], Channel] = {}
    problems: list[Diagnostic] = []
    for node, variable, every, sure in _each(network, probes, problems):
        trouble = _trouble(node, variable, types[node.name])
        if trouble is not None:
            problems += [trouble] if sure else []
            continue
        channel = _channel(network, node, variable, every, types, dtype)
        if by_key.setdefault((node.name, variable), channel) != channel:
            subject = f"record {quoted(node.name)}, variable {variable}"
            problems.append(Diagnostic(subject, "is requested with different values of 'every'", "", "request it once"))
    UsageError.raise_all(problems)
    return list(by_key.values())


def default_probes(network: Network) -> list[Probe]:
    """``s`` of every output, ``v`` of outputs that only a readout leads to."""
    return [Probe(port.name, ("v" if _reads_out(network, port) else "s",)) for port in network.outputs]


def _reads_out(network: Network, port: Port) -> bool:
    silent = {p.name for p in network.populations if not p.neuron.fires}
    sources = {p.source for p in network.projections if p.target == port.name}
    return bool(sources) and sources <= silent


def _each(
    network: Network, records: Sequence[Probe], problems: list[Diagnostic]
) -> Iterator[tuple[Port | Population, str, int, bool]]:
    """(node, variable, every, whether the node was requested by name)."""
    nodes: dict[str, Port | Population] = {n.name: n for n in (*network.inputs, *network.populations, *network.outputs)}
    star = [*network.populations, *network.outputs]
    for record in records:
        subject = f"record {quoted(record.node)}"
        if record.every < 1:
            problems.append(Diagnostic(subject, f"one step in {record.every}", "every is at least 1", "correct it"))
        unknown = [v for v in record.variables if v not in VARIABLES]
        for variable in unknown:
            valid = ", ".join(VARIABLES)
            problems.append(
                Diagnostic(subject, f"no variable {quoted(variable)}", f"there are {valid}", "choose one of them")
            )
        if record.node != ALL and record.node not in nodes:
            problems.append(_no_node(subject, record.node, list(nodes)))
        else:
            nodes_recorded = star if record.node == ALL and ALL not in nodes else [nodes[record.node]]
            for node in nodes_recorded:
                for variable in record.variables:
                    yield node, variable, record.every, record.node in nodes


def _no_node(subject: str, name: str, names: list[str]) -> Diagnostic:
    near = nearest(name, names, 3)
    shown = ", ".join(map(quoted, near or names[:8]))
    return Diagnostic(
        subject, "no population, input or output of that name", "", f"{'nearest' if near else 'known'}: {shown}"
    )


def _trouble(node: Port | Population, variable: str, sent: str) -> Diagnostic | None:
    subject = f"record {quoted(node.name)}, variable {variable}"
    if isinstance(node, Port):
        if variable in ("u", "i"):
            return Diagnostic(subject, "an input or output has no neurons", "", "record 's' of it")
    elif not node.neuron.fires and variable in ("s", "count"):
        return Diagnostic(subject, "a readout does not spike", "it has v, u and i", "record 'v' of it")
    if variable == "count" and sent.startswith("float"):
        return Diagnostic(subject, "it sends values, not spikes", "", "record 's' of it")
    return None


def _channel(
    network: Network, node: Port | Population, variable: str, every: int, types: Mapping[str, str], dtype: str
) -> Channel:
    if variable == "count":
        return Channel(node.name, "count", "s", node.shape, "int64", 1)
    is_input = any(port.name == node.name for port in network.inputs)
    kind = types[node.name] if variable == "s" else dtype
    return Channel(node.name, variable, "s" if is_input else variable, node.shape, kind, every)


def output_dtypes(network: Network, binary: frozenset[str], dtype: str) -> dict[str, str]:
    """Type of the output of each node: uint8 for 0 and 1, int16 or int32 for several spikes, else the float type."""
    types = {port.name: "uint8" if port.name in binary else dtype for port in network.inputs}
    for p in network.populations:
        several = "int16" if p.neuron.max_spikes <= _LARGEST else "int32"
        types[p.name] = dtype if not p.neuron.fires else "uint8" if p.neuron.max_spikes == 1 else several
    for port in network.outputs:
        source = copied_source(network, port.name)
        types[port.name] = dtype if source is None else types[source]
    return types


def copied_source(network: Network, output: str) -> str | None:
    """The node whose values an output copies, perhaps later; None where values are summed or weighted."""
    incoming = [p for p in network.projections if p.target == output]
    plain = len(incoming) == 1 and incoming[0].bias is None
    copies = plain and all(isinstance(part, Identity | Reshape) for part in parts_of(incoming[0].operator))
    return incoming[0].source if copies else None


def _count(values: Array) -> Array:
    """Sum over the first axis; bytes (spikes of 0 or 1) are added as bytes, as many at a time as cannot overflow."""
    if values.dtype != np.uint8:
        return values.sum(axis=0, dtype=np.float64).astype(np.int64)
    total = np.zeros(values.shape[1:], np.int64)
    for start in range(0, len(values), 255):
        total += np.add.reduce(values[start : start + 255], axis=0, dtype=np.uint8)
    return total


def required_variables(recorded: Sequence[Channel]) -> dict[str, frozenset[str]]:
    """The variables of the run that the channels need, by node."""
    out: dict[str, set[str]] = {}
    for channel in recorded:
        out.setdefault(channel.node, set()).add(channel.source)
    return {node: frozenset(variables) for node, variables in out.items()}


class ChannelRecorder:
    """Arrays of a recording, filled chunk by chunk; nothing else of a run is kept.

    ``late``: by node, the time steps of a longer run that come before its first recorded one; ``steps`` are recorded.
    """

    def __init__(
        self,
        recorded: Sequence[Channel],
        first_step: int,
        steps: int,
        batch: int,
        late: Mapping[str, int] | None = None,
    ) -> None:
        self.channels, self.step, self.stop, self.late = recorded, first_step, first_step + steps, late or {}
        self.filled = [0] * len(recorded)
        self.arrays: list[Array] = []
        for channel in recorded:
            rows = (first_step + steps) // channel.every - first_step // channel.every
            lead = (batch,) if channel.variable == "count" else (rows, batch)
            self.arrays.append(np.zeros((*lead, *channel.shape), channel.dtype))

    def split(self, parts: Sequence[slice]) -> list[ChannelRecorder]:
        """A recorder of the samples of each part, which fills the arrays of this one."""
        recorders = []
        for samples in parts:
            recorder = copy(self)
            recorder.filled = list(self.filled)
            counts = [channel.variable == "count" for channel in self.channels]
            recorder.arrays = [a[samples] if c else a[:, samples] for a, c in zip(self.arrays, counts, strict=True)]
            recorders.append(recorder)
        return recorders

    def take(self, chunk: Mapping[tuple[str, str], Any], steps: int, to_numpy: Callable[[Any], Array]) -> None:
        """Record the next ``steps`` time steps; with ``every``, the last of each group, counted from time step 0."""
        for k, channel in enumerate(self.channels):
            late = self.late.get(channel.node, 0)
            start, stop = max(0, late - self.step), max(0, min(steps, late + self.stop - self.step))
            values = to_numpy(chunk[channel.node, channel.source])[start:stop]
            if channel.variable == "count":
                self.arrays[k] += _count(values)
                continue
            first = (late - self.step - start - 1) % channel.every
            part = values[first :: channel.every]
            self.arrays[k][self.filled[k] : self.filled[k] + len(part)] = part
            self.filled[k] += len(part)
        self.step += steps

    def finish(self, batched: bool, meta: Mapping[str, Any]) -> Recording:
        """The recording, its arrays read-only and without the batch axis where the input had none."""
        out: dict[tuple[str, str], Array] = {}
        for channel, array in zip(self.channels, self.arrays, strict=True):
            shown = array if batched else (array[0] if channel.variable == "count" else array[:, 0])
            shown.flags.writeable = False
            out[channel.node, channel.variable] = shown
        every = {f"{c.node}/{c.variable}": c.every for c in self.channels if c.every > 1}
        return Recording(MappingProxyType(out), MappingProxyType({**meta, "every": every}))

"""Events of time steps on the cores of a map, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nirbridge.arrays import Array
from nirbridge.chips.model import SynapseKind


@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """One entry per message: a spike on its way to one core. All arrays [messages], int64 but ``ops``.

    ``step`` its time step; ``source`` and ``target`` blocks (``source`` is -1 for a host input). ``accesses``,
    ``updates``, ``spikes``, ``sent``: the work of the source core in this time step up to the moment at which the
    message leaves it: neurons accessed and updated, spikes, and messages, itself included; all 0 for host inputs. Links
    of its path: ``hops_x`` and ``hops_y`` within chips, ``crossings_x`` and ``crossings_y`` between chips. ``ops``:
    its synapses in the target core, by kind.
    """

    step: Array
    source: Array
    target: Array
    accesses: Array
    updates: Array
    spikes: Array
    sent: Array
    hops_x: Array
    hops_y: Array
    crossings_x: Array
    crossings_y: Array
    ops: Mapping[SynapseKind, Array]

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True, slots=True, eq=False)
class StepEvents:
    """Events of time steps. Per core [steps, blocks]; whole numbers where they are counted, not expected.

    ``synaptic_ops`` by kind of synapse; ``axons_out`` and ``axons_in`` are messages, one per spike and destination
    core, the own core included. Per time step [steps]: links of all messages, within chips (``hops_x``, ``hops_y``) and
    between chips (``crossings_x``, ``crossings_y``), messages of host inputs, and the most messages over one link along
    x, along y (links between chips included), and between chips. ``tiles``: tiles of which a core holds neurons.
    """

    synaptic_ops: Mapping[SynapseKind, Array]
    neuron_accesses: Array
    neuron_updates: Array
    spikes: Array
    axons_out: Array
    axons_in: Array
    hops_x: Array
    hops_y: Array
    crossings_x: Array
    crossings_y: Array
    host_messages: Array
    link_x: Array
    link_y: Array
    link_between: Array
    tiles: int
    messages: Messages

    @property
    def steps(self) -> int:
        """Number of time steps."""
        return len(self.hops_x)


@dataclass(frozen=True, slots=True, eq=False)
class StepCosts:
    """Energy and time of each time step, float64 [steps], with their parts by kind of event, which sum to them.

    None and no parts where the chip has no figures. The parts of the time are those of the longest chain of work: see
    ``mapping.cost.time``.
    """

    energy_j: Array | None
    time_s: Array | None
    energy_parts_j: Mapping[str, Array]
    time_parts_s: Mapping[str, Array]


def joined_costs(parts: list[StepCosts]) -> StepCosts:
    """The costs of time steps that were priced in several goes, one after the other."""
    if len(parts) == 1:
        return parts[0]

    def whole(arrays: list[Array | None]) -> Array | None:
        known = [a for a in arrays if a is not None]
        return np.concatenate(known) if known else None

    def by_kind(maps: list[Mapping[str, Array]]) -> dict[str, Array]:
        return {kind: np.concatenate([m[kind] for m in maps]) for kind in maps[0]}

    return StepCosts(
        whole([p.energy_j for p in parts]),
        whole([p.time_s for p in parts]),
        by_kind([p.energy_parts_j for p in parts]),
        by_kind([p.time_parts_s for p in parts]),
    )

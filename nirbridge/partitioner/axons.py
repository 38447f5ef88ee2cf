"""Who sends to whom once the blocks are known: the axon table, grouped by sets of target blocks."""

from __future__ import annotations

from dataclasses import dataclass

from nirbridge.arrays import Array

HOST = -1


@dataclass(frozen=True, slots=True, eq=False)
class AxonTable:
    """Source neurons grouped by (source population or port, source block, set of target blocks).

    Per group g: ``source_name[g]`` indexes ``names``; ``source_block[g]`` is a block id or ``HOST``; ``neurons[g]``
    distinct source neurons; ``spikes_per_step[g]`` their summed rate. Its target blocks, ascending, are
    ``targets[target_ptr[g]:target_ptr[g + 1]]`` (the own block included where it has targets there), with, per entry,
    ``synapses`` (all synapses of the group's neurons in that block) and ``synaptic_ops_per_step`` (each synapse times
    the rate of its source). Every group has at least one target. Groups are in a fixed order.
    """

    names: tuple[str, ...]
    source_name: Array
    source_block: Array
    neurons: Array
    spikes_per_step: Array
    target_ptr: Array
    targets: Array
    synapses: Array
    synaptic_ops_per_step: Array

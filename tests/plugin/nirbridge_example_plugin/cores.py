"""A partitioner that places one population after the other."""

from __future__ import annotations

from dataclasses import replace

from nirbridge.chips.model import Chip
from nirbridge.errors import instance_of
from nirbridge.network.model import Network
from nirbridge.partitioner import Partition, PartitionOptions, partition


def one_each(network: Network, chip: Chip, options: PartitionOptions) -> Partition:
    """A layer at a time, under its own name."""
    kinds = {"network": (network, Network), "chip": (chip, Chip), "options": (options, PartitionOptions)}
    for what, (value, kind) in kinds.items():
        instance_of(value, kind, f"{what} of partitioner 'one_each'")
    found = partition(network, chip, replace(options, method="sequential"))
    return replace(found, report=replace(found.report, method="one_each"))

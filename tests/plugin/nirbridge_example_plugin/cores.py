"""A partitioner that is content with what packing finds."""

from __future__ import annotations

from dataclasses import replace

from nirbridge.chips.model import Chip
from nirbridge.network.model import Network
from nirbridge.partitioner import Partition, PartitionOptions, partition


def one_each(network: Network, chip: Chip, options: PartitionOptions) -> Partition:
    """A layer at a time, said under its own name."""
    found = partition(network, chip, replace(options, method="sequential"))
    return replace(found, report=replace(found.report, method="one_each"))

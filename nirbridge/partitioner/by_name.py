"""Every method of partitioning by its name, in the form that plugins have (``nirbridge.plugins.Partitioner``)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nirbridge.chips.model import Chip
from nirbridge.errors import instance_of
from nirbridge.network.model import Network
from nirbridge.partitioner.model import Partition
from nirbridge.partitioner.options import PartitionOptions
from nirbridge.partitioner.partition import partition


@dataclass(frozen=True, slots=True)
class Method:
    """``partition`` with one method, regardless of the method in its options."""

    name: str

    def __call__(self, network: Network, chip: Chip, options: PartitionOptions | None = None) -> Partition:
        """See ``partition``."""
        subject = f"partitioner '{self.name}'"
        model = instance_of(network, Network, f"network of {subject}")
        target = instance_of(chip, Chip, f"chip of {subject}")
        settings = (
            PartitionOptions() if options is None else instance_of(options, PartitionOptions, f"options of {subject}")
        )
        return partition(model, target, replace(settings, method=self.name))


SEQUENTIAL = Method("sequential")
PACKED = Method("packed")
CP_SAT = Method("cp-sat")

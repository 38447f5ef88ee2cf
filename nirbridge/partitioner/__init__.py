"""Tiling of populations into slices and packing of these into as few cores as possible, with a proved bound."""

from nirbridge.partitioner.cost.axons import AxonTable, axon_table
from nirbridge.partitioner.model import Block, Partition, Slice, SolveReport
from nirbridge.partitioner.partition import partition
from nirbridge.partitioner.searches import METHODS, PartitionOptions

__all__ = [
    "METHODS",
    "AxonTable",
    "Block",
    "Partition",
    "PartitionOptions",
    "Slice",
    "SolveReport",
    "axon_table",
    "partition",
]

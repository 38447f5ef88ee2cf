"""Partitions that many tests ask for, searched once in a process: a search gives equal results each time it is made.

For tests of what is said of a map. That equal inputs give equal maps is tested where every map is searched anew, in
``tests/pipeline`` and ``tests/golden``.
"""

from __future__ import annotations

import math
from dataclasses import replace

from nirbridge._types import no_progress
from nirbridge.chips.model import Chip
from nirbridge.network.model import Network
from nirbridge.partitioner import Partition, PartitionOptions
from nirbridge.partitioner.partition import CP_SAT
from nirbridge.testing.faults import fingerprint

_SEARCH = CP_SAT
_FOUND: dict[str, Partition] = {}
_NODES_MAX = 2000
"""Networks of more neurons and inputs are searched each time: their arrays would have to be read for a digest."""


def searched_once(network: Network, chip: Chip, options: PartitionOptions | None = None) -> Partition:
    """``CP_SAT``, whose results are kept for networks, chips and options of equal values."""
    if sum(math.prod(each.shape) for each in (*network.inputs, *network.populations)) > _NODES_MAX:
        return _SEARCH(network, chip, options)
    key = fingerprint((network, chip, replace(options or PartitionOptions(), progress=no_progress)))
    if key not in _FOUND:
        _FOUND[key] = _SEARCH(network, chip, options)
    return _FOUND[key]

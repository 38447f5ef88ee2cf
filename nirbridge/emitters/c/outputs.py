"""Outputs of a network in float32 that are a population as it is, so that a program shows its values."""

from __future__ import annotations

from typing import Any

import numpy as np

from nirbridge.network.compose import parts_of
from nirbridge.network.model import Network
from nirbridge.network.operators import Identity, Reshape


def direct_outputs(network: Network) -> dict[str, str]:
    """The outputs that are a population as it is, and that population."""
    populations, found = {p.name for p in network.populations}, {}
    for port in network.outputs:
        reads = [p for p in network.projections if p.target == port.name]
        if len(reads) == 1 and reads[0].source in populations and _is_direct(reads[0]):
            found[port.name] = reads[0].source
    return found


def _is_direct(p: Any) -> bool:
    plain = all(isinstance(part, Identity | Reshape) for part in parts_of(p.operator))
    return plain and p.bias is None and not np.any(p.delay_steps) and not np.any(p.target_delay_steps)

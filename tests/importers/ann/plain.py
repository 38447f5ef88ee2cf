"""An ANN as the unscaled network that a conversion starts from."""

from __future__ import annotations

from typing import Any

from nirbridge.importers.ann.from_torch import rectified_flow, replayable_network
from nirbridge.network.model import Network


def read_ann(module: Any, sample: Any, dt: float) -> Network:
    """The network whose populations are the rectifiers of ``module``."""
    return replayable_network(rectified_flow(module, sample), dt)

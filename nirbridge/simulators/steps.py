"""Single time steps on a run that advances in chunks: the ``Runner`` of the simulators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.simulators.recording import Channel
from nirbridge.simulators.types import Key, SimulationState


class ChunkRunner:
    """A ``Runner`` that advances a run by chunks of one time step.

    ``advance``: takes inputs ``[1, batch, *shape]`` by name and returns the variables that ``channels`` need.
    """

    def __init__(
        self,
        advance: Callable[[Mapping[str, Array]], Mapping[Key, Any]],
        channels: Sequence[Channel],
        state: Callable[[], SimulationState],
        to_numpy: Callable[[Any], Array] = np.asarray,
    ) -> None:
        self._advance, self._numpy, self.state = advance, to_numpy, state
        self._outputs = [(c.node, (c.node, c.source), np.dtype(c.dtype)) for c in channels]

    def step(self, values: Mapping[str, Array]) -> Mapping[str, Array]:
        """See ``Runner``."""
        found = self._advance({name: x[None] for name, x in values.items()})
        return {name: np.array(self._numpy(found[key])[0], dtype) for name, key, dtype in self._outputs}

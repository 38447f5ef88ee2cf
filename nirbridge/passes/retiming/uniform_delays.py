"""Projections whose delay differs per target, as several projections of one delay each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from nirbridge.arrays import compact, freeze
from nirbridge.network.masking import only_targets
from nirbridge.network.model import Network, Projection
from nirbridge.passes.base import Promise, check_argument


@dataclass(frozen=True, slots=True)
class UniformDelays:
    """Move every delay to the source side, so that ``target_delay_steps`` is 0 everywhere.

    A delay that all targets share is added to ``delay_steps``. Delays that differ split the projection into one per
    distinct delay, each for the targets that have it. Every target gets the same input as before, bit for bit.
    """

    pass_name: ClassVar[str] = "uniform-delays"
    promise: Promise = field(default="same", init=False, repr=False)

    def __call__(self, network: Network) -> Network:
        """The network with delays at the sources; the same object where nothing has to move.

        Raises:
            ModelError: a projection that has to be split has too many synapses to be listed.
        """
        check_argument(self, network)
        if not any(p.target_delay_steps.any() for p in network.projections):
            return network
        return replace(network, projections=tuple(q for p in network.projections for q in _even(p)))


def _even(p: Projection) -> Iterator[Projection]:
    delays = np.unique(p.target_delay_steps)
    no_delay = freeze(np.int64(0))
    if len(delays) == 1:
        yield replace(p, delay_steps=compact(p.delay_steps + int(delays[0])), target_delay_steps=no_delay)
        return
    for steps in delays.tolist():
        has_delay = p.target_delay_steps == steps
        bias = None if p.bias is None else freeze(np.where(has_delay, p.bias, np.zeros((), p.bias.dtype)))
        yield replace(
            p,
            operator=only_targets(p.operator, has_delay),
            bias=bias,
            delay_steps=compact(p.delay_steps + steps),
            target_delay_steps=no_delay,
            nodes=(),
        )

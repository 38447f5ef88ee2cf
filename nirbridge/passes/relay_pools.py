"""Relay populations inside composed projections, so that a pool becomes neurons of its own."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from nirbridge.arrays import freeze
from nirbridge.errors import ModelError, UsageError, quoted
from nirbridge.network import Network, Neuron, Population, Projection, neuron
from nirbridge.network.compose import compose, parts_of
from nirbridge.network.naming import fresh_name
from nirbridge.network.operators import Operator, SumPool
from nirbridge.passes.base import Promise, check_argument
from nirbridge.passes.text import check_options


@dataclass(frozen=True, slots=True)
class RelayPools:
    """Put a relay population after each pool that is followed by another operator: pool -> relay -> rest.

    A relay is an integrate-and-fire neuron that passes on the count of its window: threshold 1 with ``>=``, reset by
    subtraction of 1, no leak. It adds no time step on the reference (delay 0 in, the projection's delay out).

    **How the meaning changes.** With ``graded_spikes`` a relay sends up to the window's size of spikes in one step as
    one graded spike, and nothing changes as long as the sources send 0 or 1 and the pool sums (factor 1): the
    count of a time step arrives in it, and the weights after it see the same sum. Without graded spikes a relay sends
    at most one spike per time step: the rest of a window's count stays in its potential and is sent in later steps. The
    number of spikes is kept over a long enough run without further input, their times are not, and a recording that
    ends earlier misses the spikes that are still held. A pool with another factor (AvgPool2d) scales the counts: its
    relay collects fractions and sends whole spikes only, so that the mean is kept and up to one spike per relay is held
    back; then the meaning changes even with graded spikes.

    ``names``: NIR nodes of the pools (``Projection.nodes``); None: every pool followed by another operator.
    ``graded_spikes``: whether the chip sends spikes with a payload.
    """

    pass_name: ClassVar[str] = "relay-pools"
    promise: Promise = field(default="changed", init=False, repr=False)
    names: tuple[str, ...] | None = None
    graded_spikes: bool = False

    def __post_init__(self) -> None:
        check_options(self)

    def __call__(self, network: Network) -> Network:
        """The network with the relays.

        Raises:
            UsageError: a name that is no pool followed by another operator.
        """
        check_argument(self, network)
        requested = None if self.names is None else set(self.names)
        split: set[str] = set()
        index = 0
        while index < len(network.projections):
            part = _pool_to_split(network.projections[index], requested)
            if part is None:
                index += 1
                continue
            split.add(_node_name(network.projections[index], part) or "")
            network = RelayProjection(index, part, self.graded_spikes)(network)
        missing = sorted((requested or set()) - split)
        if missing:
            shown = ", ".join(quoted(n) for n in missing)
            raise UsageError.of(f"relay-pools {shown}", "no pool of that name is followed by another operator")
        return network


def _pool_to_split(p: Projection, names: Collection[str] | None) -> int | None:
    parts = parts_of(p.operator)
    for k, part in enumerate(parts[:-1]):
        if isinstance(part, SumPool) and (names is None or _node_name(p, k) in names):
            return k
    return None


def _node_name(p: Projection, part: int) -> str | None:
    return p.nodes[part] if len(p.nodes) == len(parts_of(p.operator)) else None


@dataclass(frozen=True, slots=True)
class RelayProjection:
    """Split projection number ``projection`` after part number ``part``: source -> relay population -> target.

    The relay has the shape between the parts, kind ``relay``, and the name of the NIR node before it (a fresh one where
    that is taken or unknown). A delay per source element acts before the relay; a uniform delay, the delay at the
    target, the bias and the back mark act after it. ``RelayPools`` says how the meaning changes.
    """

    pass_name: ClassVar[str] = "relay-projection"
    promise: Promise = field(default="changed", init=False, repr=False)
    projection: int
    part: int
    graded_spikes: bool = False

    def __post_init__(self) -> None:
        check_options(self)

    @classmethod
    def example(cls, network: Network) -> Self | None:
        """A relay after the first part of the first projection with several parts; None where there is none."""
        composed = (k for k, p in enumerate(network.projections) if len(parts_of(p.operator)) > 1)
        index = next(composed, None)
        return None if index is None else cls(index, 0)

    def __call__(self, network: Network) -> Network:
        """The network with the relay.

        Raises:
            ModelError: there is no such projection, or nothing follows the part.
        """
        check_argument(self, network)
        if not 0 <= self.projection < len(network.projections):
            found = f"there is no projection {self.projection}"
            raise ModelError.of("relay", found, f"the network has {len(network.projections)}", "choose one of them")
        p = network.projections[self.projection]
        parts = parts_of(p.operator)
        if not 0 <= self.part < len(parts) - 1:
            subject = f"projection {quoted(p.source)} -> {quoted(p.target)}"
            raise ModelError.of(
                subject, f"nothing follows part {self.part}", f"it has {len(parts)} parts", "choose another"
            )
        taken = {subject.name for subject in (*network.inputs, *network.outputs, *network.populations)}
        name = fresh_name(_node_name(p, self.part) or f"{p.source}_{p.target}", taken)
        relay = Population(
            name, parts[self.part].output_shape, _relay_neuron(parts[self.part], graded=self.graded_spikes)
        )
        before, after = _halves(p, parts, self.part, name)
        projections = list(network.projections)
        projections[self.projection] = after
        projections.insert(next(k for k, q in enumerate(projections) if q.target == p.target), before)
        populations = list(network.populations)
        populations.insert(_place(network, p), relay)
        return replace(network, populations=tuple(populations), projections=tuple(projections))


def _place(network: Network, p: Projection) -> int:
    """Before the target (an output comes last), or after the source where that comes later (a loop)."""
    position = {q.name: k for k, q in enumerate(network.populations)}
    return max(position.get(p.target, len(position)), position.get(p.source, -1) + 1)


def _relay_neuron(part: Operator, *, graded: bool) -> Neuron:
    most = math.prod(part.kernel) if graded and isinstance(part, SumPool) else 1
    return neuron("relay", theta=1.0, reset="subtract", reset_amount=1.0, compare=">=", max_spikes=most)


def _halves(p: Projection, parts: Sequence[Operator], at: int, relay: str) -> tuple[Projection, Projection]:
    named = len(p.nodes) == len(parts)
    names = p.nodes if named else ("",) * len(parts)
    first, first_names = compose(parts[: at + 1], names[: at + 1], p.operator.input_shape)
    second, second_names = compose(parts[at + 1 :], names[at + 1 :], parts[at].output_shape)
    uneven = p.delay_steps.ndim > 0
    uniform = int(p.delay_steps.min()) if uneven else int(p.delay_steps)
    none = freeze(np.int64(0))
    before = Projection(
        p.source,
        relay,
        first,
        delay_steps=freeze(p.delay_steps - uniform, np.int64) if uneven else none,
        nodes=first_names if named else (),
    )
    after = replace(
        p,
        source=relay,
        operator=second,
        delay_steps=freeze(np.int64(uniform)),
        nodes=second_names if named else (),
    )
    return before, after

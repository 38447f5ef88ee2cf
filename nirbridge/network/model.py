"""The IR: a spiking network in discrete time as frozen populations, projections and ports."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from nirbridge._types import Shape
from nirbridge._values import ReportedValue, SavedValue
from nirbridge.arrays import Array, freeze
from nirbridge.network.neurons import Neuron
from nirbridge.network.operators import Operator

Integrator = Literal["euler", "zoh", "exponential"]
IfGain = Literal["per-second", "per-step"]


@dataclass(frozen=True, slots=True)
class Timing(ReportedValue):
    """Time discretisation of a NIR graph; None: the metadata of the file, else the default.

    Example:
        >>> nb.load("model.nir").timing
        Timing(dt=0.0001, integrator='euler', reset='to-value', compare='>', if_gain='per-second')
    """

    dt: float | None = None
    integrator: Integrator | None = None
    reset: Literal["to-value", "subtract", "none"] | None = None
    compare: Literal[">", ">="] | None = None
    if_gain: IfGain | None = None


@dataclass(frozen=True, slots=True)
class Port:
    """Input or output of the network, on the host: it occupies no core."""

    name: str
    shape: Shape

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Population(ReportedValue):
    """Neurons of one shape that share one neuron record.

    Example:
        >>> [(p.name, p.shape) for p in nb.load("model.nir").populations]
        [('leaky_1', (64,)), ('leaky_3', (10,))]
    """

    name: str
    shape: Shape
    neuron: Neuron

    @property
    def size(self) -> int:
        """Number of neurons."""
        return math.prod(self.shape)


def _no_delay() -> Array:
    return freeze(np.int64(0))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Projection(ReportedValue):
    """A linear operator with a delay from a population or input port to a population or output port.

    At time step t the input of the target gains ``operator(s[t - delay_steps]) + bias``; the bias from time step 0 on.
    ``bias`` has the target's shape (or is None). ``delay_steps`` (int64) has shape ``()`` or the source's shape;
    ``target_delay_steps`` shape ``()`` or the target's shape and is added to it (it differs from 0 only where a
    file puts different delays after a mixing node). ``is_back`` marks the edge that closes a cycle.
    ``nodes`` are the NIR nodes composed into the operator, in order; ``delay_nodes`` those that its delays are from.

    Example:
        >>> [(p.source, p.target) for p in nb.load("model.nir").projections]
        [('input', 'leaky_1'), ('leaky_1', 'leaky_3'), ('leaky_3', 'output')]
    """

    source: str
    target: str
    operator: Operator
    bias: Array | None = None
    delay_steps: Array = field(default_factory=_no_delay)
    target_delay_steps: Array = field(default_factory=_no_delay)
    is_back: bool = False
    nodes: tuple[str, ...] = ()
    delay_nodes: tuple[str, ...] = ()

    @property
    def max_delay_steps(self) -> int:
        """The longest delay of the projection, in time steps."""
        return int(self.delay_steps.max()) + int(self.target_delay_steps.max())

    @property
    def min_delay_steps(self) -> int:
        """The shortest delay of the projection, in time steps."""
        return int(self.delay_steps.min()) + int(self.target_delay_steps.min())


@dataclass(frozen=True, slots=True)
class ModelFile:
    """The file that a network was read from: its name without folders, and the SHA-256 of its bytes."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True, repr=False)
class Network(SavedValue, ReportedValue):
    """The IR that all later stages consume.

    Projection order is significant: the inputs of a target are summed in it. ``assumed`` lists the assumptions made
    where the file is silent; ``notes`` are warnings and dropped parts. ``timing`` is resolved:
    no field of it is None. ``file`` is named in saved maps; None where the network is not from a file. ``axes``:
    those of the data that the imported module takes (``network.axes``); empty where nothing is known.

    Example:
        >>> network = nb.load("model.nir")
        >>> network.neurons, network.dt
        (74, 0.0001)
    """

    dt: float
    timing: Timing
    populations: tuple[Population, ...]
    projections: tuple[Projection, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    assumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    file: ModelFile | None = None
    axes: tuple[str, ...] = ()

    def population(self, name: str) -> Population:
        """The population of that name (KeyError if there is none)."""
        return {p.name: p for p in self.populations}[name]

    @property
    def is_dt_assumed(self) -> bool:
        """True if the model does not state its seconds per time step."""
        return any(sentence.startswith("dt = ") for sentence in self.assumed)

    @property
    def neurons(self) -> int:
        """Number of neurons of all populations."""
        return sum(p.size for p in self.populations)


def with_operators(network: Network, operators: Mapping[int, Operator]) -> Network:
    """The network with other operators of some projections, by index."""
    if not operators:
        return network
    ways = enumerate(network.projections)
    return replace(network, projections=tuple(replace(p, operator=operators.get(k, p.operator)) for k, p in ways))

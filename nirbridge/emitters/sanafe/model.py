"""The program as data: groups of neurons on cores, and the edges between groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nirbridge.arrays import Array
from nirbridge.chips.model import SynapseKind
from nirbridge.emitters.program import InputSpec, OutputSpec, PopulationParts

COMPARTMENTS = 1024
"""Neurons that one unit of SANA-FE's models holds; a core has as many units as it needs."""
DELAY_MAX = 6
"""Longest delay in time steps: a spike arrives one step later, and ``accumulator_with_delay`` adds up to five."""
PADDING = "a_padding"
"""Group of the neuron that never fires; SANA-FE loads groups by name, and this one has to be the first."""
GRID = 64.0
"""SANA-FE's potentials are multiples of 1/64: an integer v is ``v / 64`` there."""


@dataclass(frozen=True, slots=True)
class Place:
    """A core: number of its tile, ``x * height + y`` as SANA-FE counts, and its number within the tile."""

    tile: int
    core: int

    @property
    def text(self) -> str:
        """As SANA-FE's files name it."""
        return f"{self.tile}.{self.core}"


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Neurons of one slice of a map, in their order on the core; of an input: its elements on the host's core.

    Attributes:
        id: name in SANA-FE's files.
        place: the core.
        first: number of the first neuron among those of the core.
        size: number of neurons.
        attributes: of SANA-FE's soma, one value or one per neuron; empty for an input.
        decay: part of 4096 that the current keeps, per neuron, where the host carries it; None: no memory.
        start: ``v_init`` in units of v, per neuron.
        start_current: ``u_init``, per neuron.
        bias: constant drive in units of v, per neuron.
        v_limit: largest potential after a reset that is surely not clipped; None: clipping changes nothing.
    """

    id: str
    place: Place
    first: int
    size: int
    attributes: Mapping[str, Array | str]
    decay: Array | None = None
    start: Array | None = None
    start_current: Array | None = None
    bias: Array | None = None
    v_limit: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """Synapses from one group to another, one entry each; ``delay``: time steps beyond the first."""

    source: str
    target: str
    kind: SynapseKind
    pre: Array
    post: Array
    weight: Array
    delay: Array


@dataclass(frozen=True, slots=True)
class Padding:
    """Edges without effect into a group, in the unit of one kind of synapse: their addresses are then used."""

    target: str
    kind: SynapseKind
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class SanafePlan:
    """A whole program.

    ``delayed``: any edge takes more than one time step. ``host``: the core of the inputs. ``paddings``: see
    ``edges.paddings``; their source is one more neuron of the host, ``PADDING``, that never fires.
    """

    inputs: tuple[InputSpec, ...]
    nodes: tuple[PopulationParts, ...]
    outputs: tuple[OutputSpec, ...]
    groups: tuple[Group, ...]
    edges: tuple[Edges, ...]
    host: Place
    delayed: bool
    paddings: tuple[Padding, ...]
    notes: tuple[str, ...]

    @property
    def input_ids(self) -> frozenset[str]:
        """Groups on the host's core."""
        return frozenset((PADDING, *(port.id for port in self.inputs)))

    @property
    def synapses(self) -> int:
        """Number of edges."""
        return sum(len(e.weight) for e in self.edges)

"""A partition: slices of populations, packed into blocks, one block to a core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NewType

from nirbridge._types import Box
from nirbridge._values import Value

BlockId = NewType("BlockId", int)
Status = Literal["optimal", "optimal-sliced", "feasible"]
RESOURCES = (
    "neurons",
    "input_axons",
    "output_axons",
    "synapse_words",
    "decay_profiles",
    "threshold_profiles",
)


@dataclass(frozen=True, slots=True, order=True)
class Slice:
    """Rectangular slice of a population: one ``[start, stop)`` per axis of its shape.

    Neurons of a slice are numbered row, column, channel for shapes of three axes (channel, row, column), position,
    channel for two, and in order for one: channels last.
    """

    population: str
    box: Box


@dataclass(frozen=True, slots=True)
class Block:
    """Slices that share one core, in the order in which their neurons are numbered on; ``used`` by resource name."""

    id: BlockId
    slices: tuple[Slice, ...]
    used: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SolveReport:
    """Quality of a partition and its proof.

    ``cores_lower_bound`` holds for any map, ``cores_lower_bound_sliced`` for the tilings that were searched
    (never less than the first). ``bounds`` names each bound that was computed and its value, ``binding`` the
    one that decided. ``deterministic_time`` is the solver's own count of work, not clock time. ``interrupted``: Ctrl-C
    ended the search (``PartitionOptions.keep_best``), so that another run may find fewer cores.
    """

    method: str
    status: Status
    cores: int
    cores_lower_bound: int
    cores_lower_bound_sliced: int
    bounds: Mapping[str, int]
    binding: str
    seed: int
    solver: str
    deterministic_time: float
    interrupted: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class Partition(Value):
    """Blocks that cover every neuron of the network exactly once.

    ``orders``: population -> a permutation of its neurons (flat indices, row-major). The slices of such a
    population count places in it: place k holds neuron ``order[k]``. Populations without one are as they are.
    """

    blocks: tuple[Block, ...]
    weight_bits: int
    report: SolveReport
    orders: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))

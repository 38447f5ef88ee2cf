"""Chip description: limits of one kind of core, a mesh of them, figures of energy and time.

A chip defines which mappings are legal; it transforms nothing. Numbers come from TOML files (``load.py``), each with
its unit in its key and its source in the file. ``None`` means: not limited (or, for a figure, not known).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

from nirbridge._values import ReportedValue
from nirbridge.files.attributes import load_attribute

SynapseKind = Literal["dense", "sparse", "convolution"]
SYNAPSE_KINDS: tuple[SynapseKind, ...] = ("dense", "sparse", "convolution")
"""Kinds of synapse with energy and time of their own: full rows, lists of targets, and kernels that axons share."""

Steps = tuple[tuple[int, float], ...]
"""A figure by a count: (smallest count, value) with ascending counts; the entry of the largest count reached holds."""


def at_count(figure: float | Steps, count: int) -> float:
    """The value of a figure for a count: the entry of the largest count reached; below the first the first."""
    if not isinstance(figure, tuple):
        return figure
    reached = [value for least, value in figure if least <= count]
    return reached[-1] if reached else figure[0][1]


class CoreId(NamedTuple):
    """Position of a core: chip, tile column x, tile row y, core within the tile. Ids are never renumbered."""

    chip: int
    x: int
    y: int
    core: int


@dataclass(frozen=True, slots=True)
class Mesh:
    """Tiles of cores in a ``width_tiles`` x ``height_tiles`` grid with X-Y routing; at most ``chips_max`` on a board.

    Where ``Board.places`` does not say otherwise, the chips are a chain along x.
    """

    width_tiles: int
    height_tiles: int
    cores_per_tile: int
    chips_max: int

    @property
    def cores(self) -> int:
        """Cores of one chip."""
        return self.width_tiles * self.height_tiles * self.cores_per_tile


@dataclass(frozen=True, slots=True)
class CoreLimits:
    """Limits of one core.

    ``input_axons``: distinct source neurons (host inputs too) with a target in the core. ``output_axons``: pairs of
    a source neuron in the core and a destination core (its own included); one pair takes ``output_slots_per_axon``
    slots. ``decay_profiles``: distinct (synaptic decay, membrane decay, refractory period) triples;
    ``threshold_profiles``: distinct thresholds. ``delay_steps``: longest delay of a synapse.
    """

    neurons: int | None
    input_axons: int | None
    output_axons: int | None
    decay_profiles: int | None
    threshold_profiles: int | None
    delay_steps: int | None


@dataclass(frozen=True, slots=True)
class SynapseFormat:
    """Encoding of synapses in a core: per input axon the ordered list of its targets, cut into runs.

    A run of m consecutive targets takes ``ceil((m * (weight_bits + d) + run_header_bits) / word_bits)`` words, d =
    ``delay_bits`` where the projection has delays, else 0. A sparse run (any targets) takes ``index_bits`` more per
    synapse; None: the chip has no sparse runs. A run has at most ``run_targets_max`` targets (None: any number);
    ``run_free``: the length of each run is free, else every run but the last is full. ``shared_kernels``: the axons of
    one input channel whose target lists are alike up to a shift, with the same taps, store one copy.
    ``words`` None: not limited (a crossbar has a cell for every axon and neuron).
    """

    word_bits: int
    words: int | None
    weight_bits: tuple[int, ...]
    weight_bits_default: int
    run_targets_max: int | None
    run_free: bool
    run_header_bits: int
    index_bits: int | None
    delay_bits: int
    shared_kernels: bool


@dataclass(frozen=True, slots=True)
class EnergyFigures:
    """Joules per event; None: not known.

    ``synaptic_op_j`` is that of dense rows, and of every kind of synapse without a figure of its own.
    """

    synaptic_op_j: float | None = None
    neuron_access_j: float | None = None
    neuron_update_j: float | None = None
    spike_j: float | None = None
    axon_out_j: float | None = None
    hop_x_j: float | None = None
    hop_y_j: float | None = None
    synaptic_op_sparse_j: float | None = None
    synaptic_op_convolution_j: float | None = None


@dataclass(frozen=True, slots=True)
class TimeFigures:
    """Seconds per event; None: not known.

    ``barrier_s`` is spent once per time step: one figure, or one by the number of tiles in use. ``overlap``: a core's
    incoming spikes are processed while neurons are computed and spikes sent; else one after the other.
    """

    synaptic_op_s: float | None = None
    neuron_update_s: float | None = None
    spike_s: float | None = None
    axon_out_s: float | None = None
    axon_in_s: float | None = None
    hop_x_s: float | None = None
    hop_y_s: float | None = None
    barrier_s: float | Steps | None = None
    neuron_access_s: float | None = None
    synaptic_op_sparse_s: float | None = None
    synaptic_op_convolution_s: float | None = None
    overlap: bool | None = None

    def barrier(self, tiles: int) -> float | None:
        """Seconds of the barrier with ``tiles`` tiles in use."""
        return None if self.barrier_s is None else at_count(self.barrier_s, tiles)


@dataclass(frozen=True, slots=True)
class Board:
    """The chips of a board as a graph in the plane.

    ``places[c]``: column and row of chip c; None: a chain along x. ``links``: pairs of chips with a link; None: every
    two neighbours in the plane. ``link_j`` and ``link_s``: joules and seconds per spike over such a link, in place of
    those of a hop within a chip; None: as a hop.
    """

    places: tuple[tuple[int, int], ...] | None = None
    links: tuple[tuple[int, int], ...] | None = None
    link_j: float | None = None
    link_s: float | None = None


@dataclass(frozen=True, slots=True)
class NeuronSupport:
    """Abilities of the neurons of a core beyond leaky integrate-and-fire with a hard reset.

    ``v_min``: a membrane may have a floor; ``adaptation``: a threshold may adapt. None: the chip's file does not say,
    so it has none.
    """

    soft_reset: bool
    graded_spikes: bool
    synaptic_current: bool
    v_min: bool | None = None
    adaptation: bool | None = None


@dataclass(frozen=True, slots=True)
class NumberFormats:
    """Widths of the integers in a core, in the rule of ``quantization.model`` (that of Lava's ``fixed_pt`` models).

    Signed numbers of n bits reach from ``-(2**(n-1) - 1)`` to ``2**(n-1) - 1``. Decays are parts of 4096; the current
    loses ``du + 1`` parts per time step, the membrane ``dv``. ``programmable``: a population may need more than Lava's
    LIF offers (thresholds off the grid of 64, no reset). ``refractory_steps_max`` None: not limited.
    """

    du_max: int
    dv_max: int
    bias_mant_bits: int
    bias_exp_max: int
    vth_bits: int
    u_bits: int
    v_bits: int
    a_in_bits: int
    weight_exp_max: int
    refractory_steps_max: int | None
    programmable: bool


@dataclass(frozen=True, slots=True, repr=False)
class Chip(ReportedValue):
    """One chip. ``sources``: dotted key of the file -> where the number is from; ``approximate``: keys not public.

    ``ranges``: dotted key of a figure -> the lowest and the highest value that its sources give.
    ``dead_cores`` are masked out (a faulty core is a chip without that core). ``record`` is the resolved file as a
    plain dict of JSON values, enough to build the same chip again (``chips.chip_from_dict``). ``numbers`` None: the
    file has no ``[numbers]``, so networks can be mapped but not quantized.

    Example:
        >>> chip = nb.chip("loihi1")
        >>> chip.mesh.cores, chip.core.neurons
        (128, 1024)
    """

    name: str
    description: str
    mesh: Mesh
    core: CoreLimits
    synapses: SynapseFormat
    neuron: NeuronSupport
    energy: EnergyFigures
    time: TimeFigures
    sources: Mapping[str, str]
    approximate: tuple[str, ...]
    dead_cores: tuple[CoreId, ...] = ()
    numbers: NumberFormats | None = None
    board: Board = field(default_factory=Board)
    ranges: Mapping[str, tuple[float | Steps, float | Steps]] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def record(self) -> Mapping[str, object]:
        """The chip as a plain dict of JSON values: made from the fields, so it never contradicts them."""
        return load_attribute("nirbridge.chips.codec:chip_to_dict")(self)

    def with_values(self, values: Mapping[str, object]) -> Chip:
        """The chip with other values by dotted key, in the form of its file, and checked like one. Raises ChipError.

        Example:
            >>> nb.chip("loihi2").with_values({"core.neurons": 512}).name
            'loihi2 with core.neurons=512'
        """
        return load_attribute("nirbridge.chips.load:with_values")(self, values)

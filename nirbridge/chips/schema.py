"""Schema of a chip file: keys, types, units and meanings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nirbridge.network.neurons import EXTRAS

Kind = Literal["count", "count list", "flag", "figure", "steps", "pairs"]

COUNT_MAX = 10**12
"""Bound of counts that are only compared with those of a model (so that products stay far below 2**63)."""
CORES_MAX = 1_000_000
"""Bound of a mesh's numbers: a board lists its cores."""
RUN_TARGETS_MAX = 4096
"""Bound of a run: tables of words are built with one entry per length of a run, and one per number of targets."""
BITS_MAX = 2**16
"""Bound of words and headers of synaptic memory: times 10^12 words it fits 64 bits."""
SYNAPSE_BITS_MAX = 64
"""Bound of the parts of a stored synapse: a weight, an index and a delay are integers of 64 bits."""
DELAY_STEPS_MAX = 2**16
"""Bound of a synapse's delay: simulators hold that many past steps of every source."""
REFRACTORY_STEPS_MAX = 2**31 - 1
"""Bound of a refractory time: it is counted in 32 bits."""
FIGURE_MAX = 1e6
"""Bound of joules and seconds per event: times the events of a run, sums stay finite."""


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a chip file: ``table.key``.

    ``least`` and ``most`` are the smallest and the largest value. ``absent`` is the word that stands for None in the
    file ("unlimited" or "none"; "" where None is not allowed). Figures (energy, time) and ``optional`` keys may be left
    out; everything else is required.
    """

    table: str
    key: str
    kind: Kind
    unit: str
    meaning: str
    least: int = 1
    absent: str = ""
    most: int = COUNT_MAX
    optional: bool = False

    @property
    def name(self) -> str:
        """The dotted key, for example ``core.neurons``."""
        return f"{self.table}.{self.key}"

    @property
    def required(self) -> bool:
        """False for a figure, and for a key that may be left out."""
        return self.kind not in ("figure", "steps") and not self.optional


def _limit(key: str, unit: str, meaning: str, least: int = 1, most: int = COUNT_MAX) -> Field:
    return Field("core", key, "count", unit, meaning, least, "unlimited", most)


def _synapse_bits(key: str, meaning: str, most: int, *, least: int = 0, absent: str = "") -> Field:
    return Field("synapses", key, "count", "bits", meaning, least, absent, most)


def _number(key: str, meaning: str, least: int = 1) -> Field:
    return Field("numbers", key, "count", "bits" if key.endswith("bits") else "", meaning, least)


def _figure(key: str, meaning: str, table: str = "") -> Field:
    group, unit = ("energy", "J") if key.endswith("_j") else ("time", "s")
    return Field(table or group, key, "figure", unit, meaning)


FIELDS: tuple[Field, ...] = (
    Field("mesh", "width_tiles", "count", "tiles", "tiles of a chip along x", most=CORES_MAX),
    Field("mesh", "height_tiles", "count", "tiles", "tiles of a chip along y", most=CORES_MAX),
    Field("mesh", "cores_per_tile", "count", "cores", "cores that share one router", most=CORES_MAX),
    Field("mesh", "chips_max", "count", "chips", "most chips of one board", most=CORES_MAX),
    _limit("neurons", "neurons", "neurons of a core"),
    _limit("input_axons", "axons", "distinct source neurons, host inputs too, with a target in the core"),
    _limit("output_axons", "axons", "pairs of a source neuron in the core and a destination core, its own too"),
    _limit("decay_profiles", "profiles", "distinct (synaptic decay, membrane decay, refractory period) in a core"),
    _limit("threshold_profiles", "profiles", "distinct thresholds in a core"),
    _limit("delay_steps", "steps", "longest delay of a synapse", 0, DELAY_STEPS_MAX),
    _synapse_bits("word_bits", "bits of a word of synaptic memory", BITS_MAX, least=1),
    Field("synapses", "words", "count", "words", "words of synaptic memory of a core", absent="unlimited"),
    Field("synapses", "weight_bits", "count list", "bits", "widths of a stored weight, sign included", 1, "", 64),
    _synapse_bits("weight_bits_default", "width that is used by default", SYNAPSE_BITS_MAX, least=1),
    Field(
        "synapses", "run_targets_max", "count", "targets", "most targets of one run", 1, "unlimited", RUN_TARGETS_MAX
    ),
    Field("synapses", "run_free", "flag", "", "a run may be shorter than the longest; else only the last is"),
    _synapse_bits("run_header_bits", "bits of a run besides its synapses", BITS_MAX),
    _synapse_bits("index_bits", "address of a target in a sparse run", SYNAPSE_BITS_MAX, least=1, absent="none"),
    _synapse_bits("delay_bits", "stored with each synapse that has a delay", SYNAPSE_BITS_MAX),
    Field("synapses", "shared_kernels", "flag", "", "axons of one channel with shifted target lists store one copy"),
    Field("neuron", "soft_reset", "flag", "", "a spike may subtract from the membrane instead of setting it"),
    Field("neuron", "graded_spikes", "flag", "", "a spike may carry an integer"),
    Field("neuron", "synaptic_current", "flag", "", "a neuron may have a decaying synaptic current"),
    *(
        Field("neuron", name, "flag", "", f"it may have {x.noun}; left out: it has none", optional=True)
        for name, x in EXTRAS.items()
    ),
    _number("du_max", "largest decay of a synaptic current, which loses du + 1 parts of 4096 per time step", 0),
    _number("dv_max", "largest decay of a membrane, in parts of 4096 per time step", 0),
    _number("bias_mant_bits", "mantissa of a bias, signed"),
    _number("bias_exp_max", "largest exponent of a bias", 0),
    _number("vth_bits", "threshold, not signed, in units of 64 of the membrane"),
    _number("u_bits", "synaptic current, signed"),
    _number("v_bits", "membrane, signed"),
    _number("a_in_bits", "summed input of a time step, signed, before it is multiplied by 64"),
    _number("weight_exp_max", "largest exponent of the weights of a projection", 0),
    Field(
        "numbers",
        "refractory_steps_max",
        "count",
        "steps",
        "longest refractory time",
        0,
        "unlimited",
        REFRACTORY_STEPS_MAX,
    ),
    Field("numbers", "programmable", "flag", "", "a neuron may compute more than Lava's LIF"),
    Field("board", "places", "pairs", "", "column and row of each chip; left out: a chain along x", 0, optional=True),
    Field("board", "links", "pairs", "", "chips with a link; left out: every two neighbours", 0, optional=True),
    _figure("link_j", "per spike and link between chips, in place of a hop; left out: as a hop", "board"),
    _figure("link_s", "per spike and link between chips, in place of a hop; left out: as a hop", "board"),
    _figure("synaptic_op_j", "per synapse that a spike reaches: dense rows, and kinds without a figure of their own"),
    _figure("synaptic_op_sparse_j", "per synapse of a list of targets that a spike reaches"),
    _figure("synaptic_op_convolution_j", "per synapse of a shared kernel that a spike reaches"),
    _figure("neuron_access_j", "per neuron and time step"),
    _figure("neuron_update_j", "per updated neuron and time step, on top of the access"),
    _figure("spike_j", "per spike of a neuron, on top of the update"),
    _figure("axon_out_j", "per spike and destination core, leaving the source core"),
    _figure("hop_x_j", "per spike and link along x"),
    _figure("hop_y_j", "per spike and link along y"),
    _figure("synaptic_op_s", "per synapse that a spike reaches: dense rows, and kinds without a figure of their own"),
    _figure("synaptic_op_sparse_s", "per synapse of a list of targets that a spike reaches"),
    _figure("synaptic_op_convolution_s", "per synapse of a shared kernel that a spike reaches"),
    _figure("neuron_access_s", "per neuron and time step"),
    _figure("neuron_update_s", "per updated neuron and time step, on top of the access"),
    _figure("spike_s", "per spike of a neuron"),
    _figure("axon_out_s", "per spike and destination core, leaving the source core"),
    _figure("axon_in_s", "per spike entering a core"),
    _figure("hop_x_s", "per spike and link along x"),
    _figure("hop_y_s", "per spike and link along y"),
    Field("time", "barrier_s", "steps", "s", "once per time step, barrier of all cores; by tiles in use"),
    Field("time", "overlap", "flag", "", "spikes are processed while neurons are computed and send", optional=True),
)

TABLES: tuple[str, ...] = tuple(dict.fromkeys(f.table for f in FIELDS))
TABLE_MEANINGS = {
    "mesh": "The arrangement of the cores. Routes go along x first, then along y.",
    "core": 'The capacity of one core. Each is a whole number or "unlimited".',
    "synapses": "How a core stores synapses.",
    "neuron": "Capabilities of the neurons beyond leaky integrate-and-fire with a hard reset.",
    "numbers": "Widths of the integers in a core, for quantization. The whole table may be omitted: networks can then "
    "be mapped, but not quantized.",
    "board": "The chips of a board as a graph in the plane. The whole table may be omitted: the chips are then a chain "
    "along x, and a link between two chips costs as much as a hop within one.",
    "energy": "Joules per event. Omit figures that are not known.",
    "time": "Seconds per event. Omit figures that are not known.",
    "range": "Figures on which sources disagree, each [lowest, highest] in the form of the figure.",
    "source": "For every key in the file, a text that states the source of its value. The name of a table stands for "
    "all its keys that have no entry of their own.",
}
"""What the tables of a chip file hold."""


def table_fields(table: str) -> tuple[Field, ...]:
    """The fields of one table, in their order."""
    return tuple(f for f in FIELDS if f.table == table)

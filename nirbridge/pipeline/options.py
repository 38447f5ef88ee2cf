"""Options of mapping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from nirbridge._types import Progress, no_progress
from nirbridge._values import ReportedValue
from nirbridge.arrays import Array

OBJECTIVES = ("cores", "traffic", "latency")
RETIME = ("auto", "always", "never")
BOUNDS = ("auto", "quick", "tight")


@dataclass(frozen=True, slots=True, repr=False)
class MapOptions(ReportedValue):
    """Options of a mapping.

    ``pins``: population -> the cores it shall sit on, one per block of it; numbers run on over the chips of a board
    (core 3 of chip 1 of loihi1 is 131).
    ``bound``: the lower bound on hops: 'quick' takes a hundredth of the work of 'tight'; 'auto' is tight for up to 256
    cores and with the effort 'max'.
    ``rates``: spikes per step by population or input name (scalar or of its shape) and a sentence that says where they
    are from (``mapping.rates.read_rates``); None: assumed, and said so.
    ``relays``: put a pool between neurons on neurons of its own where the chip cannot hold the folded fan-in.
    ``retime``: 'auto' maps the network with the delays that it runs with (``passes.Retime``), and with those of
    the model where there are none, which the notes say; 'always' refuses that; 'never' keeps the model's delays.
    ``splits``: population -> copies of it, each of which feeds a part of its targets (``passes.ReplicateSource``).
    ``placement_only``: also map what the chip cannot run; the map is marked, and nothing quantizes, runs or emits it.
    ``keep_zeros``: weights whose integers are 0 are synapses, too (``mapping.zeros``).
    ``keep_best``: Ctrl-C, once there are cores, gives the best map so far (placed quickly), with ``interrupted`` in its
    proof (``partition.report``); by default, and while there is no map yet, it raises KeyboardInterrupt.
    ``keep_early_spikes``: populations that cannot wait for their first step start at once (``passes.Retime``).

    Example:
        >>> options = nb.MapOptions(objective="traffic", seed=1)
        >>> nb.map("model.nir", "loihi2", options).objective
        'traffic'
    """

    method: str = "cp-sat"
    objective: str = "cores"
    effort: str = "default"
    bound: str = "auto"
    seed: int = 0
    chips: int = 1
    weight_bits: int | None = None
    rates: tuple[Mapping[str, Array], str] | None = None
    pins: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))
    relays: bool = True
    retime: str = "auto"
    splits: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    placement_only: bool = False
    keep_zeros: bool = False
    keep_early_spikes: bool = False
    keep_best: bool = False
    progress: Progress = no_progress

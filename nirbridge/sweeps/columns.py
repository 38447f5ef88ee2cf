"""The columns of a sweep's table: those of its plan, those of a profile, and measured times."""

from __future__ import annotations

from nirbridge.profiling.columns import COLUMNS as PROFILE_COLUMNS

PLAN_TEXTS = ("key", "model", "chip", "objective", "effort", "input", "labels", "encoder")
PLAN_NUMBERS = ("bits", "seed")
PLAN = ("key", "model", "chip", "bits", "objective", "effort", "seed", "input", "labels", "encoder")
"""What a point is; ``bits`` is None where the chip's own are used, ``weight_bits`` are those of its map."""
MAP = ("cores_gap", "unicast_traffic", "multicast_hops", "max_link_load")
"""Cores above the proved lower bound; spikes per time step to other cores, over links, over the busiest link."""
MEASURED = ("measured_wall_s", "measured_cpu_s")
"""Seconds that a point took: the only columns that differ from run to run."""
FROM_PROFILE = tuple(name for name in PROFILE_COLUMNS if name not in PLAN)
COLUMNS: tuple[str, ...] = (*PLAN, "error", *FROM_PROFILE, *MAP, *MEASURED)
"""Names of all columns, in order; None where a point has no such value. ``error``: why a point has no figures."""
TEXTS = frozenset((*PLAN_TEXTS, "error", "method", "status", "rates", "witness", "energy_basis", "time_basis"))
WHOLE = frozenset(
    (
        *PLAN_NUMBERS,
        "chips",
        "weight_bits",
        "samples",
        "steps",
        "hardware_steps",
        "cores",
        "cores_lower_bound",
        "neurons",
        "synapses",
        "cores_gap",
    )
)
FLAGS = frozenset(("witness_spikes_equal",))
"""Columns of truth values; those that are neither texts nor whole numbers nor these are numbers."""


def type_of(name: str) -> type:
    """The type of the values of a column, beside None."""
    return str if name in TEXTS else bool if name in FLAGS else int if name in WHOLE else float

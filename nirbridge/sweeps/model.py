"""The result of a sweep, a row per point in the order of the plan, and the columns of its table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from nirbridge.errors import UsageError, counted
from nirbridge.files.attributes import load_attribute
from nirbridge.profiling.model import BASES
from nirbridge.profiling.model import COLUMNS as PROFILE_COLUMNS
from nirbridge.sweeps.plan import SweepPlan

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]
    from pandas import DataFrame


Quantity = Literal["energy", "time", "cores", "accuracy"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sweep:
    """A row of figures for each point of a plan; ``nirbridge.sweeps.model`` names and explains the columns.

    A point that could not be mapped or run has the first line of its error in the column ``error``, and no figures.
    """

    plan: SweepPlan
    table: tuple[Mapping[str, Any], ...]

    def rows(self) -> list[dict[str, Any]]:
        """A record per point."""
        return [dict(row) for row in self.table]

    @property
    def failed(self) -> tuple[Mapping[str, Any], ...]:
        """The rows with an error."""
        return tuple(row for row in self.table if row["error"] is not None)

    def summary(self) -> str:
        """The table in plain text, at most 30 points of it."""
        return load_attribute("nirbridge.sweeps.table:sweep_text")(self.table)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table as ``.parquet``, ``.csv`` or ``.json``, whole or not at all. Raises FileError, UsageError."""
        load_attribute("nirbridge.sweeps.table:write_table")(self.table, path)

    def to_frame(self) -> DataFrame:
        """The table as a ``pandas.DataFrame``. Raises UsageError: pandas is not installed."""
        try:
            import pandas as pd
        except ImportError as error:
            hint = "pip install 'nirbridge[frame]'"
            raise UsageError.of("to_frame()", "pandas is not installed", "it is in the extra frame", hint) from error
        return pd.DataFrame(self.rows())

    def plot(self, x: Quantity = "energy", y: Quantity = "time", *, ax: Axes | None = None) -> Axes:
        """Draw the points and their Pareto front, as ``nirbridge.plot_pareto``. Raises UsageError."""
        return load_attribute("nirbridge.api.pictures:plot_pareto")(self, x, y, ax=ax)

    def plot_heatmap(
        self,
        x: str | None = None,
        y: str | None = None,
        value: Literal["cores", "energy", "time", "hops", "accuracy"] = "cores",
        *,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw a quantity over two columns that vary, such as ``core.neurons`` and ``chip``; None: the first two.

        A panel for each model, chip, width, objective and seed, at most 8; the axes of the first are returned. A cell
        has the number, the best one where points differ in another key; hatched cells have none, and a "≤" marks
        cores that are not proved to be the least. Raises UsageError.
        """
        names = varying(self.table)
        return load_attribute("nirbridge.report.plots.heatmap:plot_heatmap")(self.table, names, x, y, value, ax=ax)

    def unmeasured(self) -> list[dict[str, Any]]:
        """The rows without measured times: the same for every run of the plan."""
        return [{name: value for name, value in row.items() if name not in MEASURED} for row in self.table]

    def __repr__(self) -> str:
        failed = f", {len(self.failed):,} failed" if self.failed else ""
        return f"Sweep: {counted(len(self.table), 'point')}{failed}"


# -- columns -------------------------------------------------------------------------------------------------------
# The columns of a sweep's table: those of its plan, those of a profile, and measured times.


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


def columns_with(keys: Sequence[str]) -> tuple[str, ...]:
    """All columns of a sweep with values of these keys of its chips, which come after the chip."""
    place = COLUMNS.index("chip") + 1
    return (*COLUMNS[:place], *keys, *COLUMNS[place:])


TEXTS = frozenset((*PLAN_TEXTS, "error", "method", "status", "rates", "witness", *(column.name for column in BASES)))
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
        *("witness_luts", "witness_flip_flops", "witness_block_rams", "witness_multipliers"),
    )
)
FLAGS = frozenset(("witness_spikes_equal",))
"""Columns of truth values; those that are neither texts nor whole numbers nor these are numbers."""


def varying(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The columns of the plan in which points differ, keys of the chips first."""
    keys = [name for name in (rows[0] if rows else ()) if name not in COLUMNS]
    chosen = (*keys, "chip", "bits", "model", "objective", "seed")
    return tuple(name for name in chosen if len({row[name] for row in rows}) > 1)


def type_of_values(values: Sequence[Any]) -> type:
    """The type of the column of a chip's key: texts where a value is one, as "unlimited" and lists are."""
    types = {type(value) for value in values}
    return next(iter(types)) if len(types) == 1 else float if types <= {int, float} else str


def type_of(name: str) -> type:
    """The type of the values of a column that every sweep has, beside None."""
    return str if name in TEXTS else bool if name in FLAGS else int if name in WHOLE else float

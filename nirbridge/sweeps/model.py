"""The result of a sweep: a row per point, in the order of the plan."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from nirbridge.errors import UsageError, counted
from nirbridge.files.attributes import load_attribute
from nirbridge.sweeps.columns import MEASURED
from nirbridge.sweeps.plan import SweepPlan

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]
    from pandas import DataFrame

Quantity = Literal["energy", "time", "cores", "accuracy"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sweep:
    """A row of figures for each point of a plan; ``nirbridge.sweeps.columns`` names and explains the columns.

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
        return load_attribute("nirbridge.sweeps.text:sweep_text")(self.table)

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

    def unmeasured(self) -> list[dict[str, Any]]:
        """The rows without measured times: the same for every run of the plan."""
        return [{name: value for name, value in row.items() if name not in MEASURED} for row in self.table]

    def __repr__(self) -> str:
        failed = f", {len(self.failed):,} failed" if self.failed else ""
        return f"Sweep: {counted(len(self.table), 'point')}{failed}"

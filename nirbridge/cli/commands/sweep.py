"""``nirbridge sweep``: many models, chips, widths, objectives and seeds in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nirbridge.cli.chip_values import ChipValue
from nirbridge.cli.common import Choice, Command, OutputFile, check_plot, refuse_given
from nirbridge.cli.interrupts import EXIT_CODE, MESSAGE
from nirbridge.cli.output import print_json, print_result, print_text, progress_on_stderr
from nirbridge.cli.streams import write_to_stderr
from nirbridge.errors import UsageError, counted, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nirbridge.sweeps.model import Sweep
    from nirbridge.sweeps.plan import SweepPlan

EXAMPLE = """\b
Example:
  nirbridge sweep sweep.toml --dry-run
  nirbridge sweep sweep.toml -o table.parquet --jobs 8 --plot pareto.svg
  nirbridge sweep sweep.toml --set core.neurons=512 --plot hops.svg --picture hops
  nirbridge sweep sweep.toml -o table.parquet --scheduler tcp://head:8786"""


@click.command(
    name="sweep",
    cls=Command,
    epilog=EXAMPLE,
    usual=("--output", "--jobs", "--dry-run", "--plot", "--scheduler", "--json"),
)
@click.argument("source", metavar="FILE.toml", type=click.Path())
@click.option(
    "-o", "--output", metavar="FILE.json|csv|parquet", type=OutputFile(), help="Write the table, a row per point."
)
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Processes of this machine."
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Use the workers of this Dask scheduler, as tcp://host:8786; it is trusted with code.",
)
@click.option("--dry-run", is_flag=True, help="List the points, and compute none.")
@click.option(
    "--plot", metavar="FILE.svg|pdf|png", type=OutputFile(), help="Draw the points (matplotlib); see --picture."
)
@click.option(
    "--picture",
    type=Choice(["pareto", "cores", "energy", "time", "hops", "accuracy"]),
    help="Picture that --plot draws: energy, time and their Pareto front (default), or a heat map of a quantity over "
    "the first two keys that vary, a panel for each model, chip, width and seed.",
)
@click.option(
    "--set",
    "chip_values",
    metavar="KEY=VALUE",
    multiple=True,
    type=ChipValue(),
    help="Change a number of every chip, as in core.neurons=512. Repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
def command(
    source: str,
    output: str | None,
    jobs: int,
    scheduler: str | None,
    dry_run: bool,
    plot: str | None,
    picture: str | None,
    chip_values: tuple[tuple[str, Any], ...],
    as_json: bool,
) -> int:
    """Map models onto chips with every value of their keys, width, objective and seed, in one table.

    FILE.toml lists models, chips, values of keys of the chips, bits, objectives and seeds, and the data to measure on.
    Rows are kept beside the table (FILE.parquet.parts) as they are computed: after Ctrl-C, or a lost worker, the same
    command goes on. A point that does not fit is a row with its error; the exit code is 1 where no point has a map.
    """
    from nirbridge.api.measures import sweep

    check_plot(plot, picture, "--picture", "names the picture to draw")
    values = dict(chip_values)
    if dry_run:
        if output is not None:
            raise UsageError.of("--dry-run", "computes nothing", "so there is nothing to write", "leave -o out")
        refuse_given({"--jobs": jobs != 1, "--scheduler": scheduler}, "--dry-run computes nothing")
        _show_plan(source, values, picture, as_json)
        return 0
    if _is_heat_map(picture):
        _planned(source, values, picture)
    try:
        with progress_on_stderr() as progress:
            result = sweep(source, output, values=values, jobs=jobs, scheduler=scheduler, progress=progress)
    except KeyboardInterrupt:
        kept = f"; rows are kept in {quoted(f'{output}.parts')}, the same command goes on" if output else ""
        write_to_stderr(f"{MESSAGE}{kept}")
        return EXIT_CODE
    _show(result, output, as_json)
    if plot is not None:
        _draw(result, plot, picture)
    return 1 if len(result.failed) == len(result.table) else 0


def _is_heat_map(picture: str | None) -> bool:
    return picture not in (None, "pareto")


def _planned(source: str, values: Mapping[str, Any], picture: str | None) -> SweepPlan:
    """The plan. Raises UsageError for a heat map that its points cannot fill, before any of them is computed."""
    from nirbridge.report.plots.heatmap import check_heatmap
    from nirbridge.sweeps.model import varying
    from nirbridge.sweeps.plan import make_plan
    from nirbridge.sweeps.spec import load_spec

    plan = make_plan(load_spec(source, values))
    if _is_heat_map(picture):
        rows = plan.rows()
        check_heatmap(rows, varying(rows))
    return plan


def _show_plan(source: str, values: Mapping[str, Any], picture: str | None, as_json: bool) -> None:
    from nirbridge.sweeps.table import plan_text

    plan = _planned(source, values, picture)
    if as_json:
        print_json({"points": [{"key": point.key, "point": point.label} for point in plan.points]})
        return
    print_result(plan_text(plan).splitlines())


def _draw(result: Sweep, plot: str, picture: str | None) -> None:
    from nirbridge.report.plots.style import save_picture

    heat: Any = picture
    save_picture(result.plot_heatmap(value=heat) if _is_heat_map(picture) else result.plot(), plot)


def _show(result: Sweep, output: str | None, as_json: bool) -> None:
    from nirbridge.sweeps.model import MEASURED

    if as_json:
        print_json({"output": output, "measured": list(MEASURED), "rows": result.rows()})
        return
    from nirbridge.sweeps.table import sweep_parts

    print_result(sweep_parts(result.table))
    if result.failed:
        where = "the table above" if output is None else f"the column 'error' of {quoted(output)}"
        write_to_stderr(f"{counted(len(result.failed), 'point')} failed; {where} says why")
    if output is not None:
        print_text(f"saved {quoted(output)}")

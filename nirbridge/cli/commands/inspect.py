"""``nirbridge inspect``: the content of a NIR file and how it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nirbridge import pipeline
from nirbridge.cli.common import Command, ModelFile, OutputFile, check_plot, refuse_given
from nirbridge.cli.options import model_options, print_after_option
from nirbridge.cli.output import is_quiet, is_verbose, print_result, verbose_option
from nirbridge.cli.shown import show_file

if TYPE_CHECKING:
    from nirbridge.network.model import Timing

EXAMPLE = """\b
Example:
  nirbridge inspect model.nir
  nirbridge inspect model.nir --dt 1e-3 --json
  nirbridge inspect from_norse.nir --repair batch-axis --repair norse"""


@click.command(
    name="inspect",
    cls=Command,
    epilog=EXAMPLE,
    usual=("--repair", "--dt", "--portability", "--passes", "--plot", "--json"),
)
@click.argument("model", metavar="MODEL.nir|MODEL.net.npz|FILE.py:ATTR|FILE", type=ModelFile())
@print_after_option
@model_options
@click.option("--portability", is_flag=True, help="Also say which tools would run the file differently, and how.")
@click.option(
    "--plot", metavar="FILE.svg|pdf|png", type=OutputFile(), help="Draw the graph of the network (matplotlib)."
)
@verbose_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
def command(
    model: str,
    timing: Timing,
    max_bytes: int,
    repairs: tuple[str, ...],
    rewrite: Any,
    portability: bool,
    plot: str | None,
    as_json: bool,
) -> None:
    """Show a model: the content of a NIR file, as it is read.

    Nodes, neurons, synapses, timing (read or assumed), warnings, dead parts, and known faults of the exporter that
    wrote the file, with the name that --repair takes. A file of another kind is shown as nirbridge show does.
    """
    kind = pipeline.kind_of_file(model)
    if kind not in ("model", "network"):
        given = {"--repair": repairs, "--passes": rewrite, "--portability": portability, "--plot": plot}
        refuse_given(given | {"--dt and others of timing": timing != pipeline.Timing()}, "it belongs to a model")
        show_file(model, kind, as_json=as_json)
        return
    from nirbridge.report.inspect import inspect_file, inspect_text

    check_plot(plot)
    document = inspect_file(model, timing, max_bytes, repairs, rewrite)
    if portability:
        network = pipeline.load_network(model, timing, max_bytes=max_bytes, repairs=repairs)
        document["portability"] = list(pipeline.export_warnings(network, as_read=True))
    if plot is not None:
        from nirbridge.report.plots.chips import plot_network
        from nirbridge.report.plots.style import save_picture

        drawn = pipeline.load_network(model, timing, max_bytes=max_bytes, repairs=repairs, rewrite=rewrite)
        save_picture(plot_network(drawn), plot)
    print_result(document if as_json else inspect_text(document, notes=not is_quiet(), verbose=is_verbose()))

"""``nirbridge inspect``: what a NIR file holds and how it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nirbridge.cli.timing_options import max_bytes_option, timing_options

if TYPE_CHECKING:
    from nirbridge.network.model import Timing

EXAMPLE = """\b
Example:
  nirbridge inspect model.nir
  nirbridge inspect model.nir --dt 1e-3 --json"""


@click.command(name="inspect", epilog=EXAMPLE)
@click.argument("model", metavar="MODEL.nir", type=click.Path())
@timing_options
@max_bytes_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
def command(model: str, timing: Timing, max_bytes: int, as_json: bool) -> None:
    """Show what a NIR file holds: nodes, neurons, synapses, timing (read or assumed), warnings, dead parts."""
    from nirbridge.cli.output import print_json, print_rich
    from nirbridge.report.inspect_document import inspect_file

    document = inspect_file(model, timing, max_bytes)
    if as_json:
        print_json(document)
        return
    from nirbridge.report.inspect_text import inspect_text

    print_rich(inspect_text(document))

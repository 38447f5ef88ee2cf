"""``nirbridge chips`` and ``nirbridge doctor``: chips, and where every number is from; tools, and how to get them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nirbridge.cli.common import ChipFile, Command
from nirbridge.cli.output import print_json, print_rich, verbose_option

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip

EXAMPLE = """\b
Example:
  nirbridge chips
  nirbridge chips loihi1
  nirbridge chips path/to/my_chip.toml --json"""


@click.command(name="chips", cls=Command, epilog=EXAMPLE)
@click.argument("name", required=False, metavar="[NAME|FILE.toml]", type=ChipFile())
@verbose_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
def command(name: str | Chip | None, as_json: bool) -> None:
    """Show the chips, or every number of one chip with its unit and source.

    Sources are shown where there is room, or with --verbose. A chip of your own is a TOML file; naming it here checks
    it. A "~" marks numbers that are not public.
    """
    from nirbridge import plugins
    from nirbridge.report.chips import chip_table, chips_table

    chips = [pipeline.load_chip(each) for each in ([name] if name else plugins.chip_names())]
    if as_json:
        print_json(chips[0].record if name else {"chips": [chip.record for chip in chips]})
    else:
        print_rich(chip_table(chips[0]) if name else chips_table(chips))

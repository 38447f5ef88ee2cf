"""``nirbridge chips`` and ``nirbridge doctor``: chips, and where every number is from; tools, and how to get them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nirbridge import pipeline
from nirbridge.cli.common import ChipFile, Command, OutputFile
from nirbridge.cli.output import is_verbose, print_json, print_rich, print_text, verbose_option
from nirbridge.errors import UsageError, quoted

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip

EXAMPLE = """\b
Example:
  nirbridge chips
  nirbridge chips loihi1
  nirbridge chips loihi2 --set core.neurons=512
  nirbridge chips --new my_chip.toml --like loihi1
  nirbridge chips path/to/my_chip.toml --json"""


@click.command(name="chips", cls=Command, epilog=EXAMPLE)
@click.argument("name", required=False, metavar="[NAME|FILE.toml]", type=ChipFile())
@click.option(
    "--new", "output", metavar="FILE.toml", type=OutputFile(), help="Write a chip of your own, with comments, to edit."
)
@click.option("--like", metavar="NAME|FILE.toml", type=ChipFile(), help="The chip that --new begins with.")
@verbose_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
def command(name: str | Chip | None, output: str | None, like: str | Chip | None, as_json: bool) -> None:
    """Show the chips, or every number of one chip with its unit and source.

    A chip of your own is a TOML file; naming it here checks it. A "~" marks numbers that are not public. --verbose has
    what each key means.
    """
    from nirbridge import plugins
    from nirbridge.report.chips import chip_table, chips_table

    if output is not None or like is not None:
        _write(name, output, like, as_json)
        return
    chips = [pipeline.load_chip(each) for each in ([name] if name else plugins.chip_names())]
    if as_json:
        print_json(chips[0].record if name else {"chips": [chip.record for chip in chips]})
    else:
        print_rich(chip_table(chips[0], meanings=is_verbose()) if name else chips_table(chips))


def _write(name: str | Chip | None, output: str | None, like: str | Chip | None, as_json: bool) -> None:
    if output is None:
        raise UsageError.of("--like", "given without --new", "it is what a new file begins with", "add --new FILE.toml")
    given = [each for each in (name, like) if each is not None]
    if len(given) != 1:
        named = " and ".join(quoted(each if isinstance(each, str) else each.name) for each in given)
        hint = "as in --new my.toml --like loihi1"
        raise UsageError.of("--new", f"given with {named or 'no chip'}", "a new file begins with one chip", hint)
    base = pipeline.load_chip(given[0])
    made = pipeline.write_chip(base, output)
    if as_json:
        print_json({"output": output, "chip": made.record})
    else:
        about = f"chip {quoted(made.name)}, like {base.name}"
        print_text(f"saved {quoted(output)}: {about}; edit it, then: nirbridge chips {output}")

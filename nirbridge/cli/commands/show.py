"""``nirbridge show`` and ``nirbridge diff``: a file of any kind, and differences in meaning between two."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nirbridge import pipeline
from nirbridge.cli.common import Command
from nirbridge.cli.output import faults_on_stderr, is_quiet, is_verbose, print_result, verbose_option
from nirbridge.cli.shown import show_file
from nirbridge.errors import counted, quoted

if TYPE_CHECKING:
    from nirbridge.files.differences import Difference


EXAMPLE = """\b
Example:
  nirbridge show model.nir
  nirbridge show model.map.json
  nirbridge show out.npz --json
  nirbridge show program"""


@click.command(name="show", cls=Command, epilog=EXAMPLE)
@click.argument("file", metavar="FILE|DIR", type=click.Path())
@verbose_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
def command(file: str, as_json: bool) -> None:
    """Show a file of any kind: the content, not the name, tells which it is.

    A model, map, quantized network, recording or verification; a table of profile, sweep or bench; a chip; an emitted
    program (its folder), a lowered module, a report. nirbridge inspect shows the same, and for a model has the options
    of reading it.

    A map is shown as stored; nirbridge check --map verifies it against its model.
    """
    kind = pipeline.kind_of_file(file)
    if kind not in ("model", "network"):
        show_file(file, kind, as_json=as_json)
        return
    from nirbridge.report.inspect import inspect_file, inspect_text

    with faults_on_stderr(silent=as_json):
        facts = inspect_file(file, pipeline.Timing())
    about = {"file": Path(file).name, "kind": kind}
    print_result(about | facts if as_json else inspect_text(facts, notes=not is_quiet(), verbose=is_verbose()))


# -- diff ----------------------------------------------------------------------------------------------------------

SHOWN = 200
DIFF_EXAMPLE = """\b
Example:
  nirbridge diff before.map.json after.map.json
  nirbridge diff a.q.npz b.q.npz --json"""


@click.command(name="diff", cls=Command, epilog=DIFF_EXAMPLE)
@click.argument("a", metavar="A.map.json", type=click.Path())
@click.argument("b", metavar="B.map.json", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
def diff(a: str, b: str, as_json: bool) -> int:
    """List differences in meaning between two files of one kind; exit code 1 if there are any.

    Maps, networks, quantized networks, recordings and verifications are compared.

    Of maps: model, chip, settings, slices, cores of neurons, costs, bounds. The numbering of blocks, the version of
    nirbridge and the course of the search are ignored. Use nirbridge compare for details of recordings.
    """
    first = pipeline.load_saved(a)
    differing = pipeline.differences(first, pipeline.load_saved(b))
    rows = [{"name": each.name, "a": each.a, "b": each.b} for each in differing]
    document = {"a": Path(a).name, "b": Path(b).name, "kind": first.kind, "same": not differing, "differences": rows}
    names = f"{quoted(Path(a).name)} and {quoted(Path(b).name)}"
    lines = (
        [f"{counted(len(differing), 'difference')} between {names}"]
        if differing
        else [f"no difference between {names}"]
    )
    shown = _without_parts_of_another_chip(differing)
    lines += [f"  {each}" for each in shown[:SHOWN]]
    lines += [f"  and {len(shown) - SHOWN:,} more; --json lists all"] if len(shown) > SHOWN else []
    print_result(document if as_json else lines)
    return int(bool(differing))


def _without_parts_of_another_chip(differing: Sequence[Difference]) -> list[str]:
    """One line each; where the chips have different names, one line for all that differs between the chips."""
    if not any(each.name == "chip.name" for each in differing):
        return [str(each) for each in differing]
    parts = sum(each.name.startswith("chip.") for each in differing) - 1
    lines = [str(each) for each in differing if each.name == "chip.name" or not each.name.startswith("chip.")]
    return [*lines, f"{parts:,} more of the chips; --json lists all"] if parts else lines

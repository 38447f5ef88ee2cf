"""``nirbridge show`` and ``nirbridge diff``: a saved file of any kind, and differences in meaning between two."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nirbridge import pipeline
from nirbridge.cli.common import Command, summary, summary_lines
from nirbridge.cli.output import is_quiet, print_result
from nirbridge.errors import counted, quoted

if TYPE_CHECKING:
    from nirbridge.files.differences import Difference
    from nirbridge.pipeline.saved_files import SavedFile


EXAMPLE = """\b
Example:
  nirbridge show model.map.json
  nirbridge show model.q.npz --json
  nirbridge show out.npz"""


@click.command(name="show", cls=Command, epilog=EXAMPLE)
@click.argument("file", metavar="FILE.map.json|FILE.net.npz|FILE.q.npz|FILE.npz", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
def command(file: str, as_json: bool) -> None:
    """Show a saved map, network, quantized network, recording or verification; the content tells which it is.

    A map is shown as stored; nirbridge check --map verifies it against its model.
    """
    saved = pipeline.load_saved(file)
    print_result({"file": Path(file).name, "kind": saved.kind, **document(saved)} if as_json else text_of(saved))


def document(saved: SavedFile) -> dict[str, Any]:
    """Content of the file as JSON."""
    value: Any = saved.value
    if saved.kind == "map":
        from nirbridge.report.map_text import saved_map_document

        return saved_map_document(value)
    if saved.kind == "network":
        from nirbridge.report.inspect import inspect_network

        return inspect_network(value)
    if saved.kind == "quantized":
        from nirbridge.report.quantize import quantize_document

        return quantize_document(value)
    if saved.kind == "verification":
        from nirbridge.report.compare import verify_document

        return verify_document(value)
    return summary(value)


def text_of(saved: SavedFile) -> Any:
    """Content of the file as text: lines, or tables made with rich."""
    value: Any = saved.value
    if saved.kind == "map":
        from nirbridge.report.map_text import saved_map_text

        return saved_map_text(value, notes=not is_quiet())
    if saved.kind == "network":
        from nirbridge.report.inspect import inspect_network, inspect_text

        return inspect_text(inspect_network(value), notes=not is_quiet())
    if saved.kind == "quantized":
        from nirbridge.report.quantize import quantize_text

        return quantize_text(value, notes=not is_quiet())
    if saved.kind == "verification":
        from nirbridge.report.compare import verify_text

        return verify_text(value, notes=not is_quiet())
    return summary_lines(value)


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

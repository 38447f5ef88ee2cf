"""``nirbridge show``: a file that nirbridge saved, whatever its kind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nirbridge.cli.paths import Command

if TYPE_CHECKING:
    from nirbridge.pipeline.saved_files import SavedFile

EXAMPLE = """\b
Example:
  nirbridge show model.map.json
  nirbridge show model.q.npz --json
  nirbridge show out.npz"""


@click.command(name="show", cls=Command, epilog=EXAMPLE)
@click.argument("file", metavar="FILE.map.json|FILE.q.npz|FILE.npz", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
def command(file: str, as_json: bool) -> None:
    """Show a saved map, quantized network or recording; its kind is read from the content, not from the name.

    A map is shown as stored; nirbridge check --map verifies it against its model.
    """
    from nirbridge.cli.output import print_json
    from nirbridge.pipeline import load_saved

    saved = load_saved(file)
    if as_json:
        print_json({"file": Path(file).name, "kind": saved.kind, **document(saved)})
        return
    print_saved(saved)


def document(saved: SavedFile) -> dict[str, Any]:
    """What the file holds, as JSON."""
    value: Any = saved.value
    if saved.kind == "map":
        from nirbridge.report.saved_map import saved_map_document

        return saved_map_document(value)
    if saved.kind == "quantized":
        from nirbridge.report.quantize import quantize_document

        return quantize_document(value)
    from nirbridge.cli.common import summary

    return {"meta": dict(value.meta), "recorded": summary(value)}


def print_saved(saved: SavedFile) -> None:
    """Prints it as text."""
    from nirbridge.cli.output import print_rich, print_text
    from nirbridge.cli.quiet import is_quiet

    value: Any = saved.value
    if saved.kind == "map":
        from nirbridge.report.saved_map import saved_map_text

        print_rich(saved_map_text(value, notes=not is_quiet()))
    elif saved.kind == "quantized":
        from nirbridge.report.quantize import quantize_text

        print_rich(quantize_text(value))
    else:
        from nirbridge.cli.common import summary_lines

        print_text("\n".join(summary_lines(value)))

"""``nirbridge show``: a saved file of any kind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nirbridge.cli.common import summary, summary_lines
from nirbridge.cli.output import print_result
from nirbridge.cli.paths import Command
from nirbridge.cli.quiet import is_quiet

if TYPE_CHECKING:
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
    from nirbridge.pipeline import load_saved

    saved = load_saved(file)
    print_result({"file": Path(file).name, "kind": saved.kind, **document(saved)} if as_json else text_of(saved))


def document(saved: SavedFile) -> dict[str, Any]:
    """Content of the file as JSON."""
    value: Any = saved.value
    if saved.kind == "map":
        from nirbridge.report.saved_map import saved_map_document

        return saved_map_document(value)
    if saved.kind == "network":
        from nirbridge.report.inspect import inspect_network

        return inspect_network(value)
    if saved.kind == "quantized":
        from nirbridge.report.quantize import quantize_document

        return quantize_document(value)
    if saved.kind == "verification":
        from nirbridge.report.verify import verify_document

        return verify_document(value)
    return summary(value)


def text_of(saved: SavedFile) -> Any:
    """Content of the file as text: lines, or tables made with rich."""
    value: Any = saved.value
    if saved.kind == "map":
        from nirbridge.report.saved_map import saved_map_text

        return saved_map_text(value, notes=not is_quiet())
    if saved.kind == "network":
        from nirbridge.report.inspect import inspect_network, inspect_text

        return inspect_text(inspect_network(value), notes=not is_quiet())
    if saved.kind == "quantized":
        from nirbridge.report.quantize import quantize_text

        return quantize_text(value, notes=not is_quiet())
    if saved.kind == "verification":
        from nirbridge.report.verify import verify_text

        return verify_text(value, notes=not is_quiet())
    return summary_lines(value)

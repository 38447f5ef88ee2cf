"""``nirbridge compare``: two recordings, spike by spike."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from nirbridge import pipeline
from nirbridge.cli.common import Command, OutputFile, check_plot
from nirbridge.cli.output import is_quiet, print_error, print_json, print_result, print_warning, verbose_option
from nirbridge.errors import NirbridgeError, UsageError, quoted

if TYPE_CHECKING:
    from nirbridge.simulators.types import Recording

EXAMPLE = """\b
Example:
  nirbridge compare reference.npz mapped.npz --latency auto --expect-equal
  nirbridge compare a.npz b.npz --plot difference.png --node fc1"""


@click.command(name="compare", cls=Command, epilog=EXAMPLE)
@click.argument("a", metavar="A.npz", type=click.Path())
@click.argument("b", metavar="B.npz", type=click.Path())
@click.option(
    "--latency",
    default="auto",
    show_default=True,
    metavar="auto|N",
    help="Time steps by which B lags A; auto: as the recordings state.",
)
@click.option(
    "--tau",
    type=float,
    default=10.0,
    show_default=True,
    metavar="STEPS",
    help="Time constant of the van Rossum kernel.",
)
@click.option("--labels", metavar="FILE.npy", type=click.Path(), help="Class of each sample, for accuracy.")
@click.option("--expect-equal", is_flag=True, help="Exit code 1 if anything differs.")
@click.option("--plot", metavar="FILE.svg|pdf|png", type=OutputFile(), help="Plot the spikes that differ.")
@click.option("--node", metavar="NAME", help="Node to plot; default: the first that differs.")
@verbose_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
def command(
    a: str,
    b: str,
    latency: str,
    tau: float,
    labels: str | None,
    expect_equal: bool,
    plot: str | None,
    node: str | None,
    as_json: bool,
) -> int:
    """Compare two recordings: equality, first time step that differs, Jaccard index, counts, van Rossum, decisions."""
    from nirbridge.report.compare import compare_document, compare_text, comparison_verdict
    from nirbridge.report.plots.recordings import plot_rows
    from nirbridge.report.plots.style import save_picture

    steps = _latency(latency)
    check_plot(plot, node)
    recordings = pipeline.read_recording(a), pipeline.read_recording(b)
    classes = None if labels is None else pipeline.load_npy(labels)
    comparison = pipeline.compare(*recordings, latency=steps, labels=classes, tau_steps=tau)
    if plot is not None:
        save_picture(plot_rows(comparison, recordings, node), plot)
    if as_json:
        faults = {"faults": {side: _faults(recording) for side, recording in zip("ab", recordings, strict=True)}}
        print_json(compare_document(comparison, Path(a).name, Path(b).name) | faults)
    else:
        for path, recording in zip((a, b), recordings, strict=True):
            for fault in _faults(recording):
                print_warning(f"model of {quoted(Path(path).name)}: {fault}")
        print_result(compare_text(comparison, notes=not is_quiet()))
    if comparison.equal or not expect_equal:
        return 0
    files = f"recordings {quoted(Path(a).name)} and {quoted(Path(b).name)}"
    print_error(NirbridgeError.of(files, comparison_verdict(comparison), "--expect-equal was given"), as_json=False)
    return 1


def _faults(recording: Recording) -> list[str]:
    """The faults of exporters that a recording's notes tell of; any JSON may stand where notes are expected."""
    notes = recording.meta.get("notes")
    return list(pipeline.faults_of(notes)) if isinstance(notes, list | tuple) else []


def _latency(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise UsageError.of("--latency", quoted(text), "a whole number of time steps, or 'auto'", "as in --latency 2")
    return int(text)

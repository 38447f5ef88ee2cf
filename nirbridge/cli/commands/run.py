"""``nirbridge run``: run an emitted program, supervised, and save the recording."""

from __future__ import annotations

from typing import Any

import click

from nirbridge import pipeline
from nirbridge.cli.common import (
    OutputFile,
    ProgramFolder,
    data_options,
    event_options,
    state_reading,
    summary,
    summary_lines,
)
from nirbridge.cli.output import print_result, progress_on_stderr
from nirbridge.cli.target_options import TargetCommand

EXAMPLE = """\b
Example:
  nirbridge run program --input spikes.npy -o out.npz
  nirbridge run program --input in.npz --record '*:s,u,v' -o out.npz"""


@click.command(name="run", cls=TargetCommand, epilog=EXAMPLE)
@click.argument("folder", metavar="DIR", type=ProgramFolder())
@click.option(
    "--input", "source", required=True, metavar="IN.npy|npz", type=click.Path(), help="Input spikes or currents."
)
@data_options
@click.option("-o", "--output", required=True, metavar="OUT.npz", type=OutputFile(), help="The recording.")
@click.option("--steps", type=int, metavar="N", help="Time steps to run; default: the length of the input.")
@click.option(
    "--record",
    multiple=True,
    metavar="NODE:s,u,v",
    help="Variables to record of a population, or of all ('*:s,u,v'). Repeatable; default: the outputs.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of a table.")
def command(
    folder: str,
    source: str,
    axes: str | None,
    output: str,
    steps: int | None,
    record: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run an emitted program in its tool and save the recording.

    A run without progress is terminated. However a run ends, no process and no shared memory is left. The output of
    processes that failed is in the message. u is the synaptic current.
    """
    inputs = pipeline.load_data(source)
    options: dict[str, Any] = {"axes": axes, "record": record, "events": event_options()}
    pipeline.check_output(output, lambda: pipeline.run_emitted(folder, inputs, steps=1, **options))
    with progress_on_stderr() as progress:
        recording = pipeline.run_emitted(folder, inputs, steps=steps, drain=True, progress=progress, **options)
    state_reading(source, recording.meta["reading"])
    pipeline.write_recording(recording, output)
    document = {"output": output, **summary(recording)}
    print_result(document if as_json else summary_lines(recording, "see nirbridge show --verbose"))

"""``nirbridge bench``: one model on every back end that is there, compared and timed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nirbridge import pipeline
from nirbridge.cli.common import (
    RANDOM_ONLY,
    BackEndName,
    ChipFile,
    Command,
    ModelFile,
    OutputFile,
    check_plot,
    data_options,
    read_data_file,
    refuse_given,
)
from nirbridge.cli.options import model_options
from nirbridge.cli.output import (
    is_quiet,
    print_error,
    print_json,
    print_result,
    print_text,
    progress_on_stderr,
    reported_faults,
    verbose_option,
)
from nirbridge.errors import Diagnostic, NirbridgeError, quoted
from nirbridge.files.places import file_name

if TYPE_CHECKING:
    from nirbridge.benchmarking.model import Bench
    from nirbridge.chips.model import Chip

EXAMPLE = """\b
Example:
  nirbridge bench model.nir
  nirbridge bench model.nir --chip loihi2 --input data.npy -o bench.json --plot bench.pdf
  nirbridge bench model.nir --backend fast --backend onnx --batch 1 --batch 256 --steps 200
  nirbridge bench model.nir --batch 32 --best"""


@click.command(
    name="bench", cls=Command, epilog=EXAMPLE, usual=("--chip", "--input", "--backend", "--batch", "--output", "--plot")
)
@click.argument("model", metavar="MODEL.nir|MODEL.net.npz|FILE.py:ATTR", type=ModelFile())
@click.option(
    "--chip",
    "chip_name",
    metavar="NAME|FILE.toml",
    type=ChipFile(),
    help="Also run the integers of this chip, and compare them with the fixed-point simulator.",
)
@click.option(
    "--backend",
    "backends",
    multiple=True,
    metavar="NAME",
    type=BackEndName(),
    help="Only this back end, and the one that it is compared with. Repeatable; default: all.",
)
@click.option(
    "--input",
    "source",
    metavar="IN.npy|npz",
    type=click.Path(),
    help="Input spikes or currents, samples repeated in turn; default: random spikes.",
)
@data_options
@click.option(
    "--rate",
    type=click.FloatRange(0, 1),
    metavar="R",
    help="Random spikes per time step and element of an input; default: 0.1.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Seed of the random spikes."
)
@click.option(
    "--steps", type=click.IntRange(min=1), metavar="N", help="Time steps; default: the length of the input, or 100."
)
@click.option(
    "--batch",
    "batches",
    multiple=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="Samples of a run. Repeatable; default: 1 and 32.",
)
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    metavar="N",
    help="Runs of which the fastest counts; none begins after 2 seconds. Default: 5.",
)
@click.option(
    "--limit",
    "limit_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End a back end that takes longer in all; default: 120.",
)
@click.option(
    "--best",
    is_flag=True,
    help='State the fastest back end for each batch, and keep it for nb.open(model, backend="best").',
)
@click.option("-o", "--output", metavar="FILE.json", type=OutputFile(), help="Write everything as JSON.")
@click.option(
    "--plot", metavar="FILE.svg|pdf|png", type=OutputFile(), help="Draw the times of a time step (matplotlib)."
)
@model_options
@verbose_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
def command(model: str, output: str | None, plot: str | None, as_json: bool, **options: Any) -> int:
    """Run a model on every back end that is there: equal spikes first, then time, memory and size.

    Back ends are the simulators, array libraries and emitted programs, each in a process of its own. The same input
    goes to all; a back end whose spikes are not those of the reference (of integers: of the fixed-point simulator) is
    not timed, its first difference is named, and the exit code is 1. One that is not installed is listed with how to
    get it, one that refuses the model with the reason.
    """
    from nirbridge.report.bench import check_bench_path, faults, unchosen, write_bench

    check_plot(plot)
    if output is not None:
        check_bench_path(output)
    bench = run(model, **options)
    if output is not None:
        write_bench(bench, output)
    if plot is not None:
        _draw(bench, plot)
    _show(bench, output, as_json=as_json)
    problems = [*faults(bench), *unchosen(bench)]
    if not problems:
        return 0
    subject = f"model {quoted(file_name(model))}"
    print_error(NirbridgeError(*(Diagnostic(subject, text) for text in problems)), as_json=False)
    return 1


def run(
    model: str,
    chip_name: str | Chip | None,
    source: str | None,
    axes: str | None,
    timing: Any,
    max_bytes: int,
    repairs: tuple[str, ...],
    rewrite: Any = None,
    **settings: Any,
) -> Bench:
    """The benchmark that the command shows."""
    refuse_given({"--rate": source and settings["rate"], "--seed": source and settings["seed"]}, RANDOM_ONLY)
    network = pipeline.load_network(model, timing, max_bytes=max_bytes, repairs=repairs, rewrite=rewrite)
    chip = None if chip_name is None else pipeline.load_chip(chip_name)
    inputs = read_data_file(network, source, axes, max_bytes, steps=settings["steps"]).inputs
    with progress_on_stderr() as progress:
        options = pipeline.BenchOptions(model=file_name(model), progress=progress, **settings)
        return pipeline.bench_network(network, inputs, chip, options)


def _draw(bench: Bench, plot: str) -> None:
    from nirbridge.report.plots.bars import plot_bench
    from nirbridge.report.plots.style import save_picture

    save_picture(plot_bench(bench), plot)


def _show(bench: Bench, output: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json(bench.document() | {"faults": reported_faults()})
        return
    from nirbridge.report.bench import bench_text

    print_result(bench_text(bench, notes=not is_quiet()))
    if output is not None:
        print_text(f"saved {quoted(output)}")

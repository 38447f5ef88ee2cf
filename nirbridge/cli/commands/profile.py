"""``nirbridge profile``: what a model costs on chips, measured on data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nirbridge import pipeline
from nirbridge.cli.common import (
    ChipFile,
    Choice,
    Command,
    ModelFile,
    OutputFile,
    RegisteredName,
    check_plot,
    data_options,
    read_data_file,
)
from nirbridge.cli.mapping_options import OBJECTIVES, core_numbers, map_options, mapping_options
from nirbridge.cli.options import early_option, model_options
from nirbridge.cli.output import (
    is_quiet,
    is_verbose,
    print_json,
    print_result,
    print_text,
    progress_on_stderr,
    verbose_option,
)
from nirbridge.cli.streams import write_to_stderr
from nirbridge.errors import quoted
from nirbridge.files.places import file_name

if TYPE_CHECKING:
    from nirbridge.chips.model import Chip
    from nirbridge.profiling.model import Profile

EXAMPLE = """\b
Example:
  nirbridge profile model.nir --chip loihi1 --input data.npy --labels labels.npy
  nirbridge profile model.nir --chip loihi1 --chip loihi2 --bits 4 --bits 8 --input data.npz -o table.parquet
  nirbridge profile model.nir --chip loihi1 --input data.npy --objective cores --objective latency --json"""


@click.command(
    name="profile", cls=Command, epilog=EXAMPLE, usual=("--chip", "--input", "--labels", "--bits", "--output", "--plot")
)
@click.argument("model", metavar="MODEL.nir|MODEL.net.npz|FILE.py:ATTR", type=ModelFile())
@click.option(
    "--chip",
    "chips_named",
    required=True,
    multiple=True,
    metavar="NAME|FILE.toml",
    type=ChipFile(),
    help="Chip to profile on. Repeatable: a table.",
)
@click.option(
    "--input",
    "source",
    required=True,
    metavar="IN.npy|npz",
    type=click.Path(),
    help="Input spikes or currents, with as many samples as there are; 'labels' may be among them.",
)
@data_options
@click.option("--labels", metavar="FILE.npy", type=click.Path(), help="Class of each sample, for accuracy.")
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    metavar="N",
    help="Time steps of a sample; zeros follow shorter data. Default: the length of the input.",
)
@click.option("--samples", type=click.IntRange(min=1), metavar="N", help="Use the first N samples; default: all.")
@click.option(
    "--bits",
    "--weight-bits",
    "bits",
    multiple=True,
    type=click.IntRange(1, 64),
    metavar="N",
    help="Bits of a stored weight; default: the chip's own. Repeatable: a table.",
)
@click.option(
    "--objective",
    "objectives",
    multiple=True,
    type=Choice(list(OBJECTIVES)),
    help="Quantity that the mapping minimises; default: cores. Repeatable: a table.",
)
@click.option(
    "--to",
    "target",
    metavar="NAME",
    type=RegisteredName("emitters", gives_figures=True),
    help="Also run the map in this tool, and show its figures beside ours: sanafe, or another that gives figures.",
)
@mapping_options
@click.option(
    "-o",
    "--output",
    metavar="FILE.json|csv|parquet",
    type=OutputFile(),
    help="Write everything (JSON), or a row per point (CSV, parquet).",
)
@click.option(
    "--plot", metavar="FILE.svg|pdf|png", type=OutputFile(), help="Draw the energy by layer, or by point (matplotlib)."
)
@early_option
@model_options
@verbose_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
def command(model: str, output: str | None, plot: str | None, as_json: bool, **options: Any) -> int:
    """Measure what a model costs on chips: spikes, energy, time, throughput, accuracy, memory.

    The model runs on the data in real numbers; it is mapped with the spike rates that were measured, and its integers
    run on the same data. The events that occur are charged with the figures of the chip file. Each figure is marked as
    measured, published or assumed. A point that does not fit is listed, and the exit code is then 1.
    """
    check_plot(plot)
    if output is not None:
        from nirbridge.report.profile_document import check_profile_path

        check_profile_path(output)
    profile = run(model, **options)
    if plot is not None:
        _draw(profile, plot)
    if output is not None:
        from nirbridge.report.profile_document import write_profile

        write_profile(profile, output)
    _show(profile, output, as_json=as_json)
    for failed in profile.failed:
        bits = "default" if failed.weight_bits is None else str(failed.weight_bits)
        write_to_stderr(f"error: {quoted(failed.chip)}, {bits} bits, {failed.objective}: {failed.reason}")
    return 1 if profile.failed else 0


def run(
    model: str,
    chips_named: tuple[str | Chip, ...],
    source: str,
    axes: str | None,
    labels: str | None,
    steps: int | None,
    samples: int | None,
    bits: tuple[int, ...],
    objectives: tuple[str, ...],
    target: str | None,
    timing: Any,
    max_bytes: int,
    repairs: tuple[str, ...],
    rewrite: Any = None,
    **settings: Any,
) -> Profile:
    """The profile that the command shows."""
    without = core_numbers("--without-cores", settings["without_cores"])
    chips = [pipeline.load_chip(each, without) for k, each in enumerate(chips_named) if each not in chips_named[:k]]
    classes = None if labels is None else pipeline.load_npy(labels)
    with progress_on_stderr() as progress:
        progress("reading", None)
        mapping = map_options(settings, progress)
        network = pipeline.load_network(model, timing, max_bytes=max_bytes, repairs=repairs, rewrite=rewrite)
        given = read_data_file(network, source, axes, max_bytes, labels=classes, steps=steps)
        origin = {"steps": steps, "samples": samples, "origin": quoted(Path(source).name)}
        data = pipeline.read_data(network, given.inputs, given.labels, **origin)
        options = pipeline.ProfileOptions(
            mapping=mapping,
            bits=tuple(dict.fromkeys(bits)),
            objectives=tuple(dict.fromkeys(objectives)),
            target=target,
            model=file_name(model),
            progress=progress,
        )
        return pipeline.profile_network(network, chips, data, options)


def _draw(profile: Profile, plot: str) -> None:
    from nirbridge.api.pictures import plot_profile
    from nirbridge.report.plots.style import save_picture

    save_picture(plot_profile(profile), plot)


def _show(profile: Profile, output: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json(profile.document())
        return
    from nirbridge.report.profile_text import profile_text

    print_result(profile_text(profile, notes=not is_quiet(), every=is_verbose()))
    if output is not None:
        print_text(f"saved {quoted(output)}")

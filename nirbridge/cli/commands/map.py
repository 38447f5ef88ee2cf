"""``nirbridge map``: a model onto a chip, with a proved lower bound."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nirbridge import pipeline
from nirbridge.cli.common import (
    REPORT_FILES,
    ChipFile,
    Choice,
    Command,
    ModelFile,
    OutputFile,
    ReportFolder,
    check_plot,
    data_options,
    model_title,
    rates_on,
    refuse_given,
)
from nirbridge.cli.interrupts import EXIT_CODE, MESSAGE
from nirbridge.cli.mapping_options import OBJECTIVES, core_numbers, map_options, mapping_options
from nirbridge.cli.options import early_option, model_options
from nirbridge.cli.output import (
    is_quiet,
    is_verbose,
    output_width,
    print_json,
    print_rich,
    print_text,
    progress_on_stderr,
    verbose_option,
)
from nirbridge.cli.streams import write_to_stderr
from nirbridge.errors import FileError, UsageError, quoted
from nirbridge.files.atomic import atomic_write_bytes
from nirbridge.files.places import file_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]

    from nirbridge.chips.model import Chip
    from nirbridge.mapping.model import MappedNetwork
    from nirbridge.network.model import Network, Timing
    from nirbridge.pipeline import MapOptions

EXAMPLE = """\b
Example:
  nirbridge map model.nir --chip loihi1 -o model.map.json
  nirbridge map model.nir --chip loihi2 --objective latency --pin fc1=12 --without-cores 3,17
  nirbridge map model.nir --chip loihi1 --input spikes.npy
  nirbridge map model.nir --chip my_chip.toml --rates rates.npz --json"""


@click.command(
    name="map", cls=Command, epilog=EXAMPLE, usual=("--chip", "--output", "--objective", "--effort", "--plot", "--json")
)
@click.argument("model", metavar="MODEL.nir|MODEL.net.npz|FILE.py:ATTR", type=ModelFile())
@click.option(
    "--chip", required=True, metavar="NAME|FILE.toml", type=ChipFile(), help="The chip, a built-in one or a file."
)
@click.option("-o", "--output", metavar="FILE.map.json", type=OutputFile(), help="Save the map.")
@click.option(
    "--objective",
    type=Choice(list(OBJECTIVES)),
    default="cores",
    show_default=True,
    help="Quantity to minimise.",
)
@click.option(
    "--bits",
    "--weight-bits",
    "weight_bits",
    type=int,
    metavar="N",
    help="Bits of a stored weight; default: the chip's own.",
)
@click.option(
    "--rates", metavar="FILE.npz", type=click.Path(), help="Spikes per time step, by population; default: assumed."
)
@click.option(
    "--input",
    "source",
    metavar="IN.npy|npz",
    type=click.Path(),
    help="Measure the rates on these input spikes or currents.",
)
@data_options
@mapping_options
@click.option(
    "--report", metavar="DIR", type=ReportFolder(), help="Also write the report to this folder (text and HTML)."
)
@click.option("--plot", metavar="FILE.svg|pdf|png", type=OutputFile(), help="Draw the map (matplotlib); see --picture.")
@click.option(
    "--picture",
    type=Choice(["floorplan", "resources", "traffic", "matrix", "proof", "energy", "network"]),
    help="Picture that --plot draws; default: floorplan.",
)
@click.option("--summary", is_flag=True, help="One line instead of the report.")
@verbose_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document: the map file.")
@early_option
@model_options
def command(
    model: str,
    chip: str | Chip,
    output: str | None,
    rates: str | None,
    source: str | None,
    axes: str | None,
    report: str | None,
    plot: str | None,
    picture: str | None,
    as_json: bool,
    summary: bool,
    timing: Timing,
    max_bytes: int,
    repairs: tuple[str, ...],
    rewrite: Any,
    **settings: Any,
) -> int:
    """Map a model onto a chip: cores, utilisation, lower bound, traffic; energy and duration of a time step.

    Ctrl-C during the search gives the best map so far.
    """
    check_plot(plot, picture, "--picture", "names the picture to draw")
    refuse_given({"--summary": summary and as_json}, "--json prints the whole map")
    target = pipeline.load_chip(chip, core_numbers("--without-cores", settings["without_cores"]))
    with progress_on_stderr() as progress:
        progress("reading", None)
        network = pipeline.load_network(model, timing, max_bytes=max_bytes, repairs=repairs, rewrite=rewrite)
        more = {name: settings[name] for name in ("objective", "weight_bits")}
        options = map_options(settings, progress, keep_best=True, **more)
        network = pipeline.fit_to_chip(network, target, relays=options.relays)
        mapped = pipeline.map_network(network, target, _with_rates(options, rates, source, axes, network, max_bytes))
    if report is not None:
        _write_report(mapped, Path(report), model_title())
    if plot is not None:
        draw(mapped, plot, picture or "floorplan")
    if output is not None:
        pipeline.save_map(mapped, output, model)
    if as_json:
        print_json(pipeline.map_document(mapped, model))
    elif summary:
        from nirbridge.report.map_facts import summary_line

        print_text(f"{quoted(file_name(model))}: {summary_line(mapped)}")
    else:
        _show(mapped, file_name(model), output)
    if not mapped.partition.report.interrupted:
        return 0
    write_to_stderr(f"{MESSAGE}: this is the best map so far")
    return EXIT_CODE


def draw(mapped: MappedNetwork, plot: str, picture: str) -> None:
    """Write one of the pictures of a map. Raises UsageError: no figures of energy; FileError: cannot be written."""
    from nirbridge.api import pictures
    from nirbridge.report.plots.style import save_picture

    drawn: dict[str, Callable[[], Axes]] = {
        "floorplan": lambda: pictures.plot_floorplan(mapped),
        "resources": lambda: pictures.plot_floorplan(mapped, color="resource"),
        "traffic": lambda: pictures.plot_traffic(mapped),
        "matrix": lambda: pictures.plot_traffic(mapped, show="matrix"),
        "proof": lambda: pictures.plot_proof(mapped),
        "energy": lambda: pictures.plot_energy(mapped),
        "network": lambda: pictures.plot_network(mapped),
    }
    save_picture(drawn[picture](), plot)


def _with_rates(
    options: MapOptions, rates: str | None, source: str | None, axes: str | None, network: Network, max_bytes: int
) -> MapOptions:
    """The options with rates of a file, or with those measured on inputs."""
    from dataclasses import replace

    if rates is not None and source is not None:
        raise UsageError.of("--input", "given beside --rates", "rates are measured or given", "leave one out")
    if rates is not None:
        return replace(options, rates=pipeline.read_rates(rates, network))
    return replace(options, rates=rates_on(network, source, axes, max_bytes, options.progress))


def _write_report(mapped: MappedNetwork, folder: Path, title: str) -> None:
    from nirbridge.report.html.document import map_html
    from nirbridge.report.map_text import map_text

    pages = dict(zip(REPORT_FILES, (map_text(mapped, title=title), map_html(mapped, title=title)), strict=True))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or "cannot be made"
        raise FileError.of(f"report folder {quoted(folder)}", reason, "", "choose another --report") from error
    for name, page in pages.items():
        path = folder / name
        content = page.encode("utf-8", "backslashreplace")
        atomic_write_bytes(path, content, subject=f"report {quoted(path)}", follow=False)


def _show(mapped: MappedNetwork, title: str, output: str | None) -> None:
    from nirbridge.report.map_brief import brief_text
    from nirbridge.report.map_text import map_renderable

    if is_verbose():
        print_rich(map_renderable(mapped, output_width(), title=title, notes=not is_quiet()))
    else:
        print_rich(brief_text(mapped, title, notes=not is_quiet()))
    if output is not None:
        print_text(f"saved {quoted(output)}")

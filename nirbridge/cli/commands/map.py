"""``nirbridge map``: a model onto a chip, with a proved lower bound."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nirbridge.cli.common import check_plot
from nirbridge.cli.interrupts import EXIT_CODE, MESSAGE
from nirbridge.cli.names import Choice, RegisteredName
from nirbridge.cli.options import early_option, model_options
from nirbridge.cli.output import output_width, print_json, print_rich, print_text
from nirbridge.cli.paths import REPORT_FILES, ChipFile, Command, ModelFile, OutputFile, ReportFolder
from nirbridge.cli.progress import progress_on_stderr
from nirbridge.cli.quiet import is_quiet
from nirbridge.cli.streams import write_to_stderr
from nirbridge.errors import FileError, UsageError, quoted
from nirbridge.files.atomic import atomic_write_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes  # pyright: ignore[reportMissingImports]

    from nirbridge.mapping.model import MappedNetwork
    from nirbridge.network.model import Network, Timing
    from nirbridge.pipeline import MapOptions

EXAMPLE = """\b
Example:
  nirbridge map model.nir --chip loihi1 -o model.map.json
  nirbridge map model.nir --chip loihi2 --objective latency --pin fc1=12 --without-cores 3,17
  nirbridge map model.nir --chip my_chip.toml --rates rates.npz --json"""


@click.command(name="map", cls=Command, epilog=EXAMPLE)
@click.argument("model", metavar="MODEL.nir|MODEL.net.npz|FILE.py:ATTR", type=ModelFile())
@click.option(
    "--chip", required=True, metavar="NAME|FILE.toml", type=ChipFile(), help="The chip, a built-in one or a file."
)
@click.option("-o", "--output", metavar="FILE.map.json", type=OutputFile(), help="Save the map.")
@click.option(
    "--objective",
    type=Choice(["cores", "traffic", "latency"]),
    default="cores",
    show_default=True,
    help="Quantity to minimise.",
)
@click.option(
    "--effort",
    type=Choice(["fast", "default", "max"]),
    default="default",
    show_default=True,
    help="Search effort, counted in solver work, not in seconds.",
)
@click.option(
    "--method",
    metavar="sequential|packed|cp-sat",
    type=RegisteredName("partitioners"),
    default="cp-sat",
    show_default=True,
    help="One layer at a time, first-fit, or the solver with a lower bound (or a plugin's name).",
)
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help="Same seed, same map.")
@click.option("--weight-bits", type=int, metavar="N", help="Bits of a stored weight; default: the chip's own.")
@click.option(
    "--rates", metavar="FILE.npz", type=click.Path(), help="Spikes per time step, by population; default: assumed."
)
@click.option(
    "--pin", "pins", multiple=True, metavar="POPULATION=CORE", help="Fix a population to a core (or 3,4,5). Repeatable."
)
@click.option("--without-cores", default="", metavar="3,17", help="Cores that must not be used.")
@click.option("--chips", type=int, default=1, show_default=True, metavar="N", help="Chips of the board to use.")
@click.option(
    "--split",
    "splits",
    multiple=True,
    metavar="POPULATION=N",
    help="Replicate a population; each copy feeds some of its targets. Repeatable.",
)
@click.option("--keep-zeros", is_flag=True, help="Store weights that are 0 in the chip's integers as synapses, too.")
@click.option("--no-relays", is_flag=True, help="Never map a pooling layer to relay neurons.")
@click.option(
    "--retime",
    type=Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Retime for the delay of hops: where possible, or refuse, or keep the model's delays.",
)
@click.option(
    "--placement-only", is_flag=True, help="Also map a model that the chip cannot run; such a map cannot be executed."
)
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
@click.option("--json", "as_json", is_flag=True, help="One JSON document: the map file.")
@early_option
@model_options
def command(
    model: str,
    chip: str,
    output: str | None,
    rates: str | None,
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
    from nirbridge import pipeline

    check_plot(plot, picture, "--picture", "names the picture to draw")
    target = pipeline.load_chip(chip, _numbers("--without-cores", settings["without_cores"]))
    with progress_on_stderr() as progress:
        progress("reading", None)
        network = pipeline.load_network(model, timing, max_bytes=max_bytes, repairs=repairs, rewrite=rewrite)
        options = _options(settings, progress)
        network = pipeline.fit_to_chip(network, target, relays=options.relays)
        mapped = pipeline.map_network(network, target, _with_rates(options, rates, network))
    if report is not None:
        _write_report(mapped, Path(report), Path(model).name)
    if plot is not None:
        draw(mapped, plot, picture or "floorplan")
    if output is not None:
        pipeline.save_map(mapped, output, model)
    if as_json:
        print_json(pipeline.map_document(mapped, model))
    elif summary:
        from nirbridge.report.map_facts import summary_line

        print_text(f"{quoted(Path(model).name)}: {summary_line(mapped)}")
    else:
        _show(mapped, Path(model).name, output)
    if not mapped.partition.report.interrupted:
        return 0
    write_to_stderr(f"{MESSAGE}: this is the best map so far")
    return EXIT_CODE


def draw(mapped: MappedNetwork, plot: str, picture: str) -> None:
    """Write one of the pictures of a map. Raises UsageError: no figures of energy; FileError: cannot be written."""
    from nirbridge.api import pictures
    from nirbridge.report.plots.files import save_picture

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


def _options(settings: dict[str, Any], progress: Any) -> MapOptions:
    from nirbridge.pipeline import MapOptions

    return MapOptions(
        method=settings["method"],
        objective=settings["objective"],
        effort=settings["effort"],
        seed=settings["seed"],
        chips=settings["chips"],
        weight_bits=settings["weight_bits"],
        pins=dict(_pin(text) for text in settings["pins"]),
        relays=not settings["no_relays"],
        retime=settings["retime"],
        splits=dict(_split(text) for text in settings["splits"]),
        placement_only=settings["placement_only"],
        keep_zeros=settings["keep_zeros"],
        keep_early_spikes=settings["keep_early_spikes"],
        keep_best=True,
        progress=progress,
    )


def _with_rates(options: MapOptions, rates: str | None, network: Network) -> MapOptions:
    from dataclasses import replace

    from nirbridge.pipeline import load_rates

    return options if rates is None else replace(options, rates=load_rates(rates, network))


def _numbers(option: str, text: str) -> tuple[int, ...]:
    parts = [p.strip() for p in text.split(",") if p.strip()]
    if not all(p.isascii() and p.isdigit() and len(p) < 10 for p in parts):
        raise UsageError.of(option, quoted(text), "expected core numbers separated by commas", f"as in {option} 3,17")
    return tuple(sorted({int(p) for p in parts}))


def _pin(text: str) -> tuple[str, tuple[int, ...]]:
    name, equals, cores = text.rpartition("=")
    numbers = _numbers("--pin", cores) if equals else ()
    if not name or not numbers:
        raise UsageError.of(
            "--pin", quoted(text), "expected a population and its core", "as in --pin fc1=12 or --pin fc1=12,13"
        )
    return name, numbers


def _split(text: str) -> tuple[str, int]:
    name, equals, ways = text.rpartition("=")
    if not equals or not name or not (ways.isascii() and ways.isdigit() and len(ways) < 10):
        raise UsageError.of(
            "--split", quoted(text), "expected a population and a number of copies", "as in --split fc1=2"
        )
    return name, int(ways)


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
        atomic_write_bytes(path, page.encode("utf-8", "backslashreplace"), subject=f"report {quoted(path)}")


def _show(mapped: MappedNetwork, title: str, output: str | None) -> None:
    from nirbridge.report.map_text import map_renderable

    print_rich(map_renderable(mapped, output_width(), title=title, notes=not is_quiet()))
    if output is not None:
        print_text(f"saved {quoted(output)}")

"""``nirbridge report`` and ``nirbridge view``: a page on a model and what was made of it; a page that shows a file."""

from __future__ import annotations

import functools
import sys
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nirbridge import pipeline
from nirbridge.cli.common import (
    Command,
    ModelFile,
    OutputFile,
    beside,
    data_options,
    model_title,
    names_module,
    rates_on,
    refuse_given,
)
from nirbridge.cli.options import model_options
from nirbridge.cli.output import print_result, print_warning, progress_on_stderr, reported_faults
from nirbridge.errors import UsageError, quoted
from nirbridge.files.places import file_name

if TYPE_CHECKING:
    from nirbridge.network.model import Network, Timing

EXAMPLE = """\b
Example:
  nirbridge map model.nir --chip loihi1 -o model.map.json
  nirbridge verify model.nir --chip loihi1 --map model.map.json -o verified.npz
  nirbridge report model.nir --map model.map.json --verify verified.npz -o report.html --open"""


@click.command(
    name="report",
    cls=Command,
    epilog=EXAMPLE,
    usual=("--map", "--input", "--quantized", "--verify", "--output", "--open"),
)
@click.argument("model", metavar="MODEL.nir|MODEL.net.npz|FILE.py:ATTR", type=ModelFile())
@click.option("--map", "map_file", metavar="FILE.map.json", type=click.Path(), help="A map of the model.")
@click.option(
    "--input",
    "source",
    metavar="IN.npy|npz",
    type=click.Path(),
    help="Measure the rates for traffic, energy and time on these input spikes or currents; with --map.",
)
@data_options
@click.option("--quantized", metavar="FILE.q.npz", type=click.Path(), help="The model in a chip's integers.")
@click.option("--verify", "verification", metavar="FILE.npz", type=click.Path(), help="A verification (verify -o).")
@click.option(
    "--recording",
    "recordings",
    metavar="FILE.npz",
    type=click.Path(),
    multiple=True,
    help="A recording (simulate -o, run). Repeatable.",
)
@click.option("--circuit", metavar="DIR", type=click.Path(), help="A program in Verilog (emit --to verilog).")
@click.option("-o", "--output", metavar="FILE.html", type=OutputFile(), required=True, help="The page.")
@click.option("--view", "viewed", is_flag=True, help="Also write FILE.view.html, a page to look into the map or model.")
@click.option("--open", "shown", is_flag=True, help="Open the page in the browser.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document: the page, its bytes and its sections.")
@model_options
def command(
    model: str,
    map_file: str | None,
    source: str | None,
    axes: str | None,
    output: str,
    viewed: bool,
    shown: bool,
    as_json: bool,
    timing: Timing,
    quantized: str | None,
    verification: str | None,
    recordings: tuple[str, ...],
    circuit: str | None = None,
    **reading: Any,
) -> None:
    """Write one HTML page on a model: graph, floor plan, traffic, proof, resources, energy, quantization, verification.

    The page is one file that loads nothing from anywhere; it shows the parts that are given.
    """
    from nirbridge.report.html.document import report_html, section_names, write_page

    if map_file is None:
        refuse_given({"--input": source, "--axes": axes}, "its rates are for the map of --map")
    file = (map_file or _file(model)) if viewed else None
    with progress_on_stderr() as progress:
        progress("reading", None)
        network = _network(model, map_file, timing, **reading)
        files = {"quantized_file": quantized, "verification_file": verification, "recording_files": recordings}
        files["circuit_folder"] = circuit
        data = {"path": source, "axes": axes, "max_bytes": reading["max_bytes"], "progress": progress}
        measure = functools.partial(rates_on, **data)
        sources = pipeline.report_sources(model, network, map_file=map_file, measure=measure, **files)
        sources = replace(sources, title=model_title())
        progress("report", None)
        if file is not None:
            sources = replace(sources, viewer=_write_view(file, beside(output)))
        page = report_html(sources)
        write_page(page, output)
    for said in sources.remarks:
        print_warning(said)
    if shown:
        _open(output)
    about: dict[str, Any] = {"report": Path(output).name, "bytes": len(page.encode("utf-8", "backslashreplace"))}
    about |= {"model": file_name(model), "sections": section_names(sources), "notes": list(network.notes)}
    print_result({**about, **_viewed(output, file)} if as_json else _saved(output, about["sections"], file))


def _viewed(output: str, file: str | None) -> dict[str, Any]:
    view = {} if file is None else {"view": Path(beside(output)).name}
    return {"faults": reported_faults(), **view}


def _saved(output: str, sections: list[str], file: str | None) -> list[str]:
    lines = [f"saved {quoted(output)}: {', '.join(sections)}"]
    if file is not None:
        lines.append(f"saved {quoted(beside(output))}: a page that shows {quoted(file_name(file))}")
    return lines


def _file(model: str) -> str:
    """The file of a model. Raises UsageError: it is an object of Python."""
    if names_module(model):
        limit = "an object of Python has none that the viewer reads"
        raise UsageError.of("--view", "needs a file", limit, "add --map, or write the model with import -o")
    return model


def _write_view(file: str, path: str) -> str:
    """Write the viewer's page of a file; return the name of the page."""
    from nirbridge.viewer.page import write_viewer

    write_viewer(path, file_name(file), pipeline.viewed_file(file)[1])
    return Path(path).name


def _network(model: str, map_file: str | None, timing: Timing, **reading: Any) -> Network:
    """The model; where there is a map, with the timing that it was made with, where the options leave it open."""
    network = pipeline.load_network(model, timing, **reading)
    asked = timing if map_file is None else pipeline.timing_of_map(map_file, network, timing)
    return network if asked == timing else pipeline.load_network(model, asked, **reading)


def _open(page: str) -> None:
    """Open a page in the browser; a note where there is none."""
    if not webbrowser.open(Path(page).resolve().as_uri()):
        print_warning(f"no browser opens {quoted(page)}; open it yourself")


# -- view ----------------------------------------------------------------------------------------------------------


EMPTY_PAGE = "nirbridge-viewer.html"
VIEW_EXAMPLE = """\b
Example:
  nirbridge view model.nir
  nirbridge view model.map.json -o plan.html --open
  nirbridge view -o viewer.html"""


def _place(ctx: click.Context, _parameter: click.Parameter, output: str | None) -> str:
    """The page: beside its file, where ``-o`` does not say otherwise."""
    file = ctx.params.get("file")
    return output or (f"{file}.view.html" if file else EMPTY_PAGE)


@click.command(name="view", cls=Command, epilog=VIEW_EXAMPLE)
@click.argument("file", metavar="[FILE.nir|FILE.map.json|FILE.npz]", required=False, type=click.Path())
@click.option(
    "-o",
    "--output",
    metavar="PAGE.html",
    type=OutputFile(),
    callback=_place,
    help=f"The page. Default: FILE.view.html; without FILE {EMPTY_PAGE}.",
)
@click.option(
    "--open/--no-open", "shown", default=None, help="Open it in the browser. Default: if stdout is a terminal."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document: the page, its bytes, and the kind of file.")
def view(file: str | None, output: str, shown: bool | None, as_json: bool) -> None:
    """Write a page that shows a file: graph and parameters, floor plan and routes, spikes and potentials.

    The page is one HTML file that holds the file, needs no Python and loads nothing. Without FILE it is empty, and
    shows any file that is dropped onto it.
    """
    from nirbridge.viewer.page import write_viewer

    kind, content = (None, b"") if file is None else pipeline.viewed_file(file)
    name = "" if file is None else file_name(file)
    size = write_viewer(output, name, content)
    if sys.stdout.isatty() if shown is None else shown:
        _open(output)
    document = {"page": Path(output).name, "bytes": size, "file": name or None, "kind": kind}
    shown_file = quoted(name) if name else "the file that is dropped onto it"
    print_result(document if as_json else [f"saved {quoted(output)}: a page that shows {shown_file}"])

"""``nirbridge import``: a trained module of a framework as a NIR file."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import click

from nirbridge.cli.options import conversion_options, importer_arguments, report_lines, report_of
from nirbridge.cli.paths import Command, ModuleTarget, OutputFile
from nirbridge.cli.sample_options import sample_arguments, sample_options
from nirbridge.errors import ExportWarning, UsageError, quoted

if TYPE_CHECKING:
    from nirbridge.network.model import Network

FRAMEWORKS = "snntorch|norse|torch|sinabs|spikingjelly|rockpool"

EXAMPLE = """\b
Example:
  nirbridge import my_net.py:net --from snntorch --sample-shape 1,34,34 -o net.nir
  nirbridge import my_package.models:Classifier --from torch --sample-shape 784 --calibrate data.npz -o net.nir"""


@click.command(name="import", cls=Command, epilog=EXAMPLE)
@click.argument("target", metavar="PACKAGE.MODULE:ATTR|FILE.py:ATTR", type=ModuleTarget())
@click.option(
    "--from", "framework", required=True, metavar=FRAMEWORKS, help="What the module is made of (or a plugin's name)."
)
@click.option(
    "--sample-shape",
    "shapes",
    required=True,
    multiple=True,
    metavar="1,34,34",
    help="Shape of one time step or of a whole sequence, as the module takes it; once for each of its arguments.",
)
@sample_options
@click.option("-o", "--output", required=True, metavar="MODEL.nir", type=OutputFile(), help="Where the graph goes.")
@click.option("--dt", type=float, metavar="SECONDS", help="What one step lasts; default: as the importer says.")
@click.option("--check", type=click.IntRange(min=1), metavar="N", help="Self-check on N random inputs; 2 if cheap.")
@click.option("--no-check", is_flag=True, help="No self-check: the module is not compared with the import.")
@conversion_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
def command(
    target: str,
    framework: str,
    shapes: tuple[str, ...],
    output: str,
    dt: float | None,
    check: int | None,
    no_check: bool,
    reading: dict[str, Any],
    conversion: dict[str, Any],
    as_json: bool,
) -> None:
    """Import a trained module, exactly, as a NIR file.

    The module and the import are run on the same random inputs; if they differ, no file is written (exit code 1).

    ATTR is a torch module, a class of one or a function without arguments that gives one. THIS RUNS THE CODE of the
    file or package: import only what you would run.
    """
    from nirbridge import plugins as registry
    from nirbridge.cli.import_target import module_of
    from nirbridge.cli.output import print_json, print_text
    from nirbridge.cli.progress import progress_on_stderr
    from nirbridge.pipeline import assumes_dt, import_module, network_of_graph, save_graph

    if no_check and check is not None:
        raise UsageError.of("--check and --no-check", "both were given", "one of the two", "leave one out")
    samples = tuple(_sample(text) for text in shapes)
    registry.get("importers", framework)  # an unknown name is said before the user's code runs
    options = _step(dt) | sample_arguments(framework, reading) | importer_arguments(framework, conversion)
    module = module_of(target, of_torch=framework in FRAMEWORKS.split("|"))
    with warnings.catch_warnings(), progress_on_stderr() as progress:
        warnings.simplefilter("ignore", ExportWarning)  # what it says is printed in full
        options |= {"progress": progress} if framework == "torch" else {}
        graph = import_module(framework, module, _one_or_all(samples), check=0 if no_check else check, **options)
    save_graph(graph, output)
    network, is_assumed = network_of_graph(graph), assumes_dt(framework, module, dt)
    if as_json:
        print_json(_document(output, graph, network, is_assumed))
        return
    print_text("\n".join(_said(output, graph, network, is_assumed)))


def _sample(text: str) -> Any:
    """Zeros of the shape that is written as ``1,34,34``."""
    import math

    import numpy as np

    try:
        shape = tuple(int(part) for part in text.split(","))
    except ValueError:
        shape = (0,)
    if min(shape) < 1 or len(shape) > 6 or math.prod(shape) > 10**8:
        limit = "whole numbers from 1, at most six, with commas, whose product is at most 100,000,000"
        raise UsageError.of("--sample-shape", quoted(text), limit, "for example 1,34,34")
    return np.zeros(shape, np.float32)


def _one_or_all(samples: tuple[Any, ...]) -> Any:
    return samples[0] if len(samples) == 1 else samples


def _step(dt: float | None) -> dict[str, Any]:
    if dt is not None and not 0 < dt < float("inf"):
        raise UsageError.of("--dt", f"{dt:g} s", "above 0", "give seconds per step, for example 1e-3")
    return {} if dt is None else {"dt": dt}


def self_check_of(graph: Any) -> dict[str, Any] | None:
    """The outcome of the self-check that the importer left in the graph, None where there was none."""
    import json

    text = graph.metadata.get("nirbridge:self_check")
    return None if text is None else json.loads(text)


def _texts(graph: Any, key: str) -> list[str]:
    return [line for line in str(graph.metadata.get(f"nirbridge:{key}", "")).split("\n") if line]


def _document(output: str, graph: Any, network: Network, is_assumed: bool) -> dict[str, Any]:
    report = report_of(graph)
    return {
        **({} if report is None else {"conversion": report}),
        "output": output,
        "source": graph.metadata.get("nirbridge:source", ""),
        "dt": network.dt,
        "dt_is_assumed": is_assumed,
        "inputs": [{"name": p.name, "shape": list(p.shape)} for p in network.inputs],
        "outputs": [{"name": p.name, "shape": list(p.shape)} for p in network.outputs],
        "populations": [{"name": p.name, "shape": list(p.shape), "neuron": p.neuron.kind} for p in network.populations],
        "neurons": network.neurons,
        "projections": len(network.projections),
        "self_check": self_check_of(graph),
        "notes": _texts(graph, "notes"),
        "warnings": _texts(graph, "warnings"),
    }


def _said(output: str, graph: Any, network: Network, is_assumed: bool) -> list[str]:
    origin = graph.metadata.get("nirbridge:source", "a module")
    dt = f"dt {network.dt:g} s" + (" (assumed: the module stores none; --dt states it)" if is_assumed else "")
    lines = [
        f"{quoted(output)}: {network.neurons:,} neurons in {len(network.populations)} populations, "
        f"{len(network.projections)} projections, from {origin}, {dt}"
    ]
    lines += [f"  {quoted(p.name)} {list(p.shape)} {p.neuron.kind}" for p in network.populations]
    report = report_of(graph)
    lines += [] if report is None else report_lines(report)
    outcome = self_check_of(graph)
    lines += [] if outcome is None else [f"self-check: {outcome['text']}"]
    lines += [f"note: {text}" for text in _texts(graph, "notes")]
    lines += [f"other tools: {text}" for text in _texts(graph, "warnings")]
    return lines

"""``nirbridge import``: a trained module of a framework as a NIR file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from nirbridge.network.model import Network

FRAMEWORKS = "snntorch|norse|torch|sinabs|spikingjelly|rockpool"

EXAMPLE = """\b
Example:
  nirbridge import my_net.py:net --from snntorch --sample-shape 1,34,34 -o net.nir
  nirbridge import my_package.models:Classifier --from torch --sample-shape 784 --calibrate data.npz -o net.nir"""


@click.command(name="import", epilog=EXAMPLE)
@click.argument("target", metavar="PACKAGE.MODULE:ATTR|FILE.py:ATTR")
@click.option("--from", "framework", required=True, metavar=FRAMEWORKS, help="What the module is made of.")
@click.option(
    "--sample-shape",
    "shapes",
    required=True,
    multiple=True,
    metavar="1,34,34",
    help="Shape of one step's input, without batch; once for each argument of the module.",
)
@click.option("-o", "--output", required=True, metavar="MODEL.nir", type=click.Path(), help="Where the graph goes.")
@click.option("--dt", type=float, metavar="SECONDS", help="What one step lasts; default: as the importer says.")
@click.option("--calibrate", metavar="DATA.npz|npy", type=click.Path(), help="Data for --from torch: its scales.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
def command(
    target: str,
    framework: str,
    shapes: tuple[str, ...],
    output: str,
    dt: float | None,
    calibrate: str | None,
    as_json: bool,
) -> None:
    """Import a trained module, exactly, as a NIR file.

    ATTR is a torch module, a class of one or a function without arguments that gives one. THIS RUNS THE CODE of the
    file or package: import only what you would run.
    """
    from nirbridge.cli.output import print_json, print_text
    from nirbridge.cli.simulate import check_output
    from nirbridge.pipeline import import_module, network_of_graph, save_graph

    check_output(output)
    samples = tuple(_sample(text) for text in shapes)
    options = _options(framework, dt, calibrate)
    module = _module(target)
    graph = import_module(framework, module, samples[0] if len(samples) == 1 else samples, **options)
    save_graph(graph, output)
    network = network_of_graph(graph)
    if as_json:
        print_json(_document(output, graph, network))
        return
    print_text("\n".join(_said(output, graph, network)))


def _sample(text: str) -> Any:
    """Zeros of the shape that is written as ``1,34,34``."""
    import math

    import numpy as np

    from nirbridge.errors import UsageError, quoted

    try:
        shape = tuple(int(part) for part in text.split(","))
    except ValueError:
        shape = (0,)
    if min(shape) < 1 or len(shape) > 6 or math.prod(shape) > 10**8:
        limit = "whole numbers from 1, at most six, with commas"
        raise UsageError.of("--sample-shape", quoted(text), limit, "for example 1,34,34")
    return np.zeros(shape, np.float32)


def _options(framework: str, dt: float | None, calibrate: str | None) -> dict[str, Any]:
    """Further arguments of the importer. Raises UsageError where one does not belong to it."""
    from nirbridge.cli.simulate import read_inputs
    from nirbridge.errors import UsageError

    options: dict[str, Any] = {}
    if dt is not None:
        if not 0 < dt < float("inf"):
            raise UsageError.of("--dt", f"{dt:g} s", "above 0", "give seconds per step, for example 1e-3")
        options["dt"] = dt
    if (framework == "torch") != (calibrate is not None):
        found = "is missing" if framework == "torch" else f"does not belong to --from {framework}"
        raise UsageError.of("--calibrate", found, "--from torch sets its scales with data", "see --help")
    if calibrate is not None:
        data = read_inputs(calibrate, 2**33)
        options["calibration"] = _calibration(data)
    return options


def _calibration(data: Any) -> Any:
    """The one array of an .npz, or a tuple of several in the order of their names."""
    if not isinstance(data, dict):
        return data
    arrays = tuple(data[name] for name in sorted(data))
    return arrays[0] if len(arrays) == 1 else arrays


def _module(target: str) -> Any:
    """The torch module that PACKAGE.MODULE:ATTR or FILE.py:ATTR names; a class or a function is called."""
    import inspect

    from nirbridge.errors import UsageError, quoted

    where, colon, attribute = target.rpartition(":")
    if not colon or not where or not attribute:
        limit = "PACKAGE.MODULE:ATTR or FILE.py:ATTR"
        raise UsageError.of(quoted(target), "names no module and attribute", limit, "for example my_net.py:net")
    found = _attribute(_loaded(where), attribute, where)
    if isinstance(found, type) or inspect.isfunction(found):
        try:
            found = found()
        except Exception as error:
            text = f"calling it without arguments fails ({type(error).__name__}: {error})"
            raise UsageError.of(quoted(target), text, "", "name a module, or a function without arguments") from error
    import torch

    if not isinstance(found, torch.nn.Module):
        text = f"is no torch module but of type {type(found).__name__}"
        raise UsageError.of(quoted(target), text, "", "name a torch.nn.Module, a class or a function that gives one")
    return found


def _loaded(where: str) -> Any:
    """The Python module of a file or a dotted name; the user's own code runs here."""
    import importlib
    import os
    import sys

    from nirbridge.errors import FileError, UsageError, quoted

    folder = os.path.dirname(os.path.abspath(where)) if where.endswith(".py") else os.getcwd()
    if where.endswith(".py") and not os.path.isfile(where):
        raise FileError.of(quoted(where), "there is no such file", "", "give the path of a Python file")
    sys.path.insert(0, folder)
    try:
        if not where.endswith(".py"):
            return importlib.import_module(where)
        name = os.path.splitext(os.path.basename(where))[0]
        return _run_file(name, where)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's code may raise anything, even SystemExit
        found = f"importing it fails ({type(error).__name__}: {error})"
        raise UsageError.of(quoted(where), found, "", "make it import on its own first") from error
    finally:
        sys.path.remove(folder)


def _run_file(name: str, path: str) -> Any:
    """Runs a file as the module ``name``, which pickles and dataclasses of it can find."""
    import importlib.machinery
    import importlib.util
    import sys

    loader = importlib.machinery.SourceFileLoader(name, path)
    spec = importlib.util.spec_from_loader(name, loader)
    if spec is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    loader.exec_module(module)
    return module


def _attribute(module: Any, dotted: str, where: str) -> Any:
    import difflib

    from nirbridge.errors import UsageError, quoted

    found = module
    for part in dotted.split("."):
        if not hasattr(found, part):
            near = difflib.get_close_matches(part, [n for n in dir(found) if not n.startswith("_")], n=3)
            step = f"did you mean {' or '.join(quoted(n) for n in near)}?" if near else "see what it defines"
            raise UsageError.of(quoted(where), f"it has no {quoted(part)}", "", step)
        found = getattr(found, part)
    return found


def _texts(graph: Any, key: str) -> list[str]:
    return [line for line in str(graph.metadata.get(f"nirbridge:{key}", "")).split("\n") if line]


def _document(output: str, graph: Any, network: Network) -> dict[str, Any]:
    return {
        "output": output,
        "source": graph.metadata.get("nirbridge:source", ""),
        "dt": network.dt,
        "inputs": [{"name": p.name, "shape": list(p.shape)} for p in network.inputs],
        "outputs": [{"name": p.name, "shape": list(p.shape)} for p in network.outputs],
        "populations": [{"name": p.name, "shape": list(p.shape), "neuron": p.neuron.kind} for p in network.populations],
        "neurons": network.neurons,
        "projections": len(network.projections),
        "notes": _texts(graph, "notes"),
        "warnings": _texts(graph, "warnings"),
    }


def _said(output: str, graph: Any, network: Network) -> list[str]:
    from nirbridge.errors import quoted

    origin = graph.metadata.get("nirbridge:source", "a module")
    lines = [
        f"{quoted(output)}: {network.neurons:,} neurons in {len(network.populations)} populations, "
        f"{len(network.projections)} projections, from {origin}, dt {network.dt:g} s"
    ]
    lines += [f"  {quoted(p.name)} {list(p.shape)} {p.neuron.kind}" for p in network.populations]
    lines += [f"note: {text}" for text in _texts(graph, "notes")]
    lines += [f"other tools: {text}" for text in _texts(graph, "warnings")]
    return lines

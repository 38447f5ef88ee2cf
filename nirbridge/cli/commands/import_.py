"""``nirbridge import``: a trained module of a framework as a NIR file."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from nirbridge import pipeline
from nirbridge.cli.common import Command, ModuleTarget, OutputFile, refuse_options
from nirbridge.cli.model_target import (
    PLAIN,
    is_text,
    module_options,
    module_with_weights,
    one_or_all,
    recognised,
    sample_of,
)
from nirbridge.cli.options import conversion_options, importer_arguments, report_lines, report_of
from nirbridge.cli.output import noted, print_result, progress_on_stderr
from nirbridge.errors import UsageError, counted, quoted

if TYPE_CHECKING:
    from nirbridge.network.model import Network


# -- sample options ------------------------------------------------------------------------------------------------
# Options of ``nirbridge import``: the axes of the sample, accepted deviations, and data to measure them on.

_NAMES = {
    "batched": "--batched/--no-batched",
    "time_axis": "--time-axis",
    "accept": "--accept",
    "measure": "--measure",
}


def sample_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options; the command gets those that were given as one ``reading``."""

    @click.option(
        "--batched/--no-batched",
        default=None,
        help="Whether the sample has a batch axis; default: inferred.",
    )
    @click.option(
        "--time-axis",
        metavar="K|none",
        help="Time axis of the sample, from 0; none: the sample is one time step; default: inferred.",
    )
    @click.option(
        "--accept",
        multiple=True,
        metavar="NAME",
        help="Accept a known deviation from the module, by the name that the error gives, such as replaced-maxpool. "
        "Repeatable.",
    )
    @click.option(
        "--measure",
        metavar="DATA.npz",
        type=click.Path(),
        help="Labelled data, inputs and 'labels': the accuracy of the module and of the import.",
    )
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        given = {name: kwargs.pop(name, None) for name in _NAMES}
        return function(*args, reading={k: v for k, v in given.items() if v not in (None, ())}, **kwargs)

    return wrapped


def sample_arguments(framework: str, reading: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the framework's importer.

    Raises:
        UsageError: no axis, an option that the importer does not have (every one), data without labels.
        FileError: the data cannot be read.
    """
    import inspect

    from nirbridge import plugins as registry

    parameters = inspect.signature(registry.get("importers", framework)).parameters
    where = f"--from {framework} has no such option"
    refuse_options((_NAMES[name] for name in reading if name not in parameters), where)
    read = {"time_axis": _axis, "measure": _labelled}
    return {name: read[name](value) if name in read else value for name, value in reading.items()}


def _labelled(path: str) -> Mapping[str, Any]:
    """The arrays of a file, ``labels`` among them."""
    data = pipeline.load_inputs(path, max_bytes=2**33)
    if not isinstance(data, Mapping) or "labels" not in data or len(data) < 2:
        found = f"arrays {', '.join(map(quoted, data)) or 'none'}" if isinstance(data, Mapping) else "one array"
        step = "save them with numpy.savez('data.npz', inputs=x, labels=y)"
        raise UsageError.of(f"--measure {quoted(path)}", found, "it needs the inputs and 'labels'", step)
    return data


def _axis(text: str) -> int | str:
    if text == "none":
        return text
    try:
        return int(text)
    except ValueError:
        limit = "the axis of the sample that is time, a whole number, or none"
        raise UsageError.of("--time-axis", quoted(text), limit, "for example --time-axis 1") from None


EXAMPLE = """\b
Example:
  nirbridge import my_net.py:net --sample-shape 1,34,34 -o net.nir
  nirbridge import my_net.py:Net --weights net.pt --sample-shape 1,34,34 -o net.nir
  nirbridge import network.net -o net.nir
  nirbridge import my_package.models:Classifier --from torch --sample-shape 784 --calibrate data.npz -o net.nir"""


@click.command(
    name="import",
    cls=Command,
    epilog=EXAMPLE,
    usual=("--sample-shape", "--output", "--weights", "--from", "--calibrate", "--no-check"),
)
@click.argument("target", metavar="PACKAGE.MODULE:ATTR|FILE.py:ATTR|FILE", type=ModuleTarget(), is_eager=True)
@module_options(required=True)
@sample_options
@click.option("-o", "--output", required=True, metavar="MODEL.nir", type=OutputFile(), help="The NIR file.")
@click.option(
    "--dt", type=float, metavar="SECONDS", help="Seconds per time step; default: as stored by the module, else assumed."
)
@click.option(
    "--check",
    type=click.IntRange(min=1),
    metavar="N",
    help="Self-check on N random inputs; default: 2 for a cheap module.",
)
@click.option("--no-check", is_flag=True, help="Do not compare the import with the module.")
@conversion_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
def command(target: str, output: str, as_json: bool, **options: Any) -> None:
    """Import a trained module, exactly, as a NIR file; or a network in MLIR (.mlir) or of lava-dl (.net).

    The module and the import are run on the same random inputs; if they differ, no file is written (exit code 1).

    ATTR is a torch module, or a class or function that returns one when called without arguments. THIS RUNS THE CODE of
    the file or package: import only code that you trust. A file of weights holds tensors alone; no code of it is run.
    """
    graph, is_assumed = imported_text(target, **options) if is_text(target) else imported(target, **options)
    pipeline.save_graph(graph, output, warn=False)  # what the warning says is printed
    network = pipeline.network_of_graph(graph)
    about = output, graph, network, is_assumed
    print_result(_document(*about) if as_json else _lines(*about))


def imported(
    target: str,
    sample_shapes: tuple[str, ...],
    framework: str | None,
    weights: str | None,
    reading: dict[str, Any],
    conversion: dict[str, Any],
    dt: float | None,
    check: int | None,
    no_check: bool,
) -> tuple[Any, bool]:
    """The graph of the module, and whether its time step is a default."""
    if no_check and check is not None:
        raise UsageError.of("--check and --no-check", "both were given", "one of the two", "leave one out")
    samples = tuple(sample_of(text) for text in sample_shapes)
    is_plain = framework == PLAIN and not conversion
    options = _step(dt) if framework is None or is_plain else _step(dt) | _arguments(framework, reading, conversion)
    module = module_with_weights(target, framework, weights)
    if framework is None or is_plain:
        framework = PLAIN if is_plain or "calibration" in conversion else recognised(module, target)
        is_spiking = framework == PLAIN and not conversion  # with neurons written by hand, or by nirbridge
        options |= sample_arguments(framework, reading) if is_spiking else _arguments(framework, reading, conversion)
    with progress_on_stderr() as progress:
        options |= {"check": 0 if no_check else check, "progress": progress}
        graph = pipeline.import_module(framework, module, one_or_all(samples), **options)
    return graph, pipeline.assumes_dt(framework, module, dt)


def imported_text(target: str, dt: float | None, reading: Any, conversion: Any, **options: Any) -> tuple[Any, bool]:
    """The graph of a ``.mlir`` or ``.net`` file, which has shapes of its own and is not run; see ``imported``."""
    _step(dt)
    where = "it belongs to a module; a text has shapes and weights of its own"
    names = {"sample_shapes": "--sample-shape", "framework": "--from", "weights": "--weights", "check": "--check"}
    refuse_options([name for key, name in names.items() if options.get(key)], where)
    keys = ("calibrate" if key == "calibration" else key.replace("_", "-") for key in (*reading, *conversion))
    refuse_options([f"--{key}" for key in keys], where)
    return pipeline.graph_of_text(target, pipeline.Timing(dt))


def _arguments(framework: str, reading: dict[str, Any], conversion: dict[str, Any]) -> dict[str, Any]:
    """The options of one importer; said to be wrong before the user's code runs, where the importer is named."""
    return sample_arguments(framework, reading) | importer_arguments(framework, conversion)


def _step(dt: float | None) -> dict[str, Any]:
    if dt is not None and not 0 < dt < float("inf"):
        raise UsageError.of("--dt", f"{dt:g} s", "above 0", "give seconds per step, for example 1e-3")
    return {} if dt is None else {"dt": dt}


def self_check_of(graph: Any) -> dict[str, Any] | None:
    """The outcome of the self-check that the importer left in the graph, None where there was none."""
    from nirbridge.files.json_text import ANSWER_BYTES_MAX, parse_json

    text = graph.metadata.get("nirbridge:self_check")
    return None if text is None else parse_json(text, "self-check", bytes_max=ANSWER_BYTES_MAX)


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


def _lines(output: str, graph: Any, network: Network, is_assumed: bool) -> list[str]:
    origin = graph.metadata.get("nirbridge:source", "a module")
    dt = f"dt {network.dt:g} s" + (" (assumed: the module stores none; set it with --dt)" if is_assumed else "")
    lines = [
        f"{quoted(output)}: {counted(network.neurons, 'neuron')} in {counted(len(network.populations), 'population')}, "
        f"{counted(len(network.projections), 'projection')}, from {origin}, {dt}"
    ]
    lines += [f"  {quoted(p.name)} {list(p.shape)} {p.neuron.kind}" for p in network.populations]
    report = report_of(graph)
    lines += [] if report is None else report_lines(report)
    outcome = self_check_of(graph)
    lines += [] if outcome is None else [f"self-check: {outcome['text']}"]
    lines += [f"measured: {outcome['measured']['text']}"] if outcome and "measured" in outcome else []
    lines += noted("note", _texts(graph, "notes"))
    differences = _texts(graph, "warnings")
    more = f"nirbridge inspect {output} --portability lists them"
    return lines + noted("other tools", [f"{_points(differences)}; {more}"] if differences else [])


def _points(differences: list[str]) -> str:
    return f"{counted(len(differences), 'point')} in which they would run this file differently"

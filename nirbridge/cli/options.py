"""Options of conversions (``nirbridge import --from torch``) and their report; options of every model command."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from nirbridge import pipeline
from nirbridge.cli.common import Choice, refuse_given, refuse_options
from nirbridge.cli.help import READING, in_section
from nirbridge.cli.model_target import target_options
from nirbridge.cli.output import faults_on_stderr, print_details
from nirbridge.errors import UsageError, did_you_mean, quoted

if TYPE_CHECKING:
    from nirbridge.network.model import Network, Timing
    from nirbridge.passes.base import Pass


early_option = click.option(
    "--keep-early-spikes",
    is_flag=True,
    help="Keep spikes fired before the first input instead of refusing them; verify reports the effect.",
)
"""The option of every command that puts a model on a chip."""
LEAST_ERROR = "least-error"
_NAMES = {
    "calibration": "--calibrate",
    "steps": "--steps",
    "percentile": "--percentile",
    "readout": "--readout",
    "per_channel": "--per-channel/--per-population",
    "fair_start": "--fair-start/--half-start",
}


def conversion_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of a conversion; the command gets those that were given as one ``conversion``."""

    @click.option(
        "--calibrate",
        "calibration",
        metavar="DATA.npz|npy",
        type=click.Path(),
        help="torch, required: typical inputs, [samples, *shape].",
    )
    @click.option(
        "--steps",
        type=int,
        metavar="T",
        help="torch: time steps that scales and initial states are tuned for; default: 64.",
    )
    @click.option(
        "--percentile",
        metavar="least-error|max|99.9",
        help="torch: the activation encoded by one spike per time step.",
    )
    @click.option(
        "--readout", type=Choice(["potential", "spikes"]), help="torch: outputs as potentials or spike counts."
    )
    @click.option(
        "--per-channel/--per-population", default=None, help="torch: one scale per channel, or per population."
    )
    @click.option(
        "--fair-start/--half-start",
        default=None,
        help="torch: initial potentials for unbiased mean counts, or half the threshold.",
    )
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        given = {name: kwargs.pop(name) for name in _NAMES}
        return function(*args, conversion={k: v for k, v in given.items() if v is not None}, **kwargs)

    return wrapped


_CLIPPING = (
    click.option(
        "--method",
        type=Choice(["range", "percentile", "error"]),
        default="range",
        show_default=True,
        help="Clipping of the weight range: none, a percentile, or the least error (on calibration data if given).",
    ),
    click.option(
        "--percentile",
        type=click.FloatRange(50, 100),
        metavar="P",
        help="Percentile of --method percentile; default: 99.9.",
    ),
    click.option(
        "--tight",
        is_flag=True,
        help="Scale to the ranges seen in the data plus a margin; overflow is then not excluded.",
    ),
)


def clipping_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of ``quantize`` and ``verify`` that choose scales of weights."""

    @functools.wraps(function)
    def wrapped(*args: Any, method: str, percentile: float | None, **kwargs: Any) -> Any:
        if method != "percentile":
            refuse_given({"--percentile": percentile}, "it belongs to --method percentile")
        return function(*args, method=method, percentile=percentile or 99.9, **kwargs)

    decorated: Callable[..., Any] = wrapped
    for option in reversed(_CLIPPING):
        decorated = option(decorated)
    return decorated


def importer_arguments(framework: str, conversion: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of ``from_torch``; none for other frameworks.

    Raises:
        UsageError: options that do not belong to the framework, no calibration data; all of it.
        FileError: the data cannot be read.
    """
    if framework != "torch":
        where = f"it belongs to --from torch, not to --from {framework}"
        refuse_options((_NAMES[name] for name in conversion), where)
        return {}
    if "calibration" not in conversion:
        limit = "the scales of a converted network come from typical inputs, some hundreds of training samples"
        raise UsageError.of("--calibrate", "is missing", limit, "give an .npy or .npz file of shape [samples, *shape]")
    arguments = {**conversion, "calibration": _calibration(conversion["calibration"])}
    if "percentile" in arguments:
        arguments["percentile"] = _percentile(arguments["percentile"])
    return arguments


def _percentile(text: str) -> str | float:
    if text in (LEAST_ERROR, "max"):
        return text
    try:
        return float(text)
    except ValueError:
        limit = "least-error, max or a number above 0 and up to 100"
        raise UsageError.of("--percentile", quoted(text), limit, "99.9 is a usual one") from None


def _calibration(path: str) -> Any:
    """The one array of a file, or a tuple of several in the order of their names."""
    data = pipeline.load_inputs(path, max_bytes=2**33)
    if not isinstance(data, dict):
        return data
    arrays = tuple(data[name] for name in sorted(data))
    return arrays[0] if len(arrays) == 1 else arrays


def report_of(graph: Any) -> dict[str, Any] | None:
    """The report of a conversion that a graph carries, None for other graphs."""
    from nirbridge.files.json_text import ANSWER_BYTES_MAX, parse_json

    text = graph.metadata.get("nirbridge:conversion")
    return None if text is None else parse_json(str(text), "conversion report", bytes_max=ANSWER_BYTES_MAX)


def report_lines(report: Mapping[str, Any]) -> list[str]:
    """The report as a table: a line for each population."""
    of = f" of {report['given_samples']:,}" if report["samples"] < report["given_samples"] else ""
    lines = [
        f"conversion for {report['steps']} steps on {report['samples']:,}{of} samples, spikes counted on "
        f"{report['measured_samples']:,}",
        f"  {'population':<24} {'scale':>18} {'clipped':>8} {'error':>9} {'of size':>8} {'bound':>9}",
    ]
    for layer in report["layers"]:
        low, high = layer["scale"]
        scale = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
        lines.append(
            f"  {quoted(layer['name']):<24} {scale:>18} {layer['clipped']:>8.2%} {layer['error']:>9.2g} "
            f"{layer['error_share']:>8.1%} {layer['bound_spikes']:>9.3g}"
        )
    if report["output_error"] is not None:
        lines.append(f"  outputs: root mean square error {report['output_error']:.3g}")
    if report["decisions"] is not None:
        lines.append(f"  decisions: {report['decisions']:.1%} equal to the original's")
    return lines


COMPARE = {"gt": ">", "ge": ">="}
DEFAULT_MAX_GIB = 2


def model_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options for reading a model; the command gets ``timing: Timing``, ``max_bytes: int`` and ``repairs: tuple``.

    It also gets ``rewrite``, see ``pass_options``. ``model`` is always a file: a module (FILE.py:ATTR) is imported
    first. Known faults of the exporter are reported on stderr; a JSON document contains them.
    """
    return in_section(READING, _reading_options)(_saying_faults(function))


def _reading_options(function: Callable[..., Any]) -> Callable[..., Any]:
    return target_options(timing_options(repair_options(pass_options(max_bytes_option(function)))))


def _saying_faults(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(*args: Any, as_json: bool, **kwargs: Any) -> Any:
        with faults_on_stderr(silent=as_json, model=kwargs.get("model")):
            return function(*args, as_json=as_json, **kwargs)

    return wrapped


def repair_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--repair NAME``; the command gets the names, each once, as ``repairs``."""

    @click.option(
        "--repair",
        "repairs",
        multiple=True,
        metavar="NAME[=NODE,...]",
        help="Repair a known fault of a framework's exporter, by the name that inspect gives (batch-axis: a batch axis "
        "of inputs and outputs); with nodes: of these neurons alone. Repeatable.",
    )
    @functools.wraps(function)
    def wrapped(*args: Any, repairs: tuple[str, ...], **kwargs: Any) -> Any:
        return function(*args, repairs=tuple(dict.fromkeys(repairs)), **kwargs)

    return wrapped


def timing_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--dt --integrator --reset --compare --if-gain``; the command gets one ``timing: Timing``.

    Options that are not given are None: then the file's metadata decides, else the default.
    """

    @click.option("--dt", type=float, metavar="SECONDS", help="Seconds per time step.")
    @click.option(
        "--integrator", type=Choice(["euler", "zoh", "exponential"]), help="How time constants become decays."
    )
    @click.option("--reset", type=Choice(["to-value", "subtract", "none"]), help="Reset of v after a spike.")
    @click.option("--compare", type=Choice(list(COMPARE)), help="Spike condition: v > or >= threshold.")
    @click.option(
        "--if-gain",
        type=Choice(["per-second", "per-step"]),
        help="Whether r of IF and I is per second or per time step.",
    )
    @functools.wraps(function)
    def wrapped(
        *args: Any,
        dt: float | None,
        integrator: Any,
        reset: Any,
        compare: str | None,
        if_gain: Any,
        **kwargs: Any,
    ) -> Any:

        chosen: Any = None if compare is None else COMPARE[compare]
        return function(*args, timing=pipeline.Timing(dt, integrator, reset, chosen, if_gain), **kwargs)

    return wrapped


def options_of_networks(timing: Timing, repairs: Any, rewrite: Any) -> dict[str, Any]:
    """Values of the options of reading by name, which do not apply to integers; those of none are false."""
    times = {f"--{name.replace('_', '-')}": value is not None for name, value in asdict(timing).items()}
    return {"--passes": rewrite, "--repair": repairs, **times}


def max_bytes_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--max-bytes``: how much a file and all that it declares may take (default 2 GiB)."""
    return click.option(
        "--max-bytes",
        type=click.IntRange(min=1),
        default=DEFAULT_MAX_GIB * 2**30,
        metavar="N",
        help=f"Refuse files that hold or declare more bytes; default: {DEFAULT_MAX_GIB} GiB.",
    )(function)


# -- pass options --------------------------------------------------------------------------------------------------

ALL = "all"


def pass_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--passes``; the command gets one ``rewrite``: ``Network -> Network``, or None."""

    @click.option(
        "--passes",
        metavar="TEXT",
        help="Rewrite the network first, as in 'eliminate-dead' or 'replicate-source{name=fc1,ways=2}'.",
    )
    @functools.wraps(function)
    def wrapped(*args: Any, passes: str | None, printed: tuple[str, ...] = (), **kwargs: Any) -> Any:
        return function(*args, rewrite=rewriter(passes, printed), **kwargs)

    return wrapped


print_after_option = in_section(
    READING,
    click.option(
        "--print-after",
        "printed",
        multiple=True,
        metavar="PASS|all",
        help="Print the network to stderr after this pass. Repeatable.",
    ),
)
"""The option of ``inspect``, above ``model_options``, which take its value."""


def rewriter(passes: str | None, printed: tuple[str, ...] = ()) -> Callable[[Network], Network] | None:
    """The rewrite that the options describe, None without ``--passes``. Raises UsageError before any file is read."""
    if passes is None:
        if printed:
            raise UsageError.of("--print-after", "given without --passes", "it names one of them", "add --passes TEXT")
        return None
    parsed = pipeline.parse_passes(passes)
    _check_printed(printed, [p.pass_name for p in parsed])

    def print_some(rewrite: Pass, network: Network) -> None:
        if ALL in printed or rewrite.pass_name in printed:
            print_details([f"network after {pipeline.format_passes([rewrite])}:", network.summary()])

    return lambda network: pipeline.apply_passes(network, parsed, after=print_some)


def _check_printed(printed: tuple[str, ...], names: list[str]) -> None:
    for name in printed:
        if name != ALL and name not in names:
            limit = f"the passes are {', '.join(dict.fromkeys(names)) or 'none'}"
            hint = did_you_mean(name, [*names, ALL]) or f"name one of them, or {ALL}"
            raise UsageError.of(f"--print-after {quoted(name)}", "none of the passes", limit, hint)

"""What ``nirbridge import --from torch`` is asked for, and what it says about a conversion."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import click

from nirbridge.errors import Problem, UsageError, quoted

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
        help="torch: typical inputs, [samples, *shape]; needed.",
    )
    @click.option("--steps", type=int, metavar="T", help="torch: steps that scales and starts are tuned for; 64.")
    @click.option(
        "--percentile",
        metavar="least-error|max|99.9",
        help="torch: the activation that a spike in every step stands for.",
    )
    @click.option(
        "--readout", type=click.Choice(["potential", "spikes"]), help="torch: outputs as potentials or spike counts."
    )
    @click.option("--per-channel/--per-population", default=None, help="torch: a scale for each channel, or for all.")
    @click.option(
        "--fair-start/--half-start", default=None, help="torch: starts at mean counts, or at half the threshold."
    )
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        given = {name: kwargs.pop(name) for name in _NAMES}
        return function(*args, conversion={k: v for k, v in given.items() if v is not None}, **kwargs)

    return wrapped


def importer_arguments(framework: str, conversion: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of ``from_torch``; none for other frameworks.

    Raises:
        UsageError: options that do not belong to the framework, no calibration data; all of it.
        FileError: the data can not be read.
    """
    if framework != "torch":
        where = f"it belongs to --from torch, not to --from {framework}"
        problems = [Problem(_NAMES[name], "is of no use here", where, "leave it out") for name in conversion]
        if problems:
            raise UsageError(*problems)
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
    from nirbridge.cli.common import read_inputs

    data = read_inputs(path, 2**33)
    if not isinstance(data, dict):
        return data
    arrays = tuple(data[name] for name in sorted(data))
    return arrays[0] if len(arrays) == 1 else arrays


def report_of(graph: Any) -> dict[str, Any] | None:
    """The report of a conversion that a graph carries, None for other graphs."""
    import json

    text = graph.metadata.get("nirbridge:conversion")
    return None if text is None else json.loads(str(text))


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
        lines.append(f"  decisions: {report['decisions']:.1%} as the original's")
    return lines

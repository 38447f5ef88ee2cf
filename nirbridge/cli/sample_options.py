"""Options of ``nirbridge import``: the axes of the sample, accepted deviations, and data to measure them on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import click

from nirbridge.cli.common import refuse_options
from nirbridge.errors import UsageError, quoted

_NAMES = {
    "batched": "--batched/--no-batched",
    "time_axis": "--time-axis",
    "accept": "--accept",
    "measure": "--measure",
}
REPLACED_MAXPOOL = "replaced-maxpool"


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
        help="Accept a known deviation from the module, by the name that the error gives. Repeatable.",
    )
    @click.option(
        "--replace-maxpool",
        is_flag=True,
        help="Max-pool spikes after a neuron, not its currents: --accept replaced-maxpool.",
    )
    @click.option(
        "--measure",
        metavar="DATA.npz",
        type=click.Path(),
        help="Labelled data, inputs and 'labels': the accuracy of the module and of the import.",
    )
    @functools.wraps(function)
    def wrapped(*args: Any, replace_maxpool: bool = False, **kwargs: Any) -> Any:
        given = {name: kwargs.pop(name, None) for name in _NAMES}
        if replace_maxpool:
            given["accept"] = tuple(dict.fromkeys((*(given["accept"] or ()), REPLACED_MAXPOOL)))
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
    from nirbridge.pipeline import load_inputs

    data = load_inputs(path, max_bytes=2**33)
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

"""Options of ``nirbridge import``: the axes of the sample and accepted deviations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import click

from nirbridge.cli.common import refuse_options
from nirbridge.errors import UsageError, quoted

_NAMES = {"batched": "--batched/--no-batched", "time_axis": "--time-axis", "accept": "--accept"}


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
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        given = {name: kwargs.pop(name) for name in _NAMES}
        return function(*args, reading={k: v for k, v in given.items() if v not in (None, ())}, **kwargs)

    return wrapped


def sample_arguments(framework: str, reading: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the framework's importer.

    Raises:
        UsageError: no axis, or an option that the importer does not have; every one.
    """
    import inspect

    from nirbridge import plugins as registry

    parameters = inspect.signature(registry.get("importers", framework)).parameters
    where = f"--from {framework} has no such option"
    refuse_options((_NAMES[name] for name in reading if name not in parameters), where)
    return {k: _axis(v) if k == "time_axis" else v for k, v in reading.items()}


def _axis(text: str) -> int | str:
    if text == "none":
        return text
    try:
        return int(text)
    except ValueError:
        limit = "the axis of the sample that is time, a whole number, or none"
        raise UsageError.of("--time-axis", quoted(text), limit, "for example --time-axis 1") from None

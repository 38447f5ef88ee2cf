"""The timing options that every command with a model has, as one decorator."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

COMPARE = {"gt": ">", "ge": ">="}
DEFAULT_MAX_GIB = 2


def timing_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--dt --integrator --reset --compare --if-gain``; the command gets one ``timing: Timing``.

    What is not given is None: then the file's metadata decides, else the default.
    """

    @click.option("--dt", type=float, metavar="SECONDS", help="Seconds per step.")
    @click.option(
        "--integrator", type=click.Choice(["euler", "zoh", "exponential"]), help="How time constants become decays."
    )
    @click.option("--reset", type=click.Choice(["to-value", "subtract", "none"]), help="What a spike does to v.")
    @click.option("--compare", type=click.Choice(list(COMPARE)), help="A spike where v > or >= threshold.")
    @click.option(
        "--if-gain", type=click.Choice(["per-second", "per-step"]), help="Whether r of IF and I is per second or step."
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
        from nirbridge.network.model import Timing

        chosen: Any = None if compare is None else COMPARE[compare]
        return function(*args, timing=Timing(dt, integrator, reset, chosen, if_gain), **kwargs)

    return wrapped


def max_bytes_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--max-bytes``: how much a file and all that it declares may take (default 2 GiB)."""
    return click.option(
        "--max-bytes",
        type=click.IntRange(min=1),
        default=DEFAULT_MAX_GIB * 2**30,
        show_default=True,
        help="Refuse files that hold or declare more.",
    )(function)

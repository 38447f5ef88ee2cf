"""The options that every command with a model has, as one decorator."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

COMPARE = {"gt": ">", "ge": ">="}
DEFAULT_MAX_GIB = 2


def model_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """How a model file is read: the command gets ``timing: Timing``, ``max_bytes: int`` and ``repairs: tuple``.

    Faults of the exporter that the file shows are said on stderr; a JSON document says them itself.
    """
    return timing_options(repair_options(max_bytes_option(_saying_faults(function))))


def _saying_faults(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(*args: Any, as_json: bool, **kwargs: Any) -> Any:
        from nirbridge.cli.output import faults_on_stderr

        with faults_on_stderr(silent=as_json):
            return function(*args, as_json=as_json, **kwargs)

    return wrapped


def repair_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--repair NAME`` and ``--drop-batch``; the command gets the names of both as one ``repairs``."""

    @click.option(
        "--repair",
        "repairs",
        multiple=True,
        metavar="NAME",
        help="Mend what a framework's exporter got wrong, by the name that inspect gives. Repeatable.",
    )
    @click.option("--drop-batch", is_flag=True, help="Take an axis for a batch off inputs and outputs.")
    @functools.wraps(function)
    def wrapped(*args: Any, repairs: tuple[str, ...], drop_batch: bool, **kwargs: Any) -> Any:
        chosen = dict.fromkeys((*repairs, *(["batch-axis"] if drop_batch else [])))
        return function(*args, repairs=tuple(chosen), **kwargs)

    return wrapped


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
        from nirbridge.pipeline import timing

        chosen: Any = None if compare is None else COMPARE[compare]
        return function(*args, timing=timing(dt, integrator, reset, chosen, if_gain), **kwargs)

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

"""Options of the commands that map a model, ``map`` and ``profile``, and their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from nirbridge import pipeline
from nirbridge.cli.common import Choice, RegisteredName
from nirbridge.errors import UsageError, quoted

OBJECTIVES = ("cores", "traffic", "latency")
_OPTIONS = (
    click.option(
        "--effort",
        type=Choice(["fast", "default", "max"]),
        default="default",
        show_default=True,
        help="Search effort, counted in solver work, not in seconds.",
    ),
    click.option(
        "--bound",
        type=Choice(["auto", "quick", "tight"]),
        default="auto",
        show_default=True,
        help="Lower bound on hops: quick has a hundredth of the work; auto is tight for 256 cores, or --effort max.",
    ),
    click.option(
        "--method",
        metavar="NAME",
        type=RegisteredName("partitioners"),
        default="cp-sat",
        show_default=True,
        help="The solver, or a faster method that keeps the order of the model, and needs many times the cores where "
        "that does not bring neurons of like sources together.",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0, 2**31 - 1),
        default=0,
        show_default=True,
        metavar="N",
        help="Same seed, same map.",
    ),
    click.option(
        "--pin",
        "pins",
        multiple=True,
        metavar="POPULATION=CORE",
        help="Fix a population to a core (or 3,4,5). Repeatable.",
    ),
    click.option("--without-cores", default="", metavar="3,17", help="Cores that must not be used."),
    click.option("--chips", type=int, default=1, show_default=True, metavar="N", help="Chips of the board to use."),
    click.option(
        "--split",
        "splits",
        multiple=True,
        metavar="POPULATION=N",
        help="Replicate a population; each copy feeds some of its targets. Repeatable.",
    ),
    click.option(
        "--keep-zeros", is_flag=True, help="Store weights that are 0 in the chip's integers as synapses, too."
    ),
    click.option("--no-relays", is_flag=True, help="Never map a pooling layer to relay neurons."),
    click.option(
        "--retime",
        type=Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="Retime for the delay of hops: where possible, or refuse, or keep the model's delays.",
    ),
    click.option(
        "--placement-only",
        is_flag=True,
        help="Also map a model that the chip cannot run; such a map cannot be executed.",
    ),
)


def mapping_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options; ``map_options`` takes their values."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def map_options(settings: dict[str, Any], progress: Any, **more: Any) -> pipeline.MapOptions:
    """``MapOptions`` of the values of the options above and of ``--keep-early-spikes``. Raises UsageError."""
    same = ("method", "effort", "bound", "seed", "chips", "retime", "placement_only", "keep_zeros", "keep_early_spikes")
    pins, splits = dict(map(_pin, settings["pins"])), dict(map(_split, settings["splits"]))
    more |= {name: settings[name] for name in same}
    return pipeline.MapOptions(pins=pins, splits=splits, relays=not settings["no_relays"], progress=progress, **more)


def core_numbers(option: str, text: str) -> tuple[int, ...]:
    """Core numbers with commas between them, ascending. Raises UsageError."""
    parts = [p.strip() for p in text.split(",") if p.strip()]
    if not all(p.isascii() and p.isdigit() and len(p) < 10 for p in parts):
        raise UsageError.of(option, quoted(text), "expected core numbers separated by commas", f"as in {option} 3,17")
    return tuple(sorted({int(p) for p in parts}))


def _pin(text: str) -> tuple[str, tuple[int, ...]]:
    name, equals, cores = text.rpartition("=")
    numbers = core_numbers("--pin", cores) if equals else ()
    if not name or not numbers:
        raise UsageError.of(
            "--pin", quoted(text), "expected a population and its core", "as in --pin fc1=12 or --pin fc1=12,13"
        )
    return name, numbers


def _split(text: str) -> tuple[str, int]:
    name, equals, ways = text.rpartition("=")
    if not equals or not name or not (ways.isascii() and ways.isdigit() and len(ways) < 10):
        raise UsageError.of(
            "--split", quoted(text), "expected a population and a number of copies", "as in --split fc1=2"
        )
    return name, int(ways)

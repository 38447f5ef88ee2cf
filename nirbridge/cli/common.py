"""Options and outputs that several commands share: inputs, widths, plots, recordings, mapping."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nirbridge import pipeline
from nirbridge.cli.output import is_quiet, noted
from nirbridge.cli.paths import Choice, RegisteredName
from nirbridge.cli.streams import write_to_stderr
from nirbridge.errors import Diagnostic, UsageError, counted, quoted

if TYPE_CHECKING:
    from nirbridge.simulators.given import Given
    from nirbridge.simulators.simulate import Recording


RANDOM_ONLY = "it is of random inputs, and --input gives others"


def refuse_options(names: Iterable[str], limit: str) -> None:
    """Raises UsageError for options that do not apply, each of them; ``limit`` says where they do."""
    UsageError.raise_all(Diagnostic(name, "does not apply here", limit, "leave it out") for name in names)


def refuse_given(given: Mapping[str, object], limit: str) -> None:
    """As ``refuse_options``, for the options whose value is not that of a command line without them."""
    refuse_options((name for name, value in given.items() if value), limit)


def graded_inputs(texts: tuple[str, ...]) -> dict[str, tuple[float, int]]:
    """``INPUT=MAX:BITS``. Raises UsageError."""
    inputs: dict[str, tuple[float, int]] = {}
    for text in texts:
        name, _, numbers = text.rpartition("=")
        size, _, bits = numbers.partition(":")
        try:
            inputs[name] = (float(size), int(bits))
        except ValueError:
            limit = "INPUT=MAX:BITS"
            raise UsageError.of(
                f"--graded {quoted(text)}", "not understood", limit, "for example --graded in=1.0:8"
            ) from None
    return inputs


def widths(texts: tuple[str, ...]) -> dict[str, int] | int | None:
    """``N`` for all, ``LAYER=N`` for one; a name may hold '=', the last one counts. Raises UsageError."""
    everywhere: int | None = None
    by_layer: dict[str, int] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        if not number.isdecimal() or len(number) > 3:
            raise UsageError.of(f"--bits {quoted(text)}", "is neither N nor LAYER=N", "", "for example --bits fc1=4")
        if name:
            by_layer[name] = int(number)
        else:
            everywhere = int(number)
    return {**({"*": everywhere} if everywhere is not None else {}), **by_layer} if by_layer else everywhere


axes_option = click.option(
    "--axes",
    metavar="sample,time",
    help="Axes of the data before the shape of an input; default: those of the imported module, else time,sample.",
)
"""The option of every command that takes data."""


def read_data_file(network: Any, path: str | None, axes: str | None, max_bytes: int, **options: Any) -> Given:
    """The arrays of a file, read by named axes, which stderr states. Raises FileError or UsageError."""
    if path is None and axes is not None:
        limit = "it names the axes of data"
        raise UsageError.of("--axes", "given without data", limit, "give a file, or leave it out")
    arrays = None if path is None else pipeline.load_inputs(path, max_bytes=max_bytes)
    given = pipeline.read_inputs(network, arrays, axes=axes, **options)
    state_reading(path, given.reading)
    return given


def state_reading(path: str | None, reading: str) -> None:
    """Say on stderr how the data of a file were read; nothing with ``--quiet``, or of time steps alone."""
    if " of " in reading and path is not None and not is_quiet():
        write_to_stderr(f"{quoted(Path(path).name)}: {reading}")


def check_plot(
    plot: str | None, chosen: str | None = None, option: str = "--node", names: str = "names the node to draw"
) -> None:
    """Raises UsageError, before any work is done, for a picture that could not be drawn."""
    if plot is None and chosen is not None:
        raise UsageError.of(option, "given without --plot", f"it {names}", "add --plot FILE.png")
    if plot is not None:
        from nirbridge.report.plots.style import check_picture

        check_picture(plot)


def summary(recording: Recording) -> dict[str, Any]:
    """The meta of a recording, and each array in words and numbers."""
    recorded = []
    for (node, variable), array in recording.arrays.items():
        entry = {"node": node, "variable": variable, "shape": list(array.shape), "type": str(array.dtype)}
        if variable in ("s", "count") and array.dtype.kind in "ui":
            entry["spikes"] = int(array.sum(dtype="int64"))
        recorded.append(entry)
    return {"meta": dict(recording.meta), "recorded": recorded}


def summary_lines(recording: Recording) -> list[str]:
    """The lines of the text output."""
    from nirbridge.report.map_facts import one_line

    meta = recording.meta
    steps, dt, batch = (meta.get(name) for name in ("steps", "dt", "batch"))
    length = "time steps" if steps is None else counted(steps, "time step")
    best = f", the best of {counted(len(meta['candidates']), 'backend')}" if meta.get("candidates") else ""
    parts = [f"{length} of {'unknown length' if dt is None else f'{dt:g} s'}"]
    parts += [] if batch is None else [f"batch {batch}"]
    parts += [one_line(meta.get("dtype") or "integers"), f"backend {one_line(meta.get('backend') or 'unknown')}{best}"]
    lines = [", ".join(parts), *noted("assumed", map(one_line, meta.get("assumed") or ()))]
    for entry in summary(recording)["recorded"]:
        spikes = f", {counted(entry['spikes'], 'spike')}" if "spikes" in entry else ""
        lines.append(f"{quoted(entry['node'])} {entry['variable']}: {entry['shape']} {entry['type']}{spikes}")
    return lines


# -- mapping options -----------------------------------------------------------------------------------------------
# Options of commands that map a model: ``map`` and ``profile``.


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
        metavar="sequential|packed|cp-sat",
        type=RegisteredName("partitioners"),
        default="cp-sat",
        show_default=True,
        help="One layer at a time; first-fit; or the solver (or a plugin's name). The first two keep the order of the "
        "model, and need many times the cores where it does not bring neurons of like sources together.",
    ),
    click.option(
        "--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help="Same seed, same map."
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

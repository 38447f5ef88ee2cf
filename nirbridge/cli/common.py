"""Options that several commands share and their types (paths that pass ``files.gate``, names), and outputs."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nirbridge import pipeline
from nirbridge.cli.chip_values import change_chips, values_option
from nirbridge.cli.help import READING, HelpContext, help_all_option, in_section, write_examples, write_options
from nirbridge.cli.memory import check_address_space
from nirbridge.cli.output import is_quiet, is_verbose, noted, quiet_option
from nirbridge.cli.streams import write_to_stderr
from nirbridge.errors import Diagnostic, UsageError, counted, did_you_mean, quoted
from nirbridge.files.gate import CommandInput, CommandOutput, check_outputs

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from nirbridge._types import Progress
    from nirbridge.simulators.given import Given
    from nirbridge.simulators.simulate import Recording


# -- paths ---------------------------------------------------------------------------------------------------------
# Types of a command's paths, by which its results pass ``files.gate`` before it starts, and of names.
#
# A parameter of type ``click.Path()`` is read; results have one of the types below.


STDOUT = 1
REPORT_FILES = ("map.txt", "map.html")


class OutputFile(click.Path):
    """A file that the command writes."""


class OutputFolder(click.Path):
    """A folder that the command replaces as a whole."""


class ReportFolder(click.Path):
    """A folder that gets ``REPORT_FILES``, and may hold others."""


class ChipFile(click.Path):
    """A chip by name, or a file that is read."""

    def known_names(self) -> tuple[str, ...]:
        """The chips, those of plugins too."""
        from nirbridge import plugins

        return plugins.chip_names()

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The chips whose names begin so; where there is none, files."""
        chips = beginning_with(incomplete, self.known_names())
        return chips or super().shell_complete(ctx, param, incomplete)


class ModuleTarget(click.Path):
    """``PACKAGE.MODULE:ATTR`` or ``FILE.py:ATTR``: a Python file that is read; or a ``.mlir`` or ``.net`` file."""


class ModelFile(click.Path):
    """A model file that is read, or ``FILE.py:ATTR``."""


class ProgramFolder(click.Path):
    """A folder of an emitted program, whose files are read."""


class Command(click.Command):
    """A command whose results never replace its inputs, and whose output paths are checked before it starts."""

    context_class = HelpContext

    def __init__(self, *args: Any, usual: tuple[str, ...] = (), **options: Any) -> None:
        """Arguments as of click; ``usual``: the options in ``--help``. ``--quiet`` and ``--help-all`` are added.

        ``--set`` is added after a chip.
        """
        super().__init__(*args, **options)
        self._chips = [each.name or "" for each in self.params if isinstance(each.type, ChipFile)]
        if self._chips:
            place = max(k for k, each in enumerate(self.params) if isinstance(each.type, ChipFile))
            self.params.insert(place + 1, values_option())
        self.params += [quiet_option(), help_all_option()]
        self.usual = usual

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The usual options, or all of them."""
        write_options(ctx, formatter, self.get_params(ctx), self.usual)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples."""
        write_examples(formatter, self.epilog or "")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, which keeps the last value of an option that takes one. Raises UsageError for two values."""
        values, _, order = self.make_parser(ctx).parse_args(list(args))
        problems = []
        for option in () if ctx.resilient_parsing else dict.fromkeys(order):
            if order.count(option) > 1 and isinstance(option, click.Option) and not (option.multiple or option.is_flag):
                last = quoted(str(values[option.name or ""]))
                found = f"given {counted(order.count(option), 'time')}, last with {last}"
                problems.append(Diagnostic(_label(option), found, "it takes one value", "give it once"))
        UsageError.raise_all(problems)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Checks the paths, then runs the command.

        Raises:
            FileError: from the gate.
            UsageError: too little address space; ``--json`` and a result that goes to stdout, too.
        """
        check_address_space()
        outputs = list(_outputs(ctx))
        places = check_outputs(outputs, list(_inputs(ctx))) if outputs else ()
        if ctx.params.get("viewed") and any(place.descriptor is not None for place in places[:1]):
            limit = "the page of -o goes to a stream"
            raise UsageError.of("--view", "writes a page beside that of -o", limit, "name a file with -o")
        if self._chips:
            change_chips(ctx, self._chips)
        if not any(place.descriptor == STDOUT for place in places):
            return super().invoke(ctx)
        return self._with_result_on_stdout(ctx)

    def _with_result_on_stdout(self, ctx: click.Context) -> Any:
        """Text for people goes to stderr, so that stdout holds the result alone."""
        if ctx.params.get("as_json"):
            limit = "the result goes there, too"
            raise UsageError.of("--json", "writes to stdout", limit, "leave it out, or name a file")
        with contextlib.redirect_stdout(sys.stderr):
            return super().invoke(ctx)


def _given(ctx: click.Context) -> Iterator[tuple[click.Path, str, str]]:
    """Type, name and value of every path that was given."""
    for parameter in ctx.command.params:
        value = ctx.params.get(parameter.name or "")
        if not isinstance(parameter.type, click.Path) or value is None:
            continue
        name = parameter.opts[0] if isinstance(parameter, click.Option) else parameter.make_metavar(ctx)
        for each in value if isinstance(value, tuple) else (value,):
            yield parameter.type, name, os.fsdecode(each)


def _outputs(ctx: click.Context) -> Iterator[Any]:
    for kind, name, path in _given(ctx):
        if isinstance(kind, OutputFile):
            yield CommandOutput(name, path)
            if ctx.params.get("viewed"):
                yield CommandOutput("--view", beside(path))
        elif isinstance(kind, OutputFolder):
            yield CommandOutput(name, path, "folder")
        elif isinstance(kind, ReportFolder):
            yield CommandOutput(name, path, "report", REPORT_FILES)


def beside(page: str) -> str:
    """The viewer's page of ``--view``: ``report.view.html`` beside ``report.html``."""
    return f"{page.removesuffix('.html')}.view.html"


def _inputs(ctx: click.Context) -> Iterator[Any]:
    for kind, name, path in _given(ctx):
        if isinstance(kind, OutputFile | OutputFolder | ReportFolder):
            continue
        if isinstance(kind, ChipFile) and not (path.endswith(".toml") or "/" in path or "\\" in path):
            continue
        for each in _files_of(kind, path):
            yield CommandInput("MODEL" if "|" in name else name, each)


def _files_of(kind: click.Path, path: str) -> Iterable[str]:
    if isinstance(kind, ModuleTarget) or (isinstance(kind, ModelFile) and names_module(path)):
        return _sources(path)
    if isinstance(kind, ChipFile):
        return (path, *map(str, pipeline.extended_files(path)))
    if isinstance(kind, ProgramFolder):
        return (path, *pipeline.program_files(path))
    return (path,)


def names_module(text: str) -> bool:
    """True for ``FILE.py:ATTR``: only then is the code of a file run."""
    file, colon, attribute = text.rpartition(":")
    return bool(colon) and file.endswith(".py") and all(part.isidentifier() for part in attribute.split("."))


def _sources(target: str) -> Iterator[str]:
    """The files that a module to import may come from: FILE.py, or what a dotted name is from the working folder."""
    if target.endswith((".mlir", ".net")):
        yield target
        return
    where = target.rpartition(":")[0]
    if where.endswith(".py"):
        yield where
    elif where:
        path = os.path.join(*where.split("."))
        yield from (f"{path}.py", os.path.join(path, "__init__.py"))


# -- names ---------------------------------------------------------------------------------------------------------
# Types of options whose values are names: the nearest name in an error, and completion in the shell.


class Choice(click.Choice):  # type: ignore[type-arg]
    """One of a few names; an error names the nearest of them."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As click does. Raises UsageError for any other name."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            names = [str(choice) for choice in self.choices]
            hint = did_you_mean(value, names) or "choose one of them"
            raise UsageError.of(_label(param), quoted(value), f"expected one of {', '.join(names)}", hint) from None


class RegisteredName(click.ParamType):
    """A name of nirbridge or of a plugin, of the kind ``importers``, ``partitioners``, ``emitters``, ``simulators``.

    Whether there is such a name is checked where it is looked up, since that also says which plugins are broken.
    """

    name = "name"

    def __init__(self, kind: str, *, gives_figures: bool = False) -> None:
        """``kind``: a field of ``plugins.Plugin``; ``gives_figures``: only few of the names will do."""
        self.kind, self.is_listed = kind, not gives_figures

    def known_names(self) -> tuple[str, ...]:
        """The names of nirbridge and of plugins, for the help."""
        return self._names() if self.is_listed else ()

    def _names(self) -> tuple[str, ...]:
        from nirbridge import plugins

        return plugins.names(self.kind)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names that begin so."""
        return beginning_with(incomplete, self._names())


class BackEndName(click.ParamType):
    """A back end of ``nirbridge bench``: checked where the back ends are looked up."""

    name = "name"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The back ends that begin so."""
        return beginning_with(incomplete, pipeline.backend_names())


def beginning_with(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    """Completions for a shell: the names that begin with ``incomplete``."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _label(param: click.Parameter | None) -> str:
    """The name of an option or argument in messages."""
    if param is None:
        return "value"
    return max(param.opts, key=len) if isinstance(param, click.Option) else param.human_readable_name


# -- common --------------------------------------------------------------------------------------------------------


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


_EVENTS = "nirbridge.events"
_EVENT_WORDS = {"merge": (), "clip": (), "unit": ("s", "ms", "us", "ns"), "origin": ("zero", "first")}
"""The words of ``--events``, and the values of each."""


def data_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that takes data: the command gets ``axes``; see ``event_options`` for the others."""
    return in_section(READING, _data_options)(function)


def _data_options(function: Callable[..., Any]) -> Callable[..., Any]:
    kept: dict[str, Any] = {"callback": _keep, "expose_value": False}
    words = "merge: both polarities in one channel; clip: events of one place and time step count as one;"
    options = (
        click.option(
            "--axes",
            metavar="sample,time",
            help="Axes of the data before the shape of an input; default: those of the imported module, else "
            "time,sample.",
        ),
        click.option(
            "--bin", type=float, metavar="SECONDS", help="Events: a time step; default: the model's dt.", **kept
        ),
        click.option(
            "--sensor", metavar="WIDTHxHEIGHT", help="Events: size of the sensor; default: that of the input.", **kept
        ),
        click.option(
            "--events",
            metavar="merge,clip,unit=ms,origin=first",
            help=f"{words} unit: of columns (s, ms, us, ns); origin: time step 0 is at time zero, or the first event.",
            **kept,
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value is not None:
        ctx.meta.setdefault(_EVENTS, {})[param.name] = value


def event_options() -> pipeline.EventOptions:
    """The options of events of the running command. Raises UsageError."""
    context = click.get_current_context(silent=True)
    given: dict[str, Any] = {} if context is None else context.meta.get(_EVENTS, {})
    sensor = re.fullmatch(r"(\d{1,5})x(\d{1,5})", given.get("sensor", "1x1"))
    size = (0, 0) if sensor is None else (int(sensor[1]), int(sensor[2]))
    if 0 in size:
        raise UsageError.of("--sensor", quoted(given["sensor"]), "WIDTHxHEIGHT, both from 1", "for example 346x260")
    words = dict(_event_word(text) for text in given.get("events", "").split(",") if text)
    return pipeline.EventOptions(given.get("bin"), size if "sensor" in given else None, **words)


def _event_word(text: str) -> tuple[str, Any]:
    """A word of ``--events``, and its value. Raises UsageError."""
    name, equals, value = text.strip().partition("=")
    choices = _EVENT_WORDS.get(name, ())
    if name not in _EVENT_WORDS or bool(equals) != bool(choices) or (choices and value not in choices):
        limit = "words are merge, clip, unit=s|ms|us|ns and origin=zero|first"
        step = did_you_mean(name, _EVENT_WORDS) if name not in _EVENT_WORDS else "correct it"
        raise UsageError.of("--events", quoted(text), limit, step)
    return name, value if choices else True


def read_data_file(network: Any, path: str | None, axes: str | None, max_bytes: int, **options: Any) -> Given:
    """The arrays of a file, by named axes, or its events, binned; stderr states how. Raises FileError, UsageError."""
    events = event_options()
    if path is None:
        given = {"--axes": axes, "--bin, --sensor and --events": None if events == pipeline.EventOptions() else events}
        for name in (name for name, value in given.items() if value is not None):
            limit = f"{'it names the axes' if name == '--axes' else 'they are'} of data"
            raise UsageError.of(name, "given without data", limit, "give a file, or leave it out")
    arrays = None if path is None else pipeline.load_data(path, max_bytes=max_bytes)
    settings = {"events": events, "max_bytes": max_bytes, "subject": f"file {quoted(Path(path or '').name)}"}
    given = pipeline.read_inputs(network, arrays, axes=axes, **settings, **options)
    state_reading(path, given.reading)
    return given


def rates_on(network: Any, path: str | None, axes: str | None, max_bytes: int, progress: Progress) -> Any:
    """The rates of a network on the data of a file, as ``MapOptions.rates``; None without a file."""
    inputs = read_data_file(network, path, axes, max_bytes).inputs
    if path is None:
        return None
    return pipeline.measured_rates(network, inputs, origin=quoted(Path(path).name), progress=progress)


def model_title() -> str:
    """The model as the command line names it, without its folders: ``net.nir``, ``net.py:net``."""
    return Path(click.get_current_context().params["model"]).name


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


def summary_lines(recording: Recording, hint: str) -> list[str]:
    """The lines of the text output. ``hint``: where the assumptions are, which are counted without ``--verbose``."""
    from nirbridge.report.map_facts import one_line

    meta = recording.meta
    steps, dt, batch = (meta.get(name) for name in ("steps", "dt", "batch"))
    length = "time steps" if steps is None else counted(steps, "time step")
    best = f", the best of {counted(len(meta['candidates']), 'backend')}" if meta.get("candidates") else ""
    parts = [f"{length} of {'unknown length' if dt is None else f'{dt:g} s'}"]
    parts += [] if batch is None else [f"batch {batch}"]
    parts += [one_line(meta.get("dtype") or "integers"), f"backend {one_line(meta.get('backend') or 'unknown')}{best}"]
    assumed = [one_line(text) for text in meta.get("assumed") or ()]
    few = [f"{counted(len(assumed), 'assumption')} on the model: {hint}"] if assumed and not is_quiet() else []
    lines = [", ".join(parts), *(noted("assumed", assumed) if is_verbose() else few)]
    for entry in summary(recording)["recorded"]:
        spikes = f", {counted(entry['spikes'], 'spike')}" if "spikes" in entry else ""
        lines.append(f"{quoted(entry['node'])} {entry['variable']}: {entry['shape']} {entry['type']}{spikes}")
    return lines

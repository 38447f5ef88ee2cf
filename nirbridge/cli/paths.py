"""Types of a command's paths, by which its results pass ``files.gate`` before it starts, and of names.

A parameter of type ``click.Path()`` is read; results have one of the types below.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from nirbridge import pipeline
from nirbridge.cli.memory import check_address_space
from nirbridge.cli.output import quiet_option
from nirbridge.errors import UsageError, did_you_mean, quoted
from nirbridge.files.gate import CommandInput, CommandOutput, check_outputs

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


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

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The chips whose names begin so; where there is none, files."""
        from nirbridge import plugins

        chips = beginning_with(incomplete, plugins.chip_names())
        return chips or super().shell_complete(ctx, param, incomplete)


class ModuleTarget(click.Path):
    """``PACKAGE.MODULE:ATTR`` or ``FILE.py:ATTR``: a Python file that is read; or a ``.mlir`` file."""


class ModelFile(click.Path):
    """A model file that is read, or ``FILE.py:ATTR``."""


class ProgramFolder(click.Path):
    """A folder of an emitted program, whose files are read."""


class Command(click.Command):
    """A command whose results never replace its inputs, and whose output paths are checked before it starts."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Arguments as of click; ``--quiet`` is added."""
        super().__init__(*args, **options)
        self.params.append(quiet_option())

    def invoke(self, ctx: click.Context) -> Any:
        """Checks the paths, then runs the command.

        Raises:
            FileError: from the gate.
            UsageError: too little address space; ``--json`` and a result that goes to stdout, too.
        """
        check_address_space()
        outputs = list(_outputs(ctx))
        if not outputs:
            return super().invoke(ctx)
        places = check_outputs(outputs, list(_inputs(ctx)))
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
        elif isinstance(kind, OutputFolder):
            yield CommandOutput(name, path, "folder")
        elif isinstance(kind, ReportFolder):
            yield CommandOutput(name, path, "report", REPORT_FILES)


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
    if isinstance(kind, ProgramFolder):
        return (path, *pipeline.program_files(path))
    return (path,)


def names_module(text: str) -> bool:
    """True for ``FILE.py:ATTR``: only then is the code of a file run."""
    file, colon, attribute = text.rpartition(":")
    return bool(colon) and file.endswith(".py") and all(part.isidentifier() for part in attribute.split("."))


def _sources(target: str) -> Iterator[str]:
    """The files that a module to import may come from: FILE.py, or what a dotted name is from the working folder."""
    if target.endswith(".mlir"):
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

    def __init__(self, kind: str) -> None:
        """``kind``: a field of ``plugins.Plugin``."""
        self.kind = kind

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names that begin so."""
        from nirbridge import plugins

        return beginning_with(incomplete, plugins.names(self.kind))


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

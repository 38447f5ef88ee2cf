"""Output of a command: results to stdout as text or as one JSON document, messages and progress to stderr."""

from __future__ import annotations

import json
import os
import shlex
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from nirbridge._types import Progress, no_progress
from nirbridge.errors import ExporterFaultWarning, FileError, NirbridgeError, printable, quoted

if TYPE_CHECKING:
    from rich.console import RenderableType


WIDTH_NO_TERMINAL, WIDTH_MIN = 80, 20
_SAID: ContextVar[Mapping[str, None]] = ContextVar("_SAID", default=MappingProxyType({}))


def print_text(text: str) -> None:
    """Writes a result to stdout; characters that the terminal's encoding lacks are escaped."""
    click.echo(encodable(text, getattr(sys.stdout, "encoding", None)))


def print_rich(*parts: RenderableType) -> None:
    """Writes tables and other parts made with rich to stdout, ``output_width`` columns wide; no number is cut.

    Tables do without their least columns where there is no room, except with ``--verbose``.
    """
    from rich.console import Console

    from nirbridge.report.tables import fitted

    console = Console(file=sys.stdout, width=output_width(), highlight=False, markup=False, emoji=False)
    gone: dict[str, None] = {}
    with console.capture() as captured:  # rich would exit by itself where the reader goes away
        for part in parts:
            console.print(fitted(part, console, None if is_verbose() else gone))
        if gone and not is_quiet():
            where = "--verbose" if has_verbose() else "a wider terminal"
            console.print(f"\nmore columns with {where}: {', '.join(gone)}")
    text = "\n".join(line.rstrip() for line in captured.get().split("\n"))
    click.echo(encodable(text, getattr(sys.stdout, "encoding", None)), nl=False)


def output_width() -> int:
    """Columns of the output: those of ``COLUMNS``, else of the terminal, else 80."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and 0 < len(columns) < 5:
        return max(int(columns), WIDTH_MIN)
    with suppress(OSError, ValueError, AttributeError):
        if sys.stdout.isatty():
            return max(os.get_terminal_size(sys.stdout.fileno()).columns, WIDTH_MIN)
    return WIDTH_NO_TERMINAL


def print_json(document: object) -> None:
    """Writes one JSON document with sorted keys; numpy scalars and arrays, paths and mappings become JSON's own."""
    click.echo(to_json(document))


def to_json(document: object) -> str:
    """The text of ``print_json``: ASCII, so that it survives every encoding. Raises ValueError for NaN."""
    return json.dumps(document, sort_keys=True, indent=2, allow_nan=False, default=_plain)


def print_result(result: Mapping[str, Any] | list[str] | RenderableType) -> None:
    """Writes a result to stdout: a mapping as one JSON document, lines as text, other parts with rich."""
    if isinstance(result, Mapping):
        print_json(result)
    elif isinstance(result, list):
        print_text("\n".join(result))
    else:
        print_rich(result)


def print_error(error: NirbridgeError, *, as_json: bool, has_frames: bool = False) -> None:
    """Every problem on a line of its own to stderr; with ``as_json`` one JSON document to stdout too.

    ``has_frames``: stdout has the frames of a stream; the document is the last line of stderr.
    A stream that cannot be written is skipped: the exit code still signals the error.
    """
    with suppress(OSError):
        for line in [str(problem) for problem in error.problems] or [type(error).__name__]:
            click.echo(_for_stderr(f"error: {line}"), err=True)
        if as_json and has_frames:
            click.echo(json.dumps(error_document(error)), err=True)
    if as_json and not has_frames:
        with suppress(FileError):
            print_json(error_document(error))


@contextmanager
def faults_on_stderr(*, silent: bool, model: str | None = None) -> Iterator[None]:
    """Within it each ``ExporterFaultWarning`` is one line on stderr, once; none with ``silent``.

    ``model``: the file that is read; the line then says only what the fault is, and where its repair is told.
    """
    reported: dict[str, None] = {}
    token = _SAID.set(reported)
    with warnings.catch_warnings():
        warnings.simplefilter("always", ExporterFaultWarning)
        others = warnings.showwarning

        def show(message: Any, category: Any, *rest: Any, **more: Any) -> None:
            if not issubclass(category, ExporterFaultWarning):
                others(message, category, *rest, **more)
            elif str(message) not in reported:
                reported[str(message)] = None
                if not silent:
                    print_warning(str(message) if model is None else _short_fault(str(message), model))

        warnings.showwarning = show
        try:
            yield
        finally:
            _SAID.reset(token)


def _short_fault(sentence: str, model: str) -> str:
    """Without the nodes, what else the file lacks, and the repair."""
    what = sentence.partition("; ")[0].removesuffix(" (possible)")
    has = "may have" if "(possible)" in sentence else "has"
    found = f"{quoted(PurePath(model).name)} {has} a known fault of its exporter: {what.partition(': ')[2] or what}"
    return f"{found}; see nirbridge inspect {shlex.quote(model)}"


def reported_faults() -> list[str]:
    """The known faults of exporters in the files that this command has read so far."""
    return list(_SAID.get())


def print_details(lines: Iterable[str]) -> None:
    """Lines on stderr beside the result; skipped if stderr cannot be written."""
    with suppress(OSError):
        click.echo("\n".join(map(_for_stderr, lines)), err=True)


def print_notes(notes: Iterable[str]) -> None:
    """A line on stderr for each, none with ``--quiet``."""
    if not is_quiet() and (lines := [f"note: {printable(note)}" for note in notes]):
        print_details(lines)


def print_warning(text: str) -> None:
    """One line on stderr, none with ``--quiet``; skipped if stderr cannot be written."""
    if is_quiet():
        return
    with suppress(OSError):
        click.echo(_for_stderr(f"warning: {printable(text)}"), err=True)


def _for_stderr(line: str) -> str:
    """The line in stderr's encoding; on a terminal it goes on at a word, indented, else it stays one line."""
    with suppress(AttributeError, ValueError):
        if sys.stderr.isatty() and len(line) > (width := output_width()):
            line = textwrap.fill(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return encodable(line, getattr(sys.stderr, "encoding", None))


def error_document(error: NirbridgeError) -> dict[str, Any]:
    """An error as JSON: its type and every problem in its parts."""
    problems = [
        {"subject": p.subject, "found": p.found, "limit": p.limit, "hint": p.hint, "ids": _jsonable(p.ids)}
        for p in error.problems
    ]
    return {"error": {"type": type(error).__name__, "problems": problems}}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(value, "tolist"):  # numpy scalars and arrays, without importing numpy
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _jsonable(ids: Mapping[str, Any]) -> dict[str, Any]:
    """Ids of a problem; values without a JSON form become text, because an error must always be shown."""
    plain: dict[str, Any] = {}
    for key, value in ids.items():
        try:
            plain[str(key)] = json.loads(to_json(value))
        except (TypeError, ValueError):
            plain[str(key)] = str(value)
    return plain


# -- quiet ---------------------------------------------------------------------------------------------------------
# ``--quiet`` of every command: results and errors alone, no progress, no warnings, no notes.

_KEY = "nirbridge.quiet"


def quiet_option() -> click.Option:
    """The option itself; ``is_quiet`` reads its value."""
    text = "No progress, warnings or notes: results and errors alone."
    return click.Option(["--quiet"], is_flag=True, expose_value=False, callback=_remember, help=text)


def is_quiet() -> bool:
    """True while a command runs that was given ``--quiet``."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_KEY))


_DETAILS = "nirbridge.verbose"


def verbose_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--verbose`` to a command whose result has details that are left out without it; see ``is_verbose``."""
    text = "Everything about the result, not only the usual part of it."

    def remember(context: click.Context, parameter: click.Parameter, value: bool) -> None:
        del parameter
        context.meta[_DETAILS] = value

    return click.option("--verbose", is_flag=True, expose_value=False, callback=remember, help=text)(function)


def is_verbose() -> bool:
    """True while a command runs that was given ``--verbose``."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_DETAILS))


def has_verbose() -> bool:
    """True while a command runs that has the option ``--verbose``."""
    context = click.get_current_context(silent=True)
    return context is not None and _DETAILS in context.meta


def noted(prefix: str, notes: Iterable[str]) -> list[str]:
    """Lines ``prefix: note``; none with ``--quiet``."""
    return [] if is_quiet() else [f"{prefix}: {note}" for note in notes]


def _remember(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    del parameter
    context.meta[_KEY] = value


# -- ascii ---------------------------------------------------------------------------------------------------------

_ASCII = str.maketrans(
    {
        **{"░": "-", "▒": "+", "▓": "*", "█": "#", "·": "."},
        **{
            "…": "...",
            "×": "x",
            "−": "-",
            "\u2013": "-",
            "—": "-",
            "’": "'",
            "→": "->",
            "≤": "<=",
            "≥": ">=",
            "µ": "u",
        },
    }
)
"""Characters of nirbridge's own texts and their replacements in ASCII."""
_PLAIN_LOCALES = ("C", "POSIX")
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")
"""Values of LC_CTYPE that Python sets in the C locale."""


def is_ascii_locale(environment: Mapping[str, str] = os.environ) -> bool:
    """True if the user has chosen the C locale: there Python writes UTF-8, which such terminals do not show."""
    if "PYTHONIOENCODING" in environment or environment.get("PYTHONUTF8") == "1":
        return False
    everything = environment.get("LC_ALL")
    if everything:
        return everything in _PLAIN_LOCALES
    characters, language = environment.get("LC_CTYPE"), environment.get("LANG")
    if characters and not (characters in _COERCED and language in _PLAIN_LOCALES):
        return characters in _PLAIN_LOCALES
    return language in _PLAIN_LOCALES


def encodable(text: str, encoding: str | None) -> str:
    """``text`` in characters of the encoding: in ASCII where the locale is C, other characters escaped."""
    name = "ascii" if is_ascii_locale() else encoding or "utf-8"
    try:
        text.encode(name)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(name, "backslashreplace").decode(name)
    return text


# -- progress ------------------------------------------------------------------------------------------------------
# Progress of long work on stderr, where that is a terminal.


@contextmanager
def progress_on_stderr(enabled: bool = True) -> Iterator[Progress]:
    """Gives a callback ``progress(stage, done)``; it shows one line that vanishes, or nothing without a terminal."""
    if not enabled or is_quiet():
        yield no_progress
        return
    from nirbridge.report.progress import progress_shown

    with progress_shown(delay_s=0, animated=True, ascii_only=is_ascii_locale()) as progress:
        yield progress

"""Screens of ``--help`` and ``--help-all``: the usual options first, then all of them in sections, in COLUMNS."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click

from nirbridge.cli.output import output_width

OWN, READING, OUTPUT = "Options", "Reading the model", "Output"
_OF_OUTPUT = frozenset(
    {"as_json", "quiet", "verbose", "summary", "output", "plot", "picture", "node", "report", "shown"}
)
_FEW = 8
"""A command with no more options than this shows them all in ``--help``."""
_WIDEST, _LEAST = 100, 34
"""Columns of a screen, and of the text beside a term; where that is narrower, the text stands below."""

_HALF_OPEN = re.compile(r"(?:; |\[)(?:x>=?[\d.]+|0<=x<=\d{10})(?=\])")
"""Ranges of numbers without a limit that a user would meet."""


class Formatter(click.HelpFormatter):
    """As wide as the terminal, down to 20 columns (click: 50 to 78); nothing is cut inside a word."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """The arguments of click are widths, which the terminal decides."""
        super().__init__(width=min(output_width(), _WIDEST))

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """``Usage: nirbridge map [OPTIONS] MODEL``."""
        self.write("\n".join(_folded(f"{prefix or 'Usage: '}{prog} {args}", self.width, "  ")) + "\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Terms beside their texts, or above them where the terminal is narrow."""
        rows = list(rows)
        first = min(max((len(term) for term, _ in rows), default=0), col_max) + col_spacing + self.current_indent
        indent = " " * self.current_indent
        below = " " * first if self.width - first >= _LEAST else indent + "    "
        for term, text in rows:
            lines = _folded(below + text, self.width, below) if text else []
            head = (indent + term).ljust(first)
            if lines and len(head) == len(below):
                lines[0] = head + lines[0][first:]
            else:
                lines[:0] = _folded(head.rstrip(), self.width, below)
            self.write("\n".join(lines) + "\n")


class HelpContext(click.Context):
    """A context whose help is written by ``Formatter``."""

    formatter_class = Formatter


def in_section(heading: str, decorate: Callable[..., Any]) -> Callable[..., Any]:
    """``decorate``, whose options stand under a heading of ``--help-all``."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        before = len(getattr(function, "__click_params__", ()))
        result: Any = decorate(function)
        for option in result.__click_params__[before:]:
            put_in_section(heading, option)
        return result

    return decorated


def put_in_section(heading: str, option: click.Option) -> click.Option:
    """The option, which stands under this heading from now on."""
    vars(option)["section"] = heading
    return option


def sections(params: Iterable[click.Parameter]) -> Mapping[str, list[click.Option]]:
    """The options of a command by heading: its own, those of other headings, those of its output."""
    found: dict[str, list[click.Option]] = {OWN: []}
    last: list[click.Option] = []
    for option in params:
        if not isinstance(option, click.Option) or option.hidden:
            continue
        if option.name in _OF_OUTPUT or _is_help(option):
            last.append(option)
        else:
            found.setdefault(vars(option).get("section", OWN), []).append(option)
    return {**found, OUTPUT: last}


def write_options(
    context: click.Context, formatter: click.HelpFormatter, params: Sequence[click.Parameter], usual: Sequence[str]
) -> None:
    """The options named in ``usual`` (all where these are few) and how to see the others; or all, in sections."""
    by_heading = sections(params)
    everything = [option for group in by_heading.values() for option in group]
    options = [option for option in everything if not _is_help(option)]
    is_short = len(options) <= _FEW or not usual
    chosen = options if is_short else [_named(option, options) for option in usual]
    if shows_all(context):
        by_heading = {OWN: everything} if is_short else by_heading
        for heading, group in by_heading.items():
            _write(formatter, heading, group, context)
        return
    _write(formatter, OWN, chosen, context)
    more = len(options) - len(chosen)
    formatter.write(f"\n  {more} more: {context.command_path} --help-all\n" if more else "")


def _named(name: str, options: Iterable[click.Option]) -> click.Option:
    return next(option for option in options if name in option.opts)


def _is_help(option: click.Option) -> bool:
    return not {"--help", "--help-all"}.isdisjoint(option.opts)


def _write(
    formatter: click.HelpFormatter, heading: str, options: Iterable[click.Option], context: click.Context
) -> None:
    rows = [row for option in options if (row := record(option, context)) is not None]
    if rows:
        with formatter.section(heading):
            formatter.write_dl(rows)


def record(option: click.Option, context: click.Context) -> tuple[str, str] | None:
    """Term and text of an option, with the registered names that it takes, those of plugins too."""
    row, names = option.get_help_record(context), ", ".join(getattr(option.type, "known_names", tuple)())
    if row is None:
        return None
    text, bracket, rest = _HALF_OPEN.sub("", row[1]).replace("  ]", "").partition("  [")
    return row[0], f"{text}{f' Names: {names}.' if names else ''}{bracket}{rest}"


def write_examples(formatter: click.HelpFormatter, epilog: str) -> None:
    """The lines of commands; one that is too wide goes on in the next, as a shell reads it."""
    for line in epilog.removeprefix("\b\n").splitlines():
        if line.startswith(" "):
            formatter.write("\n".join(_continued(line, formatter.width)) + "\n")
        else:
            formatter.write(f"\n{line}\n")


def _continued(line: str, width: int) -> list[str]:
    """A command in lines of at most ``width`` columns, cut before options where that is enough."""
    if len(line) <= width:
        return [line]
    pieces = re.split(r" (?=-)", line.strip())
    if max(map(len, pieces)) > width - 6:
        pieces = line.split()
    lines = ["  " + pieces[0]]
    for piece in pieces[1:]:
        if len(lines[-1]) + 1 + len(piece) + 2 <= width:
            lines[-1] += f" {piece}"
        else:
            lines.append(f"    {piece}")
    return [f"{each} \\" for each in lines[:-1]] + lines[-1:]


def _folded(text: str, width: int, indent: str) -> list[str]:
    """Lines of at most ``width`` columns, the later ones indented; a longer word is cut after a bar, as in A|B."""
    options: dict[str, Any] = {"subsequent_indent": indent, "break_long_words": False, "break_on_hyphens": False}
    lines = []
    for line in textwrap.wrap(text, width, **options):
        parts = [line] if len(line) <= width else textwrap.wrap(line.replace("|", "| "), width, **options)
        lines += [part.replace("| ", "|") for part in parts]
    return lines


# -- help-all ------------------------------------------------------------------------------------------------------

_ALL = "nirbridge.help_all"


def shows_all(context: click.Context) -> bool:
    """True for ``--help-all``."""
    return bool(context.meta.get(_ALL))


def _show_all(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    del parameter
    if value and not context.resilient_parsing:
        context.meta[_ALL] = True
        click.echo(context.get_help())
        context.exit()


def help_all_option() -> click.Option:
    """``--help-all`` of a command."""
    text = "Show every option, in groups, and exit."
    settings: dict[str, Any] = {"is_flag": True, "expose_value": False, "is_eager": True, "callback": _show_all}
    return click.Option(["--help-all"], help=text, **settings)

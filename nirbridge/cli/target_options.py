"""Targets in commands: ``--help-all`` lists them, and ``emit`` has a flag for each field of their options.

They are imported for ``--help-all``, for completion, and for an option that the command itself lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import click

from nirbridge.cli.common import Choice, Command
from nirbridge.cli.help import put_in_section, shows_all

_FLAGS, _PREFIX = "nirbridge.targets", "of_target_"
_TYPES = {bool: click.BOOL, int: click.INT, float: click.FLOAT, str: click.STRING}
T = TypeVar("T")


class TargetCommand(Command):
    """A command whose ``--help-all`` lists the targets that it is for."""

    emits = False

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, then with ``--help-all`` the targets."""
        super().format_options(ctx, formatter)
        if shows_all(ctx):
            with formatter.section("Targets"):
                formatter.write_dl(target_rows(emits=self.emits))


class EmitCommand(TargetCommand):
    """A command with flags for the options of targets; its function gets those that were given as ``own``."""

    emits = True

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Those of the command, then the flags that it lacks, where they are needed."""
        params = super().get_params(ctx)
        if ctx.resilient_parsing and _FLAGS not in ctx.meta:
            ctx.meta[_FLAGS] = _flags()
        names = {name for p in params for name in p.opts}
        return [*params, *(flag for flag in ctx.meta.get(_FLAGS, ()) if names.isdisjoint(flag.opts))]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, with the flags if an option is none of the command's."""
        try:
            rest = super().parse_args(ctx, [*args])
        except click.NoSuchOption:
            ctx.meta[_FLAGS] = _flags()
            rest = super().parse_args(ctx, args)
        given = {name: ctx.params.pop(name) for name in [*ctx.params] if name.startswith(_PREFIX)}
        ctx.params["own"] = {name.removeprefix(_PREFIX): v for name, v in given.items() if v is not None}
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options and, with ``--help-all``, the flags and the targets."""
        if shows_all(ctx):
            ctx.meta[_FLAGS] = _flags()
        super().format_options(ctx, formatter)


class _List(click.ParamType):
    """Words with commas between them."""

    name = "list"

    def __init__(self, word: click.ParamType) -> None:
        self.word = word

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return f"{self.word.get_metavar(param, ctx) or self.word.name.upper()},..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        return tuple(self.word.convert(each.strip(), param, ctx) for each in value.split(","))


class _Field(NamedTuple):
    """A field of the options of a target: its type without None, what it means, its default."""

    target: str
    name: str
    kind: Any
    text: str
    default: Any


def target_rows(*, emits: bool = True) -> list[tuple[str, str]]:
    """Name and summary of every target, or of those whose programs nirbridge runs."""
    return _of_targets(lambda name, found: [(name, getattr(found, "summary", ""))] if emits or found.records else [])


def _of_targets(read: Callable[[str, Any], list[T]]) -> list[T]:
    """The results of ``read`` for all targets; a broken target is left out here, and an error where it is named."""
    from nirbridge import plugins

    found: list[T] = []
    for name in plugins.names("emitters"):
        with suppress(Exception):  # a plugin may raise anything
            found += read(name, plugins.get("emitters", name))
    return found


def _fields(target: str, emitter: Any) -> list[_Field]:
    hints, defaults = get_type_hints(emitter.options, include_extras=True), emitter.options()
    return [_Field(target, f.name, *_meaning(hints[f.name]), getattr(defaults, f.name)) for f in fields(defaults)]


def _meaning(hint: Any) -> tuple[Any, str]:
    """The type of a field without None, and the text of its ``Annotated``."""
    hint, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    members = [kind for kind in get_args(hint) if kind is not NoneType]
    kind = members[0] if NoneType in get_args(hint) and len(members) == 1 else hint
    return kind, next((note for note in notes if isinstance(note, str)), "")


def _flags() -> list[click.Option]:
    """A flag for each field of the options of targets; fields of one name share it."""
    found: dict[str, list[_Field]] = {}
    for each in _of_targets(_fields):
        found.setdefault(each.name, []).append(each)
    return [flag for takers in found.values() for flag in _flag(takers)]


def _flag(takers: list[_Field]) -> Iterator[click.Option]:
    """The flag of fields of one name; none where their type has no form in text."""
    _, name, kind, text, default = takers[0]
    if get_origin(kind) is Literal:
        kinds = (each.kind for each in takers if get_origin(each.kind) is Literal)
        kind = Literal[*dict.fromkeys(word for each in kinds for word in get_args(each))]
    flag = name.replace("_", "-")
    names = [f"--{flag}/--no-{flag}" if kind is bool and default is not False else f"--{flag}", f"{_PREFIX}{name}"]
    targets = ", ".join(each.target for each in takers)
    shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
    more = "" if shown is None or shown is False or shown == "" else f"; default: {shown}"
    words = {"metavar": "N" if kind is int else None, "help": f"{text} ({targets}{more}).".lstrip()}
    if (to_type := _type_of(kind)) is not None:
        option = click.Option(names, type=to_type, is_flag=kind is bool, default=None, **words)
        yield put_in_section("Options of targets", option)


def _type_of(kind: Any) -> click.ParamType | None:
    """How click reads a value of a type; None: it has no form in text."""
    if get_origin(kind) is Literal:
        return Choice(get_args(kind))
    if get_origin(kind) is tuple and get_args(kind)[1:] == (...,):
        word = _type_of(get_args(kind)[0])
        return word and _List(word)
    return _TYPES.get(kind)

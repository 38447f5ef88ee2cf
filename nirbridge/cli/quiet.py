"""``--quiet`` of every command: results and errors alone, no progress, no warnings, no notes."""

from __future__ import annotations

from collections.abc import Iterable

import click

_KEY = "nirbridge.quiet"


def quiet_option() -> click.Option:
    """The option itself; ``is_quiet`` reads its value."""
    text = "No progress, warnings or notes: results and errors alone."
    return click.Option(["--quiet"], is_flag=True, expose_value=False, callback=_remember, help=text)


def is_quiet() -> bool:
    """True while a command runs that was given ``--quiet``."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_KEY))


def noted(prefix: str, notes: Iterable[str]) -> list[str]:
    """Lines ``prefix: note``; none with ``--quiet``."""
    return [] if is_quiet() else [f"{prefix}: {note}" for note in notes]


def _remember(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    del parameter
    context.meta[_KEY] = value

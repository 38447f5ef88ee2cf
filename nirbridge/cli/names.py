"""Types of options whose values are names: the nearest name in an error, and completion in the shell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from nirbridge.errors import UsageError, did_you_mean, quoted

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


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
        from nirbridge.pipeline import backend_names

        return beginning_with(incomplete, backend_names())


def beginning_with(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    """Completions for a shell: the names that begin with ``incomplete``."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _label(param: click.Parameter | None) -> str:
    """The name of an option or argument in messages."""
    if param is None:
        return "value"
    return max(param.opts, key=len) if isinstance(param, click.Option) else param.human_readable_name

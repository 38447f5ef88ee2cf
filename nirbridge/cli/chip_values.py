"""``--set KEY=VALUE``: other values of a chip, in every command that takes one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from nirbridge import pipeline
from nirbridge.errors import UsageError, quoted

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class ChipValue(click.ParamType):
    """``core.neurons=512``: a dotted key of a chip file and its value; the chip itself checks both."""

    name = "value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        """Key and value. Raises UsageError for a text without ``=``."""
        if not isinstance(value, str):
            return value
        key, equals, text = value.partition("=")
        if not equals:
            hint = "for example --set core.neurons=512"
            raise UsageError.of(f"--set {quoted(value)}", "not understood", "expected KEY=VALUE", hint)
        return key.strip(), pipeline.value_of_text(text.strip())

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The keys that begin so, with their meaning."""
        from click.shell_completion import CompletionItem

        keys = pipeline.key_meanings().items()
        return [CompletionItem(f"{key}=", help=meaning) for key, meaning in keys if key.startswith(incomplete)]


def values_option() -> click.Option:
    """The option; its pairs are ``chip_values``."""
    about = "Change a number of the chip, as in core.neurons=512. Repeatable."
    return click.Option(["--set", "chip_values"], multiple=True, metavar="KEY=VALUE", type=ChipValue(), help=about)


def change_chips(ctx: click.Context, names: Sequence[str]) -> None:
    """Put the changed chips in the place of the parameters ``names``, where ``--set`` was given.

    Raises:
        ChipError: values that do not fit; an unknown chip.
        UsageError: no chip is named.
    """
    values = dict(ctx.params.pop("chip_values"))
    if not values:
        return
    given = {name: chosen for name in names if (chosen := ctx.params.get(name))}
    if not given:
        raise UsageError.of("--set", "given without a chip", "it changes the chip that is named", "name one")
    for name, chosen in given.items():
        names_of = dict.fromkeys(chosen) if isinstance(chosen, tuple) else [chosen]
        changed = tuple(pipeline.load_chip(each, values=values) for each in names_of)
        ctx.params[name] = changed if isinstance(chosen, tuple) else changed[0]

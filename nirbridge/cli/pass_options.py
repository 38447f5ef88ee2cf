"""``--passes`` and ``--print-after``: the network of a command is rewritten before anything else is done with it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from nirbridge.cli.output import print_details
from nirbridge.errors import UsageError, did_you_mean, quoted

if TYPE_CHECKING:
    from nirbridge.network.model import Network
    from nirbridge.passes.base import Pass

ALL = "all"


def pass_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--passes`` and ``--print-after``; the command gets one ``rewrite``: ``Network -> Network``, or None."""

    @click.option(
        "--passes",
        metavar="TEXT",
        help="Rewrite the network first, as in 'eliminate-dead,replicate-source{name=fc1,ways=2}'.",
    )
    @click.option(
        "--print-after",
        "printed",
        multiple=True,
        metavar="PASS|all",
        help="Print the network to stderr after this pass. Repeatable.",
    )
    @functools.wraps(function)
    def wrapped(*args: Any, passes: str | None, printed: tuple[str, ...], **kwargs: Any) -> Any:
        return function(*args, rewrite=rewriter(passes, printed), **kwargs)

    return wrapped


def rewriter(passes: str | None, printed: tuple[str, ...] = ()) -> Callable[[Network], Network] | None:
    """The rewrite that the options describe, None without ``--passes``. Raises UsageError before any file is read."""
    from nirbridge.pipeline import apply_passes, format_passes, parse_passes

    if passes is None:
        if printed:
            raise UsageError.of("--print-after", "given without --passes", "it names one of them", "add --passes TEXT")
        return None
    pipeline = parse_passes(passes)
    _check_printed(printed, [p.pass_name for p in pipeline])

    def print_some(rewrite: Pass, network: Network) -> None:
        if ALL in printed or rewrite.pass_name in printed:
            print_details([f"network after {format_passes([rewrite])}:", network.summary()])

    return lambda network: apply_passes(network, pipeline, after=print_some)


def _check_printed(printed: tuple[str, ...], names: list[str]) -> None:
    for name in printed:
        if name != ALL and name not in names:
            limit = f"the passes are {', '.join(dict.fromkeys(names)) or 'none'}"
            hint = did_you_mean(name, [*names, ALL]) or f"name one of them, or {ALL}"
            raise UsageError.of(f"--print-after {quoted(name)}", "none of the passes", limit, hint)

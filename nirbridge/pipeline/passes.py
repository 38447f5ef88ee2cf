"""Passes on request: pipelines as text, with the names of plugins, applied to a network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from nirbridge import plugins
from nirbridge.errors import Bug, UsageError, quoted
from nirbridge.network.model import Network
from nirbridge.passes.base import REPORT, AfterPass, Pass, run_passes
from nirbridge.passes.text import format_passes, options_of
from nirbridge.passes.text import parse_passes as parse


def pass_class(name: str) -> type[Pass]:
    """The class of passes of a name, nirbridge's own or a plugin's. Raises UsageError, or Bug: it is not a pass."""
    cls: Any = plugins.get("passes", name)
    options_of(cls)
    if cls.pass_name != name:
        found = f"its class has the pass_name {quoted(cls.pass_name)}"
        raise Bug.of(f"pass {quoted(name)}", found, "the two are equal", REPORT)
    return cls


def parse_passes(text: str) -> tuple[Pass, ...]:
    """The passes of a text such as ``eliminate-dead,replicate-source{name=fc1,ways=2}``. Raises UsageError."""
    return parse(text, pass_class)


def apply_passes(network: Network, passes: str | Pass | Iterable[Pass], *, after: AfterPass | None = None) -> Network:
    """The network after passes, which its notes say; verified before the first pass and after each.

    Args:
        network: the network to rewrite.
        passes: a text (see ``parse_passes``), one pass or several.
        after: called after each pass, for example to print the network.

    Raises:
        UsageError: a text that cannot be read, options that do not fit the network.
        ModelError: the network is not valid, or a pass refuses its structure.
        Bug: a pass failed or returned no valid network; the pass is named.
    """
    pipeline = _pipeline(passes)
    changed = run_passes(network, pipeline, after=after)
    if not pipeline:
        return changed
    return replace(changed, notes=(*changed.notes, f"passes applied on request: {_described(pipeline)}"))


def _pipeline(passes: str | Pass | Iterable[Pass]) -> tuple[Pass, ...]:
    if isinstance(passes, str):
        return parse_passes(passes)
    return tuple(passes) if isinstance(passes, Iterable) else (passes,)


def _described(pipeline: tuple[Pass, ...]) -> str:
    try:
        return format_passes(pipeline)
    except UsageError:  # options such as arrays, of a pass that was given as a value
        return ", ".join(p.pass_name for p in pipeline)

"""The optional tools as one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from nirbridge.errors import counted
from nirbridge.report.tables import table

ABSENT = "-"


def doctor_document(facts: Mapping[str, str], states: Sequence[Any]) -> dict[str, Any]:
    """As JSON."""
    return {**facts, "tools": [asdict(state) for state in states]}


def doctor_table(facts: Mapping[str, str], states: Sequence[Any]) -> RenderableType:
    """One row per tool: its version, what it is for, and, where it is not there, how to get it."""
    rows = [
        (s.name, ABSENT if s.version is None else s.version, s.purpose, s.hint if s.version is None else "")
        for s in states
    ]
    missing = sum(s.version is None for s in states)
    head = f"nirbridge {facts['nirbridge']}, Python {facts['python']}, {facts['machine']}"
    foot = f"{counted(len(states) - missing, 'tool')} of {len(states)} are there; all are optional"
    return Group(Text(head), Text(), table(("tool", "version", "for", "to get it"), "LLll", rows), Text(), Text(foot))

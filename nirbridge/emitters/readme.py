"""Names of a model and shapes in the README.md of a program."""

from __future__ import annotations

from collections.abc import Sequence

from nirbridge.errors import quoted


def table_name(name: str) -> str:
    """A name of the model between marks that it cannot leave, in a cell of a table."""
    return quoted(name).replace("|", "/").replace("`", "'").replace("<", "(").replace(">", ")")


def shape_text(shape: Sequence[object]) -> str:
    """``8 x 8 x 2``; 1 for a single value."""
    return " x ".join(map(str, shape)) or "1"

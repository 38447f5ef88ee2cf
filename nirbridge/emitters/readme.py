"""Templates of programs filled in, names of a model and shapes in their README.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nirbridge.errors import quoted


def table_name(name: str) -> str:
    """A name of the model between marks that it cannot leave, in a cell of a table."""
    return quoted(name).replace("|", "/").replace("`", "'").replace("<", "(").replace(">", ")")


def shape_text(shape: Sequence[object]) -> str:
    """``8 x 8 x 2``; 1 for a single value."""
    return " x ".join(map(str, shape)) or "1"


def filled(text: str, marks: Mapping[str, str]) -> str:
    """The template with its marks replaced in one go: no name of a model can be taken for a mark."""
    parts = text.split("@")
    return "".join(part if k % 2 == 0 else marks[part] for k, part in enumerate(parts))

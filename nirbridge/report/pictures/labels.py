"""Labels of pictures: a name from a file as one printable line, cut in its middle to a width in points.

Widths are those of DejaVu Sans, which is wider than most fonts: a text that fits by them fits in others too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from nirbridge.report.map_facts import one_line

FONT_POINTS = 7.0
"""Size of the text that layouts are made for: legible in a column 8.5 cm wide."""
COLUMN_POINTS = 241.0
"""Width of a printed column, 8.5 cm."""
_ADVANCES = {
    0.28: "ijlIJ'",
    0.34: " .,:;|!/\\t-f()[]",
    0.42: "r",
    0.52: 's*?`"',
    0.56: "cLkz_F",
    0.62: "aeovxyEPTYZ",
    0.64: "bdghnpquS0123456789{}$",
    0.70: "ABCKRVX",
    0.79: "DGHNOQU&",
    0.84: "w+=<>~^#×→",
    0.99: "mMW@%…",
}
_ADVANCE = {character: advance for advance, characters in _ADVANCES.items() for character in characters}
_LATIN, _OTHER, BOLD = 0.75, 1.05, 1.13
"""Width of other Latin letters and of all others, and how much wider bold text is."""
_LATIN_END = 0x24F
_SHORTENED = 400
"""Characters of a name that are looked at: its first and last 200."""


def text_width(text: str, size: float = FONT_POINTS) -> float:
    """Width of a line in points, by the advances of DejaVu Sans; never less than the real width there."""
    return size * sum(_ADVANCE.get(c, _LATIN if ord(c) <= _LATIN_END else _OTHER) for c in text)


@lru_cache(maxsize=4096)
def fitted_label(name: str, width: float, size: float = FONT_POINTS) -> str:
    """The name as one printable line of at most ``width`` points: whole, or its two ends around an ellipsis."""
    text = printable_name(name)
    if text_width(text, size) <= width:
        return text
    for kept in range(len(text) - 1, 0, -1):
        tail = kept // 2
        short = f"{text[: kept - tail]}…{text[len(text) - tail :]}"
        if text_width(short, size) <= width:
            return short
    return "…"


def distinct_labels(names: Sequence[str], cut: Callable[[str], str]) -> list[str]:
    """The names as ``cut`` shortens them; those that it makes equal, without what they begin with in common."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(cut(name), []).append(name)
    labels = {}
    for label, group in groups.items():
        first, last = min(group), max(group)  # what these two begin with, all of the group do
        shared = next((k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)
        begin = max(first.rfind(separator, 0, shared) for separator in "./_ ") + 1
        labels |= {name: cut(f"…{name[begin:]}") if begin > 1 else label for name in group}
    return [labels[name] for name in names]


def times_text(sizes: tuple[int, ...]) -> str:
    """``8×13×13``; ``1`` for no axes."""
    return "×".join(f"{n:,}" for n in sizes) or "1"


def printable_name(name: str) -> str:
    """The name on one printable line, of at most some hundred characters."""
    half = _SHORTENED // 2
    return one_line(name if len(name) <= _SHORTENED else f"{name[:half]}…{name[-half:]}") or "''"

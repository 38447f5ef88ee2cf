"""Text for terminals that do not show every character."""

from __future__ import annotations

import os
from collections.abc import Mapping

_ASCII = str.maketrans(
    {
        **{"░": "-", "▒": "+", "▓": "*", "█": "#", "·": "."},
        **{
            "…": "...",
            "×": "x",
            "−": "-",
            "\u2013": "-",
            "—": "-",
            "’": "'",
            "→": "->",
            "≤": "<=",
            "≥": ">=",
            "µ": "u",
        },
    }
)
"""Characters of nirbridge's own texts and their replacements in ASCII."""
_PLAIN_LOCALES = ("C", "POSIX")
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")
"""Values of LC_CTYPE that Python sets in the C locale."""


def is_ascii_locale(environment: Mapping[str, str] = os.environ) -> bool:
    """True if the user has chosen the C locale: there Python writes UTF-8, which such terminals do not show."""
    if "PYTHONIOENCODING" in environment or environment.get("PYTHONUTF8") == "1":
        return False
    everything = environment.get("LC_ALL")
    if everything:
        return everything in _PLAIN_LOCALES
    characters, language = environment.get("LC_CTYPE"), environment.get("LANG")
    if characters and not (characters in _COERCED and language in _PLAIN_LOCALES):
        return characters in _PLAIN_LOCALES
    return language in _PLAIN_LOCALES


def encodable(text: str, encoding: str | None) -> str:
    """``text`` in characters of the encoding: in ASCII where the locale is C, other characters escaped."""
    name = "ascii" if is_ascii_locale() else encoding or "utf-8"
    try:
        text.encode(name)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(name, "backslashreplace").decode(name)
    return text

"""Named axes of the data that a model takes: ``("sample", "time")``, ``("sample", "time=10")``, ``("4*time",)``.

A word stands for each axis before the values of a port; ``...`` for all axes of its values, where others follow them.
``time=N``: there is no axis of time, and each input is presented for N time steps. ``4*time``: one axis holds the time
steps of the first of 4 samples, then those of the next; ``time*4``: the first time step of all 4, then the next.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from nirbridge.errors import ModelError, UsageError, quoted

Axes = tuple[str, ...]
SAMPLE, TIME, VALUES = "sample", "time", "..."
DEFAULT: Axes = (TIME, SAMPLE)
"""The order where nothing is known of the model."""
COUNT_MAX = 2**31 - 1
_WORD = re.compile(r"time=[1-9]\d{0,9}|[1-9]\d{0,9}\*(sample|time)|(sample|time)\*[1-9]\d{0,9}|sample|time|\.\.\.")
EXAMPLES = "as 'time,sample', 'sample,time', 'sample,...,time', 'sample,time=10' or '4*time'"


def parse_axes(given: str | Sequence[str], subject: str = "axes") -> Axes:
    """The axes of a text such as ``sample,time``, or of a list of its words.

    Raises:
        UsageError: an unknown word, or an axis that occurs twice or not at all.
    """
    parts = given.split(",") if isinstance(given, str) else list(given)
    words = tuple(part.strip() if isinstance(part, str) else "" for part in parts)
    named = [role for word in words for role in roles_in(word)]
    is_known = all(_WORD.fullmatch(word) for word in words) and not any(number_in(word) > COUNT_MAX for word in words)
    if not is_known or len(named) != len(set(named)) or TIME not in named or words.count(VALUES) > 1:
        raise UsageError.of(subject, quoted(",".join(map(str, parts))), "each axis once, time among them", EXAMPLES)
    return words[:-1] if words[-1] == VALUES else words


def stored_axes(holder: Mapping[str, Any], key: str, subject: str) -> Axes:
    """The axes that a file stores under a key; empty where it has none. Raises ModelError: a value that names none."""
    value = holder.get(key)
    try:
        return () if value is None else parse_axes(value.decode() if isinstance(value, bytes) else value)
    except (UsageError, TypeError, UnicodeDecodeError):
        found = f"{key} is {quoted(value)}"
        raise ModelError.of(subject, found, f"named axes, {EXAMPLES}", "correct or remove it") from None


def roles_in(word: str) -> tuple[str, ...]:
    """The roles that an axis has, in order: those of ``4*time`` are sample and time."""
    if "*" not in word:
        return () if word == VALUES else (word.partition("=")[0],)
    named = word.split("*")
    free = SAMPLE if TIME in named else TIME
    return tuple(free if part.isdecimal() else part for part in named)


def number_in(word: str) -> int:
    """The number of a word: N of ``time=N``, 4 of ``4*time``; 0 where there is none."""
    digits = re.search(r"\d+", word)
    return int(digits.group()) if digits else 0

"""Mutations of plain values: numbers, text, JSON documents, bytes."""

from __future__ import annotations

import copy
import json
from typing import Any

from tests.fuzz.choices import Choices

NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 7, 255, 256, 10_000, 2**31 - 1, 2**31, 2**53, 2**62, 2**63, 2**64, 2**70, 10**400),
    *(0.5, -0.5, 1.5, 1e-300, 1e300, 1e308, -0.0, float("inf"), float("-inf"), float("nan")),
)
TEXTS: tuple[str, ...] = (
    *("", " ", "x", "in", "a", "0", "-1", "1e9", "nan", "unlimited", "none", "..", "../decoy", "/", "a/b", "%", "%2F"),
    *("a\nb", "\x1b[31m", "\x00", "'", '"', "é", "層", "\ud800", "x" * 300, "x" * 70_000, "{}", "[", "True", "loihi1"),
)
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], [0], [-1], [1.5], [None], ["a"], {"a": {"b": 1}}, [0] * 50)
TOKENS: tuple[bytes, ...] = (
    *(b"\0", b"\xff" * 8, b"\n", b"-1", b"1e999", b"NaN", b"Infinity", b"[" * 5000, b"{" * 300, b'"', b"\\u0000"),
    *(b"\xed\xa0\x80", b"\x80\0\0\0\0\0\0\0", b"\x01\0\0\0\0\0\0\0", b"[[", b"=", b"#", b"'''", b"9" * 5000),
)


def odd(c: Choices) -> Any:
    """A value that is often not expected."""
    return copy.deepcopy(c.pick(c.pick((NUMBERS, TEXTS, OTHERS))))


def near(value: Any, c: Choices) -> Any:
    """A value of the same kind, a little or a lot away."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        value = max(-(2**1000), min(value, 2**1000))
        size = 10 ** c.below(13)
        return c.pick((value + 1, value - 1, -value, value * 2, value // 2, float(value), value * size, size))
    if isinstance(value, float):
        return c.pick((value * 2, -value, value * 1e9, value * 1e-9, value + 1, float("inf"), float("nan"), str(value)))
    if isinstance(value, str):
        at = c.below(len(value) + 1)
        return c.pick((value[:at] + c.pick(TEXTS) + value[at:], value[:at], value * 2, value.upper(), value + "\n"))
    return odd(c)


def mutate_json(document: Any, c: Choices) -> Any:
    """The document with one value, key or entry changed; the document itself may be changed too."""
    holder: Any = {"": document}
    key: Any = ""
    while isinstance(holder[key], dict | list) and holder[key] and not c.chance(6):
        holder, keys = holder[key], list(holder[key]) if isinstance(holder[key], dict) else range(len(holder[key]))
        key = c.pick(keys)
    holder_is_top = isinstance(holder, dict) and list(holder) == [""]
    kind = c.below(8)
    if kind < 3:
        holder[key] = near(holder[key], c)
    elif kind < 5 or holder_is_top:
        holder[key] = odd(c)
    elif kind == 5:
        del holder[key]
    elif kind == 6:
        _move(holder, key, c)
    elif isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[c.below(len(holder))]))
    else:
        holder[c.pick(TEXTS)] = copy.deepcopy(holder[key])
    return holder[""] if holder_is_top else document


def resize(document: dict[str, Any], c: Choices) -> None:
    """One whole number of a table of tables becomes a power of ten: limits are found by size more than by form."""
    places = [(t, k) for t in document.values() if isinstance(t, dict) for k in t if isinstance(t[k], int)]
    if places:
        table, key = c.pick(places)
        table[key] = 10 ** c.below(16)


def _move(holder: Any, key: Any, c: Choices) -> None:
    """Two entries change places, or one gets another name."""
    other = c.pick(list(holder) if isinstance(holder, dict) else range(len(holder)))
    holder[key], holder[other] = holder[other], holder[key]
    if isinstance(holder, dict) and c.chance(2):
        holder[c.pick(TEXTS)] = holder.pop(key)


def json_bytes(document: Any) -> bytes:
    """JSON, with NaN and infinities as Python writes them and lone surrogates as escapes."""
    return json.dumps(document).encode()


def mutate_bytes(data: bytes, c: Choices) -> bytes:
    """The bytes with one stretch changed, inserted, removed or repeated, or cut off."""
    at, length = c.below(len(data) + 1), c.pick((1, 1, 2, 4, 8, 64, 1000))
    kind = c.below(6)
    if kind == 0:
        return data[:at] + c.bytes(min(length, 8)) + data[at + min(length, 8) :]
    if kind == 1:
        return data[:at] + c.pick(TOKENS) + data[at:]
    if kind == 2:
        token = c.pick(TOKENS)
        return data[:at] + token + data[at + len(token) :]
    if kind == 3:
        return data[:at] + data[at + length :]
    if kind == 4:
        source = c.below(len(data) + 1)
        return data[:at] + data[source : source + length] + data[at:]
    return data[:at]

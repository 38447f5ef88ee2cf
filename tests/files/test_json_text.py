"""The rule of JSON texts, both sides of each limit."""

from __future__ import annotations

import pytest

from nirbridge.errors import FileError
from nirbridge.files.json_text import DEPTH_MAX, parse_json


def said(data: bytes | str, bytes_max: int = 10**6) -> str:
    with pytest.raises(FileError) as caught:
        parse_json(data, "file 'x'", bytes_max=bytes_max, hint="do it")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, -0.5, null, true, "é"]}', {"a": [1, -0.5, None, True, "é"]}),
        ("[18446744073709551615, -9223372036854775808]", [2**64 - 1, -(2**63)]),
        ('"\\udc80"', "\udc80"),
        ("1e308", 1e308),
        ('{"1234567890123456789012": "1234567890123456789012"}', {"1234567890123456789012": "1234567890123456789012"}),
        ("[" * DEPTH_MAX + "]" * DEPTH_MAX, None),
    ],
)
def test_these_are_read(text: str, value: object) -> None:
    found = parse_json(text.encode(), "file 'x'", bytes_max=len(text.encode()))
    assert value is None or found == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": {"b c": [0, 18446744073709551616]}}', "a.'b c'[1] is a whole number of 20 digits, at most 64 bits"),
        ("-9223372036854775809", "it is a whole number of 19 digits, at most 64 bits"),
        ("1" + "0" * 400, "it is a whole number of 401 digits, at most 64 bits"),
        ("1" * 5000, "a whole number of thousands of digits, at most 64 bits"),
        ("[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1), "nested too deeply, at most 64 levels"),
        ('{"a":' * 100_000, "nested too deeply, at most 64 levels"),
        ("[1e400]", "the number '1e400' is not finite"),
        ("[NaN]", "the number NaN is not allowed in JSON"),
        ("[-Infinity]", "the number -Infinity is not allowed in JSON"),
        ('[{"a\\n": 1, "a\\n": 1}]', "the key 'a\\n' occurs twice"),
        ("[1,", "not JSON at line 1, column 4 (Expecting value)"),
        (b"\xff", "not UTF-8 at byte 0"),
        (" " * 1_000_001, "more than 1,000,000 bytes, too large to be read"),
    ],
)
def test_these_are_refused(text: str | bytes, message: str) -> None:
    assert said(text) == f"file 'x': {message}; do it"

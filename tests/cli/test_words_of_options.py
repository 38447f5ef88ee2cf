"""Texts of options at the edge of validity: every refusal in its exact words."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from nirbridge.cli import _begins_the_program, memory
from nirbridge.cli.commands.import_ import _axis
from nirbridge.cli.common import _sources
from nirbridge.cli.mapping_options import _pin, _split
from nirbridge.cli.options import _percentile, importer_arguments, report_lines, report_of
from nirbridge.errors import UsageError

MIB = 2**20
LIFT = "raise the limit, or lift it: ulimit -v unlimited"
SPLIT = "expected a population and a number of copies; as in --split fc1=2"
PIN = "expected a population and its core; as in --pin fc1=12 or --pin fc1=12,13"
AXIS = "the axis of the sample that is time, a whole number, or none; for example --time-axis 1"
PERCENTILE = "least-error, max or a number above 0 and up to 100; 99.9 is a usual one"


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (_split, "fc1=2", ("fc1", 2)),
        (_split, "a=b=007", ("a=b", 7)),
        (_split, "a=999999999", ("a", 999_999_999)),
        (_pin, "fc1=12", ("fc1", (12,))),
        (_pin, "a=b=13,12,13", ("a=b", (12, 13))),
        (_axis, "none", "none"),
        (_axis, "-1", -1),
        (_axis, "2", 2),
        (_percentile, "max", "max"),
        (_percentile, "least-error", "least-error"),
        (_percentile, "99.5", 99.5),
    ],
)
def test_what_a_text_stands_for(read: Callable[[str], Any], text: str, value: Any) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "option", "text", "expected"),
    [
        *((_split, "--split", text, SPLIT) for text in ("fc1", "=2", "fc1=", "fc1=-2", "fc1=²", "fc1=1000000000", "2")),
        *((_pin, "--pin", text, PIN) for text in ("fc1", "=2", "12")),
        *((_axis, "--time-axis", text, AXIS) for text in ("", "1.5", "None")),
        *((_percentile, "--percentile", text, PERCENTILE) for text in ("", "most")),
    ],
)
def test_what_stands_for_nothing(read: Callable[[str], Any], option: str, text: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(text)
    assert str(caught.value) == f"{option}: '{text}', {expected}"


@pytest.mark.parametrize(
    ("target", "files"),
    [
        ("net.py:Net", ["net.py"]),
        ("a/net.py:Net", ["a/net.py"]),
        ("pkg.net:Net", [os.path.join("pkg", "net.py"), os.path.join("pkg", "net", "__init__.py")]),
        ("net", []),
    ],
)
def test_files_that_a_module_may_come_from(target: str, files: list[str]) -> None:
    assert list(_sources(target)) == files


@pytest.mark.parametrize(
    ("started", "begins"),
    [
        ("/usr/bin/nirbridge", True),
        (os.path.join("x", "nirbridge", "__main__.py"), True),
        (os.path.join("x", "other", "__main__.py"), False),
        (os.path.join("nirbridge", "main.py"), False),
        ("pytest", False),
        (None, False),
    ],
)
def test_what_begins_the_program(monkeypatch: pytest.MonkeyPatch, started: str | None, begins: bool) -> None:
    monkeypatch.setattr("sys.argv", [] if started is None else [started])
    assert _begins_the_program() == begins


@pytest.mark.parametrize("cores", [1, 3, 4])
def test_the_least_address_space_to_start_with(monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    needed = (768 + 48 * cores) * MIB
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
    for limit in (None, needed, needed + 1):
        monkeypatch.setattr(memory, "_limit", lambda limit=limit: limit)
        memory.check_address_space()
    monkeypatch.setattr(memory, "_limit", lambda: needed - 1)
    with pytest.raises(UsageError) as caught:
        memory.check_address_space()
    least = needed // MIB
    assert str(caught.value) == (
        f"memory: address space is limited to {least - 1:,} MiB, nirbridge needs {least:,} MiB to start; {LIFT}"
    )


LARGER = "use fewer steps or samples, or a larger machine"


@pytest.mark.parametrize(
    ("limit", "used", "error", "said"),
    [
        (None, 3 * MIB, ValueError("x"), None),
        (2000 * MIB, (2000 - 128) * MIB, ValueError("x"), None),
        (None, 3 * MIB, MemoryError("a \n b"), f"memory: it is used up (3 MiB in use), a b; {LARGER}"),
        (2000 * MIB, 3 * MIB, MemoryError("c" * 201), f"memory: it is used up (3 MiB in use), {'c' * 200}; {LARGER}"),
        (
            2000 * MIB,
            1872 * MIB + 1,
            ValueError("x"),
            f"memory: it is used up (1,872 MiB in use), address space is limited to 2,000 MiB; {LIFT}",
        ),
    ],
)
def test_when_memory_is_used_up(
    monkeypatch: pytest.MonkeyPatch, limit: int | None, used: int, error: Exception, said: str | None
) -> None:
    monkeypatch.setattr(memory, "_limit", lambda: limit)
    monkeypatch.setattr(memory, "_used", lambda: used)
    found = memory.memory_error(error)
    assert (None if found is None else str(found)) == said


def test_the_memory_of_this_process_is_told_in_bytes() -> None:
    assert 10 * MIB < memory._used() < 2**45


def test_options_of_a_conversion_belong_to_torch_alone() -> None:
    assert importer_arguments("snntorch", {}) == {}
    with pytest.raises(UsageError) as caught:
        importer_arguments("snntorch", {"steps": 5, "fair_start": True})
    assert [str(problem) for problem in caught.value.problems] == [
        f"{name}: does not apply here, it belongs to --from torch, not to --from snntorch; leave it out"
        for name in ("--steps", "--fair-start/--half-start")
    ]
    with pytest.raises(UsageError, match="^--calibrate: is missing, the scales of a converted network come from"):
        importer_arguments("torch", {"steps": 5})


LAYER = {"name": "fc\n", "clipped": 0.0123, "error": 0.456, "error_share": 0.0789, "bound_spikes": 1.2345}
REPORT = {
    "steps": 64,
    "samples": 1000,
    "given_samples": 2000,
    "measured_samples": 1500,
    "layers": [LAYER | {"scale": [1.0, 1.0]}, LAYER | {"scale": [0.5, 1.23456]}],
    "output_error": 0.012345,
    "decisions": 0.9876,
}
HEAD = "conversion for 64 steps on {} samples, spikes counted on 1,500"
LINES = [
    "  population                            scale  clipped     error  of size     bound",
    "  'fc\\n'                                    1    1.23%      0.46     7.9%      1.23",
    "  'fc\\n'                          0.5 to 1.23    1.23%      0.46     7.9%      1.23",
]
END = ["  outputs: root mean square error 0.0123", "  decisions: 98.8% equal to the original's"]


@pytest.mark.parametrize(
    ("change", "samples", "end"),
    [
        ({}, "1,000 of 2,000", END),
        ({"given_samples": 1000, "output_error": None}, "1,000", END[1:]),
        ({"decisions": None}, "1,000 of 2,000", END[:1]),
        (
            {"decisions": 0.0, "output_error": 0.0},
            "1,000 of 2,000",
            [END[0][:-6] + "0", "  decisions: 0.0%" + END[1][18:]],
        ),
    ],
)
def test_the_report_of_a_conversion_line_by_line(change: dict[str, Any], samples: str, end: list[str]) -> None:
    assert report_lines({**REPORT, **change}) == [HEAD.format(samples), *LINES, *end]


def test_a_graph_that_was_not_converted_has_no_report() -> None:
    class Graph:
        def __init__(self, **metadata: str) -> None:
            self.metadata = {f"nirbridge:{key}": text for key, text in metadata.items()}

    assert report_of(Graph()) is None
    assert report_of(Graph(conversion='{"steps": 3}')) == {"steps": 3}

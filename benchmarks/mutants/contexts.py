"""Pytest plugin: tells coverage which test is running, and records the duration of each test.

Used by ``python -m benchmarks.mutants collect``, under ``coverage run``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

DURATIONS = "MUTANTS_DURATIONS"
"""The variable that names the file for the durations."""
CONTEXT = "MUTANTS_CONTEXT"
"""The variable that tells processes which a test starts whose they are."""
_seconds: dict[str, float] = {}
_failed: set[str] = set()


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    running = coverage.Coverage.current()
    if running is not None:
        running.switch_context(item.nodeid)
    os.environ[CONTEXT] = item.nodeid
    yield
    del os.environ[CONTEXT]
    if running is not None:
        running.switch_context("")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if report.outcome != "passed":
        _failed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    passed = {name: seconds for name, seconds in _seconds.items() if name not in _failed}
    Path(os.environ[DURATIONS]).write_text(json.dumps(passed))

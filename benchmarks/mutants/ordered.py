"""Pytest plugin for one mutant: runs the selected tests in order, each within a limit of CPU time."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import Phase, settings


class Ordered:
    """``tests``: names in the order to run; ``seconds``: what each took unchanged; ``grace``: seconds more for all."""

    def __init__(self, tests: Sequence[str], seconds: Mapping[str, float], grace: float, result: Path) -> None:
        self.place = {name: i for i, name in enumerate(tests)}
        self.seconds, self.grace, self.result = seconds, grace, result

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Only the chosen tests, quickest first; those of one file stay together where they are alike."""
        left_out = [item for item in items if item.nodeid not in self.place]
        config.hook.pytest_deselected(items=left_out)
        items[:] = sorted((i for i in items if i.nodeid in self.place), key=lambda i: self.place[i.nodeid])

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """CPU time over the limit ends the process, also inside compiled code; the wall's clock decides nothing."""
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, self.grace + 10 * self.seconds.get(item.nodeid, 0.0))
        yield
        signal.setitimer(signal.ITIMER_PROF, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Writes down what failed."""
        if report.failed:
            self._write(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A test file that can no longer be imported."""
        if report.failed:
            self._write(f"import of {report.nodeid}")

    def _write(self, name: str) -> None:
        with self.result.open("a") as file:
            file.write(name + "\n")


def do_not_shrink() -> None:
    """A failing example is enough: hypothesis need not look for a smaller one."""
    register = settings.register_profile

    def registered(name: str, **own: object) -> None:
        register(name, **own, phases=(Phase.explicit, Phase.reuse, Phase.generate))  # type: ignore[arg-type]

    type.__setattr__(settings, "register_profile", staticmethod(registered))  # the class forbids the usual way

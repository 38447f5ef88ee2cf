"""Cost of starting: the modules loaded (asserted), and CPU seconds (measured on request)."""

from __future__ import annotations

import statistics
import subprocess
import sys

import pytest

# Loading any of these takes longer than all that ``--help`` may.
HEAVY = [
    "numpy",
    "h5py",
    "scipy",
    "nir",
    "ortools",
    "torch",
    "pandas",
    "matplotlib",
    "rich",
    "numba",
    "importlib.metadata",
]
HELP = "import sys; sys.argv = ['nirbridge', '--help']; from nirbridge.cli.main import main; main()"
CPU = """
import resource, subprocess, sys
before = resource.getrusage(resource.RUSAGE_CHILDREN)
subprocess.run([sys.executable, "-c", sys.argv[1]], check=True, stdout=subprocess.DEVNULL)
after = resource.getrusage(resource.RUSAGE_CHILDREN)
print(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
"""


def loaded(code: str) -> set[str]:
    """The modules that a fresh process has loaded when it ends."""
    report = "import atexit, sys; atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr)); "
    done = subprocess.run([sys.executable, "-c", report + code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_the_package_loads_nothing_but_itself() -> None:
    found = loaded("import nirbridge")
    assert "nirbridge" in found
    assert not found & {*HEAVY, "click"}


def test_help_loads_click_and_nothing_heavy() -> None:
    found = loaded(HELP)
    assert {"click", "nirbridge.cli.main"} <= found
    assert not found & set(HEAVY)
    assert not [name for name in found if name.startswith("nirbridge.cli.commands.")]


@pytest.mark.benchmark
@pytest.mark.parametrize(("code", "most"), [("import nirbridge", 0.1), (HELP, 0.15)])
def test_cpu_seconds_of_a_start(code: str, most: float) -> None:
    """Median of user and system time of 11 fresh processes, the interpreter's own start included."""
    command = [sys.executable, "-c", CPU, code]
    seconds = [float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(11)]
    print(f"{statistics.median(seconds):.3f} s of CPU time")
    assert statistics.median(seconds) < most

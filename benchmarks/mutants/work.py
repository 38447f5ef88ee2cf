"""Run the tests of one mutant at a time, in a copy of the tree; the checkout is never changed.

A process that has imported the libraries, but nothing of nirbridge, forks once per run: a run then starts in a second.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutants.choose import KERNELS, Choice
from benchmarks.mutants.sites import Mutant

LIBRARIES = ("numpy", "scipy.sparse", "scipy.optimize", "h5py", "nir", "numba", "click", "rich", "pytest", "hypothesis")
LIBRARIES += ("ortools.sat.python.cp_model", "hypothesis.extra.numpy", "torch", "snntorch", "norse.torch", "sinabs")
LIBRARIES += ("spikingjelly.activation_based.neuron", "rockpool.nn.modules", "matplotlib.pyplot", "jsonschema")
IGNORED = (".git", ".venv*", ".hypothesis", ".pytest_cache", ".ruff_cache", "*.egg-info", "build", "dist")
FIRST, SECOND = 1.5, 15.0
"""CPU seconds of the tests of the first two runs: most mutants need no more, and few test files are then imported."""
GRACE, KERNEL_GRACE = 15.0, 180.0
"""CPU seconds that a test may take beyond ten times its own; kernels are compiled anew."""
WALL_MAX = 1500.0
BROKEN = 70
"""Exit code of a run that did not come as far as its tests."""
MEMORY_MAX = 12 << 30


@dataclass(frozen=True, slots=True)
class Outcome:
    """``status``: killed, timeout, survived, or untested (no test runs the place); ``by``: the test that failed."""

    status: str
    by: str = ""
    tests: int = 0
    seconds: float = 0.0


class Copy:
    """A copy of the checkout in ``folder``, to plant mutants in. The data beside the checkout is linked."""

    def __init__(self, root: Path, folder: Path, budget: float) -> None:
        self.root, self.tree, self.budget, self.runs = root, folder / "tree", budget, 0
        shutil.rmtree(self.tree, ignore_errors=True)
        shutil.copytree(root, self.tree, ignore=shutil.ignore_patterns(*IGNORED))
        for source, link in ((root / ".venv", self.tree / ".venv"), (root.parent / "shared", folder / "shared")):
            if source.exists() and not link.exists():
                link.symlink_to(source.resolve())
        self.choice = Choice(self.tree, folder)
        self.right: set[str] = set()

    def judge(self, mutant: Mutant, without: frozenset[str] = frozenset()) -> Outcome:
        """Plants one mutant, runs its tests until one fails, and takes the mutant out again."""
        tests = [name for name in self.choice.tests(mutant) if name not in without]
        if not tests:
            return Outcome("untested")
        file, began = self.tree / mutant.path, time.monotonic()
        source = file.read_bytes()
        known = os.stat(file)
        fresh = any(f"@{name}" in source.decode() or f".{name}(" in source.decode() for name in KERNELS)
        file.write_bytes(mutant.apply(source))
        self.runs += 1  # a time of its own for each version: two of one size are then told apart in caches of bytecode
        os.utime(file, (known.st_atime, known.st_mtime + 3 * self.runs))
        try:
            for part in self._parts(tests):
                status, by = self.run(part, fresh)
                if status != "survived":
                    break
        finally:
            file.write_bytes(source)
            os.utime(file, ns=(known.st_atime_ns, known.st_mtime_ns))
        return Outcome(status, by, len(tests), time.monotonic() - began)

    def _parts(self, tests: Sequence[str]) -> list[list[str]]:
        """The tests of each run, up to the budget of CPU seconds; those of one file together."""
        parts: dict[float, list[str]] = {FIRST: [], SECOND: [], self.budget: []}
        spent = 0.0
        for name in tests:
            spent += max(0.01, self.choice.seconds[name])
            for limit, part in parts.items():
                if spent <= limit or (name == tests[0] and limit == FIRST):
                    part.append(name)
                    break
        return [sorted(part, key=_files_in_order(part)) for part in parts.values() if part]

    def is_right(self, test: str) -> bool:
        """False for a test that fails in the copy without any mutant: it tells nothing."""
        if test not in self.right and self.run([test], False)[0] == "survived":
            self.right.add(test)
        return test in self.right

    def run(self, tests: Sequence[str], fresh: bool) -> tuple[str, str]:
        """(status, first test that failed); ``fresh``: kernels are compiled anew."""
        with tempfile.TemporaryDirectory(dir=self.tree.parent) as folder:
            result = Path(folder) / "result"
            result.touch()
            child = os.fork()
            if not child:
                _in_child(self, tests, Path(folder), fresh)
            code = _wait(child)
            by = result.read_text().partition("\n")[0]
            if code == BROKEN:
                raise RuntimeError((Path(folder) / "log").read_text())
        if code is None or code == -signal.SIGPROF:
            return "timeout", by
        return ("survived", "") if code == 0 else ("killed", by or f"exit {code}")


def _files_in_order(tests: Sequence[str]) -> Callable[[str], tuple[int, int]]:
    """Fixtures of a file are then made once."""
    files = {file: i for i, file in enumerate(dict.fromkeys(name.partition("::")[0] for name in tests))}
    place = {name: i for i, name in enumerate(tests)}
    return lambda name: (files[name.partition("::")[0]], place[name])


def _wait(child: int) -> int | None:
    """The child's exit code (negative: the signal), or None where the wall clock ran out; ends what it has started."""
    until = time.monotonic() + WALL_MAX
    code: int | None = None
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            break
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if code is None:
        os.waitpid(child, 0)
    return code


def preload() -> None:
    """Imports the libraries that tests use, those that are there."""
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _in_child(copy: Copy, tests: Sequence[str], folder: Path, fresh: bool) -> None:
    """Never returns: the tests' exit code is the process's."""
    code = BROKEN
    try:
        os.setsid()
        os.chdir(copy.tree)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT)
        for stream in (1, 2):
            os.dup2(log, stream)
        os.environ |= {"PYTHONPATH": str(copy.tree), "OMP_NUM_THREADS": "1", "TMPDIR": str(folder)}
        os.environ.setdefault("NIRBRIDGE_CACHE", str(copy.tree / ".venv" / "cache"))  # Lava's own environment
        tempfile.tempdir = None
        sys.path[:] = [str(copy.tree), *(p for p in sys.path if p not in ("", str(copy.root)))]
        for name in [n for n in sys.modules if n.split(".")[0] in ("benchmarks", "tests", "nirbridge")]:
            if not name.startswith("benchmarks.mutants"):
                sys.modules.pop(name)
        code = _tested(copy, tests, folder, fresh)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _tested(copy: Copy, tests: Sequence[str], folder: Path, fresh: bool) -> int:
    import numba
    import pytest

    from benchmarks.mutants.ordered import Ordered, do_not_shrink

    if fresh:
        numba.config.CACHE_DIR = str(folder / "numba")
        os.environ["NUMBA_CACHE_DIR"] = str(folder / "numba")
    do_not_shrink()
    files = list(dict.fromkeys(name.partition("::")[0] for name in tests))
    options = ["-x", "-q", "--tb=no", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # libraries are imported before pytest starts
    plugin = Ordered(tests, copy.choice.seconds, KERNEL_GRACE if fresh else GRACE, folder / "result")
    return int(pytest.main([*options, *files], [plugin]))

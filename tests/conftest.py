"""Fixtures and settings of all tests."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Generator, Iterator

# A shell starts background jobs with Ctrl-C ignored, and the processes of tests would inherit it: none of them would
# then see an interrupt.
if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Networks of tests are small: more threads of torch and BLAS only wait for each other. Before anything loads them, and
# for the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Bytecode is kept beside the sources, as kernels of numba are: otherwise each process compiles all of nirbridge, and
# pytest rewrites the assertions of all tests each time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Texts are as wide as where no terminal says otherwise: pytest-xdist gives its processes the width of its own.
os.environ.pop("COLUMNS", None)

from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]

# The same examples on every machine and no files left behind; shared machines make deadlines meaningless.
settings.register_profile("nirbridge", derandomize=True, deadline=None, database=None)
settings.load_profile("nirbridge")


@pytest.fixture(autouse=True)
def _figures_are_closed() -> Iterator[None]:
    """Figures of pyplot, if anything has imported it, live as long as the process."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def pytest_configure(config: pytest.Config) -> None:
    """Bytecode is kept, see above; the processes of pytest-xdist share what they compile."""
    sys.dont_write_bytecode = False
    if hasattr(config, "workerinput"):
        from tests.kernels import made_once

        made_once()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """The objects of all tests live to the end: no search for garbage goes through them again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Plain graphs look as Sinabs or snnTorch write them; the warning of that is tested where it is expected."""
    ignored = pytest.mark.filterwarnings("ignore::nirbridge.errors.ExporterFaultWarning")
    for item in items:
        item.add_marker(ignored)


@pytest.fixture
def searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what is said of a map: equal searches are made once in a process, see ``tests/searches.py``."""
    from tests import searches

    module = importlib.import_module("nirbridge.partitioner.partition")  # the package has a function of that name
    monkeypatch.setattr(module, "CP_SAT", searches.searched_once)


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real NIR files that this project did not make, beside the checkout; tests skip where they are absent."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the folder ../shared/data with real NIR files is not beside this checkout")
    return folder

"""Which backend runs a network: the compiled one where numba (extra ``fast``) is installed, else the reference.

Both give the same bits. Within the compiled one each projection chooses its kernel (event.py, cost_model.py), and
what was chosen is in ``Recording.meta["choices"]``.
"""

from __future__ import annotations

from importlib.util import find_spec

from nirbridge.errors import UsageError, quoted
from nirbridge.simulators.arrays_api import Space
from nirbridge.simulators.step import Parts


def auto_backend(library: str) -> str:
    """What ``auto`` stands for on an array library: ``fast`` or ``reference``."""
    return "fast" if library == "numpy" and find_spec("numba") is not None else "reference"


def fast_parts(space: Space) -> Parts:
    """Event by event, or as one product where that is predicted to be quicker and every sum is exact in any order."""
    _check("fast", space)
    from nirbridge.simulators.event import compiled_parts

    return compiled_parts(space, "auto")


def event_parts(space: Space) -> Parts:
    """Event by event at every density."""
    _check("event", space)
    from nirbridge.simulators.event import compiled_parts

    return compiled_parts(space, "event")


def dense_parts(space: Space) -> Parts:
    """One BLAS product for every dense matrix, by request: its sums have no fixed order, so bits may differ."""
    _check("dense", space)
    from nirbridge.simulators.event import compiled_parts

    return compiled_parts(space, "dense")


def _check(backend: str, space: Space) -> None:
    if not space.is_numpy:
        found = f"runs on numpy, not on {space.library}"
        raise UsageError.of(f"backend {quoted(backend)}", found, "", "choose the backend 'reference'")
    if find_spec("numba") is None:
        step = "install nirbridge[fast], or choose the backend 'reference'"
        raise UsageError.of(f"backend {quoted(backend)}", "numba is not installed", "", step)

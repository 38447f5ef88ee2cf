"""Which backend runs a network: on numpy the compiled one where numba (extra ``fast``) is installed, else plain NumPy.

On other array libraries the reference runs. All give the same bits. In the compiled backend each projection chooses its
kernel (compiled/sums.py, compiled/cost_model.py); the choices are in ``Recording.meta["choices"]``.
"""

from __future__ import annotations

from importlib.util import find_spec

from nirbridge.errors import UsageError, quoted
from nirbridge.simulators.reference.array_namespace import ArrayNamespace
from nirbridge.simulators.reference.semantics import Backend


def auto_backend(library: str) -> str:
    """The backend that ``auto`` selects on an array library: ``fast``, ``numpy`` or ``reference``."""
    if library != "numpy":
        return "reference"
    return "fast" if find_spec("numba") is not None else "numpy"


def plain_backend(space: ArrayNamespace) -> Backend:
    """NumPy and scipy alone."""
    _check_library("numpy", space)
    from nirbridge.simulators.reference.numpy_backend import numpy_backend

    return numpy_backend(space)


def fast_backend(space: ArrayNamespace) -> Backend:
    """Event by event, or as one product where that is predicted to be quicker and every sum is exact in any order."""
    _check("fast", space)
    from nirbridge.simulators.compiled.backend import compiled_backend

    return compiled_backend(space, "auto")


def event_backend(space: ArrayNamespace) -> Backend:
    """Event by event at every density."""
    _check("event", space)
    from nirbridge.simulators.compiled.backend import compiled_backend

    return compiled_backend(space, "event")


def dense_backend(space: ArrayNamespace) -> Backend:
    """One BLAS product for every dense matrix, by request: its sums have no fixed order, so bits may differ."""
    _check("dense", space)
    from nirbridge.simulators.compiled.backend import compiled_backend

    return compiled_backend(space, "dense")


def _check(backend: str, space: ArrayNamespace) -> None:
    _check_library(backend, space)
    if find_spec("numba") is None:
        step = "install nirbridge[fast], or choose the backend 'numpy'"
        raise UsageError.of(f"backend {quoted(backend)}", "numba is not installed", "", step)


def _check_library(backend: str, space: ArrayNamespace) -> None:
    if not space.is_numpy:
        found = f"runs on numpy, not on {space.library}"
        raise UsageError.of(f"backend {quoted(backend)}", found, "", "choose the backend 'reference'")

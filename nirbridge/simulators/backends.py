"""Choice of the backend of a network: on NumPy the compiled one if numba is installed, else plain NumPy.

Other array libraries use the reference. All of these are bit-identical. In the compiled backend each projection chooses
its kernel (compiled/sums.py); the choices are in ``Recording.meta["choices"]``.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from nirbridge.errors import ToolMissing, UsageError, quoted
from nirbridge.network.neurons import beyond_kernels
from nirbridge.simulators.reference.array_namespace import ArrayNamespace
from nirbridge.simulators.reference.semantics import Backend

if TYPE_CHECKING:
    from nirbridge.simulators.compiled.sums import Method

_METHODS: dict[str, Method] = {"fast": "auto", "event": "event", "dense": "dense"}
"""How the compiled backends multiply dense matrices (see ``compiled_backend``)."""
BACKENDS = ("reference", "numpy", *_METHODS)
EXACT = ("reference", "numpy", "fast", "event")
"""Those that add in the order of the reference, and so have its bits; it comes first."""


def auto_backend(library: str) -> str:
    """The backend that ``auto`` selects on an array library: ``fast``, ``numpy`` or ``reference``."""
    if library != "numpy":
        return "reference"
    return "fast" if find_spec("numba") is not None else "numpy"


def backend_named(name: str, space: ArrayNamespace) -> Backend:
    """The backend of that name (one of ``BACKENDS``); its module is imported now.

    Raises:
        UsageError: all but ``reference`` need numpy's arrays.
        ToolMissing: the compiled ones need numba.
    """
    from nirbridge.simulators.reference.engine import reference_backend

    plain = reference_backend(space)
    return plain if name == "reference" else _with_plain(plain, _kernels(name, space))


def _with_plain(plain: Backend, kernels: Backend) -> Backend:
    """A backend that steps neurons which its kernels do not know as the reference does."""
    return replace(
        kernels,
        neurons=lambda p: (plain if beyond_kernels(p.neuron) else kernels).neurons(p),
        loop=lambda p, own: None if beyond_kernels(p.neuron) else kernels.loop(p, own),
        layer=lambda p, source: None if beyond_kernels(p.neuron) else kernels.layer(p, source),
    )


def _kernels(name: str, space: ArrayNamespace) -> Backend:
    if not space.is_numpy:
        found = f"runs on numpy, not on {space.library}"
        raise UsageError.of(f"backend {quoted(name)}", found, "", "choose the backend 'reference'")
    if name == "numpy":
        from nirbridge.simulators.reference.numpy_backend import numpy_backend

        return numpy_backend(space)
    if find_spec("numba") is None:
        step = "install numba, or choose the backend 'numpy'"
        raise ToolMissing.of(f"backend {quoted(name)}", "numba is not installed", "", step)
    from nirbridge.simulators.compiled.backend import compiled_backend

    return compiled_backend(space, _METHODS[name])

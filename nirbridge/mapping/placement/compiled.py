"""Whether the compiled searches can be loaded."""

from __future__ import annotations


def is_available() -> bool:
    """True if numba (extra ``fast``) is there and loads."""
    try:
        from nirbridge.mapping.placement import neuron_kernels  # noqa: F401
    except ImportError:
        return False
    return True

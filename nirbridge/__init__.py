"""nirbridge: the compiler from a trained spiking network (NIR) to a checked map onto a neuromorphic chip."""

from nirbridge._version import __version__

__all__ = ["__version__"]

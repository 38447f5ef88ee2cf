"""nirbridge: the compiler from a trained spiking network (NIR) to a checked map onto a neuromorphic chip."""

__version__ = "0.1.0"

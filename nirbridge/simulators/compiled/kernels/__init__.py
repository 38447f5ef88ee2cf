"""Compiled kernels; nothing here knows a network."""

"""Checks of the HDF5 container before the library unpacks it."""

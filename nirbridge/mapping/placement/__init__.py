"""Placement: search for the cores of blocks."""

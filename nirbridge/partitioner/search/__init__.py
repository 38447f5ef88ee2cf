"""Searches for partitions, and their bounds."""

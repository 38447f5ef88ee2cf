"""Costs of a slice on a core."""

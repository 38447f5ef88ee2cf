"""Simulators of networks."""

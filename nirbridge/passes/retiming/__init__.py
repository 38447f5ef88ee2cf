"""Delays that absorb the latency of hops."""

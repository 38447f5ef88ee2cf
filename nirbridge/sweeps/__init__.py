"""Sweeps: the points of a plan, each computed on its own, on one machine or a cluster; batches split the same way."""

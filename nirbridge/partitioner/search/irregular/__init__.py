"""Cores for large irregular networks: a multilevel partition of the graph of neurons, refined under every limit."""

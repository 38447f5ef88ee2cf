"""Tracing: a torch module as a data-flow graph, by running it."""

"""A data-flow graph as a network."""

"""A torch module as a dataflow graph, by running it: what a recording keeps, and how much."""

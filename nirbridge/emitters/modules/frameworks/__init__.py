"""One file for each framework: how a population is written with its classes, or why it cannot be."""

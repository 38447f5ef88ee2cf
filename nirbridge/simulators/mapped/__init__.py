"""The simulator of a mapped network, core by core."""

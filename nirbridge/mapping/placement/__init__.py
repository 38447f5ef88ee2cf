"""Search for positions of cores."""

"""The compiled simulator (numba): layers and neurons."""

"""C99 programs: a quantized network without allocation, floating point or dependencies, and their runs."""

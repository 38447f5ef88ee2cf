"""Performance benchmarks; run from the repository root, for example ``python -m benchmarks.mapping``."""

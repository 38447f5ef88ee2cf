"""What performance is measured with; run from the repository root, for example ``python -m benchmarks.mapping``."""

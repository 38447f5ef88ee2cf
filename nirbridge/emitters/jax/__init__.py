"""JAX as a target: a readable Python module with one scan over time, its weights, and StableHLO to keep."""

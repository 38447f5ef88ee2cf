"""Mutants: small faults planted in the package one at a time, to measure whether the tests detect them."""

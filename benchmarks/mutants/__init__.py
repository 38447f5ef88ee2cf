"""Mutants: small faults planted in the package one at a time, to see whether the tests notice them."""

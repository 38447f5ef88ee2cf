"""Benchmarks of one model on every back end: equal spikes first, then time, memory and size."""

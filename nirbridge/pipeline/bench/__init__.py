"""One model on every back end that is registered, each in a process of its own, compared and timed."""

from nirbridge.pipeline.bench.run import BenchOptions, backend_names, bench_network

__all__ = ["BenchOptions", "backend_names", "bench_network"]

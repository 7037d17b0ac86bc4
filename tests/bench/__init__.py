"""Benchmarks: `python -m tests.bench` measures and prints; no test depends on a second."""

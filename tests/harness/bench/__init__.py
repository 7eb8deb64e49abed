"""Benchmarks: `python -m tests.harness.bench` or `make bench`. Ratios side by side in one run; never a timed unit
test."""

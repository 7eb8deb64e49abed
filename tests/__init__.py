"""Tests of kshadow. A package, so that `python -m tests.fuzz` and `python -m tests.bench` run."""

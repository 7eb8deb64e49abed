"""Tests of `agent.observer` without a broker; with one: `tests/integration/test_observer.py`."""

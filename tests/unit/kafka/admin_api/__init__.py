"""Tests of `agent.kafka.admin_api` without a broker; with one: `tests/integration/test_observer.py`."""

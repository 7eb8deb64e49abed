"""Tests of `agent.kafka.admin_api` without a broker; with one: `tests/live/kafka/admin_api`."""

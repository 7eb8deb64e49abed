"""Tests of `agent.core.brokerlog`."""

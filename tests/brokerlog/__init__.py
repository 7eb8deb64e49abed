"""Tests of `agent.brokerlog`."""

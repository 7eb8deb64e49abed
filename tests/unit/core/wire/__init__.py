"""Tests of `agent.core.wire`."""

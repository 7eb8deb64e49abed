"""Tests of `agent.wire`."""

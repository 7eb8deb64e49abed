"""Tests of history events."""

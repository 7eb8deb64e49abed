"""Tests of the group protocol's model."""

"""Tests of the mirror: every state is built by replaying encoded records."""

"""Structured Streaming: the mirror as a stateful operator, and rollups of history."""

"""Runs analyzers over the mirror on event time, and opens and closes their findings."""

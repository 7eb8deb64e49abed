"""Spark jobs over the same reducer as the agent. None exists yet."""

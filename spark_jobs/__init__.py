"""Spark jobs over the same reducer as the agent: DataFrame → DataFrame, and thin jobs around them."""

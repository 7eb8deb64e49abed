"""The schemas that are given away."""

"""A cluster as its components write it: scenes that are played in memory or against a real API server."""

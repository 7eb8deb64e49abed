"""Hostile names, from a real broker to everything that shows them."""

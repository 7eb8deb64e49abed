"""Snapshots, and the stores that keep them."""

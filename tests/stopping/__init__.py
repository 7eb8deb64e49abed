"""Stops that end in time, of real processes."""

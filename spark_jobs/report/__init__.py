"""Rollups → a page for people."""

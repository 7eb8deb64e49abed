"""Synthetic histories."""

"""Synthetic histories: what the model of the protocol does, as the records that a broker would have written."""

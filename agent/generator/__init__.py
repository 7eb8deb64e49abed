"""Synthetic histories: what the model of the protocol does, as the records that a broker would have written.

`histories.generate(Settings(…))` gives a cluster's records, the same ones for the same settings and seed. Owns the
plans of groups, their fates and what they commit. Refuses to know where records go, and what time it is.
"""

"""Lag: where the partitions end that groups commit to, when they got there, and how far behind that each commit is.

Owns the ends, their history and what follows from them for a commit. The agent is whole without it: where the ends
are not known, lag is absent.
"""

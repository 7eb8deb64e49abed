"""Strangers who hold connections or guess passwords, under a live agent: whether probes, scrapes and people get in.

`python -m tests.harness.siege` (`--help`); `attackers.py` is a program of its own, so that it takes none of the time
of who measures.
"""

"""Runs analyzers over the mirror on event time, and opens and closes their findings.

Owns the event clock of a partition, samples of commits, hysteresis, and the API that analyzers are written against
(`api`; its public name is `analyzers.api`).

Must not know what analyzers look for, which there are (`analyzers.registry` says), or where findings go.

Read `api` first, then `engine` (groups of one partition) and `cluster` (what spans partitions).
"""

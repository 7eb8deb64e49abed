"""Bytes of `__share_group_state` and what Kafka says they hold, by Kafka 4.3.1's own classes and JSON converters.

`python -m tests.generate.share_state` writes `tests/data/wire/share-state-4.3.1.ndjson`, with random values and
edges.
"""

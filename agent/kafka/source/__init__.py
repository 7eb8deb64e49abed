"""Where raw records come from: segment files, NDJSON, the live topic.

Owns all input of `__consumer_offsets` bytes and what can be wrong with them on the way in. Refuses to know
what is inside a key or a value, and who will read the records. `topic` reads the live topic, of the partitions of its
`assignment`, with a `health`; `paths` reads files. Read `topic` first.
"""

TOPIC = "__consumer_offsets"
NO_TIMESTAMP_MS = -1
"""A record without a timestamp: the value that Kafka itself uses (`RecordBatch.NO_TIMESTAMP`)."""

"""The mirror: records of `__consumer_offsets` to groups as their coordinator sees them, and what changed.

Knows no Kafka client, no clock, no metric. `mirror` routes a partition's records; `classic` and `modern` hold
groups, `targets` what the members of a modern group are to have; `offsets` holds committed positions;
`transitions` is what comes out as the log is read, `views` what can be asked for at any point.
"""

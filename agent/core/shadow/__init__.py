"""The mirror: records of `__consumer_offsets` to groups as their coordinator sees them, and what changed.

Knows no Kafka client, no clock, no metric. Read `mirror` first: it routes a partition's records to the groups, which
are held by `classic` (one record is the whole group) and `kip848` (consumer, share and streams groups, whose
coordinator writes each step), with `targets` (what members are to have) and `offsets` (committed positions).
`transitions` is what comes out as the log is read, with the event that each becomes; `views` what can be asked for at
any point. A key type of a new group goes into `roles` of its class in `kip848`; its messages into `agent.core.wire`.
"""

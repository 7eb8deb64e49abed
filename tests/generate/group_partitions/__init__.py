"""Which partition holds a group, by Java: 1,000 names with what other implementations than ours make of them.

`python -m tests.generate.group_partitions` writes `tests/data/protocol/group_partitions.ndjson`, which the plain
tests are held to. The names are Python's, by a seed. The answers are Java's alone: `String.hashCode` of the JDK and
`Utils.abs` of Kafka's clients; xxHash64 of lz4-java, whose native form is the reference library's, and its pure form,
which must agree; jump consistent hash of Guava (`Hashing.consistentHash`).
"""

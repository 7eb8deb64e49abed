"""A crowd of groups in memory, as runs of records and without a broker: what scrapes at scale are measured on.

Each group has two topics of its own kind, all of whose partitions it commits, and one to five members that share
them out; three groups in four are classic, the others KIP-848 groups.
"""

from __future__ import annotations

from collections.abc import Iterator

from agent.core.protocol.hashing import partition_for_group
from agent.core.records import RecordBatch
from agent.core.wire.offset_commit_fastpath import commit_key, commit_value
from tests.unit.core.shadow import build as b

TOPICS = 100
TOPICS_OF_A_GROUP = 2
PARTITIONS = 50
"""Of the offsets topic."""


class Crowd:
    """Groups and their positions. `groups_runs` makes them; then `commits` goes on for as long as it is asked."""

    def __init__(self, groups: int, positions: int, now_ms: int) -> None:
        """`positions` of each group; `now_ms` (epoch milliseconds) is when they begin to commit."""
        self._now_ms = now_ms
        self._round = 0
        self._next_offsets = [0] * PARTITIONS
        self._records: list[list[tuple[bytes, bytes | None]]] = [[] for _ in range(PARTITIONS)]
        self._keys: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self._ids: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.names = [f"team-{number % 40:02d}.service-{number:05d}" for number in range(groups)]
        for number, group in enumerate(self.names):
            self._add(number, group, positions // TOPICS_OF_A_GROUP)

    @property
    def positions(self) -> int:
        """How many positions are committed, over and over."""
        return sum(map(len, self._keys))

    def _add(self, number: int, group: str, each: int) -> None:
        partition = partition_for_group(group, PARTITIONS)
        topics = [f"topic-{(number * TOPICS_OF_A_GROUP + at) % TOPICS:03d}" for at in range(TOPICS_OF_A_GROUP)]
        count = number % 5 + 1
        parts = [{topic: range(at, each, count) for topic in topics} for at in range(count)]
        ids = [f"{group}-{at}-00000000-0000-0000-0000-{at:012d}" for at in range(count)]
        records = self._records[partition]
        if number % 4:
            members = (b.member(name, share, topics=topics) for name, share in zip(ids, parts, strict=True))
            records.append(b.classic_group(1, *members, group=group, state_ms=self._now_ms))
        else:
            records.append(b.c_topics(*topics, group=group))
            records += [b.c_member(name, group=group, topics=topics) for name in ids]
            records.append(b.c_epoch(2, group=group))
            records += [b.c_target(name, share, group=group) for name, share in zip(ids, parts, strict=True)]
            records.append(b.c_target_epoch(2, group=group))
            records += [b.c_current(name, 2, share, group=group) for name, share in zip(ids, parts, strict=True)]
        for topic in topics:
            for at in range(each):
                self._keys[partition].append(commit_key(group, topic, at))
                self._ids[partition].append(b.topic_id(topic))

    def groups_runs(self) -> Iterator[RecordBatch]:
        """The groups, each in the partition of the topic that it belongs to."""
        for partition, records in enumerate(self._records):
            if records:
                first = self._next_offsets[partition]
                self._next_offsets[partition] += len(records)
                offsets = range(first, first + len(records))
                keys, values = zip(*records, strict=True)
                yield RecordBatch(partition, [*offsets], [self._now_ms] * len(offsets), keys, values)

    def commits(self, size: int, a_second: int) -> Iterator[RecordBatch]:
        """Runs of `size` commits, the partitions in turn, that come `a_second` on the event clock; without end."""
        places = [0] * PARTITIONS
        written = 0
        began_ms = self._now_ms
        while True:
            for partition, keys in enumerate(self._keys):
                if not keys:
                    continue
                at, first = places[partition], self._next_offsets[partition]
                chosen = [(at + step) % len(keys) for step in range(size)]
                places[partition] = (at + size) % len(keys)
                now_ms = self._now_ms = began_ms + written * 1000 // a_second
                ids = self._ids[partition]
                values = [commit_value(first + step, now_ms, topic_id=ids[it]) for step, it in enumerate(chosen)]
                self._next_offsets[partition] += size
                written += size
                yield RecordBatch(
                    partition,
                    [*range(first, first + size)],
                    [now_ms] * size,
                    [keys[it] for it in chosen],
                    values,
                )

"""How far share groups are, from the records of `__share_group_state`, and their lag as Kafka's own tool tells it.

A share group commits no offsets: its coordinator keeps, for each share-partition, the first record that is not done
with (the start offset) and how many behind it are done with all the same. Kafka's lag is the high watermark less both
(KIP-1226, `GroupCoordinatorService`). Brokers before 4.2 do not count: then lag is unknown, and the start offset
known. An update is merged into what is there as `ShareCoordinatorShard.merge` does. Pure: knows records and no
client.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from agent.core.end_offsets import EndOffsets, Lag, LagNote
from agent.core.wire.errors import WireError
from agent.core.wire.primitives import Uuid
from agent.core.wire.share_state import SharePartitionKey, ShareSnapshotValue, ShareUpdateValue, decode_share_state

TOPIC = "__share_group_state"
UNKNOWN = -1
"""A start offset that is not there yet; a count that nobody made."""


class ShareState(NamedTuple):
    """One share-partition. `written_ms` is when that was written, epoch milliseconds."""

    start_offset: int
    complete_count: int
    leader_epoch: int
    written_ms: int


class SharePosition(NamedTuple):
    """How far a share group is in one partition: the record at `start_offset` is the first that is not done with."""

    group: str
    topic: str
    topic_id: Uuid
    partition: int
    state: ShareState

    def lag(self, ends: EndOffsets, now_ms: int) -> Lag:
        """How many records are not done with, and for how long the first of them has been there.

        Consumers that are shown to read read_committed are not told from others: what is behind an open transaction
        counts, as Kafka's tool counts it.
        """
        place = self.topic, self.partition
        start, complete = self.state.start_offset, self.state.complete_count
        lag = ends.lag(*place, start, self.state.written_ms, self.topic_id, now_ms)
        end = ends.end(*place, now_ms)
        if lag.records is None or end is None:
            return lag
        if complete == UNKNOWN:
            return Lag(note=LagNote.NOT_COUNTED)
        records = max(end.end - start - complete, 0)
        return Lag(records, lag.seconds if records else 0.0, lag.at_least and records > 0)


class SharePositions:
    """All that the topic says."""

    def __init__(self) -> None:
        self._states: dict[str, dict[tuple[Uuid, int], ShareState]] = {}
        self.errors = 0
        """Records that could not be decoded."""

    def replay(self, key: bytes | None, value: bytes | None, timestamp_ms: int) -> None:
        """Take in one record; those of a key in their order."""
        try:
            place, message = decode_share_state(key, value)
        except WireError:
            self.errors += 1
            return
        if message is None:
            self._delete(place)
            return
        states = self._states.setdefault(place.group_id, {})
        known = states.get(where := (place.topic_id, place.partition))
        match message:
            case ShareSnapshotValue():
                states[where] = ShareState(
                    message.start_offset, message.delivery_complete_count, message.leader_epoch, timestamp_ms
                )
            case ShareUpdateValue():
                start, epoch = message.start_offset, message.leader_epoch
                if known is not None:
                    start = known.start_offset if start == UNKNOWN else start
                    epoch = known.leader_epoch if epoch == UNKNOWN else epoch
                states[where] = ShareState(start, message.delivery_complete_count, epoch, timestamp_ms)

    def _delete(self, place: SharePartitionKey) -> None:
        states = self._states.get(place.group_id)
        if states is not None:
            states.pop((place.topic_id, place.partition), None)
            if not states:
                del self._states[place.group_id]

    @property
    def groups(self) -> list[str]:
        """The groups of which anything is known."""
        return list(self._states)

    def of_group(self, group: str, names: Mapping[Uuid, str]) -> Iterator[SharePosition]:
        """A group's positions, of topics whose names are known, as far as they are known themselves; in order."""
        found = [
            SharePosition(group, name, topic_id, partition, state)
            for (topic_id, partition), state in list(self._states.get(group, {}).items())
            if state.start_offset != UNKNOWN and (name := names.get(topic_id)) is not None
        ]
        return iter(sorted(found, key=lambda it: (it.topic, it.partition)))

"""How far the reading of one partition is, and the news that a reader's owner must act upon.

Owns the rules of caught up, behind and stalled. Refuses to know the client; offsets come as arguments.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from agent.core.records import LogId
from agent.kafka.source.errors import SourceError
from agent.kafka.source.quarantine import PassedOver


class OffsetReset(Struct, frozen=True):
    """The offset to read from does not exist: the partition is read from its beginning again.

    What was built from the partition's earlier records is to be dropped, after the runs that `poll` returned
    together with this.
    """

    partition: int
    offset: int
    reason: str

    def __str__(self) -> str:
        return (
            f"partition {self.partition}: offset {self.offset} is not in the log ({self.reason}); the partition is"
            " read from its beginning again"
        )


class PartitionCountChanged(Struct, frozen=True):
    """The topic has another number of partitions than before; a reader of all has taken new ones in.

    Groups hash to other coordinators once the brokers restart (offsets.topic.num.partitions).
    """

    before: int
    after: int

    def __str__(self) -> str:
        return (
            f"the topic has {self.after} partitions, and had {self.before}: groups that get another"
            " coordinator, once the brokers restart, are told to be created there, and to lose their members at their"
            " former one"
        )


class TopicRecreated(Struct, frozen=True):
    """The topic was deleted and made anew: it is another log now, which is read from its beginning.

    What was built from the old one is to be dropped.
    """

    before: LogId
    after: LogId

    def __str__(self) -> str:
        return (
            f"the topic was deleted and made anew (topic id {self.after.topic_id} in cluster"
            f" {self.after.cluster_id}, before {self.before.topic_id} in {self.before.cluster_id}): it is read from"
            " its beginning, and what was known of groups is dropped"
        )


class GroupsBegunAnew(Struct, frozen=True):
    """What the Admin API shows does not follow on what it showed before: groups are looked at anew.

    What was built from earlier looks is to be dropped.
    """

    reason: str

    def __str__(self) -> str:
        return f"{self.reason}: what was known of groups is dropped, and they are looked at anew"


ReaderNotice = OffsetReset | PartitionCountChanged | TopicRecreated | GroupsBegunAnew | PassedOver


class LogBounds(NamedTuple):
    """The offsets of a partition's log: of its first record, and behind its last stable one."""

    first: int
    end: int


class PartitionProgress(Struct):
    """One partition.

    `position` is the offset of the next record to come, `target` its end when the reading started, or began to work
    again, `end` its end as last asked for, `reached` whether it was caught up once, `is_current` whether the target
    was reached, `error` why it cannot be read.
    """

    position: int
    target: int
    end: int
    reached: bool = False
    is_current: bool = False
    error: SourceError | None = None
    # As of the last probe: `end` is asked for between probes, too.
    _probed_position: int = -1
    _probed_end: int = 0

    def __post_init__(self) -> None:
        self.reached = self.is_current = self.position >= self.target

    def advance(self, position: int, *, at_end: bool = False) -> None:
        """Records before `position` came, or the log holds none before it for us."""
        self.position = max(self.position, position)
        self.error = None
        self.is_current = self.is_current or at_end or self.position >= self.target
        self.reached = self.reached or self.is_current

    def catch_up(self, end: int) -> None:
        """Nobody answered for a time: what was written meanwhile, up to `end`, has yet to be read."""
        self.target, self.is_current = end, self.position >= end
        self.reached = self.reached or self.is_current

    def check_stalled(self, end: int) -> bool:
        """The partition now ends at `end`; whether it stalls.

        It does when the end that was known at the last probe is still ahead, and not one record came since.
        """
        stalled = self._probed_position == self.position < self._probed_end
        self._probed_position, self._probed_end, self.end = self.position, end, end
        return stalled

    def behind_records(self, high_watermark: int) -> int:
        """How many offsets the end lies ahead; those of an open transaction are behind the high watermark only."""
        return max(0, self.end - self.position, high_watermark - self.position)

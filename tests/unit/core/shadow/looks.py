"""Looks at a group as the records that the source of `--source admin` writes."""

from __future__ import annotations

from agent.core.records import RawRecord, RecordBatch
from agent.core.shadow.sampled import GroupLook, SeenMember
from agent.core.shadow.sampled_mirror import look_key, look_value, shard_of
from agent.core.wire.offset_commit_fastpath import commit_key, commit_value

T0 = 1_700_000_000_000
Shares = dict[str, tuple[int, ...]]


def seen(
    client: str, *partitions: int, member_id: str | None = None, target: tuple[int, ...] | None = None
) -> SeenMember:
    """A member that holds partitions of the topic `t`."""
    held: Shares = {"t": partitions} if partitions else {}
    return SeenMember(
        member_id or f"{client}-1", client, "/10.0.0.1", None, held, None if target is None else {"t": target}
    )


class Looks:
    """Records of one group, in order; times are milliseconds since `T0`."""

    def __init__(self, group: str = "g", *, group_type: str = "classic") -> None:
        self.group, self.group_type = group, group_type
        self.records: list[RawRecord] = []
        self._swept_ms: int | None = None

    def look(
        self,
        at_ms: int,
        state: str,
        *members: SeenMember,
        described: bool = True,
        rested_ms: int | None = None,
        positions: dict[int, int] | None = None,
        protocol: str = "range",
    ) -> Looks:
        """A description, or the state alone; with `positions` by partition, of those that moved."""
        for partition, offset in (positions or {}).items():
            self._add(at_ms, commit_key(self.group, "t", partition), commit_value(offset, T0 + at_ms))
        look = GroupLook(
            state=state,
            every_ms=250,
            group_type=self.group_type,
            before_ms=self._swept_ms,
            moving_ms=None if rested_ms is None else T0 + rested_ms - 250,
            rested_ms=None if rested_ms is None else T0 + rested_ms,
            protocol=protocol if described else None,
            members=members if described else None,
            has_offsets=positions is not None,
        )
        self._swept_ms = T0 + at_ms
        self._add(at_ms, look_key(self.group), look_value(look))
        return self

    def state(self, at_ms: int, state: str, *, rested_ms: int | None = None) -> Looks:
        """A list's word."""
        return self.look(at_ms, state, described=False, rested_ms=rested_ms)

    def gone(self, at_ms: int) -> Looks:
        """A list without it."""
        self._add(at_ms, look_key(self.group), None)
        return self

    def withheld(self, at_ms: int, *topics: str) -> Looks:
        """There is no right to see it any more, or what it committed for these topics."""
        look = GroupLook("Stable", 250, self.group_type, is_withheld=not topics, withheld_topics=topics)
        self._add(at_ms, look_key(self.group), look_value(look))
        self._swept_ms = None
        return self

    def batch(self) -> RecordBatch:
        """All of them."""
        _, offsets, times, keys, values, _ = zip(*self.records, strict=True)
        return RecordBatch(shard_of(self.group), offsets, times, keys, values)

    def _add(self, at_ms: int, key: bytes, value: bytes | None) -> None:
        self.records.append(RawRecord(shard_of(self.group), len(self.records), T0 + at_ms, key, value))


def working(group: Looks, members: list[SeenMember], until_ms: int, *, from_ms: int = 0, every_ms: int = 500) -> int:
    """Members commit all they hold each second, and are looked at; the offset that they have got to."""
    held = [partition for it in members for partition in it.assignment.get("t", ())]
    offset = 0
    for at_ms in range(from_ms, until_ms, every_ms):
        offset = at_ms // 1000
        moves = dict.fromkeys(held, offset) if at_ms % 1000 == 0 else {}
        group.look(at_ms, "Stable", *members, positions=moves)
    return offset

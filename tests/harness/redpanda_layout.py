"""A Kafka log rearranged to Redpanda's layout, and what kshadow makes of it.

`python -m tests.harness.redpanda_layout PATH [PARTITIONS]` rearranges segments or NDJSON and prints whether `auto`
finds the rule, whether each group's events are the same but for where they stand, and how many groups differ from
what a broker would answer by the first log.

Each group's records go, in the order of their times, into the partition that Redpanda's hash gives it, with the
offsets that are next there. Those of classic groups are written anew as Redpanda writes them: members with a version
in front, commits of version 3 or 1 without the topic's id, keys of tombstones with their length in front. Groups of
newer types, which Redpanda does not have, are moved as they are.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import to_builtins

from agent.core.protocol.group_placement import GroupPlacement, observe_placement
from agent.core.protocol.hashing import REDPANDA_OFFSETS_PARTITIONS, GroupPartitioner, partition_for_group
from agent.core.records import RawRecord, RecordBatch
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.transitions import Transition
from agent.core.shadow.views import GroupView
from agent.core.wire import Record, Tombstone, decode
from agent.core.wire.classic import GroupMetadataValue
from agent.core.wire.offsets import OffsetCommitKey, OffsetCommitValue
from agent.kafka.admin_api.answers import DescribedGroup, ListedGroup
from agent.kafka.admin_api.comparing import MirrorComparison
from agent.kafka.admin_api.divergence import CONFIRM_S
from agent.kafka.source.group_locator import group_of_key
from agent.kafka.source.paths import committed_batches_of
from tests.unit.core import redpanda


def rearranged(
    records: Iterable[RawRecord], partitions: int = REDPANDA_OFFSETS_PARTITIONS, *, expiry_ms: int | None = None
) -> list[RawRecord]:
    """The same groups in Redpanda's layout; a topic of its may have so many `partitions`. With `expiry_ms` every
    second commit expires so long after it was made, as where clients ask for a retention time."""
    ordered = sorted(records, key=lambda it: it.timestamp_ms)
    newer = {group_of_key(it.key) for it in ordered if it.key is not None and it.key[:2] > b"\x00\x02"}
    offsets: Counter[int] = Counter()
    out = []
    for record in ordered:
        group = group_of_key(record.key)
        if group is None:
            continue
        partition = partition_for_group(group, partitions, GroupPartitioner.REDPANDA)
        key, value = record.key, record.value
        if group not in newer:
            key, value = _as_redpanda(record, expiry_ms if offsets[partition] % 2 else None)
        out.append(RawRecord(partition, offsets[partition], record.timestamp_ms, key, value))
        offsets[partition] += 1
    return out


def _as_redpanda(record: RawRecord, expiry_ms: int | None) -> tuple[bytes | None, bytes | None]:
    match decode(record.key, record.value):
        case Tombstone(type=kind) if kind.key_type <= 2:
            assert record.key is not None
            return redpanda.wrapped(record.key), None
        case Record(value=GroupMetadataValue() as it):
            members = [
                redpanda.member(
                    one.member_id,
                    one.group_instance_id,
                    one.client_id,
                    one.client_host,
                    one.rebalance_timeout,
                    one.session_timeout,
                    one.subscription,
                    one.assignment,
                )
                for one in it.members
            ]
            state_ms = it.current_state_timestamp
            head = it.protocol_type, it.generation, it.protocol, it.leader, state_ms
            return record.key, redpanda.group_value(*head, *members)
        case Record(key=OffsetCommitKey(), value=OffsetCommitValue() as it):
            expiry = -1 if expiry_ms is None else it.commit_timestamp + expiry_ms
            value = redpanda.offset_value(it.offset, it.leader_epoch, it.metadata, it.commit_timestamp, expiry)
            return record.key, value
    return record.key, record.value


class Replayed(NamedTuple):
    """The mirrors of a log's partitions, and each group's transitions without where they stand in the log."""

    mirrors: dict[int, PartitionMirror]
    events: dict[str, list[dict[str, Any]]]
    rejects: int


def replayed(records: Iterable[RawRecord]) -> Replayed:
    """All of it, each partition's records in their order."""
    mirrors: dict[int, PartitionMirror] = {}
    events: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        mirror = mirrors.setdefault(record.partition, PartitionMirror(record.partition))
        for transition in mirror.replay(record):
            events[transition.group].append(_without_place(transition))
    return Replayed(mirrors, dict(events), sum(it.error_counts.total() for it in mirrors.values()))


def _without_place(transition: Transition) -> dict[str, Any]:
    form = {"kind": transition.kind, **to_builtins(transition)}
    del form["at"]
    return {**form, "at_ms": transition.at.timestamp_ms}


class Compared(NamedTuple):
    """What kshadow makes of the rearranged log, beside the first one."""

    placement: GroupPlacement
    groups: int
    events: int
    other_events: list[str]
    """Groups whose events are not the same."""
    anomalies: int
    """Those that the first log does not have."""
    rejects: int
    diverging: Mapping[str, int]
    """By field, compared with what a broker would say that has the first log's groups."""


def compare(records: Collection[RawRecord], moved: Collection[RawRecord], partitions: int) -> Compared:
    """Replay both."""
    first, second = replayed(records), replayed(moved)
    views = {view.group: view for it in first.mirrors.values() for view in it.views()}
    after = {view.group: view for it in second.mirrors.values() for view in it.views()}
    places = [(group, number) for number, it in second.mirrors.items() for group in it.groups]
    return Compared(
        placement=observe_placement(places, partitions),
        groups=len(views),
        events=sum(map(len, second.events.values())),
        other_events=sorted(
            group
            for group in first.events.keys() | second.events.keys()
            if first.events.get(group) != second.events.get(group)
        ),
        anomalies=sum(len(it.anomalies) for it in after.values()) - sum(len(it.anomalies) for it in views.values()),
        rejects=second.rejects,
        diverging=_divergences(views, second.mirrors, partitions),
    )


class _Mirrored:
    """The rearranged log's groups, as the observer asks for them."""

    def __init__(self, mirrors: Mapping[int, PartitionMirror], partitions: int) -> None:
        self._mirrors, self._behind = mirrors, dict.fromkeys(range(partitions), 0)

    def group_partitions(self) -> Mapping[str, int]:
        return {group: number for number, it in self._mirrors.items() for group in it.groups}

    def view(self, group: str) -> GroupView | None:
        return next((it.view(group) for it in self._mirrors.values() if group in it.groups), None)

    def shows_group(self, group: str) -> bool:
        return True

    def read_partitions(self) -> Collection[int]:
        return self._behind

    def records_behind(self) -> Mapping[int, int]:
        return self._behind


def _divergences(
    views: Mapping[str, GroupView], mirrors: Mapping[int, PartitionMirror], partitions: int
) -> Mapping[str, int]:
    comparison = MirrorComparison(_Mirrored(mirrors, partitions))
    listed = {view.group: ListedGroup(str(view.group_type), str(view.state)) for view in views.values()}
    for now in (0.0, CONFIRM_S, 2 * CONFIRM_S):
        comparison.refresh_groups(now)
        comparison.compare_list(listed, partitions, now)
        for view in views.values():
            members = {it.member_id: dict(it.assignment) for it in view.members}
            answer = DescribedGroup(str(view.group_type), str(view.state), view.protocol or "", members)
            comparison.compare_description(view.group, answer, now)
    return comparison.counts()


def records_of(path: str) -> Iterator[RawRecord]:
    """The committed records of a PATH, those of each partition in their order."""
    for it in committed_batches_of(path):
        if isinstance(it, RecordBatch):
            yield from it.records()


def main(path: str, partitions: int = REDPANDA_OFFSETS_PARTITIONS) -> int:
    records = list(records_of(path))
    found = compare(records, rearranged(records, partitions, expiry_ms=86_400_000), partitions)
    print(f"{len(records):,} records, {found.groups} groups, {found.events} events in {partitions} partitions")
    print(f"rule: {found.placement.partitioner}: {found.placement.describe()}")
    print(f"groups with other events: {found.other_events or 'none'}")
    print(f"new anomalies: {found.anomalies}; not decoded: {found.rejects}; diverging: {dict(found.diverging)}")
    is_right = found.placement.partitioner is GroupPartitioner.REDPANDA and not found.other_events
    return 0 if is_right and not found.anomalies and not any(found.diverging.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))

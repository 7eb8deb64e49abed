"""How long one record holds the lock: of each type the largest that a broker takes, made to cost most.

`python -m tests.harness.bench.lock_times [--only CASE,…] [--profile CASE]` prints a table: CPU milliseconds of the
costliest record of each case, applied as the agent's reader applies it, analyzers and all; under the lock at a
stretch, and in all. CPU time, so that the time that other processes take does not count; on a busy machine it is a
third more all the same.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from agent.core.records import RecordBatch
from agent.core.wire import classic, consumer, share, streams
from agent.core.wire.offset_commit_fastpath import commit_key, commit_value
from agent.core.wire.payloads import (
    ConnectAssignment,
    ConnectorTasks,
    ConnectWorkerState,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_payload,
)
from agent.core.wire.primitives import Uuid
from agent.core.wire.records import RECORD_TYPES, encode_key, encode_value
from agent.core.wire.schema import Message
from agent.persistence.cluster_state import ClusterState
from agent.simulation.whatif.recent_recordings import RecentRecordings
from analyzers.registry import select_analyzers

LARGEST = 1_000_000
"""Bytes of a value: with its batch it is within `max.message.bytes` (1,048,588)."""

T0 = 1_795_000_000_000
Pair = tuple[bytes, bytes | None]


class Took(NamedTuple):
    """What records of a case took, in CPU milliseconds: at the longest without giving the lock back, with the bytes
    of that record's value; and at the most in all."""

    case: str
    bytes: int
    held_ms: float
    in_all_ms: float


class Stopwatch:
    """In place of the lock: for how long it was held."""

    def __init__(self) -> None:
        self.longest_s = self._since_s = 0.0

    def __enter__(self) -> None:
        self._since_s = time.process_time()

    def __exit__(self, *_: object) -> None:
        self.longest_s = max(self.longest_s, time.process_time() - self._since_s)


def pair(key_type: int, key: Message, value: Message, version: int = 0) -> Pair:
    """A record of a type, which must not be larger than a broker takes."""
    encoded = encode_value(RECORD_TYPES[key_type], value, version)
    assert len(encoded) <= LARGEST, (key_type, len(encoded))
    return encode_key(RECORD_TYPES[key_type], key), encoded


def classic_group(generation: int, members: list[classic.MemberMetadata], kind: str = "consumer") -> Pair:
    """A classic group's record."""
    value = classic.GroupMetadataValue(kind, generation, "range", "m0", T0 + generation, tuple(members))
    return pair(2, classic.GroupMetadataKey("g"), value, 3)


def classic_member(number: int, subscription: bytes, assignment: bytes, name: str = "m") -> classic.MemberMetadata:
    """One of its members."""
    return classic.MemberMetadata(
        f"{name}{number}", None, "c", "/10.0.0.1", 300_000, 45_000, subscription, assignment
    )


def topics(count: int, first: int = 0) -> tuple[str, ...]:
    """Short names."""
    return tuple(f"t{number}" for number in range(first, first + count))


def assigned(count: int, names: tuple[str, ...] = ("t",), first: int = 0) -> bytes:
    """So many partitions, evenly of these topics."""
    each = count // len(names)
    numbers = tuple(range(first, first + each))
    return encode_payload(ConsumerProtocolAssignment(tuple(TopicPartition(it, numbers) for it in names), None), 1)


def subscribed(names: tuple[str, ...] = ("t",), owned: tuple[TopicPartition, ...] = ()) -> bytes:
    """A subscription."""
    return encode_payload(ConsumerProtocolSubscription(names, None, owned), 1)


def uuids(count: int, first: int = 1) -> list[Uuid]:
    """Ids of topics."""
    return [Uuid((first + number).to_bytes(16)) for number in range(count)]


def one_member_with_many_partitions() -> Iterator[Pair]:
    """All of them move, back and forth, between two members."""
    for generation in range(1, 4):
        yield classic_group(generation, [classic_member(generation % 2, subscribed(), assigned(245_000))])


def one_member_with_committed_partitions() -> Iterator[Pair]:
    """Each has a position."""
    for number in range(100_000):
        yield commit_key("g", "t", number), commit_value(5, T0)
    yield from one_member_with_many_partitions()


def many_topics() -> Iterator[Pair]:
    """Of one partition each, and subscribed to."""
    names = topics(28_000)
    for generation in range(1, 4):
        yield classic_group(
            generation, [classic_member(generation % 2, subscribed(names), assigned(len(names), names))]
        )


def cooperative() -> Iterator[Pair]:
    """What is owned is told as well."""
    owned = (TopicPartition("t", tuple(range(120_000))),)
    for generation in range(1, 4):
        first = 120_000 * (generation % 2)
        yield classic_group(generation, [classic_member(0, subscribed(owned=owned), assigned(120_000, first=first))])


def many_members() -> Iterator[Pair]:
    """That all leave for others."""
    for generation in range(1, 4):
        some = [
            classic_member(number, subscribed(), assigned(1, first=number), name="ab"[generation % 2])
            for number in range(11_000)
        ]
        yield classic_group(generation, some)


def many_members_emptied() -> Iterator[Pair]:
    """That all leave."""
    *_, last = many_members()
    yield last
    yield classic_group(4, [])


def connect_tasks() -> Iterator[Pair]:
    """A worker's."""
    for generation in range(1, 4):
        tasks = (ConnectorTasks("c", tuple(range(generation % 2, 240_000))),)
        given = ConnectAssignment(0, "m0", "u", 1, tasks, (), 0)
        worker = encode_payload(ConnectWorkerState("u", 1, None), 1)
        yield classic_group(generation, [classic_member(0, worker, encode_payload(given, 1))], "connect")


def consumer_target(key_type: int = 7) -> Iterator[Pair]:
    """One member's, and the epochs around it."""
    key = consumer.GroupMemberKey("g", "m")
    group, target_epoch = {7: (3, 6), 13: (11, 12)}[key_type]
    for epoch in range(1, 4):
        yield _member(key_type - 2 if key_type == 7 else 10, key)
        yield _epoch(group, epoch)
        numbers = tuple(range(epoch % 2, 240_000))
        yield pair(key_type, key, consumer.TargetAssignmentMemberValue(
            (consumer.TopicPartitions(uuids(1)[0], numbers),)
        ))  # fmt: skip
        yield pair(target_epoch, consumer.GroupIdKey("g"), consumer.TargetAssignmentMetadataValue(epoch))


def _member(key_type: int, key: consumer.GroupMemberKey) -> Pair:
    if key_type == 10:
        return pair(10, key, share.ShareGroupMemberMetadataValue(None, "c", "/10.0.0.1", ("t",)))
    value = consumer.ConsumerGroupMemberMetadataValue(None, None, "c", "/10.0.0.1", ("t",), None, 300_000, None, None)
    return pair(5, key, value)


def _epoch(key_type: int, epoch: int) -> Pair:
    if key_type == 11:
        return pair(11, consumer.GroupIdKey("g"), share.ShareGroupMetadataValue(epoch, 0))
    return pair(3, consumer.GroupIdKey("g"), consumer.ConsumerGroupMetadataValue(epoch, 0))


def share_target() -> Iterator[Pair]:
    """The same of a share group."""
    return consumer_target(13)


def consumer_target_of_many_topics() -> Iterator[Pair]:
    """Each with one partition."""
    key = consumer.GroupMemberKey("g", "m")
    for epoch in range(1, 4):
        yield _member(5, key)
        yield _epoch(3, epoch)
        each = tuple(consumer.TopicPartitions(it, (0,)) for it in uuids(44_000, epoch % 2 + 1))
        yield pair(7, key, consumer.TargetAssignmentMemberValue(each))
        yield pair(6, consumer.GroupIdKey("g"), consumer.TargetAssignmentMetadataValue(epoch))


def consumer_current() -> Iterator[Pair]:
    """What a member holds."""
    key = consumer.GroupMemberKey("g", "m")
    for epoch in range(1, 4):
        yield _member(5, key)
        yield _epoch(3, epoch)
        owned = (consumer.OwnedTopicPartitions(uuids(1)[0], tuple(range(epoch % 2, 240_000)), None),)
        yield pair(8, key, consumer.ConsumerGroupCurrentMemberAssignmentValue(epoch, epoch - 1, 0, owned, ()))


def share_current() -> Iterator[Pair]:
    """What a share group's member has."""
    key = consumer.GroupMemberKey("g", "m")
    for epoch in range(1, 4):
        yield _member(10, key)
        yield _epoch(11, epoch)
        held = (consumer.TopicPartitions(uuids(1)[0], tuple(range(epoch % 2, 240_000))),)
        yield pair(14, key, share.ShareGroupCurrentMemberAssignmentValue(epoch, epoch - 1, 0, held))


def consumer_subscription() -> Iterator[Pair]:
    """To as many topics as there is room for."""
    key = consumer.GroupMemberKey("g", "m")
    for epoch in range(1, 4):
        names = topics(130_000, epoch)
        value = consumer.ConsumerGroupMemberMetadataValue(None, None, "c", "h", names, None, 300_000, None, None)
        yield pair(5, key, value)
        yield _epoch(3, epoch)


def share_subscription() -> Iterator[Pair]:
    """The same of a share group."""
    key = consumer.GroupMemberKey("g", "m")
    for epoch in range(1, 4):
        yield pair(10, key, share.ShareGroupMemberMetadataValue(None, "c", "h", topics(130_000, epoch)))
        yield _epoch(11, epoch)


def partition_metadata() -> Iterator[Pair]:
    """Topics, and the racks of their partitions, as brokers before 4.1 write it."""
    for first in range(1, 4):
        several = tuple(
            consumer.TopicMetadata(it, f"t{number}", 1, ()) for number, it in enumerate(uuids(33_000, first))
        )
        yield pair(4, consumer.GroupIdKey("g"), consumer.ConsumerGroupPartitionMetadataValue(several))


def partition_racks() -> Iterator[Pair]:
    """One topic with as many partitions as there is room for."""
    racks = tuple(consumer.PartitionRacks(number, ("r",)) for number in range(120_000))
    for _ in range(2):
        one = consumer.TopicMetadata(uuids(1)[0], "t", 120_000, racks)
        yield pair(4, consumer.GroupIdKey("g"), consumer.ConsumerGroupPartitionMetadataValue((one,)))


def regular_expression() -> Iterator[Pair]:
    """And the topics that it matches."""
    key = consumer.ConsumerGroupRegularExpressionKey("g", "t.*")
    for first in range(1, 4):
        yield pair(16, key, consumer.ConsumerGroupRegularExpressionValue(topics(130_000, first), 1, T0))


def share_state_topics() -> Iterator[Pair]:
    """The partitions whose state a share group keeps."""
    for first in range(1, 4):
        numbers = tuple(range(first, 240_000))
        info = (share.TopicPartitionsInfo(uuids(1)[0], "t", numbers),)
        yield _epoch(11, first)
        yield pair(15, consumer.GroupIdKey("g"), share.ShareGroupStatePartitionMetadataValue((), info, ()))


def streams_tasks() -> Iterator[Pair]:
    """A target, and what is held."""
    key = consumer.GroupMemberKey("g", "m")
    for epoch in range(1, 4):
        member = streams.StreamsGroupMemberMetadataValue(None, None, "c", "h", 300_000, 1, "p", None, ())
        yield pair(19, key, member)
        yield pair(17, consumer.GroupIdKey("g"), streams.StreamsGroupMetadataValue(epoch, 0))
        tasks = (streams.TaskIds("0", tuple(range(epoch % 2, 240_000))),)
        yield pair(21, key, streams.StreamsGroupTargetAssignmentMemberValue(tasks, (), ()))
        yield pair(20, consumer.GroupIdKey("g"), consumer.TargetAssignmentMetadataValue(epoch))
        owned = (streams.OwnedTaskIds("0", tuple(range(epoch % 2, 240_000)), None),)
        yield pair(
            22,
            key,
            streams.StreamsGroupCurrentMemberAssignmentValue(epoch, epoch - 1, 0, owned, (), (), (), (), ()),
        )


def streams_topology() -> Iterator[Pair]:
    """As many topics as there is room for."""
    for first in range(1, 4):
        one = streams.Subtopology("0", topics(130_000, first), (), (), (), (), ())
        yield pair(23, consumer.GroupIdKey("g"), streams.StreamsGroupTopologyValue(first, (one,)))


def commits_with_metadata() -> Iterator[Pair]:
    """Names and metadata as long as they can be."""
    for number in range(3):
        yield commit_key("g" * 32_000, "t" * 32_000, number), commit_value(5, T0, metadata="\x1b" * 32_000)


def rubbish() -> Iterator[Pair]:
    """Under each type's key."""
    for key_type, record_type in RECORD_TYPES.items():
        lowest, highest = record_type.value.versions
        for version in range(lowest, highest + 1):
            for body in (b"\xff", b"\x7f", b"\x00", b"\x01"):
                key = encode_key(record_type, _any_key(record_type.key))
                yield key, version.to_bytes(2) + body * (LARGEST - 2)
        yield key_type.to_bytes(2) + b"\x7f" * LARGEST, b""


def _any_key(kind: type[Message]) -> Message:
    return kind(**{name: 0 if name == "partition" else "g" for name in kind.__struct_fields__})  # type: ignore[arg-type]


CASES: tuple[Callable[[], Iterator[Pair]], ...] = (
    one_member_with_many_partitions,
    one_member_with_committed_partitions,
    many_topics,
    cooperative,
    many_members,
    many_members_emptied,
    connect_tasks,
    consumer_target,
    consumer_target_of_many_topics,
    consumer_current,
    consumer_subscription,
    partition_metadata,
    partition_racks,
    regular_expression,
    share_target,
    share_current,
    share_subscription,
    share_state_topics,
    streams_tasks,
    streams_topology,
    commits_with_metadata,
    rubbish,
)


def measure(case: Callable[[], Iterator[Pair]], profile: cProfile.Profile | None = None) -> Took:
    """Apply a case's records one by one; what the costliest took."""
    bytes_of_longest, held_ms, in_all_ms = 0, 0.0, 0.0
    state = ClusterState(select_analyzers(), members=RecentRecordings())
    records = list(case())
    gc.collect()
    gc.freeze()
    for offset, (key, value) in enumerate(records):
        batch = RecordBatch(0, [offset], [T0 + 1_000 * offset], [key], [value])
        if profile is not None:
            profile.enable()
        lock, started_s = Stopwatch(), time.process_time()
        state.replay_batch(batch, answers=lock)
        in_all_ms = max(in_all_ms, (time.process_time() - started_s) * 1000)
        if profile is not None:
            profile.disable()
        if lock.longest_s * 1000 > held_ms:
            bytes_of_longest, held_ms = len(value or b""), lock.longest_s * 1000
    gc.unfreeze()
    return Took(case.__name__, bytes_of_longest, held_ms, in_all_ms)


def main() -> None:
    """The table, or where one case spends its time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", help="a case's name")
    parser.add_argument("--only", type=lambda text: text.split(","), help="the cases to try")
    arguments = parser.parse_args()
    chosen = arguments.profile
    if chosen is not None:
        profile = cProfile.Profile()
        print(measure(next(it for it in CASES if it.__name__ == chosen), profile))
        profile.print_stats("cumulative")
        return
    print(f"{'case':40} {'bytes':>9} {'held ms':>8} {'in all':>8}")
    for case in CASES:
        if arguments.only and case.__name__ not in arguments.only:
            continue
        took = measure(case)
        print(f"{took.case:40} {took.bytes:9} {took.held_ms:8.1f} {took.in_all_ms:8.1f}", flush=True)


if __name__ == "__main__":
    main()

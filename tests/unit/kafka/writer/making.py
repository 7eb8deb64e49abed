"""Records for sinks, and what sources make of them again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hypothesis import strategies as st

from agent.core.protocol.hashing import partition_for_group
from agent.core.protocol.states import GroupState
from agent.core.records import RawRecord
from agent.core.wire.offset_commit_fastpath import commit_key, commit_value
from agent.simulation.groups.messages import ClassicGroupImage, ClassicMemberImage
from tests.unit.simulation.generator.made import Wants, encode_image

_TIMES = st.integers(0, 1 << 41)


def _records(times: st.SearchStrategy[int]) -> st.SearchStrategy[list[RawRecord]]:
    values = st.none() | st.binary(max_size=60) | st.sampled_from([b"v" * 127, b"v" * 128, b"v" * 20_000])
    keys = st.none() | st.binary(max_size=60)
    partitions = st.sampled_from([0, 1, 49])
    record = st.builds(RawRecord, partitions, st.just(0), times, keys, values, st.just(False))
    return st.lists(record, max_size=60)


TIMED_RECORDS = _records(_TIMES)
ANY_RECORDS = _records(_TIMES | st.just(-1))


def numbered(records: Iterable[RawRecord]) -> list[RawRecord]:
    """By partition, with the offsets that a sink gives."""
    counts: Counter[int] = Counter()
    out = []
    for record in records:
        out.append(record._replace(offset=counts[record.partition]))
        counts[record.partition] += 1
    return sorted(out, key=lambda record: record.partition)


def groups(names: list[str], *, partitions: int, at_ms: int, commits: int = 5) -> list[RawRecord]:
    """For each name a stable group of one member that consumes partition 0 of `orders`, and its commits.

    The first of them deleted the offset of a topic `gone`.
    """
    out = []
    for name in names:
        member = ClassicMemberImage(
            f"{name}-member",
            None,
            f"{name}-client",
            "/10.0.0.1",
            60_000,
            300_000,
            Wants(frozenset({"orders"})),
            (("orders", 0),),
        )
        image = ClassicGroupImage(
            name, at_ms, 3, "consumer", "range", member.member_id, GroupState.STABLE, at_ms, (member,)
        )
        out.append(RawRecord(partition_for_group(name, partitions), 0, at_ms, *encode_image(image)))
    for number in range(1, commits + 1):
        for name in names:
            ms = at_ms + number
            value = commit_value(100 * number, ms, 0, "by hand" if number == 1 else "")
            out.append(RawRecord(partition_for_group(name, partitions), 0, ms, commit_key(name, "orders", 0), value))
    gone = names[0]
    key = commit_key(gone, "gone", 0)
    out.append(RawRecord(partition_for_group(gone, partitions), 0, at_ms + commits + 1, key, None))
    return out

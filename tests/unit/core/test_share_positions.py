"""How far share groups are, by their coordinator's records, and what that makes of lag."""

from __future__ import annotations

from array import array

import pytest

from agent.core.end_offsets import EndOffsets, Lag, LagNote
from agent.core.shadow.offsets import CommittedOffsets
from agent.core.share_positions import SharePosition, SharePositions, ShareState
from agent.core.wire import primitives as p
from agent.core.wire.primitives import Uuid
from agent.core.wire.schema import Message
from agent.core.wire.share_state import SharePartitionKey, ShareSnapshotValue, ShareUpdateValue
from agent.kafka.lag.lag_calculator import LagCalculator
from agent.kafka.lag.scraped import LagSnapshot

TOPIC_ID = Uuid(bytes(range(16)))
NAMES = {TOPIC_ID: "orders"}
NOW = 1_795_000_000_000


def record(kind: int, message: Message | None, partition: int = 0, group: str = "g") -> tuple[bytes, bytes | None]:
    key, value = bytearray(), bytearray(b"\0\0")
    p.write_int16(key, kind)
    SharePartitionKey(group, TOPIC_ID, partition).write(key, 0)
    if message is None:
        return bytes(key), None
    message.write(value, 0)
    return bytes(key), bytes(value)


def snapshot(start: int, complete: int, epoch: int = 1) -> tuple[bytes, bytes | None]:
    return record(0, ShareSnapshotValue(1, 0, epoch, start, complete, NOW, NOW))


def update(start: int, complete: int, epoch: int = -1) -> tuple[bytes, bytes | None]:
    return record(1, ShareUpdateValue(1, epoch, start, complete))


# Number, why, records, start offset, how many behind it are done with, leader epoch; None: nothing is known.
ROWS = [
    (1, "a share-partition that was just made", [snapshot(-1, -1)], None),
    (2, "its first state", [snapshot(-1, -1), update(5, 0, 2)], (5, 0, 2)),
    (3, "an update without a start offset keeps it", [snapshot(7, 2), update(-1, 3)], (7, 3, 1)),
    (4, "one without a count takes it away", [snapshot(7, 2), update(9, -1, 3)], (9, -1, 3)),
    (5, "a snapshot replaces all", [snapshot(7, 2), update(9, 1), snapshot(8, 0, 5)], (8, 0, 5)),
    (6, "deleted", [snapshot(7, 2), record(0, None)], None),
    (7, "made anew", [snapshot(7, 2), record(0, None), snapshot(0, 0, 9)], (0, 0, 9)),
    (8, "an update whose snapshot was deleted from the log", [update(4, 1, 2)], (4, 1, 2)),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_records_make_a_position(row: tuple[int, str, list[tuple[bytes, bytes | None]], object]) -> None:
    positions = SharePositions()
    for key, value in row[2]:
        positions.replay(key, value, NOW)
    found = [it.state[:3] for it in positions.of_group("g", NAMES)]
    assert found == ([] if row[3] is None else [row[3]])
    assert positions.errors == 0


def test_what_cannot_be_told() -> None:
    positions = SharePositions()
    positions.replay(*snapshot(7, 0), NOW)
    assert list(positions.of_group("g", {})) == [], "of a topic without a name"
    assert list(positions.of_group("other", NAMES)) == []
    positions.replay(b"\0\7", b"", NOW)
    positions.replay(None, None, NOW)
    assert positions.errors == 2
    positions.replay(*record(0, None, 5), NOW)
    positions.replay(*record(0, None, group="never"), NOW)
    assert positions.groups == ["g"]


def ends(high_watermark: int, stable: int | None = None) -> EndOffsets:
    return EndOffsets(
        numbers={("orders", 0): 0, ("orders", 1): 1},
        times_ms=(NOW - 30_000, NOW),
        columns=(array("q", [0, 0]), array("q", [high_watermark, high_watermark])),
        seen_ms=array("q", [NOW, NOW]),
        starts=array("q", [0, 0]),
        stable={} if stable is None else {0: stable},
        seeds={},
        complete=frozenset(),
        topics={},
        interval_ms=30_000,
    )


def position(start: int, complete: int, partition: int = 0) -> SharePosition:
    return SharePosition("g", "orders", TOPIC_ID, partition, ShareState(start, complete, 1, NOW - 1_000))


def test_lag_is_the_high_watermark_less_what_is_done_with() -> None:
    lag = position(40, 15).lag(ends(100), NOW)
    assert lag.records == 45
    assert lag.seconds is not None
    assert position(100, 0).lag(ends(100), NOW) == Lag(0, 0.0)
    assert position(40, 60).lag(ends(100), NOW) == Lag(0, 0.0), "all behind the start offset is done with"
    assert position(40, 0).lag(ends(100, stable=50), NOW).records == 60, "an open transaction's count, as for Kafka"
    assert position(40, -1).lag(ends(100), NOW) == Lag(note=LagNote.NOT_COUNTED)
    unknown = SharePosition("g", "other", TOPIC_ID, 0, ShareState(1, 0, 1, NOW))
    assert unknown.lag(ends(100), NOW) == Lag(note=LagNote.UNKNOWN_END)


def test_a_scrape_has_share_groups_beside_the_others() -> None:
    taken = LagCalculator().take(CommittedOffsets())
    shares = [position(40, 15), position(90, -1, 1)]
    snapshot = LagSnapshot(taken, ends(100), NOW, lambda topic: topic == "orders", shares)
    ((group, its),) = snapshot.groups(topics=True, partitions=True).items()
    (lag,) = its.topics
    assert (group, lag.topic, lag.records, lag.partitions, lag.unknown) == ("g", "orders", 45, 2, 1)
    assert lag.seconds is not None
    assert list(zip(*its.shown, strict=True)) == [(("orders", 0), 40, 45), (("orders", 1), 90, None)]
    nothing = snapshot._replace(shares=[position(90, -1, 1)]).groups(topics=True, partitions=False)["g"]
    assert [(it.records, it.seconds, it.unknown) for it in nothing.topics] == [(None, None, 1)]
    hidden = snapshot._replace(shows_topic=lambda topic: False).groups(topics=True, partitions=True)["g"]
    assert (hidden.topics, hidden.shown.places) == ([], ())

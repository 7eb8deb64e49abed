"""What is said of partitions without progress."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from analyzers.api import Condition, TopicPartition
from analyzers.formatting import count_text, duration_text, list_text, names_text, truncated
from analyzers.stalled_rules import PartitionTrack, Status, severity_of

LISTED_PARTITIONS = 10
LISTED_CLIENTS = 5


class StuckPartition(NamedTuple):
    """A partition that is not OK, as lag tells: who holds it, since when (epoch milliseconds), its committed offset,
    the records behind that, and how often it went back of late."""

    status: Status
    client: str
    since_ms: int
    offset: int
    lag: int
    returns: int


class SilentPartition(NamedTuple):
    """A partition that is not committed any more, where lag is not known: who holds it, and its last commit (epoch
    milliseconds)."""

    client: str
    commit_ms: int


STANDING_ADVICE = (
    "Take a stack dump of these clients, and read the record at that offset. If one record fails each time, skip it "
    "or write it to a dead-letter topic; its order is then lost. If a call does not return, give it a timeout; if "
    "the partition is paused, find why it is not resumed."
)


def lag_condition(
    stuck: Mapping[TopicPartition, StuckPartition], back: Collection[TopicPartition], now_ms: int
) -> Condition:
    """Of partitions that stand with work to do, or whose lag grows: the worst of them leads."""
    of = max((it.status for it in stuck.values()), key=_SEVEREST.index)
    worst = {slot: it for slot, it in stuck.items() if it.status is of}
    slot, longest = min(worst.items(), key=lambda it: (it[1].since_ms, it[0]))
    lag, clients = sum(it.lag for it in worst.values()), sorted({it.client for it in worst.values()})
    place, for_ms = f"{truncated(slot[0])}-{slot[1]}", now_ms - longest.since_ms
    count, names = count_text(len(worst), "partition"), partition_names(worst)
    behind = f"{count_text(lag, 'record')} behind: {list_text(names)}"
    match of:
        case Status.STOP:
            what = (
                f"{count} of {names_text(clients)} not committed for up to {duration_text(for_ms)}, with records to "
                f"read; {place} is at offset {longest.offset}. {behind}."
            )
            advice = STANDING_ADVICE
        case Status.STALL:
            how = "repeatedly went back to before" if longest.returns else "was repeatedly committed at"
            offset = longest.offset
            what = (
                f"{count} of {names_text(clients)} made no progress for up to {duration_text(for_ms)}, with records "
                f"to read; {place} {how} offset {offset}. {behind}."
            )
            advice = STANDING_ADVICE
        case _:
            what = (
                f"{count} of {names_text(clients)} fell behind for {duration_text(for_ms)}, though committed. "
                f"{behind}."
            )
            advice = (
                "Add members, up to one for each partition, or make the work on a record faster: more records arrive "
                "than are consumed. The price is one rebalance for each new member."
            )
    numbers = {
        "status": str(of),
        "group_status": of.of_group,
        "stopped": _count(stuck, Status.STOP),
        "stalled": _count(stuck, Status.STALL),
        "rewound": len(back),
        "falling_behind": _count(stuck, Status.WARN),
        "partitions": names[:LISTED_PARTITIONS],
        "offsets": [it.offset for _, it in sorted(worst.items())][:LISTED_PARTITIONS],
        "lags": [it.lag for _, it in sorted(worst.items())][:LISTED_PARTITIONS],
        "clients": [truncated(name) for name in clients[:LISTED_CLIENTS]],
        "lag_records": lag,
        "since_ms": longest.since_ms,
    }
    return Condition(severity_of(of, is_lag_known=True), what, advice, numbers)


_SEVEREST = [Status.WARN, Status.STALL, Status.STOP]


def _count(stuck: Mapping[TopicPartition, StuckPartition], of: Status) -> int:
    return sum(it.status is of for it in stuck.values())


def silence_condition(
    stopped: Mapping[TopicPartition, SilentPartition],
    back: Collection[TopicPartition],
    now_ms: int,
) -> Condition:
    """Of partitions that are not committed any more, where lag is not known."""
    longest_s = max(now_ms - it.commit_ms for it in stopped.values()) // 1000
    clients = sorted({it.client for it in stopped.values()})
    names = partition_names(stopped)
    summary = (
        f"{count_text(len(stopped), 'partition')} of {list_text(clients)} not committed for up to {longest_s} s, "
        f"though "
        f"this group commits positions even when they do not move: {list_text(names)}."
    )
    advice = (
        "Take a stack dump of these clients: they are members and do not commit. If one batch takes that long, lower "
        "max.poll.records, which makes more requests; if a call does not return, give it a timeout."
    )
    numbers = {
        "status": str(Status.STOP),
        "group_status": Status.STOP.of_group,
        "stopped": len(stopped),
        "rewound": len(back),
        "partitions": names[:LISTED_PARTITIONS],
        "clients": [truncated(name) for name in clients[:LISTED_CLIENTS]],
        "silent_s": longest_s,
    }
    return Condition(severity_of(Status.STOP, is_lag_known=False), summary, advice, numbers)


def rewind_condition(back: Mapping[TopicPartition, PartitionTrack]) -> Condition:
    """Of positions that went back."""
    (topic, number), furthest = max(back.items(), key=lambda it: (it[1].back_by, it[0]))
    names = partition_names(back)
    summary = (
        f"Positions of {count_text(len(back), 'partition')} went back, of {truncated(topic)}-{number} by "
        f"{count_text(furthest.back_by, 'record')} to {furthest.back_from - furthest.back_by}: {list_text(names)}."
    )
    advice = (
        "Find why records are consumed again: a seek in the application, a second application with this group.id, or "
        "auto.offset.reset=earliest after the offset expired or the topic was recreated. Against expiry raise "
        "offsets.retention.minutes on the brokers; its price is more offsets to keep."
    )
    numbers = {
        "status": str(Status.REWIND),
        "group_status": Status.REWIND.of_group,
        "stopped": 0,
        "rewound": len(back),
        "partitions": names[:LISTED_PARTITIONS],
        "records_back": furthest.back_by,
    }
    return Condition(severity_of(Status.REWIND, is_lag_known=False), summary, advice, numbers)


def partition_names(slots: Iterable[TopicPartition]) -> list[str]:
    """In order."""
    return [f"{truncated(topic)}-{number}" for topic, number in sorted(slots)]

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


STANDING_ADVICE = (
    "See what these clients are doing (a stack dump), and read the record at that offset. If one record fails each "
    "time, let the application skip it or put it into another topic; if a call waits for ever, give it a timeout; if "
    "the partition was paused, see why it is not resumed."
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
                f"{count} of {names_text(clients)} not committed, with records to read, for up to "
                f"{duration_text(for_ms)}; {place} is at offset {longest.offset}. {behind}."
            )
            advice = STANDING_ADVICE
        case Status.STALL:
            how = "went back again and again to before" if longest.returns else "was committed again and again at"
            offset = longest.offset
            what = (
                f"{count} of {names_text(clients)} made no progress, with records to read, for up to "
                f"{duration_text(for_ms)}; {place} {how} offset {offset}. {behind}."
            )
            advice = STANDING_ADVICE
        case _:
            what = (
                f"{count} of {names_text(clients)} fell behind for {duration_text(for_ms)}, though committed. "
                f"{behind}."
            )
            advice = (
                "More records come than are consumed. See what a record's work waits for; more members help as long "
                "as there are partitions for them."
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
    stopped: Mapping[TopicPartition, str],
    tracks: Mapping[TopicPartition, PartitionTrack],
    back: Collection[TopicPartition],
    now_ms: int,
) -> Condition:
    """Of partitions that are not committed any more, where lag is not known."""
    longest_s = max(now_ms - tracks[slot].position.commit_ms for slot in stopped) // 1000
    clients = sorted(set(stopped.values()))
    names = partition_names(stopped)
    summary = (
        f"{count_text(len(stopped), 'partition')} of {list_text(clients)} not committed for up to {longest_s} s, "
        f"though "
        f"this group commits positions even when they do not move: {list_text(names)}."
    )
    advice = (
        "See what these clients are doing (a stack dump): they are in the group and do not come to commit. If they "
        "work on one batch for that long, lower max.poll.records; if a call waits for ever, give it a timeout."
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
        f"{furthest.back_by:,} records to {furthest.back_from - furthest.back_by}: {list_text(names)}."
    )
    advice = (
        "Records are consumed a second time. See whether the application seeks, whether auto.offset.reset took over "
        "because the position was gone (retention, a topic made anew), and whether two applications use the group.id."
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

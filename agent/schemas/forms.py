"""Groups, members, offsets, and what an agent says of itself: the API's answers, which commands print too."""

from __future__ import annotations

from agent.lag.ends import Note
from agent.schemas.events import GROUP_STATE, GROUP_TYPE
from agent.schemas.kinds import (
    AT_MS,
    COUNT,
    FLAG,
    INTEGER,
    RATIO,
    TEXT,
    Schema,
    by_name,
    each,
    maybe,
    ref,
    said,
    shape,
    word,
)

PARTITIONS = by_name(each(INTEGER))
"""Partitions by topic."""

CLUSTER = said(TEXT, "The cluster's name; only where the agent reads several.")

_GROUP: dict[str, Schema] = {
    "group": said(TEXT, "Its name; may be empty, and hold any character."),
    "group_type": GROUP_TYPE,
    "state": said(GROUP_STATE, "Kafka's name of it."),
    "generation": said(INTEGER, "In newer types the epoch; -1 where there is none, or it is not known."),
    "protocol_type": maybe(TEXT),
    "protocol": said(maybe(TEXT), "The assignor."),
    "members": said(COUNT, "How many."),
    "partitions": said(COUNT, "How many its members hold."),
    "committed_partitions": said(COUNT, "How many offsets it keeps."),
    "coordinator_partition": said(maybe(INTEGER), "Its partition of `__consumer_offsets`."),
    "state_since_ms": said(INTEGER, "Since when it is in that state, epoch milliseconds; -1 if not known."),
    "last_commit_ms": said(maybe(INTEGER), "Epoch milliseconds; null where it never committed, or it is not known."),
    "lag": said(maybe(COUNT), "Records behind, over all partitions of which that is known; null where of none."),
    "rebalances": said(maybe(COUNT), "Since the log begins."),
    "generations_skipped": said(maybe(COUNT), "Rebalances that never completed."),
    "anomalies": said(COUNT, "How many things stand in the log that a coordinator should not write."),
    "cluster": CLUSTER,
}

_LAG: dict[str, Schema] = {
    "lag": said(maybe(COUNT), "Records behind; null if not known."),
    "lag_seconds": said(maybe(RATIO), "How long the next record to read has been there; null if not known."),
    "lag_seconds_at_least": said(FLAG, "Whether it may be longer."),
    "lag_note": said(maybe(word([*Note, "not_committed"])), "What is to be said of the lag."),
    "log_start": said(maybe(INTEGER), "The partition's first offset."),
    "end": said(maybe(INTEGER), "The offset after its last."),
    "held_back": said(maybe(INTEGER), "Records behind an open transaction."),
    "lost": said(maybe(INTEGER), "Records that were deleted unread."),
}

FORM_DEFS: dict[str, Schema] = {
    "group": shape(_GROUP, "One row of the groups.", optional=["cluster"]),
    "member": shape(
        {
            "member_id": TEXT,
            "client_id": TEXT,
            "client_host": TEXT,
            "instance_id": said(maybe(TEXT), "group.instance.id, of a static member."),
            "rack_id": maybe(TEXT),
            "session_timeout_ms": said(maybe(INTEGER), "Null where the group's type does not write it."),
            "rebalance_timeout_ms": maybe(INTEGER),
            "subscription": each(TEXT),
            "subscription_regex": maybe(TEXT),
            "assignment": said(PARTITIONS, "What it holds: partitions by topic, of Connect tasks by connector."),
            "member_epoch": maybe(INTEGER),
            "uses_classic_protocol": FLAG,
            "target": said(PARTITIONS, "What the coordinator wants it to hold, in newer types of groups."),
            "standby_tasks": PARTITIONS,
            "warmup_tasks": PARTITIONS,
        },
        "A member of a group.",
        optional=["target", "standby_tasks", "warmup_tasks"],
    ),
    "offset": shape(
        {
            "topic": TEXT,
            "partition": COUNT,
            "offset": said(INTEGER, "The next record it would read."),
            "committed_ms": said(maybe(INTEGER), "When, epoch milliseconds; null where that is not known."),
            **_LAG,
            "leader_epoch": INTEGER,
            "metadata": said(TEXT, "What the client wrote beside it."),
            "topic_id": maybe(TEXT),
        },
        "A committed offset, and its lag.",
    ),
    "anomaly": shape(
        {"kind": TEXT, "message": TEXT, "offset": COUNT, "at_ms": AT_MS},
        "Something in the log that a coordinator should not write.",
    ),
    "describe": shape(
        {
            **_GROUP,
            "leader": said(maybe(TEXT), "The member id of the leader of a classic group."),
            "target_generation": said(maybe(INTEGER), "The epoch of the target assignment, in newer types."),
            "members": each(ref("member")),
            "offsets": each(ref("offset")),
            "anomalies": each(ref("anomaly")),
        },
        "One group in full.",
        optional=["cluster"],
    ),
    "lag": shape(
        {
            "topic": TEXT,
            "partition": COUNT,
            "offset": maybe(INTEGER),
            **{name: maybe(it) if name == "lag_seconds_at_least" else it for name, it in _LAG.items()},
            "committed_ms": maybe(INTEGER),
            "member_id": said(maybe(TEXT), "Who holds it; null where nobody does."),
            "client_id": maybe(TEXT),
            "client_host": maybe(TEXT),
        },
        "A partition that a group has committed, or that a member holds.",
    ),
    "error": shape({"error": said(TEXT, "In words.")}, "Why there is no other answer."),
    "partition_status": shape(
        {
            "next_offset": INTEGER,
            "behind_records": maybe(INTEGER),
            "caught_up": FLAG,
            "clock_ms": maybe(INTEGER),
        },
        "Where the reading of a partition of `__consumer_offsets` is.",
    ),
    "snapshots_status": shape(
        {
            "oldest_age_s": maybe(RATIO),
            "writes": by_name(COUNT),
            "refused": by_name(COUNT),
            "restored": COUNT,
            "error": maybe(TEXT),
        },
        "How keeping the state goes.",
    ),
    "sink_status": shape(
        {
            "name": TEXT,
            "events": said(COUNT, "Written, and durable there."),
            "buffered": said(COUNT, "Waiting."),
            "dropped": said(by_name(COUNT), "By reason."),
            "oldest_age_s": maybe(RATIO),
            "healthy": FLAG,
            "last_error": maybe(TEXT),
            "spool_bytes": COUNT,
            "spool_error": maybe(TEXT),
        },
        "How writing the history to one place goes.",
    ),
    "status": shape(
        {
            "version": said(TEXT, "kshadow's."),
            "ready": said(FLAG, "Whether answers are whole and fresh: as `/readyz`."),
            "reason": said(TEXT, "Why, or why not."),
            "uptime_s": RATIO,
            "cluster_id": maybe(TEXT),
            "topic_id": maybe(TEXT),
            "partitions": by_name(ref("partition_status")),
            "snapshots": maybe(ref("snapshots_status")),
            "history": {"anyOf": [each(ref("sink_status")), {"type": "null"}]},
            "worries": said(each(TEXT), "What is not as it should be, while answers are whole and fresh."),
            "clusters": said(
                by_name(shape({"ready": FLAG, "reason": TEXT})), "By name, where the agent reads several clusters."
            ),
        },
        "What an agent says of itself. What comes after `uptime_s` depends on what it reads.",
        optional=[
            "cluster_id", "topic_id", "partitions", "snapshots", "history", "worries", "clusters",
        ],
    ),
}  # fmt: skip

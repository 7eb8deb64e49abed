"""Groups, members, offsets, and what an agent says of itself: the API's answers, which commands print too."""

from __future__ import annotations

from agent.core.end_offsets import LagNote
from agent.core.protocol.states import GroupState, GroupType
from agent.presentation.schemas.builders import (
    AT_MS,
    COUNT,
    FLAG,
    INTEGER,
    RATIO,
    TEXT,
    Schema,
    array_of,
    described,
    map_of,
    nullable,
    object_of,
    open_enum,
    ref,
)

PARTITIONS = map_of(array_of(INTEGER))
"""Partitions by topic."""

CLUSTER = described(TEXT, "The cluster's name; only where the agent reads several.")

STALE = "stale"
"""The field of a group of which it is not known what was written lately."""
QUARANTINED = "quarantined"
"""The field of a group in whose partition records were passed over."""

OFFSETS_SEEN = "offsets_seen_ms"
"""The field of a group that is looked at through the Admin API."""

_GROUP: dict[str, Schema] = {
    "group": described(TEXT, "Its name; may be empty, and hold any character."),
    "group_type": open_enum(GroupType),
    "state": described(open_enum(GroupState), "Kafka's name of it."),
    "generation": described(INTEGER, "In newer types the epoch; -1 where there is none, or it is not known."),
    "protocol_type": nullable(TEXT),
    "protocol": described(nullable(TEXT), "The assignor."),
    "members": described(COUNT, "How many."),
    "partitions": described(COUNT, "How many its members hold."),
    "committed_partitions": described(COUNT, "How many offsets it keeps."),
    "coordinator_partition": described(nullable(INTEGER), "Its partition of `__consumer_offsets`."),
    "state_since_ms": described(INTEGER, "Since when it is in that state, epoch milliseconds; -1 if not known."),
    "last_commit_ms": described(
        nullable(INTEGER), "Epoch milliseconds; null where it never committed, or it is not known."
    ),
    "lag": described(
        nullable(COUNT),
        "Records behind, over all partitions of which that is known; null where of none, and where those have "
        "nothing to read: others may.",
    ),
    "rebalances": described(nullable(COUNT), "Since the log begins."),
    "generations_skipped": described(nullable(COUNT), "Rebalances that never completed."),
    "anomalies": described(COUNT, "How many things stand in the log that a coordinator should not write."),
    "cluster": CLUSTER,
    STALE: described(
        ref("open_transaction"),
        "Only where a transaction hides what was written of the group since `since_ms`: what is known of it is as of "
        "then.",
    ),
    QUARANTINED: described(
        ref("quarantined_records"),
        "Only where records of its partition could not be read and were passed over, of the newest hundred pieces: "
        "until its next records the group may stand otherwise.",
    ),
    OFFSETS_SEEN: described(
        INTEGER,
        "Only with `--source admin`: when its committed offsets were read, epoch milliseconds. What it has committed "
        "since counts as lag.",
    ),
}

_GROUP_OPTIONAL = ("cluster", STALE, QUARANTINED, OFFSETS_SEEN)

_LAG: dict[str, Schema] = {
    "lag": described(
        nullable(COUNT),
        "Records behind; null if not known. An agent's is as of its last look at the ends: `offset` may be newer.",
    ),
    "lag_seconds": described(nullable(RATIO), "How long the next record to read has been there; null if not known."),
    "lag_seconds_at_least": described(FLAG, "Whether it may be longer."),
    "lag_note": described(nullable(open_enum(LagNote)), "What is to be said of the lag."),
    "log_start": described(nullable(INTEGER), "The partition's first offset."),
    "end": described(nullable(INTEGER), "The offset after its last."),
    "held_back": described(nullable(INTEGER), "Records behind an open transaction."),
    "lost": described(nullable(INTEGER), "Records that were deleted unread."),
}

LAG_FIELDS = tuple(_LAG)

MEMBER_LISTS = ("target", "standby_tasks", "warmup_tasks")
"""What only newer types of groups have."""

_AGENT_STATUS: dict[str, Schema] = {
    "cluster_id": nullable(TEXT),
    "topic_id": nullable(TEXT),
    "partitions": map_of(ref("partition_status")),
    "snapshots": nullable(ref("snapshots_status")),
    "history": {"anyOf": [array_of(ref("sink_status")), {"type": "null"}]},
    "worries": described(array_of(TEXT), "What is not as it should be, while answers are whole and fresh."),
    "quarantined": described(
        array_of(ref("passed_over")),
        "Records that could not be read, the newest hundred pieces: groups of their partitions may stand"
        " otherwise than is told until their next records.",
    ),
}

VIEW_DEFS: dict[str, Schema] = {
    "group": object_of(_GROUP, "One row of the groups.", optional=_GROUP_OPTIONAL),
    "quarantined_records": object_of(
        {"records": described(COUNT, "How many offsets of the partition.")},
        "What was passed over in a partition of `__consumer_offsets`.",
    ),
    "open_transaction": object_of(
        {
            "offset": described(COUNT, "Of its first record in the partition: nothing from there on can be read."),
            "since_ms": described(INTEGER, "Since when it is open, epoch milliseconds."),
            "group": described(nullable(TEXT), "The group whose record is its first; null if that is not known."),
            "transactional_ids": described(
                array_of(TEXT), "The transaction's; of several, each may be it. Empty where that is not known."
            ),
        },
        "The oldest open transaction of a partition of `__consumer_offsets`.",
    ),
    "member": object_of(
        {
            "member_id": TEXT,
            "client_id": TEXT,
            "client_host": TEXT,
            "instance_id": described(nullable(TEXT), "group.instance.id, of a static member."),
            "rack_id": nullable(TEXT),
            "session_timeout_ms": described(nullable(INTEGER), "Null where the group's type does not write it."),
            "rebalance_timeout_ms": nullable(INTEGER),
            "subscription": array_of(TEXT),
            "subscription_regex": nullable(TEXT),
            "assignment": described(PARTITIONS, "What it holds: partitions by topic, of Connect tasks by connector."),
            "member_epoch": nullable(INTEGER),
            "uses_classic_protocol": described(
                nullable(FLAG), "Null where it is not known: in KIP-848 groups with `--source admin`."
            ),
            "client_library": described(TEXT, "Its client library, as far as the log tells; else `unknown`."),
            "library_evidence": described(TEXT, "By what; empty where nothing tells."),
            "target": described(PARTITIONS, "What the coordinator wants it to hold, in newer types of groups."),
            "standby_tasks": PARTITIONS,
            "warmup_tasks": PARTITIONS,
            "origin": described(
                nullable(ref("event_origin")),
                "How its pod came; null if not known; only with `--kubernetes`.",
            ),
        },
        "A member of a group.",
        optional=(*MEMBER_LISTS, "origin"),
    ),
    "offset": object_of(
        {
            "topic": TEXT,
            "partition": COUNT,
            "offset": described(INTEGER, "The next record it would read."),
            "committed_ms": described(nullable(INTEGER), "When, epoch milliseconds; null where that is not known."),
            **_LAG,
            "leader_epoch": INTEGER,
            "metadata": described(TEXT, "What the client wrote beside it."),
            "topic_id": nullable(TEXT),
        },
        "A committed offset, and its lag.",
    ),
    "anomaly": object_of(
        {"kind": TEXT, "message": TEXT, "offset": COUNT, "at_ms": AT_MS},
        "Something in the log that a coordinator should not write.",
    ),
    "describe": object_of(
        {
            **_GROUP,
            "leader": described(nullable(TEXT), "The member id of the leader of a classic group."),
            "target_generation": described(nullable(INTEGER), "The epoch of the target assignment, in newer types."),
            "members": array_of(ref("member")),
            "offsets": array_of(ref("offset")),
            "anomalies": array_of(ref("anomaly")),
        },
        "One group in full.",
        optional=_GROUP_OPTIONAL,
    ),
    "lag": object_of(
        {
            "topic": TEXT,
            "partition": COUNT,
            "offset": nullable(INTEGER),
            **{name: nullable(it) if name == "lag_seconds_at_least" else it for name, it in _LAG.items()},
            "committed_ms": nullable(INTEGER),
            "member_id": described(nullable(TEXT), "Who holds it; null where nobody does."),
            "client_id": nullable(TEXT),
            "client_host": nullable(TEXT),
        },
        "A partition that a group has committed, or that a member holds.",
    ),
    "error": object_of({"error": described(TEXT, "In words.")}, "Why there is no other answer."),
    "partition_status": object_of(
        {
            "next_offset": INTEGER,
            "behind_records": nullable(INTEGER),
            "caught_up": FLAG,
            "clock_ms": nullable(INTEGER),
            "open_transaction": described(ref("open_transaction"), "Only where one is open."),
        },
        "Where the reading of a partition of `__consumer_offsets` is.",
        optional=["open_transaction"],
    ),
    "snapshots_status": object_of(
        {
            "oldest_age_s": nullable(RATIO),
            "writes": map_of(COUNT),
            "refused": map_of(COUNT),
            "restored": COUNT,
            "error": nullable(TEXT),
        },
        "How keeping the state goes.",
    ),
    "sink_status": object_of(
        {
            "name": TEXT,
            "events": described(COUNT, "Written, and durable there."),
            "buffered": described(COUNT, "Waiting."),
            "dropped": described(map_of(COUNT), "By reason."),
            "oldest_age_s": nullable(RATIO),
            "healthy": FLAG,
            "last_error": nullable(TEXT),
            "spool_bytes": COUNT,
            "spool_error": nullable(TEXT),
        },
        "How writing the history to one place goes.",
    ),
    "passed_over": object_of(
        {
            "partition": COUNT,
            "first_offset": COUNT,
            "next_offset": described(COUNT, "Behind the last of them."),
            "reason": described(TEXT, "`unpack`, `corrupt`, `format` or `size`."),
            "message": described(TEXT, "What the client said, and which setting would read it."),
        },
        "Records of the topic that could not be fetched or unpacked.",
    ),
    "status": object_of(
        {
            "version": described(TEXT, "kshadow's."),
            "ready": described(FLAG, "Whether answers are whole and fresh: as `/readyz`."),
            "reason": described(TEXT, "Why, or why not."),
            "uptime_s": RATIO,
            **_AGENT_STATUS,
            "clusters": described(
                map_of(object_of({"ready": FLAG, "reason": TEXT, **_AGENT_STATUS}, optional=[*_AGENT_STATUS])),
                "By name, where the agent reads several clusters: what comes after `uptime_s` where it reads one.",
            ),
        },
        "What an agent says of itself. What comes after `uptime_s` depends on what it reads.",
        optional=[*_AGENT_STATUS, "clusters"],
    ),
}  # fmt: skip

"""What commands print with `-o json` that the API does not answer."""

from __future__ import annotations

from agent.presentation.schemas.builders import (
    ANY,
    AT_MS,
    COUNT,
    FLAG,
    INTEGER,
    RATIO,
    SHARE,
    TEXT,
    Schema,
    array_of,
    closed_enum,
    described,
    map_of,
    nullable,
    object_of,
    open_enum,
    pair,
    ref,
)

_SLOTS = described(map_of(array_of(pair(TEXT, COUNT))), "Pairs of topic and partition, by member id.")
_SPREAD: dict[str, Schema] = {
    "least": described(COUNT, "Partitions of the member with the fewest."),
    "largest": described(COUNT, "And with the most."),
    "idle": described(COUNT, "Members with none."),
}

_ERROR = object_of({"kind": TEXT, "message": TEXT})
_PLACE: dict[str, Schema] = {"partition": COUNT, "offset": COUNT, "timestamp": AT_MS}
_HEX: dict[str, Schema] = {"keyHex": nullable(TEXT), "valueHex": nullable(TEXT)}

ANSWER_DEFS: dict[str, Schema] = {
    "explain": object_of(
        {
            "group": TEXT,
            "state": described(
                nullable(TEXT), "Kafka's name of the present one; Dead once it is gone; null if not known."
            ),
            "summary": described(TEXT, "The answer in one to three sentences."),
            "range": object_of({"since_ms": AT_MS, "until_ms": AT_MS}),
            "paragraphs": array_of(
                object_of(
                    {
                        "kind": open_enum(("state", "happened", "why", "sure", "cost", "finding", "whatif")),
                        "text": TEXT,
                        "evidence": array_of({"type": "object"}),
                    }
                )
            ),
            "advice": described(array_of(TEXT), "What to do, the best first: three at most."),
            "not_seen": described(array_of(TEXT), "What is not known."),
            "numbers": object_of(
                {
                    "rebalances": COUNT,
                    "rebalances_by_cause": map_of(COUNT),
                    "joined": COUNT,
                    "left": COUNT,
                    "left_by_cause": map_of(COUNT),
                    "left_by_origin": described(map_of(COUNT), "Of those whose origin is known; only if any is."),
                    "never_completed": COUNT,
                    "stopped_partition_ms": described(nullable(COUNT), "Null if it is not known of any rebalance."),
                    "rebalances_of_unknown_cost": described(COUNT, "Rebalances that are missing in that."),
                    "stopped_share": described(nullable(SHARE), "Of the time that the partitions could have worked."),
                    "dearest_stopped_partition_ms": nullable(COUNT),
                    "partitions": nullable(COUNT),
                    "empty_ms": COUNT,
                    "findings_open": COUNT,
                },
                optional=("left_by_origin",),
            ),
            "whatif": described(nullable(ref("gains")), "Null where its history was not replayed."),
        },
        "The story of one group.",
    ),
    "gain": object_of(
        {
            "setting": described(TEXT, "In words."),
            "exact": described(
                array_of(TEXT), "Its lines, as one writes them; without a value what differs by client."
            ),
            "where": described(TEXT, "Into which configuration."),
            "rebalances_before": COUNT,
            "rebalances_after": COUNT,
            "stopped_before_s": described(RATIO, "In partition-seconds."),
            "stopped_after_s": RATIO,
            "detects_before_ms": described(
                nullable(COUNT), "After how long a death is noticed; null where nobody died."
            ),
            "detects_after_ms": nullable(COUNT),
            "price": described(TEXT, "What it costs; empty if nothing worth a word."),
            "assumptions": array_of(TEXT),
        },
        "A setting that would have helped.",
    ),
    "gains": object_of(
        {
            "gains": described(array_of(ref("gain")), "The best first."),
            "tried": described(COUNT, "How many other settings were tried; 0: there are no numbers."),
            "rebalances": described(COUNT, "Under today's settings, replayed."),
            "stopped_s": described(RATIO, "The same, in partition-seconds."),
            "log_rebalances": described(COUNT, "What the log shows."),
            "log_stopped_s": RATIO,
            "generations": COUNT,
            "matched": described(COUNT, "Generations that come out of the replay as they were."),
            "untold": described(TEXT, "Why there are no numbers, or not all."),
            "command": described(TEXT, "What gives them, or more of them."),
            "is_cut_short": described(FLAG, "Whether only time was lacking."),
        },
        "What came of replaying a group's history under other settings.",
    ),
    "setting_outcome": object_of(
        {
            "setting": described(TEXT, "In words."),
            "changes": described({"type": "object"}, "By name; empty are today's settings."),
            "rebalances": COUNT,
            "stopped_partition_ms": COUNT,
            "rebalancing_partition_ms": COUNT,
            "undetected_partition_ms": COUNT,
            "unowned_partition_ms": COUNT,
            "deaths": COUNT,
            "deaths_detected": COUNT,
            "detection_median_ms": nullable(COUNT),
            "detection_max_ms": nullable(COUNT),
            "saved_rebalances": INTEGER,
            "saved_partition_ms": INTEGER,
        },
        "What the same history comes to under some settings.",
    ),
    "whatif": object_of(
        {
            "group": TEXT,
            "since_ms": AT_MS,
            "until_ms": AT_MS,
            "reproduced": object_of(
                {
                    "exact": FLAG,
                    "generations": COUNT,
                    "matched": COUNT,
                    "missing": COUNT,
                    "extra": COUNT,
                    "never_completed": COUNT,
                    "log_stopped_partition_ms": nullable(COUNT),
                    "generations_of_known_cost": described(
                        COUNT,
                        "Generations that matched, of which the log shows for how long partitions were stopped.",
                    ),
                    "their_stopped_partition_ms": described(COUNT, "Theirs, in the replay."),
                    "their_log_stopped_partition_ms": described(COUNT, "Theirs, in the log."),
                    "has_times_of_log": described(
                        nullable(FLAG),
                        "False: these two are more than a factor of 2 apart, so settings may be compared with each "
                        "other only. Null: the log does not tell.",
                    ),
                    "off_at_most_ms": nullable(COUNT),
                    "sentences": array_of(TEXT),
                },
                "How well the model comes to what the log shows.",
            ),
            "settings": array_of(ref("setting_outcome"), least=1),
            "not_played": array_of(object_of({"setting": TEXT, "reason": TEXT})),
            "advice": array_of(TEXT),
            "assumptions": array_of(TEXT),
        },
        "One group's history under other settings.",
    ),
    "record_decoded": object_of(
        {
            **_PLACE,
            "key": object_of({"type": COUNT, "data": {"type": "object"}}),
            "value": described(
                {"anyOf": [object_of({"version": COUNT, "data": {"type": "object"}}), {"type": "null"}]},
                "Null in a tombstone. `data` has Kafka's own names.",
            ),
        },
        "A record.",
    ),
    "record_marker": object_of(
        {**_PLACE, "control": closed_enum(("commit", "abort")), "coordinatorEpoch": INTEGER}, "A transaction's end."
    ),
    "record_undecodable": object_of(
        {
            "partition": nullable(COUNT),
            "offset": nullable(COUNT),
            "timestamp": AT_MS,
            "line": described(COUNT, "Of an NDJSON file, where that is what cannot be read."),
            "file": described(TEXT, "A segment, where it is a piece of that which cannot be read."),
            "byte": described(COUNT, "Where in that file the piece begins."),
            "error": _ERROR,
            **_HEX,
        },
        "What cannot be decoded, with its bytes.",
        optional=["timestamp", "line", "file", "byte"],
    ),
    "record": {
        "description": "One line of `kshadow decode`.",
        "oneOf": [ref("record_decoded"), ref("record_marker"), ref("record_undecodable"), ref("payload")],
    },
    "payload": {
        "description": "A member's payload alone, from a line that holds one.",
        "oneOf": [
            object_of({"line": COUNT, "name": TEXT, "version": INTEGER, "data": {"type": "object"}}),
            object_of({"line": COUNT, "name": nullable(TEXT), "error": _ERROR, "valueHex": TEXT}),
        ],
    },
    "coordinator": object_of(
        {
            "group": TEXT,
            "partition": described(COUNT, "Of `__consumer_offsets`."),
            "partitions": described(
                nullable(COUNT), "How many that topic has; null where an agent or files were asked."
            ),
            "partitioner": described(
                nullable(open_enum(("kafka", "redpanda"))),
                "By whose hash of the group's name; null where that is not known, and the partition is Kafka's, and "
                "where an agent or files were asked, which say where the group is.",
            ),
            "broker_id": nullable(INTEGER),
            "host": nullable(TEXT),
            "port": nullable(INTEGER),
        },
        "Who owns a group. The broker is null where none was asked.",
    ),
    "alternative": object_of(
        {
            "assignor": TEXT,
            "assignment": _SLOTS,
            **_SPREAD,
            "moves": described(COUNT, "Partitions whose owner changes."),
            "stopped": described(COUNT, "Partitions that stop on the way."),
            "rounds": described(COUNT, "Rebalances until then."),
        },
        "What one assignor would give.",
    ),
    "assign": object_of(
        {
            "group": TEXT,
            "group_type": TEXT,
            "as_of_ms": described(nullable(INTEGER), "The time that stands for today, where that is not now."),
            "generation": INTEGER,
            "assignor": described(nullable(TEXT), "The one it has."),
            "partitions": described(map_of(COUNT), "Their number, by topic."),
            "partitions_from": map_of(open_enum(("broker", "option", "seen"))),
            "today": object_of({"assignment": _SLOTS, **_SPREAD}),
            "alternatives": array_of(ref("alternative")),
            "notes": array_of(TEXT),
        },
        "A group's assignment today, and what each assignor would compute for the same members.",
    ),
    "assignment": object_of({"assignor": TEXT, "assignment": _SLOTS}, "The answer to one problem of a file."),
    "analyzer": object_of(
        {
            "analyzer": TEXT,
            "rule": TEXT,
            "false_alarms": TEXT,
            "settings": array_of(object_of({"name": TEXT, "default": ANY, "help": TEXT})),
        },
        "An analyzer: when it fires, and what can be set.",
    ),
    "check": object_of(
        {
            "check": TEXT,
            "on": TEXT,
            "outcome": closed_enum(("ok", "warning", "failed", "skipped")),
            "tried": TEXT,
            "found": TEXT,
            "fix": described(array_of(TEXT), "What to do, a step each."),
        },
        "One check of `kshadow doctor`.",
    ),
    "setting": object_of(
        {
            "cluster": nullable(TEXT),
            "option": TEXT,
            "value": ANY,
            "source": closed_enum(("default", "file", "environment", "command line")),
            "where": nullable(TEXT),
        },
        "A setting in force, and where it comes from.",
    ),
    "context": object_of(
        {
            "name": TEXT,
            "current": described(FLAG, "Whether it is in use."),
            "source": described(nullable(open_enum(("from", "bootstrap-server", "agent"))), "What is asked."),
            "where": nullable(TEXT),
            "options": {"type": "object", "description": "Its other options, by name."},
        },
        "A context: a source that has a name.",
    ),
}

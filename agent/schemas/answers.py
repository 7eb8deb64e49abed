"""What commands print with `-o json` that the API does not answer."""

from __future__ import annotations

from agent.schemas.kinds import (
    ANY,
    AT_MS,
    COUNT,
    FLAG,
    INTEGER,
    RATIO,
    SHARE,
    TEXT,
    Schema,
    by_name,
    each,
    maybe,
    one_of,
    pair,
    ref,
    said,
    shape,
    word,
)

_SLOTS = said(by_name(each(pair(TEXT, COUNT))), "Pairs of topic and partition, by member id.")
_SPREAD: dict[str, Schema] = {
    "least": said(COUNT, "Partitions of the member with the fewest."),
    "largest": said(COUNT, "And with the most."),
    "idle": said(COUNT, "Members with none."),
}

_ERROR = shape({"kind": TEXT, "message": TEXT})
_PLACE: dict[str, Schema] = {"partition": COUNT, "offset": COUNT, "timestamp": AT_MS}
_HEX: dict[str, Schema] = {"keyHex": maybe(TEXT), "valueHex": maybe(TEXT)}

ANSWER_DEFS: dict[str, Schema] = {
    "explain": shape(
        {
            "group": TEXT,
            "state": said(maybe(TEXT), "Kafka's name of the present one; Dead once it is gone; null if not known."),
            "summary": said(TEXT, "The answer in one to three sentences."),
            "range": shape({"since_ms": AT_MS, "until_ms": AT_MS}),
            "paragraphs": each(
                shape(
                    {
                        "kind": word(("state", "happened", "why", "sure", "cost", "finding")),
                        "text": TEXT,
                        "evidence": each({"type": "object"}),
                    }
                )
            ),
            "advice": said(each(TEXT), "What to change."),
            "not_seen": said(each(TEXT), "What kshadow could not see."),
            "numbers": shape(
                {
                    "rebalances": COUNT,
                    "rebalances_by_cause": by_name(COUNT),
                    "joined": COUNT,
                    "left": COUNT,
                    "left_by_cause": by_name(COUNT),
                    "never_completed": COUNT,
                    "stopped_partition_ms": maybe(COUNT),
                    "stopped_share": said(maybe(SHARE), "Of the time that the partitions could have worked."),
                    "dearest_stopped_partition_ms": maybe(COUNT),
                    "partitions": maybe(COUNT),
                    "empty_ms": COUNT,
                    "findings_open": COUNT,
                }
            ),
            "whatif": said(maybe(ref("gains")), "Null where its history was not replayed."),
        },
        "The story of one group.",
    ),
    "gain": shape(
        {
            "setting": said(TEXT, "In words."),
            "exact": said(each(TEXT), "Its lines, as one writes them."),
            "where": said(TEXT, "Into which configuration."),
            "rebalances_before": COUNT,
            "rebalances_after": COUNT,
            "stopped_before_s": said(RATIO, "In partition-seconds."),
            "stopped_after_s": RATIO,
            "detects_before_ms": said(maybe(COUNT), "After how long a death is noticed; null where nobody died."),
            "detects_after_ms": maybe(COUNT),
            "price": said(TEXT, "What it costs; empty if nothing worth a word."),
            "assumptions": each(TEXT),
        },
        "A setting that would have helped.",
    ),
    "gains": shape(
        {
            "gains": said(each(ref("gain")), "The best first."),
            "tried": said(COUNT, "How many other settings were tried; 0: there are no numbers."),
            "rebalances": said(COUNT, "Under today's settings, replayed."),
            "stopped_s": said(RATIO, "The same, in partition-seconds."),
            "log_rebalances": said(COUNT, "What the log shows."),
            "log_stopped_s": RATIO,
            "generations": COUNT,
            "matched": said(COUNT, "Generations that come out of the replay as they were."),
            "untold": said(TEXT, "Why there are no numbers, or not all."),
            "command": said(TEXT, "What gives them, or more of them."),
            "is_cut_short": said(FLAG, "Whether only time was lacking."),
        },
        "What came of replaying a group's history under other settings.",
    ),
    "setting_outcome": shape(
        {
            "setting": said(TEXT, "In words."),
            "changes": said({"type": "object"}, "By name; empty are today's settings."),
            "rebalances": COUNT,
            "stopped_partition_ms": COUNT,
            "rebalancing_partition_ms": COUNT,
            "undetected_partition_ms": COUNT,
            "unowned_partition_ms": COUNT,
            "deaths": COUNT,
            "deaths_detected": COUNT,
            "detection_median_ms": maybe(COUNT),
            "detection_max_ms": maybe(COUNT),
            "saved_rebalances": INTEGER,
            "saved_partition_ms": INTEGER,
        },
        "What the same history comes to under some settings.",
    ),
    "whatif": shape(
        {
            "group": TEXT,
            "since_ms": AT_MS,
            "until_ms": AT_MS,
            "reproduced": shape(
                {
                    "exact": FLAG,
                    "generations": COUNT,
                    "matched": COUNT,
                    "missing": COUNT,
                    "extra": COUNT,
                    "never_completed": COUNT,
                    "log_stopped_partition_ms": maybe(COUNT),
                    "off_at_most_ms": maybe(COUNT),
                    "sentences": each(TEXT),
                },
                "How well the model comes to what the log shows.",
            ),
            "settings": each(ref("setting_outcome"), least=1),
            "not_played": each(shape({"setting": TEXT, "reason": TEXT})),
            "advice": each(TEXT),
            "assumptions": each(TEXT),
        },
        "One group's history under other settings.",
    ),
    "record_decoded": shape(
        {
            **_PLACE,
            "key": shape({"type": COUNT, "data": {"type": "object"}}),
            "value": said(
                {"anyOf": [shape({"version": COUNT, "data": {"type": "object"}}), {"type": "null"}]},
                "Null in a tombstone. `data` has Kafka's own names.",
            ),
        },
        "A record.",
    ),
    "record_marker": shape(
        {**_PLACE, "control": one_of(("commit", "abort")), "coordinatorEpoch": INTEGER}, "A transaction's end."
    ),
    "record_undecodable": shape(
        {
            "partition": maybe(COUNT),
            "offset": maybe(COUNT),
            "timestamp": AT_MS,
            "line": said(COUNT, "Of an NDJSON file, where that is what cannot be read."),
            "error": _ERROR,
            **_HEX,
        },
        "What cannot be decoded, with its bytes.",
        optional=["timestamp", "line"],
    ),
    "record": {
        "description": "One line of `kshadow decode`.",
        "oneOf": [ref("record_decoded"), ref("record_marker"), ref("record_undecodable"), ref("payload")],
    },
    "payload": {
        "description": "A member's payload alone, from a line that holds one.",
        "oneOf": [
            shape({"line": COUNT, "name": TEXT, "version": INTEGER, "data": {"type": "object"}}),
            shape({"line": COUNT, "name": maybe(TEXT), "error": _ERROR, "valueHex": TEXT}),
        ],
    },
    "coordinator": shape(
        {
            "group": TEXT,
            "partition": said(COUNT, "Of `__consumer_offsets`."),
            "partitions": said(COUNT, "How many that topic has."),
            "broker_id": maybe(INTEGER),
            "host": maybe(TEXT),
            "port": maybe(INTEGER),
        },
        "Who owns a group. The broker is null where none was asked.",
    ),
    "alternative": shape(
        {
            "assignor": TEXT,
            "assignment": _SLOTS,
            **_SPREAD,
            "moves": said(COUNT, "Partitions whose owner changes."),
            "stopped": said(COUNT, "Partitions that stop on the way."),
            "rounds": said(COUNT, "Rebalances until then."),
        },
        "What one assignor would give.",
    ),
    "assign": shape(
        {
            "group": TEXT,
            "group_type": TEXT,
            "as_of_ms": said(maybe(INTEGER), "The time that stands for today, where that is not now."),
            "generation": INTEGER,
            "assignor": said(maybe(TEXT), "The one it has."),
            "partitions": said(by_name(COUNT), "Their number, by topic."),
            "partitions_from": by_name(word(("broker", "option", "seen"))),
            "today": shape({"assignment": _SLOTS, **_SPREAD}),
            "alternatives": each(ref("alternative")),
            "notes": each(TEXT),
        },
        "A group's assignment today, and what each assignor would give the same members.",
    ),
    "assignment": shape({"assignor": TEXT, "assignment": _SLOTS}, "The answer to one problem of a file."),
    "analyzer": shape(
        {
            "analyzer": TEXT,
            "rule": TEXT,
            "false_alarms": TEXT,
            "settings": each(shape({"name": TEXT, "default": ANY, "help": TEXT})),
        },
        "An analyzer: when it fires, and what can be set.",
    ),
    "check": shape(
        {
            "check": TEXT,
            "on": TEXT,
            "outcome": one_of(("ok", "warning", "failed", "skipped")),
            "tried": TEXT,
            "found": TEXT,
            "fix": said(each(TEXT), "What to do, a step each."),
        },
        "One check of `kshadow doctor`.",
    ),
    "setting": shape(
        {
            "cluster": maybe(TEXT),
            "option": TEXT,
            "value": ANY,
            "source": one_of(("default", "file", "environment", "command line")),
            "where": maybe(TEXT),
        },
        "A setting in force, and where it comes from.",
    ),
    "context": shape(
        {
            "name": TEXT,
            "current": said(FLAG, "Whether it is in use."),
            "source": said(maybe(word(("from", "bootstrap-server", "agent"))), "What is asked."),
            "where": maybe(TEXT),
            "options": {"type": "object", "description": "Its other options, by name."},
        },
        "A context: a source that has a name.",
    ),
}

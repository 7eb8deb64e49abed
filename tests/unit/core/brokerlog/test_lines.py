"""The coordinator's lines: every form, every layout, and whatever else may stand in a log."""

from __future__ import annotations

import json
import random
import time

import pytest

from agent.core.brokerlog.lines import MAX_LINE_CHARACTERS, LineReader, LogEvent
from tests import ROOT

REAL = ROOT / "tests" / "data" / "brokerlog"
OLD, NEW = "kafka.coordinator.group.GroupCoordinator", "org.apache.kafka.coordinator.group.GroupMetadataManager"
AT_MS = 1_795_256_000_123
M = "c-0f7d3a52-6c1e-4a53-9f0b-3f4a8f1f2b11"


def old(text: str) -> str:
    return f"[2026-11-21 10:13:20,123] INFO [GroupCoordinator 1]: {text} ({OLD})\n"


def new(text: str) -> str:
    prefix = "[GroupCoordinator id=1 topic=__consumer_offsets partition=4]"
    return f"[2026-11-21 10:13:20,123] INFO {prefix} {text} ({NEW})\n"


def read(line: str) -> LogEvent:
    event = LineReader().parse(line)
    assert event is not None, line
    return event


STATIC = "Static member with groupInstanceId=i 1 and unknown member id joins group g in Stable state. "

# 1-28: forms that no other test reads, with the versions that write them.
FORMS = [
    (old("Stabilized group g generation 8 (__consumer_offsets-2)"), "stabilized", {"generation": 8, "members": -1}),
    (old("Assignment received from leader for group g for generation 15"), "assigned", {"generation": 15}),
    (
        old("Assignment received from leader for group g for generation 1. The group has 3 members, 0 of which …."),
        "assigned",
        {"members": 3},
    ),
    (
        old(f"Pending member with memberId={M} has left group g through explicit `LeaveGroup` request"),
        "pending_gone",
        {},
    ),
    (new(f"Pending member {M} in group g has been removed after session timeout expiration."), "pending_gone", {}),
    (
        new(f"[Group g] Pending member {M} has left group through explicit `LeaveGroup` request; client reason: x"),
        "pending_gone",
        {},
    ),
    (
        old(
            "Dynamic Member with unknown member id joins group g in Empty state. "
            f"Created a new member id {M} for this member and add to the group."
        ),
        "joined_at_once",
        {},
    ),
    (
        new(
            "Dynamic member with unknown member id joins group g in state Empty. "
            f"Created a new member id {M} and added the member to the group."
        ),
        "joined_at_once",
        {},
    ),
    (
        new(f"{STATIC}Created a new member id {M} for this member and added to the group."),
        "static_joined",
        {"instance": "i 1"},
    ),
    (
        old(f"{STATIC}Replacing previously mapped member {M} with this groupInstanceId."),
        "static_replaced",
        {"instance": "i 1"},
    ),
    (
        old(
            f"Member MemberMetadata(memberId={M}, groupInstanceId=None, clientId=c) has left group g through "
            "explicit `LeaveGroup`"
        ),
        "left_late",
        {"reason": ""},
    ),
    (new(f"[GroupId g][MemberId {M}] Bumped streams group epoch to 4 with metadata hash 7."), "epoch", {}),
    (new("[GroupId g] Bumped group epoch to 4."), "epoch", {"generation": 4, "member": ""}),
    (new(f"[GroupId g] Static Member {M} with instance id i left the consumer group."), "modern_left", {}),
    (new(f"[GroupId g][MemberId {M}] Member {M} left the streams group."), "modern_left", {}),
    (
        new(f"[GroupId g][MemberId {M}] Static member {M} with instance id i left the streams group."),
        "modern_left",
        {"instance": "i"},
    ),
    (
        new(f"[GroupId g][MemberId {M}] Static member {M} with instance id i temporarily left the streams group."),
        "modern_away",
        {"instance": "i"},
    ),
    (
        new(f"[Group g] Dynamic Member {M} has left group through explicit `LeaveGroup` request; client reason: x"),
        "modern_left_classic",
        {"reason": "x"},
    ),
    (
        new(
            f"[GroupId g] Static member {M} with instance id i has left group through explicit `LeaveGroup` request; "
            "client reason: the consumer is being closed"
        ),
        "modern_left_classic",
        {"instance": "i"},
    ),
    (
        new(f"[GroupId g] Streams member {M} fenced from the group because the member session expired.."),
        "modern_fenced",
        {"reason": "the member session expired."},
    ),
    (old("Unloading group metadata for g with generation 4"), "unloaded", {"generation": 4}),
    (new("[GroupId=g] Unloading group metadata for generation 4."), "unloaded", {"generation": 4}),
]


@pytest.mark.parametrize(("line", "kind", "fields"), FORMS)
def test_forms(line: str, kind: str, fields: dict[str, object]) -> None:
    event = read(line)
    assert event.kind == kind
    assert event.group == "g"
    if f" {M} " in line or f"={M}" in line:
        assert event.member == M
    assert {name: getattr(event, name) for name in fields} == fields


SAID = f"Member {M} in group my group [x] has failed, removing it from the group"
PLAIN = f"[GroupCoordinator 1]: {SAID}"
LATER = "2026-11-21T10:13:21.000000001Z"

# 1-17: how deployments print the same line.
LAYOUTS = [
    f"[2026-11-21 10:13:20,123] INFO {PLAIN} ({OLD})",  # 1: Kafka's own
    f"2026-11-21 10:13:20,123 INFO {PLAIN} ({OLD}) [executor-Heartbeat]",  # 2: Strimzi's
    f"{LATER} 2026-11-21 10:13:20,123 INFO {PLAIN} ({OLD}) [executor-Heartbeat]",  # 3: the same by kubectl
    f"{LATER} stdout F [2026-11-21 10:13:20,123] INFO {PLAIN} ({OLD})",  # 4: a container runtime's file
    f"kafka-1  | [2026-11-21 10:13:20,123] INFO {PLAIN} ({OLD})",  # 5: docker compose
    f"[2026-11-21 10:13:20,123] INFO {PLAIN} ({OLD}:66)",  # 6: with a line number
    f"2026-11-21T12:13:20.123+02:00 INFO {PLAIN} ({OLD})",  # 7: an offset
    f"2026-11-21T04:43:20.123-0530 INFO {PLAIN} ({OLD})",  # 8
    f"[2026-11-21 10:13:20.123 UTC] INFO {PLAIN} ({OLD})",  # 9
    f"2026-11-21 10:13:20.123456789Z INFO {PLAIN}",  # 10: no logger
    f"[2026-11-21 10:13:20,123] INFO {PLAIN} ({OLD})\r",  # 11: another system's line ends
    json.dumps({"log": f"[2026-11-21 10:13:20,123] INFO {PLAIN} ({OLD})\n", "time": LATER}),  # 12: Docker's files
    json.dumps({"@timestamp": "2026-11-21T10:13:20.123Z", "log.level": "INFO", "message": PLAIN}),  # 13: Elastic's
    json.dumps({"timestamp": "2026-11-21T11:13:20.123+0100", "msg": PLAIN}),  # 14
    json.dumps({"timeMillis": AT_MS, "message": f"INFO {PLAIN}"}),  # 15: log4j's JSONLayout, with a level
    json.dumps({"instant": {"epochSecond": AT_MS // 1000, "nanoOfSecond": 123_000_000}, "message": PLAIN}),  # 16
    f"{{not JSON}} 2026-11-21 10:13:20,123 {PLAIN}",  # 17: it only begins like it
]


@pytest.mark.parametrize("line", LAYOUTS)
def test_layouts(line: str) -> None:
    event = read(line + "\n")
    assert (event.kind, event.group, event.member, event.at_ms) == ("failed", "my group [x]", M, AT_MS)


def test_a_time_without_an_offset_is_the_brokers_local_time() -> None:
    reader = LineReader(lambda local_ms: local_ms - 3_600_000)
    event = reader.parse(LAYOUTS[0])
    assert event is not None
    assert event.at_ms == AT_MS - 3_600_000
    event = reader.parse(LAYOUTS[6])
    assert event is not None
    assert event.at_ms == AT_MS


def test_times_may_be_cut_to_seconds() -> None:
    assert read(json.dumps({"ts": AT_MS // 1000, "message": PLAIN})).at_ms == AT_MS - 123
    assert read(f"[2026-11-21 10:13:20] INFO {PLAIN} ({OLD})").at_ms == AT_MS - 123


# Lines that say nothing, and whether they count as the coordinator's that were not understood.
NOTHING = [
    ("", 0),  # 1
    ("[2026-11-21 10:13:20,123] INFO Kafka version: 4.3.1 (kafka.Kafka)", 0),  # 2: another's
    ("\tat [Group of lines in a stack trace]", 0),  # 3
    (new("Startup complete."), 0),  # 4: of no interest
    (new("[GroupId g] Computed a new target assignment for epoch 2 with 'uniform' assignor in 1ms."), 0),  # 5
    (old("Elected as the group coordinator for partition 4 in epoch 0"), 0),  # 6
    (new(f"[GroupId g] Member {M} waved goodbye."), 1),  # 7: a form that may come one day
    (new(f"[GroupId g] Member {M} fenced from the group because it waved."), 1),  # a reason that may come
    (f"INFO {PLAIN} ({OLD})", 1),  # 8: no time
    (f"[2026-13-21 10:13:20,123] INFO {PLAIN} ({OLD})", 1),  # 9: no such month
    (f"[0000-01-21 10:13:20,123] INFO {PLAIN} ({OLD})", 1),  # 10: no such year
    (old("Preparing to rebalance group g in state PreparingRebalance with old gen"), 1),  # 11: torn
    (old("Member " + "x" * MAX_LINE_CHARACTERS), 1),  # 12: too long
    (json.dumps({"message": PLAIN}), 1),  # 13: JSON without a time
    (json.dumps({"message": PLAIN, "timeMillis": True}), 1),  # 14
    (json.dumps({"message": PLAIN, "instant": {"epochSecond": "1"}}), 1),  # 15
    (json.dumps({"message": PLAIN, "instant": 4, "time": "noon"}), 1),  # 16
    (json.dumps({"message": PLAIN, "time": 10**300}), 1),  # times that are none
    (json.dumps({"message": PLAIN, "ts": -(2**64)}), 1),
    (json.dumps({"message": PLAIN, "instant": {"epochSecond": 2**63, "nanoOfSecond": 1}}), 1),
    ('{"message": 5, "x": "[GroupCoordinator 1]: "}', 0),  # 17: JSON without a message
    (old("Group g transitioned to Dead in generation 0"), 0),
    (new("The following groups were deleted: members, h. A total of 3 offsets were removed."), 0),
    (new("Generated 1 tombstone records while cleaning up group metadata in 0 milliseconds."), 0),
    (new("[GroupId g] Static member m with instance id i is fenced by existing member n."), 0),
    ("[" * 100_000 + "[GroupCoordinator", 0),  # 18
    ('{"a":' + "[" * 100_000 + '"[GroupCoordinator"', 0),  # 19: deeper than a reader of JSON goes
    ('["[GroupCoordinator"]', 0),  # 20
]


@pytest.mark.parametrize(("line", "not_understood"), NOTHING)
def test_lines_that_say_nothing(line: str, not_understood: int) -> None:
    reader = LineReader()
    assert reader.parse(line) is None
    assert (reader.recognized, reader.unrecognized) == (0, not_understood)
    assert all(len(example) <= 300 for example in reader.examples)


def test_what_lists_names_may_be_long() -> None:
    names = [f"c-{number}" for number in range(2_000)]
    event = read(new(f"Group g removed dynamic members who haven't joined: [{', '.join(names)}]"))
    assert event.removed_members() == names


def test_groups_may_look_like_the_text_around_them() -> None:
    group = "a group g in state Stable with old generation 3 (reason: x)"
    event = read(new(f"Stabilized group {group} generation 8 with 2 members."))
    assert (event.group, event.generation) == (group, 8)
    # It may as well be of group "a group g", with the rest as the reason.
    preparing = f"Preparing to rebalance group {group} in state PreparingRebalance with old generation 7 (reason: y)."
    reader = LineReader()
    assert reader.parse(new(preparing)) is None
    assert (reader.recognized, reader.unrecognized) == (0, 1)


@pytest.mark.parametrize(
    "text",
    [
        "Preparing to rebalance group " + " in state S with old generation 1 (reason: " * 180,
        "Static member with groupInstanceId=" + " and unknown member id joins group x in S state. " * 160,
        "Assignment received from leader " + " for group x for generation 1. The group has 1 members" * 140,
        "Member MemberMetadata(memberId=" + ", ) has left group x through explicit `LeaveGroup`" * 160,
    ],
)
def test_no_line_takes_long(text: str) -> None:
    began = time.process_time()
    LineReader().parse(new(text[: MAX_LINE_CHARACTERS - 10]))
    assert time.process_time() - began < 1


@pytest.mark.parametrize("end", ["]", "x"])
def test_no_list_takes_long(end: str) -> None:
    began = time.process_time()
    LineReader().parse(new("Group " + " removed dynamic members who haven't joined: [" * 20_000 + end))
    assert time.process_time() - began < 1


def test_any_damage_is_survived() -> None:
    dice = random.Random(5)
    reader = LineReader()
    lines = [line for path in sorted(REAL.iterdir()) for line in path.read_text().splitlines()]
    assert len(lines) == 140
    for _ in range(4_000):
        line = dice.choice(lines)
        cut = dice.randrange(len(line))
        match dice.randrange(4):
            case 0:
                line = line[:cut]
            case 1:
                line = line[cut:]
            case 2:
                line = line[:cut] + chr(dice.randrange(0x250)) + line[cut + 1 :]
            case _:
                line = line[:cut] + dice.choice(lines)
        reader.parse(line)
    assert reader.recognized > 500
    assert reader.unrecognized > 100
    assert len(reader.examples) == 5


@pytest.mark.parametrize(("version", "understood"), [("3.9.2", 56), ("4.3.1", 71)])
def test_real_lines_are_all_understood(version: str, understood: int) -> None:
    reader = LineReader()
    with (REAL / f"{version}.log").open() as lines:
        events = list(reader.parse_all(lines))
    assert (len(events), reader.recognized, reader.unrecognized) == (understood, understood, 0)

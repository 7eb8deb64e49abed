"""The reading of broker logs: 4.x against a capture's truth, 3.x and 4.x forms line by line."""

from __future__ import annotations

import json

import pytest

from tests import SHARED
from tests.harness.rig.brokerlog import parse_line, parse_log
from tests.harness.rig.ledger import Book, read_ledger
from tests.harness.rig.truth import CAPTURE_FIELDS, read_truth

CAPTURE = SHARED / "captures" / "kafka-4.3.1"


def line(text: str, *, seconds: float = 0.0, old: bool = False) -> str:
    time = f"2026-11-21 10:00:{seconds:06.3f}".replace(".", ",")
    if old:
        return f"[{time}] INFO [GroupCoordinator 1]: {text} (kafka.coordinator.group.GroupCoordinator)\n"
    logger = "org.apache.kafka.coordinator.group.GroupMetadataManager"
    return f"[{time}] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=4] {text} ({logger})\n"


@pytest.mark.skipif(not CAPTURE.is_dir(), reason=f"there is no capture in {CAPTURE}")
def test_the_capture_gives_its_truth():
    with (CAPTURE / "coordinator.log").open() as log:
        truth = read_truth(parse_log(log), Book(read_ledger(CAPTURE / "ledger.json")))
    read = [{name: rebalance.form()[name] for name in CAPTURE_FIELDS} for rebalance in truth.rebalances]
    expected = [json.loads(row) for row in (CAPTURE / "truth.ndjson").read_text().splitlines()]
    assert read == expected
    assert [(it.group, it.generation) for it in truth.rebalances if not it.written] == [("audit-deploy", 2)]
    modern = {(it.group, it.cause) for it in truth.departures}
    assert ("fraud-848", "session_timeout") in modern
    assert ("fraud-848", "member_left") in modern


MEMBER = "c-0f7d3a52-6c1e-4a53-9f0b-3f4a8f1f2b11"
PREPARING = "Preparing to rebalance group g in state PreparingRebalance with old generation"
EXPLICIT = f"explicit `LeaveGroup` request for ({MEMBER}) members."
REMOVING = f"Removing member {MEMBER} on LeaveGroup; client reason: not provided"
LEFT = f"[Group g] Member {MEMBER} has left group through explicit `LeaveGroup` request; client reason: not provided"
LEFT_3X = (
    f"Member MemberMetadata(memberId={MEMBER}, groupInstanceId=Some(i), clientId=c, supportedProtocols=List(range, "
    "roundrobin)) has left group g through explicit `LeaveGroup`; client reason: not provided"
)
FENCED = "[GroupId g] Member 9GUHnmnxSTC/x/jqZZUa0A fenced from the group because the member session expired."


@pytest.mark.parametrize(
    ("text", "old", "kind", "fields"),
    [
        # 1: the reason holds parentheses of its own in 4.x, and ends in a full stop.
        (f"{PREPARING} 7 (reason: {EXPLICIT}).", False, "preparing", {"generation": 7, "reason": EXPLICIT}),
        # 2: 3.x names the partition before the reason.
        (f"{PREPARING} 7 (__consumer_offsets-2) (reason: {REMOVING})", True, "preparing", {"reason": REMOVING}),
        # 3, 4
        ("Stabilized group g generation 8 with 2 members.", False, "stabilized", {"generation": 8, "members": 2}),
        ("Stabilized group g generation 8 (__consumer_offsets-2) with 2 members", True, "stabilized", {"members": 2}),
        # 5: 3.x prints a member in full.
        (LEFT_3X, True, "left_late", {"member": MEMBER, "reason": "not provided"}),
        # 6
        (f"Member {MEMBER} in group g has failed, removing it from the group", True, "failed", {"member": MEMBER}),
        # 7: KIP-848, whose member ids are not the broker's
        (
            FENCED,
            False,
            "modern_fenced",
            {"member": "9GUHnmnxSTC/x/jqZZUa0A", "reason": "the member session expired"},
        ),
    ],
)
def test_forms(text, old, kind, fields):
    event = parse_line(line(text, old=old))
    assert event is not None
    assert (event.kind, event.group) == (kind, "g")
    for name, value in fields.items():
        assert getattr(event, name) == value


@pytest.mark.parametrize("text", ["[a-1, b-2]", "Set(a-1, b-2)", "HashSet(a-1, b-2)"])
def test_removed_members(text):
    event = parse_line(line(f"Group g removed dynamic members who haven't joined: {text}"))
    assert event is not None
    assert event.removed_members() == ["a-1", "b-2"]


def test_other_lines_are_skipped():
    assert parse_line("[2026-11-21 10:00:00,000] INFO Kafka version: 4.3.1 (kafka.Kafka)\n") is None
    assert parse_line("\tat java.base/java.lang.Thread.run(Thread.java:840)\n") is None


def test_3x_says_that_a_member_left_after_the_rebalance_that_this_completed():
    unknown = "Dynamic member with unknown member id joins group g in Empty state."
    adding = f"Adding new member {MEMBER} with group instance id None; client reason: not provided"
    log = [
        line(f"{unknown} Created a new member id {MEMBER} and request the member to rejoin with this id.", old=True),
        line(f"{PREPARING} 0 (__consumer_offsets-2) (reason: {adding})", old=True),
        line("Stabilized group g generation 1 (__consumer_offsets-2) with 1 members", seconds=1, old=True),
        line(
            f"Assignment received from leader {MEMBER} for group g for generation 1. The group has 1 members",
            old=True,
        ),
        line(f"{PREPARING} 1 (__consumer_offsets-2) (reason: {REMOVING})", seconds=2, old=True),
        line("Group g with generation 2 is now empty (__consumer_offsets-2)", seconds=2, old=True),
        line(LEFT_3X, seconds=2, old=True),
    ]
    first, second = read_truth(parse_log(log), Book([])).rebalances
    assert (first.cause, first.joined, first.left, first.written) == ("member_joined", [MEMBER], [], True)
    assert (second.cause, second.joined, second.left, second.empty) == ("member_left", [], [MEMBER], True)
    assert second.departures == {MEMBER: "member_left"}


def test_the_ledger_decides_why_a_silent_client_left():
    log = [
        line(LEFT, seconds=20),
        line(f"{PREPARING} 1 (reason: {EXPLICIT}).", seconds=20),
        line("Group g with generation 2 is now empty.", seconds=20),
    ]
    at = parse_line(log[0])
    assert at is not None
    stalled = {"t": at.at_ms - 9000, "what": "poll_exceed", "group": "g", "client": "c"}
    closed = {"t": at.at_ms - 10, "what": "close", "group": "g", "client": "c"}
    for entries, cause in (([stalled], "poll_timeout"), ([stalled, closed], "member_left"), ([], "member_left")):
        (rebalance,) = read_truth(parse_log(log), Book(entries)).rebalances
        assert (rebalance.cause, rebalance.causes, rebalance.departures) == (cause, [cause], {MEMBER: cause})

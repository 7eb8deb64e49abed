"""Names and reasons that read like a line about another group: they say nothing of it."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.brokerlog.lines import LineReader
from agent.core.brokerlog.rebalances import BrokerLog
from agent.core.causes import Cause
from agent.core.inference.external_evidence import RebalanceReport
from tests import examples
from tests.unit.core.brokerlog.test_rebalances import T0, at

FAILED = at(0.1, "Member b-1 in group payments has failed, removing it from the group.")
BEGINS = at(
    0.1,
    "Preparing to rebalance group payments in state PreparingRebalance with old generation 5 "
    "(reason: removing member b-1 on heartbeat expiration.).",
)
ENDS = at(1.5, "Stabilized group payments generation 6 with 1 members.")
LEFT = "Member b-1 has left group through explicit `LeaveGroup` request; client reason: the consumer is being closed"


def told(text: str) -> RebalanceReport:
    broker = BrokerLog()
    broker.apply_all(LineReader().parse_all(text.splitlines()))
    report = broker.rebalance_report("payments", 6, T0 + 1500)
    assert report is not None
    return report


# 1-7: what a stranger brings about in the log.
STRANGERS = [
    at(
        0.8,
        "Preparing to rebalance group payments in state Stable with old generation 5 (reason: leader a-1 re-joining "
        "group during Stable; client reason: need to revoke partitions and re-join in state PreparingRebalance with "
        "old generation 0 (reason: Adding new member e-1 with group instance id null; client reason: not provided).",
    ),  # 1: a group's name that begins like this
    at(
        0.1,
        f"[Group payments] {LEFT}] Member e-1 has left group through explicit `LeaveGroup` request; "
        "client reason: not provided",
    ),  # 2
    at(0.9, "The following groups were deleted: x, payments. A total of 0 offsets were removed."),  # 3: one group
    at(
        0.1,
        "[GroupId payments] Member b-1 fenced from the group because the member session expired] Member e-1 updated "
        "its subscribed topics to: [t].",
    ),  # 4: the form of the line is not among those that are read
    at(
        0.2,
        "Group payments removed dynamic members who haven't joined: [b-1 removed members who haven't sent their sync "
        "requests: [e-1]",
    ),  # 5: the same
    "[2026-11-21 10:00:00,100] INFO [TransactionCoordinator id=1] Initialized transactionalId [GroupCoordinator 1]: "
    f"[Group payments] {LEFT} with producerId 5 and producer epoch 0 on partition __transaction_state-3 "
    "(kafka.coordinator.transaction.TransactionCoordinator)\n",  # 6: another's line
    json.dumps(
        {
            "@timestamp": "2026-11-21T10:00:00.100Z",
            "message": f"Principal = User:x is Denied Operation = Read on resource = Group:LITERAL:"
            f"[GroupCoordinator 1]: [Group payments] {LEFT} for request = JoinGroup",
        }
    )
    + "\n",  # 7: the same, in JSON
]


@pytest.mark.parametrize("line", STRANGERS)
def test_what_a_stranger_writes_changes_nothing(line: str) -> None:
    undisturbed = told(FAILED + BEGINS + ENDS)
    assert (undisturbed.cause, undisturbed.departures["b-1"].cause) == (Cause.SESSION_TIMEOUT, Cause.SESSION_TIMEOUT)
    assert told(line + FAILED + BEGINS + ENDS) == undisturbed
    assert told(FAILED + BEGINS + line + ENDS) == undisturbed


# 1-3: members whose ids read like a reason: what it is, or that it is not known.
MEMBERS = [
    ("removing member Adding new member-1 on heartbeat expiration.", Cause.SESSION_TIMEOUT),  # 1
    ("removing member b-1 on LeaveGroup; client reason: being closed-1 on heartbeat expiration.", None),  # 2
    ("Removing member b-1 on LeaveGroup; client reason: x-1 on LeaveGroup; client reason: being closed", None),  # 3
]


@pytest.mark.parametrize(("reason", "cause"), MEMBERS)
def test_members_that_read_like_a_reason(reason: str, cause: Cause | None) -> None:
    begins = at(
        0.1,
        f"Preparing to rebalance group payments in state PreparingRebalance with old generation 5 (reason: {reason})",
    )
    report = told(begins + ENDS)
    assert (report.cause, report.departures) == (cause, {})


# What coordinators write, read here or not: G is a group, M a member, I an instance, R a reason.
WRITTEN = [
    "Preparing to rebalance group G in state PreparingRebalance with old generation 5 (reason: R).",
    "Preparing to rebalance group G in state Stable with old generation 5 (__consumer_offsets-4) (reason: R)",
    "Stabilized group G generation 6 with 1 members.",
    "Stabilized group G generation 6 (__consumer_offsets-4) with 1 members",
    "Group G with generation 6 is now empty.",
    "Group G with generation 6 is now empty (__consumer_offsets-4)",
    "Group G removed dynamic members who haven't joined: [M]",
    "Group G removed dynamic members who haven't joined: Set(M)",
    "Group G removed members who haven't sent their sync requests: [M]",
    "Group G removed members who haven't sent their sync request: Set(M)",
    "Group G transitioned to Dead in generation 6",
    "Group G could not complete rebalance because no members rejoined.",
    "Assignment received from leader M for group G for generation 6. The group has 2 members, 0 of which are static.",
    "Assignment received from leader for group G for generation 6. The group has 2 members, 0 of which are static.",
    "Pending dynamic member with id M joins group G in Stable state. Adding to the group now.",
    "Dynamic member with unknown member id joins group G in Stable state. Created a new member id M and request the "
    "member to rejoin with this id.",
    "Dynamic member with unknown member id joins group G in state Stable. Created a new member id M and added the "
    "member to the group.",
    "Dynamic Member with unknown member id joins group G in Stable state. Created a new member id M for this member "
    "and add to the group.",
    "Static member with groupInstanceId=I and unknown member id joins group G in Stable state. Created a new member "
    "id M for this member and added to the group.",
    "Static member with groupInstanceId=I and unknown member id joins group G in Stable state. Replacing previously "
    "mapped member M with this groupInstanceId.",
    "Pending member M in group G has been removed after session timeout expiration.",
    "Pending member with memberId=M has left group G through explicit `LeaveGroup` request",
    "[Group G] Pending member M has left group through explicit `LeaveGroup` request; client reason: R",
    "[Group G] Member M has left group through explicit `LeaveGroup` request; client reason: R",
    "Member MemberMetadata(memberId=M, groupInstanceId=Some(I), clientId=I, supportedProtocols=List(R)) has left "
    "group G through explicit `LeaveGroup`; client reason: R",
    "Member M in group G has failed, removing it from the group.",
    "[GroupId G] Bumped group epoch to 4 with metadata hash 7.",
    "[GroupId G][MemberId M] Bumped streams group epoch to 4 with metadata hash 7 and validated topic epoch 1.",
    "[GroupId G] Static member M with instance id I temporarily left the consumer group.",
    "[GroupId G] Static member M with instance id I left the consumer group.",
    "[GroupId G][MemberId M] Static member M with instance id I left the streams group.",
    "[GroupId G] Member M left the share group.",
    "[GroupId G][MemberId M] Member M left the streams group.",
    "[GroupId G] Dynamic member M has left group through explicit `LeaveGroup` request; client reason: R",
    "[GroupId G] Static member M with instance id I has left group through explicit `LeaveGroup` request; client "
    "reason: R",
    "[GroupId G] Member M fenced from the group because the member session expired.",
    "[GroupId G] Streams member M fenced from the group because the member session expired.",
    "[GroupId G] Member M updated its subscribed regex to: R.",
    "[GroupId G] Member M joins the consumer group using the consumer protocol.",
    "[GroupId G] Static member M with instance id I joins the consumer group using the consumer protocol.",
    "[GroupId G] Static member M with instance id I cannot join the group because the instance id is owned by "
    "member M.",
    "[GroupId G] Static member M with instance id I is fenced by existing member M.",
    "[GroupId G][MemberId M] Member updated its member metadata to R.",
    "[GroupId G][MemberId M] Static member with instance id I re-joins the streams group using the streams protocol. "
    "Created a new member M to replace the existing member M.",
    "[GroupId G] Committing offsets R for partition I-0 from member M with leader epoch 1.",
    "Unloading group metadata for G with generation 4",
    "[GroupId=G] Unloading group metadata for generation 4.",
    "[GroupId=G] Unloaded group metadata for group epoch 4.",
]
FIELD = re.compile(r"\b[GMIR]\b")
VICTIM = {"G": "payments", "M": "b-1", "I": "i", "R": "being closed"}
PIECES = sorted({piece for line in WRITTEN for piece in FIELD.split(line) if piece}) + list(VICTIM.values())


def filled(line: str, fields: dict[str, str]) -> str:
    return FIELD.sub(lambda name: fields[name[0]], line)


LINES = st.sampled_from(WRITTEN)
# What makes a line that begins as the true one does a line about the victim.
FROM_FIELD = LINES.map(lambda line: filled(re.sub(r".*?(?=\b[GMI]\b)", "", line, count=1), VICTIM))
PARTS = st.one_of(st.sampled_from(PIECES), FROM_FIELD)
TEXTS = st.one_of(st.just("x"), st.lists(PARTS, min_size=1, max_size=4).map("".join))


@settings(max_examples=examples(1500), deadline=None)
@given(LINES, TEXTS, TEXTS, TEXTS, TEXTS)
def test_no_line_is_about_another_group(line: str, group: str, member: str, instance: str, reason: str) -> None:
    fields = {"G": group, "M": member, "I": instance, "R": reason}
    event = LineReader().parse(at(1, filled(line, fields)))
    if event is not None:
        assert event.group == group
        assert event.member in ("", member)

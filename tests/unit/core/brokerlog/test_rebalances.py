"""From lines to what is told of each rebalance: real logs of both coordinators, then what they rarely hold."""

from __future__ import annotations

import pytest

from agent.core.brokerlog import rebalances
from agent.core.brokerlog.lines import LineReader
from agent.core.brokerlog.rebalances import BrokerLog
from agent.core.causes import Cause
from agent.core.inference.external_evidence import RebalanceReport
from tests.unit.core.brokerlog.test_lines import REAL

J, L, S, P, A, R = (
    Cause.MEMBER_JOINED,
    Cause.MEMBER_LEFT,
    Cause.SESSION_TIMEOUT,
    Cause.POLL_TIMEOUT,
    Cause.ADMIN_REMOVED,
    Cause.REJOIN_TIMEOUT,
)

# Group, generation → how long the join phase took, what set it off, all causes, the member that left first, and how
# members (by the end of their ids) went.
OLD = {
    ("ads-java-2784", 1): (15, J, (J,), None, {}),
    ("ads-java-2784", 2): (2053, J, (J,), None, {}),
    ("ads-java-2784", 3): (1942, S, (S,), None, {"1732": S}),
    # The second left while the group waited, and its line follows the end that it brought about.
    ("ads-java-2784", 4): (2370, L, (L,), "8e26", {"8e26": L, "359a": L}),
    ("cart-removed_by_admin-5fb3", 3): (1018, A, (A, J), "8720", {"8720": A}),
    ("cart-removed_by_admin-5fb3", 4): (3, S, (S,), None, {"ffc4": S, "fd03": S, "4fd4": S}),
    # librdkafka gives no reason, be it that it stalled or that it closed.
    ("billing-stall-8fbb", 3): (977, None, (), "46eb", {"46eb": None}),
    ("billing-stall-8fbb", 4): (135, J, (J,), None, {}),
    ("billing-stall-8fbb", 5): (0, None, (), "8293", {"8293": None, "00d1": None}),
}
NEW = {
    ("pricing-java-acf5", 1): (1, J, (J,), None, {}),
    ("pricing-java-acf5", 3): (994, S, (S,), None, {"d4d5": S}),
    ("pricing-java-acf5", 4): (697, L, (L,), "b203", {"b203": L}),
    ("pricing-removed_by_admin-0724", 3): (2058, A, (A, J), "59ec", {"59ec": A}),
    ("pricing-removed_by_admin-0724", 4): (8006, S, (S,), None, {"7e23": S, "e599": S, "68f5": S}),
    ("stock-stall-3a88", 3): (2600, None, (), "47ee", {"47ee": None}),
    ("stock-stall-3a88", 5): (807, None, (), "d99f", {"d99f": None, "1022": None}),
}


def log_of(text: str) -> BrokerLog:
    broker = BrokerLog()
    broker.apply_all(LineReader().parse_all(text.splitlines()))
    return broker


def ends(text: str) -> dict[tuple[str, int], int]:
    """When each join phase ended."""
    events = LineReader().parse_all(text.splitlines())
    return {(it.group, it.generation): it.at_ms for it in events if it.kind in ("stabilized", "empty")}


@pytest.mark.parametrize(("version", "expected"), [("3.9.2", OLD), ("4.3.1", NEW)])
def test_real_logs(version, expected) -> None:
    text = (REAL / f"{version}.log").read_text()
    broker, ended = log_of(text), ends(text)
    for (group, generation), (join_ms, cause, causes, first, gone) in expected.items():
        at_ms = ended[group, generation]
        told = broker.rebalance_report(group, generation, at_ms + 3)
        assert told is not None, (group, generation)
        assert told.source == "broker_log"
        assert told.began_ms == told.triggered_ms == at_ms - join_ms
        assert (told.cause, set(told.causes)) == (cause, set(causes))
        assert (told.first_to_leave and told.first_to_leave[-4:]) == first
        assert {member[-4:]: it.cause for member, it in told.departures.items()} == gone
        assert told.quote
        assert all(it.quote and told.began_ms - 1 <= it.at_ms <= at_ms for it in told.departures.values())
    assert broker.answered == len(expected)


def test_members_of_the_other_protocols_go_by_themselves() -> None:
    broker = log_of((REAL / "4.3.1.log").read_text())
    group, epoch_5_ms = "cart-848_static-5b73", 1_795_256_931_553
    told = broker.rebalance_report(group, 5, epoch_5_ms + 2)
    assert told is not None
    assert (told.began_ms, told.cause) == (None, None)
    gone = {"nUxsnUiCT02MmQ4NTsUw2Q": S, "rgf9QRTTS2qC0zhjXxD0wQ": S, "Tni/rDJeRWqIrEoyoDp7Mw": S}
    assert {member: it.cause for member, it in told.departures.items()}.items() <= gone.items()
    assert (
        told.departures["nUxsnUiCT02MmQ4NTsUw2Q"].quote == "fenced from the group because the member session expired"
    )
    # Long before and long after, nobody went.
    assert broker.rebalance_report(group, 4, epoch_5_ms - 20_000) is None
    assert broker.rebalance_report(group, 9, epoch_5_ms + 60_000) is None


# What real logs of the rig do not hold.


def at(seconds: float, text: str) -> str:
    whole, parts = divmod(round(seconds * 1000), 1000)
    minutes, whole = divmod(whole, 60)
    time = f"2026-11-21 10:{minutes:02}:{whole:02},{parts:03}"
    return f"[{time}] INFO [GroupCoordinator 1]: {text} (kafka.coordinator.group.X)\n"


T0 = 1_795_255_200_000
PREPARING = "Preparing to rebalance group g in state PreparingRebalance with old generation"
EXPLICIT = "explicit `LeaveGroup` request for (m-1, m-2) members."


def preparing(seconds: float, generation: int, reason: str) -> str:
    return at(seconds, f"{PREPARING} {generation} (reason: {reason}).")


def stabilized(seconds: float, generation: int, *, assigned: bool = True) -> str:
    text = at(seconds, f"Stabilized group g generation {generation} with 2 members.")
    received = f"Assignment received from leader m-1 for group g for generation {generation}. The group has 2 members"
    return text + at(seconds + 0.01, received) * assigned


def asked(text: str, generation: int, seconds: float) -> RebalanceReport:
    told = log_of(text).rebalance_report("g", generation, T0 + round(seconds * 1000))
    assert told is not None
    return told


CLIENT = "client reason:"
# 1-18: the reason as it stands there, what set it off, and what it stands for if the topic shows nothing.
REASONS = [
    ("Adding new member m-1 with group instance id null; client reason: rebalance failed", J, None),  # 1
    ("Adding new member m-1 with group instanceid None", J, None),  # 2: Kafka 2.x
    ("removing member m-1 on heartbeat expiration", S, None),  # 3
    ("Downgrade group g from consumer to classic for member leaving", Cause.PROTOCOL_MIGRATED, None),  # 4
    (
        "Group's selectedProtocol will change because static member m-1 with instance id i joined with …",
        Cause.SUBSCRIPTION_CHANGED,
        None,
    ),  # 5
    (f"Leader m-1 re-joining group during Stable; {CLIENT} not provided", None, Cause.LEADER_REJOINED),  # 6
    ("leader m-1 re-joining group during Stable", None, Cause.LEADER_REJOINED),  # 7: Kafka 2.x
    (
        f"Updating metadata for member m-1 during Stable; {CLIENT} not provided",
        None,
        Cause.SUBSCRIPTION_CHANGED,
    ),  # 8
    (
        f"Updating metadata for static member m-1 with instance id i; {CLIENT} x",
        None,
        Cause.SUBSCRIPTION_CHANGED,
    ),  # 9
    (
        f"Leader m-1 re-joining group during Stable; {CLIENT} cached metadata has changed (old: …)",
        Cause.PARTITIONS_CHANGED,
        Cause.LEADER_REJOINED,
    ),  # 10
    (
        f"Leader m-1 re-joining group during Stable; {CLIENT} need to revoke partitions and re-join",
        Cause.COOPERATIVE_FOLLOWUP,
        Cause.LEADER_REJOINED,
    ),  # 11
    (
        f"Updating metadata for member m-1 during Stable; {CLIENT} subscription has changed from [a] to [b]",
        Cause.SUBSCRIPTION_CHANGED,
        Cause.SUBSCRIPTION_CHANGED,
    ),  # 12
    (
        f"Leader m-1 re-joining group during Stable; {CLIENT} rebalance enforced by user",
        Cause.LEADER_REJOINED,
        Cause.LEADER_REJOINED,
    ),  # 13
    (
        f"Leader m-1 re-joining group during Stable; {CLIENT} triggered followup rebalance scheduled for 0",
        Cause.COOPERATIVE_FOLLOWUP,
        Cause.LEADER_REJOINED,
    ),  # 14: Kafka Streams
    ("Freshly-loaded group g (size 3) is over capacity 2", None, None),  # 15: no cause of the contract
    (f"Removing member m-1 on LeaveGroup; {CLIENT} the consumer is being closed", L, None),  # 16
    (f"Removing member m-1 on LeaveGroup; {CLIENT} consumer poll timeout has expired.", P, None),  # 17
    ("removing member m-1 on LeaveGroup", None, None),  # 18: Kafka 2.x
]


@pytest.mark.parametrize(("reason", "cause", "rejoined"), REASONS)
def test_reasons(reason, cause, rejoined) -> None:
    told = asked(preparing(1, 3, reason) + stabilized(2, 4), 4, 2)
    assert (told.cause, told.rejoin_cause, told.quote) == (cause, rejoined, reason)
    assert (told.began_ms, told.causes) == (T0 + 1000, () if cause is None else (cause,))


@pytest.mark.parametrize("names", ["[m-1, m-2]", "Set(m-1, m-2)", "HashSet(m-1, m-2)"])
def test_members_that_did_not_sync_in_time(names: str) -> None:
    told = asked(preparing(1, 3, f"Removing {names} on pending sync request expiration") + stabilized(2, 4), 4, 2)
    assert (told.cause, {name: it.cause for name, it in told.departures.items()}) == (R, {"m-1": R, "m-2": R})


def test_members_that_did_not_rejoin_in_time() -> None:
    """And that a member's own word is not forgotten for it."""
    left = at(
        1.5, "[Group g] Member m-2 has left group through explicit `LeaveGroup` request; client reason: being closed"
    )
    removed = at(2, "Group g removed dynamic members who haven't joined: Set(m-1, m-2)")
    told = asked(preparing(1, 3, "Adding new member m-3 with") + left + removed + stabilized(2, 4), 4, 2)
    assert (told.cause, set(told.causes)) == (J, {J, L, R})
    assert {name: it.cause for name, it in told.departures.items()} == {"m-1": R, "m-2": L}


def test_4x_names_who_left_before_and_in_the_reason() -> None:
    left = at(
        1, "[Group g] Member m-9 has left group through explicit `LeaveGroup` request; client reason: not provided"
    )
    by_instance = preparing(1, 3, "explicit `LeaveGroup` request for () members.")
    assert asked(left + by_instance + stabilized(2, 4), 4, 2).first_to_leave == "m-9"
    # The log may begin in between.
    told = asked(preparing(1, 3, EXPLICIT) + stabilized(2, 4), 4, 2)
    assert (told.first_to_leave, told.cause, told.departures) == ("m-1", None, {})


NOT_PROVIDED = "client reason: not provided"
UNKNOWN_ID = "Dynamic member with unknown member id joins group g in Stable state."
# 1-4: how each version says that a member comes, and how it goes.
COMINGS = [
    (
        f"{UNKNOWN_ID} Created a new member id m-1 and request the member to rejoin with this id.",
        preparing(30, 4, f"Removing member m-1 on LeaveGroup; {NOT_PROVIDED}"),
    ),  # 1: its line in full follows, and adds nothing
    (
        "Pending dynamic member with id m-1 joins group g in Stable state. Adding to the group now.",
        at(30, f"[Group g] Member m-1 has left group through explicit `LeaveGroup` request; {NOT_PROVIDED}"),
    ),  # 2
    (
        "Static member with groupInstanceId=i and unknown member id joins group g in Stable state. "
        "Created a new member id m-1 for this member and added to the group.",
        at(30, f"[Group g] Member m-1 has left group through explicit `LeaveGroup` request; {NOT_PROVIDED}"),
    ),  # 3
]
LATE = at(
    30,
    "Member MemberMetadata(memberId=m-1, groupInstanceId=None, x) has left group g through explicit `LeaveGroup`; "
    f"{NOT_PROVIDED}",
)


@pytest.mark.parametrize(("comes", "goes"), COMINGS)
def test_when_a_member_that_goes_had_come(comes: str, goes: str) -> None:
    text = at(1, comes) + preparing(1, 3, "Adding new member m-1 with") + stabilized(2, 4)
    told = asked(text + goes + stabilized(31, 5) + LATE, 5, 31)
    assert told.departures["m-1"].joined_ms == T0 + 1000
    gone = at(2, "Pending member m-1 in group g has been removed after session timeout expiration.")
    told = asked(text + gone + goes + stabilized(31, 5) + LATE, 5, 31)
    assert told.departures["m-1"].joined_ms is None


def test_a_reason_that_comes_later_is_taken() -> None:
    left = at(0.5, f"[Group g] Member m-1 has left group through explicit `LeaveGroup` request; {NOT_PROVIDED}")
    removing = preparing(1, 3, "Removing member m-1 on LeaveGroup; client reason: the consumer is being closed")
    assert asked(left + removing + stabilized(2, 4), 4, 2).departures["m-1"].cause is L


def test_a_member_that_comes_back_under_its_id_goes_twice() -> None:
    text = at(1, "[GroupId g] Member m-1 fenced from the group because the member session expired.")
    text += at(30, "[GroupId g] Member m-1 left the consumer group.")
    assert asked(text, 4, 1).departures["m-1"].cause is S
    assert asked(text, 9, 30).departures["m-1"].cause is None


def test_a_generation_that_was_never_written_is_told_with_the_next() -> None:
    text = preparing(1, 3, "Adding new member m-3 with") + stabilized(2, 4)
    text += at(8, "Member m-2 in group g has failed, removing it from the group")
    text += preparing(8, 4, "removing member m-2 on heartbeat expiration") + stabilized(9, 5, assigned=False)
    text += preparing(9.5, 5, "Adding new member m-4 with") + stabilized(10, 6, assigned=False)
    text += preparing(10.5, 6, "Adding new member m-5 with") + stabilized(11, 7)
    told = asked(text, 7, 11)
    assert (told.cause, set(told.causes), told.departures["m-2"].cause) == (S, {S, J}, S)
    assert (told.triggered_ms, told.began_ms, told.previous_began_ms) == (T0 + 8000, T0 + 10_500, T0 + 1000)
    assert told.quote == "removing member m-2 on heartbeat expiration"
    # What came before it was written.
    assert asked(text, 4, 2).causes == (J,)


def test_a_pending_member_joins_if_it_is_not_gone() -> None:
    pending = "Dynamic member with unknown member id joins group g in Stable state. Created a new member id m-3 and "
    pending += "request the member to rejoin with this id."
    gone = "Pending member m-3 in group g has been removed after session timeout expiration."
    begin = preparing(1, 3, "removing member m-1 on heartbeat expiration")
    assert set(asked(at(0.5, pending) + begin + stabilized(2, 4), 4, 2).causes) == {S, J}
    assert asked(at(0.5, pending) + begin + at(1.5, gone) + stabilized(2, 4), 4, 2).causes == (S,)


def test_a_group_that_was_deleted_begins_again() -> None:
    first = preparing(1, 0, "Adding new member m-1 with") + stabilized(2, 1)
    deleted = at(5, "The following groups were deleted: g, h. A total of 3 offsets were removed.")
    again = preparing(60, 0, "Adding new member m-2 with") + stabilized(61, 1)
    broker = log_of(first + deleted + again)
    for end in (2, 61):
        told = broker.rebalance_report("g", 1, T0 + end * 1000)
        assert told is not None
        assert (told.began_ms, told.previous_began_ms) == (T0 + (end - 1) * 1000, None)
    assert not broker.time_offsets
    # Groups also expire, of which the log need not hold a line.
    assert asked(first + again, 1, 61).previous_began_ms is None


def test_what_another_broker_goes_on_with_does_not_end_here() -> None:
    text = preparing(1, 3, "Adding new member m-1 with")
    text += at(2, "Unloading group metadata for g with generation 3") + at(
        2, "Unloading group metadata for h with generation 3"
    )
    text += stabilized(30, 9)
    told = asked(text, 9, 30)
    assert (told.began_ms, told.cause, told.causes) == (None, None, ())


def test_times_that_do_not_fit_are_no_answer() -> None:
    broker = log_of(preparing(1, 3, "Adding new member m-1 with") + stabilized(2, 4))
    hours = 2 * 3_600_000
    assert broker.rebalance_report("g", 4, T0 + 2000 + hours + 800) is None
    assert broker.rebalance_report("g", 4, T0 + 2000 - hours) is None
    assert broker.time_offsets == {8: 1, -8: 1}
    # No zone is so far away; no zone is off by minutes.
    assert broker.rebalance_report("g", 4, T0 + 20 * hours) is None
    assert broker.rebalance_report("g", 4, T0 + 400_000) is None
    assert broker.time_offsets.total() == 2
    # Groups and generations that are not in the log.
    assert broker.rebalance_report("h", 4, T0 + 2000) is None
    assert broker.rebalance_report("g", 5, T0 + 2000) is None
    assert broker.answered == 0


def test_a_log_that_begins_in_the_middle() -> None:
    """An assignment of a rebalance that it does not hold, and what changes no membership."""
    replaced = "Static member with groupInstanceId=i and unknown member id joins group g in Stable state. "
    replaced += "Replacing previously mapped member m-1 with this groupInstanceId."
    text = at(1, "Assignment received from leader m-1 for group g for generation 3. The group has 2 members")
    told = asked(text + at(1.5, replaced) + stabilized(2, 4), 4, 2)
    assert told == RebalanceReport("broker_log")


def test_what_is_awaited() -> None:
    broker = log_of(preparing(1, 3, "Adding new member m-1 with") + stabilized(2, 4))
    assert [broker.expects_generation("g", generation) for generation in (4, 5, 6)] == [False, True, False]
    assert not broker.expects_generation("h", 5)


GONE_848 = "[GroupId g] Member m-1 fenced from the group because "
# 1-5: what is said of a member of the newer protocols, and what it means.
FENCED = [
    (GONE_848 + "the member session expired.", S),  # 1
    (GONE_848 + "it failed to transition from epoch 3 within 45000ms.", R),  # 2
    (GONE_848 + "the classic member failed to join within the rebalance timeout.", R),  # 3
    (GONE_848 + "the member failed to sync within timeout.", R),  # 4
    ("[GroupId g] Member m-1 left the consumer group.", None),  # 5
    (
        "[GroupId g] Dynamic member m-1 has left group through explicit `LeaveGroup` request; "
        "client reason: the consumer is being closed",
        L,
    ),  # 6
]


@pytest.mark.parametrize(("text", "cause"), FENCED)
def test_how_members_of_the_newer_protocols_go(text, cause) -> None:
    told = asked(at(1, text) + at(1, "[GroupId g] Bumped group epoch to 4 with metadata hash 7."), 4, 1)
    assert {name: (it.cause, it.at_ms) for name, it in told.departures.items()} == {"m-1": (cause, T0 + 1000)}


def test_who_goes_after_the_epoch_is_not_in_it() -> None:
    text = at(1, "[GroupId g] Member m-1 left the consumer group.")
    text += at(2, "[GroupId g] Static member m-2 with instance id i temporarily left the consumer group.")
    text += at(9, "[GroupId g] Member m-3 left the consumer group.")
    assert asked(text, 4, 1).departures.keys() == {"m-1"}


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalances, "KEPT_REBALANCES", 3)
    monkeypatch.setattr(rebalances, "KEPT_MEMBERS", 2)
    monkeypatch.setattr(rebalances, "KEPT_GROUPS", 2)
    text = ""
    for generation in range(1, 6):
        text += preparing(generation, generation, "Adding new member m with") + stabilized(generation, generation)
    broker = log_of(text)
    assert [broker.rebalance_report("g", it, T0 + it * 1000) is not None for it in range(1, 6)] == [
        False,
        False,
        True,
        True,
        True,
    ]

    made_anew = preparing(1, 0, "Adding new member m with") + stabilized(1, 1)
    made_anew += at(1.5, "The following groups were deleted: g. A total of 3 offsets were removed.")
    made_anew += preparing(20, 0, "Adding new member m with") + stabilized(20, 1)
    made_anew += stabilized(21, 2) + stabilized(22, 3)
    assert log_of(made_anew).rebalance_report("g", 1, T0 + 1000) is None
    assert log_of(made_anew).rebalance_report("g", 1, T0 + 20_000) is not None

    many = [f"m-{number}" for number in range(9)]
    pending = (
        "Dynamic member with unknown member id joins group g in Stable state. Created a new member id {} and request"
    )
    text = "".join(at(0.5, f"{pending.format(name)} the member to rejoin with this id.") for name in many)
    joins = "Pending dynamic member with id {} joins group g in Stable state. Adding to the group now."
    text += "".join(at(0.5, joins.format(name)) for name in many)
    text += preparing(1, 3, f"Removing member {many[0]} on LeaveGroup; client reason: {'x' * 900}")
    text += at(1, f"Group g removed dynamic members who haven't joined: {many}")
    text += preparing(1, 3, "Removing member m-8 on LeaveGroup; client reason: being closed")
    text += "".join(at(1, f"[GroupId g] Member {name} left the consumer group.") for name in many)
    told = asked(text + stabilized(2, 4), 4, 2)
    assert len(told.departures) == 4
    assert (told.first_to_leave, told.cause) == ("m-8", L)
    assert max(len(it.quote) for it in told.departures.values()) <= 300

    groups = [at(1, f"Member m-1 in group {name} has failed, removing it from the group") for name in "abcd"]
    assert len(log_of("".join(groups))._groups) == 2


def test_departures_from_groups_of_the_newer_protocols_are_bounded_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalances, "KEPT_REBALANCES", 6)
    monkeypatch.setattr(rebalances, "KEPT_MEMBERS", 3)
    left = "[GroupId {}] Member m-{} left the consumer group."
    text = "".join(at(it, left.format(group, it)) for group in "abc" for it in range(4))
    broker = log_of(text + at(5, left.format("d", 5)))
    kept = {group: list(dict(broker._groups[group].modern)) for group in "abcd"}
    assert kept == {"a": [], "b": ["m-2", "m-3"], "c": ["m-1", "m-2", "m-3"], "d": ["m-5"]}


def test_names_of_members_that_went_are_bounded_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line may list as many as there are, each as long as clients like."""
    monkeypatch.setattr(rebalances, "KEPT_CHARACTERS", 2_500)
    text = ""
    for generation in range(1, 9):
        text += preparing(generation, generation, "Adding new member m with")
        text += at(generation, f"Group g removed dynamic members who haven't joined: [{'x' * 999}{generation}]")
        text += stabilized(generation, generation)
    broker = log_of(text)
    told = [broker.rebalance_report("g", it, T0 + it * 1000) is not None for it in range(1, 9)]
    assert told == [False] * 5 + [True] * 3, "the last is not counted yet"
    for name in ("x" * 1_000, "x" * 1_001):
        failed = at(1, f"Member {name} in group g has failed, removing it from the group")
        assert len(log_of(failed)._groups) == (len(name) <= 1_000)

"""A partition that another leader takes over, which begins its groups' sessions anew."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from agent.core.inference.external_evidence import KnownSessions
from agent.core.inference.facts import CoordinatorChange
from agent.core.inference.session_settings import SessionSetting
from agent.core.records import RecordBatch
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.transitions import MemberLeft, Transition
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import GROUP, Log, run_of

AWAY_MS, SESSION_MS, POLL_MS = 20_000, 6_000, 12_000
"""How long the group has no coordinator; its members' limits."""


def consumers(log: Log) -> None:
    for number, member_id in enumerate(("a-1", "b-1")):
        log.add(b.c_member(member_id, rebalance_ms=POLL_MS), b.c_epoch(number + 2))
        log.add(b.c_target(member_id, {"t": [number]}), b.c_target_epoch(number + 2))
        log.add(b.c_current(member_id, number + 2, {"t": [number]}))


def without_a_consumer(log: Log) -> None:
    log.add(*(b.tombstone(it, "a-1") for it in (8, 7, 5)), b.c_epoch(4), after_ms=SESSION_MS - 1_000)


def classic_members(log: Log) -> None:
    a, c = (b.member(f"{it}-1", {"t": [n]}, session_ms=SESSION_MS, rebalance_ms=POLL_MS) for n, it in enumerate("ab"))
    log.add(b.classic_group(1, a, c, state_ms=log.now_ms + 1_000))


def without_a_classic_member(log: Log) -> None:
    left = b.member("b-1", {"t": [0, 1]}, session_ms=SESSION_MS, rebalance_ms=POLL_MS)
    log.add(b.classic_group(2, left, state_ms=log.now_ms + SESSION_MS), after_ms=SESSION_MS)


def both_commit(log: Log, *partitions: int, after_ms: int = 1_000) -> None:
    at_ms = log.now_ms + after_ms
    log.add(
        *(b.commit("t", it, at_ms=at_ms, id_of_topic=b.topic_id("t"), version=4) for it in partitions),
        after_ms=after_ms,
    )


def history(kind: str, *, is_lone: bool) -> tuple[Log, int]:
    """`a-1` dies while the coordinator is away, `b-1` works on or is as silent; how many records come before that."""
    log = Log()
    consumers(log) if kind == "consumer" else classic_members(log)
    for _ in range(20):
        both_commit(log, 0, 1)
    before = len(log.records)
    if is_lone:
        log.now_ms += AWAY_MS + 1_000
    else:
        both_commit(log, 1, after_ms=AWAY_MS)
        both_commit(log, 1)
    without_a_consumer(log) if kind == "consumer" else without_a_classic_member(log)
    return log, before


def replayed(runs: list[RecordBatch]) -> tuple[PartitionMirror, list[Transition]]:
    mirror = PartitionMirror(7, KnownSessions({"consumer": SessionSetting(SESSION_MS, 1_500)}))
    return mirror, [it for run in runs for it in mirror.replay_batch(run)]


def departure(log: Log, epochs: list[int]) -> MemberLeft:
    _, transitions = replayed([replace(run_of(log.records), leader_epochs=epochs)])
    (left,) = (it for it in transitions if isinstance(it, MemberLeft))
    return left


@pytest.mark.parametrize("kind", ["consumer", "classic"])
@pytest.mark.parametrize("is_lone", [False, True], ids=["with others", "lone"])
def test_a_session_that_was_begun_anew_is_no_poll_timeout(kind: str, *, is_lone: bool) -> None:
    log, before = history(kind, is_lone=is_lone)
    told = departure(log, [0] * before + [2] * (len(log.records) - before)).inferred
    assert told is not None
    assert told.evidence["coordinator_changed"] is True
    assert told.cause in ("session_timeout", "unknown_departure")
    assert "session_timeout" in (told.cause, *told.evidence.get("candidates", ()))


@pytest.mark.parametrize("behind_ms", [0, 2_000, 3_000])
def test_a_session_that_was_begun_anew_by_a_clock_that_is_behind(behind_ms: int) -> None:
    """`a-1` dies with its coordinator; the next comes a second later, by its own clock before the last commit."""
    log = Log()
    classic_members(log)
    for _ in range(20):
        both_commit(log, 0, 1)
    before = len(log.records)
    log.now_ms -= behind_ms
    for after_ms in (*[1_000] * (SESSION_MS // 1_000), 1_400):
        both_commit(log, 1, after_ms=after_ms)
    log.now_ms -= SESSION_MS
    without_a_classic_member(log)
    told = departure(log, [0] * before + [2] * (len(log.records) - before)).inferred
    assert told is not None
    assert (told.cause, told.evidence["coordinator_changed"]) == ("session_timeout", True)


def test_a_poll_limit_that_ran_out_without_a_coordinator_is_told_to_the_next() -> None:
    """Its client says goodbye as soon as there is one; or its session was begun anew, and has run out."""
    log = Log()
    classic_members(log)
    for _ in range(20):
        both_commit(log, 0, 1)
    before = len(log.records)
    log.now_ms += AWAY_MS - SESSION_MS
    without_a_classic_member(log)
    told = departure(log, [0] * before + [2] * (len(log.records) - before)).inferred
    assert told is not None
    assert told.evidence["candidates"] == ["poll_timeout", "session_timeout"]


@pytest.mark.parametrize("epochs", [(0, 0), (-1, -1), (-1, 2)])
def test_without_another_leader_it_is_the_poll_loop(epochs: tuple[int, int]) -> None:
    log, before = history("consumer", is_lone=False)
    told = departure(log, [epochs[0]] * before + [epochs[1]] * (len(log.records) - before)).inferred
    assert told is not None
    assert (told.cause, "coordinator_changed" in told.evidence) == ("poll_timeout", False)


def test_a_coordinator_that_came_long_before_begins_nothing_anew() -> None:
    log, before = history("consumer", is_lone=False)
    told = departure(log, [0] * (before - 10) + [2] * (len(log.records) - before + 10)).inferred
    assert told is not None
    assert (told.cause, "coordinator_changed" in told.evidence) == ("poll_timeout", False)


def test_it_is_noted_alike_wherever_batches_are_cut() -> None:
    log, before = history("consumer", is_lone=False)
    whole = replace(run_of(log.records), leader_epochs=[0] * before + [2] * (len(log.records) - before))
    expected, transitions = replayed([whole])
    last_ms, first_ms = (log.records[it].timestamp_ms for it in (before - 1, before))
    assert expected.coordinator_change == CoordinatorChange(last_ms, first_ms)
    assert first_ms - last_ms == AWAY_MS
    for cut in range(1, len(whole)):
        mirror, again = replayed([whole.part(0, cut), whole.part(cut, len(whole))])
        assert again == transitions
        assert mirror.coordinator_change == expected.coordinator_change


def test_a_group_that_is_applied_aside_knows_of_it() -> None:
    log, before = history("consumer", is_lone=True)
    epochs = [0] * before + [2] * (len(log.records) - before)
    mirror, _ = replayed([replace(run_of(log.records[:before]), leader_epochs=epochs[:before])])
    fork = mirror.fork(GROUP)
    out = fork.replay_batch(replace(run_of(log.records[before:]), leader_epochs=epochs[before:]))
    (left,) = (it for it in out if isinstance(it, MemberLeft))
    assert left.inferred is not None
    assert "coordinator_changed" in left.inferred.evidence
    mirror.adopt(fork, GROUP)
    assert mirror.coordinator_change == fork.coordinator_change is not None


def test_a_leader_that_stood_still_until_it_was_none_any_more_led_no_longer_than_before() -> None:
    log = Log()
    classic_members(log)
    for _ in range(20):
        both_commit(log, 0, 1)
    since_ms = log.now_ms
    both_commit(log, 0, after_ms=AWAY_MS)
    before = len(log.records)
    both_commit(log, 0, 1, after_ms=100)
    whole = replace(run_of(log.records), leader_epochs=[0] * before + [2] * (len(log.records) - before))
    for cut in range(1, len(whole)):
        mirror, _ = replayed([whole.part(0, cut), whole.part(cut, len(whole))])
        assert mirror.coordinator_change == CoordinatorChange(since_ms, log.now_ms)


@pytest.mark.parametrize(("after_ms", "expected"), [(9_000, True), (15_000, None)])
@pytest.mark.parametrize("is_back", [True, False])
def test_a_client_that_is_back_and_was_heard_of_as_it_reached_the_next_coordinator(
    after_ms: int, expected: bool | None, is_back: bool
) -> None:
    """It gave up its membership while there was none, and its old member dies a session later."""
    log = Log()
    classic_members(log)
    for _ in range(20):
        both_commit(log, 0, 1)
    before = len(log.records)
    both_commit(log, 1, after_ms=AWAY_MS)
    both_commit(log, 0, after_ms=after_ms)
    stays = b.member("b-1", {"t": [1]}, session_ms=SESSION_MS, rebalance_ms=POLL_MS)
    comes = b.member("a-2" if is_back else "c-2", {"t": [0]}, session_ms=SESSION_MS, rebalance_ms=POLL_MS)
    log.add(b.classic_group(2, stays, comes, state_ms=log.now_ms + SESSION_MS), after_ms=SESSION_MS)
    told = departure(log, [0] * before + [2] * (len(log.records) - before)).inferred
    assert told is not None
    assert told.evidence.get("coordinator_changed") == (expected if is_back else None)

"""A broker that stands still ends sessions of KIP-848 members as it goes on, right behind commits that had waited."""

from __future__ import annotations

import pytest

from agent.core.inference.external_evidence import KnownSessions
from agent.core.inference.facts import Departure
from agent.core.inference.session_settings import SessionSetting
from agent.core.shadow.mirror import RECORDS_AFTER_PAUSE, PartitionMirror
from agent.core.shadow.transitions import MemberLeft, Rebalanced
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log, run_of

SESSION_MS = 45_000


def commit(log: Log, *, after_ms: int = 1_000, group: str = b.GROUP) -> None:
    at_ms = log.now_ms + after_ms
    log.add(
        *(b.commit("t", it, at_ms=at_ms, id_of_topic=b.topic_id("t"), version=4, group=group) for it in (0, 1)),
        after_ms=after_ms,
    )


def history(*, pause_ms: int, others_every_ms: int | None = None, commits: int = 1, left_after_ms: int = 8) -> Log:
    """`a-1` and `b-1` commit each second, nothing for a time, and again; `left_after_ms` later `a-1` is gone."""
    log = Log()
    for number, member_id in enumerate(("a-1", "b-1")):
        log.add(b.c_member(member_id), b.c_epoch(number + 2))
        log.add(b.c_target(member_id, {"t": [number]}), b.c_target_epoch(number + 2))
        log.add(b.c_current(member_id, number + 2, {"t": [number]}))
    for _ in range(20):
        commit(log)
    if others_every_ms is not None:
        for _ in range(pause_ms // others_every_ms):
            commit(log, after_ms=others_every_ms, group="other")
            pause_ms -= others_every_ms
    commit(log, after_ms=pause_ms)
    for _ in range(commits - 1):
        commit(log, after_ms=0)
    return log.add(*(b.tombstone(it, "a-1") for it in (8, 7, 5)), b.c_epoch(4), after_ms=left_after_ms)


def departure(log: Log, size: int = 1_000_000) -> Departure:
    """As it is told where records come so many at a time."""
    mirror = PartitionMirror(log.partition, KnownSessions({"consumer": SessionSetting(SESSION_MS, 5_000)}))
    runs = [log.records[at : at + size] for at in range(0, len(log.records), size)]
    (left,) = (it for run in runs for it in mirror.replay_batch(run_of(run)) if isinstance(it, MemberLeft))
    assert left.inferred is not None
    return left.inferred


@pytest.mark.parametrize("size", [1, 3, 40, 51, 1_000])
def test_who_is_given_up_behind_a_pause_of_the_broker_is_not_said_to_have_left(size: int) -> None:
    told = departure(history(pause_ms=60_000), size)
    assert (told.cause, told.confidence) == ("unknown_departure", 0.0)
    assert told.evidence["candidates"] == ["member_left", "session_timeout"]
    assert told.evidence["nothing_written_ms"] == 60_000


@pytest.mark.parametrize("size", [1, 100, 1_000])
def test_a_pause_counts_for_what_follows_it_closely(size: int) -> None:
    """Each time two commits; and three tombstones come before the epoch."""
    near, far = (history(pause_ms=60_000, commits=RECORDS_AFTER_PAUSE // 2 + it) for it in (-2, -1))
    assert [departure(it, size).cause for it in (near, far)] == ["unknown_departure", "member_left"]


@pytest.mark.parametrize(
    "log",
    [
        history(pause_ms=1_000),
        history(pause_ms=30_000),
        history(pause_ms=60_000, others_every_ms=4_000),
        history(pause_ms=60_000, left_after_ms=400),
    ],
    ids=["none", "no session", "others commit", "later"],
)
def test_who_leaves_otherwise_has_left(log: Log) -> None:
    told = departure(log)
    assert told.cause == "member_left"
    assert told.confidence >= 0.8
    assert "nothing_written_ms" not in told.evidence


def silent(*, pause_ms: int, others: bool) -> Log:
    """`a-1` and `b-1` commit each second, and then `a-1` is gone, of whom no commit had waited; `others`: as is a
    group that had committed shortly before."""
    log = Log()
    for number, member_id in enumerate(("a-1", "b-1")):
        log.add(b.c_member(member_id), b.c_epoch(number + 2))
        log.add(b.c_target(member_id, {"t": [number]}), b.c_target_epoch(number + 2))
        log.add(b.c_current(member_id, number + 2, {"t": [number]}))
    commit(log, group="other")
    for _ in range(20 if others else 40):
        commit(log)
    if others:
        commit(log, group="other")
        commit(log)
    return log.add(*(b.tombstone(it, "a-1") for it in (8, 7, 5)), b.c_epoch(4), after_ms=pause_ms)


@pytest.mark.parametrize("size", [1, 3, 1_000])
def test_who_is_given_up_as_all_were_silent_for_so_long_is_not_said_to_have_stalled(size: int) -> None:
    told = departure(silent(pause_ms=301_000, others=True), size)
    assert (told.cause, told.confidence) == ("unknown_departure", 0.0)
    assert told.evidence["candidates"] == ["poll_timeout", "session_timeout"]
    assert told.evidence["nothing_written_ms"] == 301_000


def test_of_a_group_that_is_alone_it_is_its_own_silence() -> None:
    told = departure(silent(pause_ms=301_000, others=False))
    assert told.cause == "poll_timeout"
    assert told.confidence >= 0.8
    assert "nothing_written_ms" not in told.evidence


def test_a_session_that_ran_out_in_a_pause_is_told() -> None:
    told = departure(silent(pause_ms=46_000, others=True))
    assert told.cause == "session_timeout"
    assert told.evidence["nothing_written_ms"] == 46_000


def emptied(*, others: bool, left_after_ms: int = 301_000) -> Log:
    """A classic group that lost both members, of which no commit had waited; `others`: another group had committed
    shortly before."""
    log = Log()
    a, c = (b.member(f"{it}-1", {"t": [n]}) for n, it in enumerate("ab"))
    log.add(b.classic_group(1, a, c, state_ms=log.now_ms + 1_000))
    commit(log, group="other")
    for _ in range(20 if others else 40):
        commit(log)
    if others:
        commit(log, group="other")
    return log.add(b.classic_group(2, state_ms=log.now_ms + left_after_ms), after_ms=left_after_ms)


def departures(log: Log, size: int = 1_000_000) -> tuple[Rebalanced, list[Departure]]:
    mirror = PartitionMirror(log.partition)
    runs = [log.records[at : at + size] for at in range(0, len(log.records), size)]
    out = [it for run in runs for it in mirror.replay_batch(run_of(run))]
    lost = [it for it in out if isinstance(it, Rebalanced)][-1]
    return lost, [it.inferred for it in out if isinstance(it, MemberLeft) and it.inferred is not None]


@pytest.mark.parametrize("size", [1, 3, 1_000])
def test_a_classic_group_that_is_given_up_as_all_were_silent_is_not_said_to_have_stalled(size: int) -> None:
    lost, told = departures(emptied(others=True), size)
    assert lost.inferred is not None
    assert (lost.inferred.cause, lost.inferred.confidence) == ("unknown_departure", 0.0)
    assert [it.cause for it in told] == ["unknown_departure"] * 2
    for it in told:
        assert {"poll_timeout", "session_timeout"} <= set(it.evidence["candidates"])
        assert it.evidence["nothing_written_ms"] == 301_000
        assert it.evidence in lost.inferred.evidence


def test_of_a_classic_group_that_is_alone_it_is_its_own_silence() -> None:
    _, told = departures(emptied(others=False))
    assert {it.cause for it in told} == {"poll_timeout"}
    assert not any("nothing_written_ms" in it.evidence for it in told)


def test_a_classic_session_that_ran_out_in_a_pause_is_told() -> None:
    _, told = departures(emptied(others=True, left_after_ms=SESSION_MS))
    assert {it.cause for it in told} == {"session_timeout"}
    assert {it.evidence["nothing_written_ms"] for it in told} == {SESSION_MS}


@pytest.mark.parametrize("log", [emptied(others=True), silent(pause_ms=301_000, others=True)], ids=["classic", "848"])
def test_a_mirror_that_is_restored_in_a_pause_knows_of_it(log: Log) -> None:
    before = next(n for n, it in enumerate(log.records) if it.timestamp_ms > log.now_ms - 1_000)
    mirror = PartitionMirror(log.partition)
    mirror.replay_batch(run_of(log.records[:before]))
    mirror.after_restore()
    told = [it.inferred for it in mirror.replay_batch(run_of(log.records[before:])) if isinstance(it, MemberLeft)]
    assert {it.evidence["nothing_written_ms"] for it in told if it is not None} == {301_000}

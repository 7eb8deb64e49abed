"""How often members commit, and how fast they notice: what earlier generations teach of a group."""

from __future__ import annotations

import pytest

from agent.core.inference.facts import CommitActivity
from agent.core.inference.parameters import PARAMETERS
from agent.core.shadow.classic import ClassicGroup
from agent.core.shadow.transitions import MemberLeft
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log


def activity(log: Log, goes: str) -> CommitActivity:
    """What was known of a member's commits as it went, from the evidence."""
    left = [it for it in log.replayed()[1] if isinstance(it, MemberLeft) and it.member.member_id == goes][-1]
    assert left.inferred is not None
    gap = left.inferred.evidence["gap_ms"]
    return CommitActivity(None if gap is None else log.now_ms - gap, left.inferred.evidence["commits_every_ms"])


def generation(log: Log, number: int, *members: str, after_ms: int = b.STEP_MS, cooperative: bool = False) -> None:
    """Each member has the partition that it is called by."""
    owned = {"t": [9]} if cooperative else None
    given = [b.member(name, {"t": [int(name[-1])]}, owned=owned, session_ms=10_000) for name in members]
    log.add(b.classic_group(number, *given, state_ms=log.now_ms + after_ms), after_ms=after_ms)


def commit(log: Log, partition: int, after_ms: int) -> None:
    log.add(b.commit("t", partition, at_ms=log.now_ms + after_ms), after_ms=after_ms)


def test_commits_of_an_earlier_generation_count_where_a_partition_was_kept() -> None:
    log = Log()
    generation(log, 1, "a-0", "b-1")
    for _ in range(4):
        commit(log, 0, 2_000)
    generation(log, 2, "a-0", "b-1", "c-2")
    generation(log, 3, "b-1", "c-2")
    assert activity(log, "a-0") == CommitActivity(log.now_ms - 2_000, round(8_000 / 3.5))


def test_commits_of_who_had_a_partition_before_do_not_count() -> None:
    log = Log()
    generation(log, 1, "a-0", "b-1")
    commit(log, 0, 2_000)
    generation(log, 2, "c-0", "b-1")
    generation(log, 3, "b-1")
    assert activity(log, "c-0") == CommitActivity(None, None)


@pytest.mark.parametrize(
    ("often", "every"),
    [(5, round(5_000 / 4.5)), (0, PARAMETERS.commit_interval_ms)],
    ids=["as its group does", "as clients do"],
)
def test_who_committed_once_commits_as_usual(often: int, every: int) -> None:
    log = Log()
    generation(log, 1, "a-0", "b-1")
    for _ in range(often):
        commit(log, 1, 1_000)
    generation(log, 2, "a-0", "b-1", "c-2")
    commit(log, 2, 300)
    generation(log, 3, "a-0", "b-1")
    assert activity(log, "c-2") == CommitActivity(log.now_ms - b.STEP_MS, every)


def test_one_commit_after_long_tells_that_the_next_is_not_due_for_as_long() -> None:
    log = Log()
    generation(log, 1, "a-0", "b-1")
    commit(log, 0, 30_000)
    generation(log, 2, "b-1")
    assert activity(log, "a-0").commit_interval_ms == 30_000


DAY_MS = 86_400_000


@pytest.mark.parametrize("commits", [1, 2, 20])
def test_idle_days_are_no_pace(commits: int) -> None:
    """Its topics were idle for a week, or compaction left one commit of it."""
    log = Log()
    generation(log, 1, "a-0", "b-1")
    log.now_ms += 7 * DAY_MS
    for _ in range(commits):
        commit(log, 0, 5_000)
    generation(log, 2, "b-1")
    assert activity(log, "a-0") == CommitActivity(log.now_ms - b.STEP_MS, None)


def test_one_that_had_nothing_to_commit_for_long_is_not_like_its_group() -> None:
    log = Log()
    generation(log, 1, "a-0", "b-1")
    for _ in range(100):
        commit(log, 1, 1_000)
    commit(log, 0, 1_000)
    generation(log, 2, "b-1")
    assert activity(log, "a-0").commit_interval_ms is None


@pytest.mark.parametrize("commits", [0, 1, 20])
def test_idle_days_count_until_the_next_generation(commits: int) -> None:
    log = Log()
    generation(log, 1, "a-0", "b-1", "c-2")
    log.now_ms += 7 * DAY_MS
    for _ in range(commits):
        commit(log, 0, 2_000)
    generation(log, 2, "a-0", "b-1")
    for _ in range(10):
        commit(log, 0, 2_000)
    generation(log, 3, "b-1")
    found = activity(log, "a-0")
    assert found.last_commit_ms == log.now_ms - b.STEP_MS
    assert found.commit_interval_ms == round((20_000 if commits == 0 else 20_000 + b.STEP_MS) / 9.5)


def test_the_last_commit_of_idle_days_stays_known() -> None:
    log = Log()
    generation(log, 1, "a-0", "b-1", "c-2")
    log.now_ms += DAY_MS
    commit(log, 0, 2_000)
    generation(log, 2, "a-0", "b-1")
    generation(log, 3, "b-1", after_ms=20_000)
    assert activity(log, "a-0") == CommitActivity(log.now_ms - 20_000 - b.STEP_MS, None)


def test_the_default_where_it_fits() -> None:
    """Two commits in 8 s may be 4 to 8 s apart: most clients commit each 5 s."""
    log = Log()
    generation(log, 1, "a-0", "b-1")
    commit(log, 0, 3_000)
    commit(log, 0, 5_000)
    generation(log, 2, "b-1")
    assert activity(log, "a-0").commit_interval_ms == PARAMETERS.commit_interval_ms


def test_how_fast_members_notice_is_learned() -> None:
    """Two stay and take 1 s to notice that a third left; a second lesson makes it surer."""
    log = Log()
    generation(log, 1, "a-0", "b-1", "c-2", "d-3")
    for number, (goes, *stay) in enumerate((("d-3", "a-0", "b-1", "c-2"), ("c-2", "a-0", "b-1")), start=2):
        for _ in range(4):
            for name in (goes, *stay):
                commit(log, int(name[-1]), 100)
        commit(log, int(goes[-1]), 500)
        log.add(*(b.commit("t", int(name[-1]), at_ms=log.now_ms + 990) for name in stay), after_ms=990)
        generation(log, number, *stay, after_ms=10)
        group = log.mirror().groups[b.GROUP]
        assert isinstance(group, ClassicGroup)
        if number == 2:
            once = group.pace.notice_ms
    assert 1_000 < group.pace.notice_ms < once < PARAMETERS.heartbeat_interval_ms

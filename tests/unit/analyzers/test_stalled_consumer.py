"""`stalled_consumer`: the rules by themselves, and what of them the log alone can tell."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from agent.core.diagnosis.api import Finding, FindingState, Severity
from agent.core.diagnosis.cluster import AnalyzerSelection, ClusterDiagnosis
from agent.core.diagnosis.lag_source import CommitColumns, KnownLags, ReadCommits, SampledLags, WatchedLags
from agent.core.events.samples import GroupLagTotal, GroupSample, PositionBehind, sample_event
from agent.core.records import LogId
from agent.core.shadow.cluster import ClusterMirror
from agent.core.shadow.views import Position
from agent.kafka.lag.end_offset_history import EndOffsetHistory
from agent.persistence.cluster_state import ClusterState
from analyzers.registry import select_analyzers
from analyzers.stalled_consumer import StalledConsumer
from analyzers.stalled_rules import (
    PartitionTrack,
    ProgressTrack,
    StalledSettings,
    Status,
    is_silent,
    lag_status,
    severity_of,
    standing_since_ms,
    was_rewound,
)
from analyzers.stalled_texts import StuckPartition, lag_condition
from tests.unit.analyzers.driving import MINUTE_MS, Log, findings, idle, of_the_capture, states
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import GROUP
from tests.unit.core.wire.vectors import CAPTURE, needs

NAME = "stalled_consumer"

SETTINGS = StalledSettings()

SECOND_MS = 1_000
LOOK_MS = 30_000

Row = tuple[int, int, int]
"""Offset, end, and seconds since the commit."""


def progress(rows: list[Row]) -> tuple[ProgressTrack, int]:
    """One look each 30 s, with the ends as of then; and the time of the last one. A commit that is new counts one."""
    offset, end, ago = rows[0]
    position = Position(offset, -ago * SECOND_MS, 1)
    made = ProgressTrack.begin(position, end - offset, 0)
    at_ms = 0
    for number, (offset, end, ago) in enumerate(rows[1:], 1):
        at_ms = number * LOOK_MS
        commit_ms = at_ms - ago * SECOND_MS
        if commit_ms > position.commit_ms:
            position = Position(offset, commit_ms, position.commits + 1)
        made.follow(position, end - offset, at_ms, at_ms)
    return made, at_ms


def looks(count: int, offset: Callable[[int], int], end: Callable[[int], int], ago: int = 5) -> list[Row]:
    """Committed five seconds before each look."""
    return [(offset(number), end(number), ago) for number in range(count)]


def silent(offset: int, count: int, end: Callable[[int], int]) -> list[Row]:
    """Not committed any more."""
    return [(offset, end(number), 5 + 30 * number) for number in range(1, count + 1)]


def moving(number: int) -> int:
    return 100 + 10 * number


def same(_: int) -> int:
    return 100


def const(value: int) -> Callable[[int], int]:
    return lambda _: value


WENT = looks(4, moving, lambda n: moving(n) + 5)
"""At 130 of 135 after 90 s, and its pace is known."""

# Number, why, looks each 30 s, expected.
RULES: list[tuple[int, str, list[Row], Status]] = [
    (1, "it moves, far behind", looks(90, moving, lambda n: moving(n) + 30_000), Status.OK),
    (2, "no commit for five minutes, and the lag grows", [*WENT, *silent(130, 10, lambda n: 135 + 99 * n)],
     Status.STOP),
    (3, "not for five minutes yet", [*WENT, *silent(130, 9, lambda n: 135 + 99 * n)], Status.OK),
    (4, "no commit, and nothing to do", [*WENT, *silent(130, 400, const(130))], Status.OK),
    (5, "a marker and a few aborted records at the end", [*WENT, *silent(130, 400, const(140))], Status.OK),
    (6, "a backlog that nobody reads, and nothing new", [*WENT, *silent(130, 10, const(141))], Status.STOP),
    (7, "a few records, one after the other", [*WENT, *silent(130, 11, lambda n: 135 + n // 4)], Status.OK),
    (8, "a few records that grow more often", [*WENT, *silent(130, 12, lambda n: 133 + n // 3)], Status.STOP),
    (9, "not committed since it was seen first: its pace is unknown", silent(130, 15, lambda n: 200 + n), Status.OK),
    (10, "nor for half as long again", silent(130, 17, lambda n: 200 + n), Status.STOP),
    (11, "the same offset again and again, and the lag grows",
     [*WENT, *looks(11, const(130), lambda n: 200 + 99 * n)], Status.STALL),
    (12, "not for five minutes yet", [*WENT, *looks(9, const(130), lambda n: 200 + 99 * n)], Status.OK),
    (13, "the same offset, and nothing to do", [*WENT, *looks(400, const(130), const(130))], Status.OK),
    (14, "the same offset, and work came a moment ago", [*WENT, *looks(40, const(130), const(130)),
     *looks(9, const(130), lambda n: 150 + n)], Status.OK),
    (15, "the same offset, and then not committed at all",
     [*WENT, *looks(9, const(130), const(999)), *silent(130, 6, const(999))], Status.STOP),
    (16, "a poison record: back again and again, and never beyond",
     [*WENT, *looks(12, lambda n: 130 - n % 3, lambda n: 300 + n)], Status.STALL),
    (17, "back again and again, and beyond it each time",
     [*WENT, *looks(40, lambda n: 130 + 5 * n - 9 * (n % 2), lambda n: 9_000 + n)], Status.OK),
    (18, "went back once, and catches up for an hour",
     [*WENT, *looks(120, lambda n: n, lambda n: 300 + n)], Status.OK),
    (19, "committed each four minutes", looks(60, lambda n: 100 + n // 8, lambda n: 999 + n, 0), Status.OK),
    (20, "slow, its pauses known: not committed for eight minutes, once twelve",
     [*[(100 + n // 16, 999 + n // 16, 30 * (n % 16)) for n in range(80)],
      *[(105, 1099 + n, 30 * n) for n in range(24)], (106, 1100, 0)], Status.OK),
    (21, "lag grows for half an hour", looks(62, moving, lambda n: 200 + 20 * n), Status.WARN),
    (22, "not for half an hour yet", looks(59, moving, lambda n: 200 + 20 * n), Status.OK),
    (23, "it fell once", looks(90, moving, lambda n: 200 + 20 * n - 100 * (n >= 40)), Status.OK),
    (24, "it stays", looks(90, moving, lambda n: 500 + 10 * n), Status.OK),
    (26, "a poison record: looks see the batch before it here and there",
     [*WENT, *[(160 - back, 400 + n, 5) for n, back in enumerate((8, 19, 2, 27, 11, 0, 22, 5, 29, 1, 13, 0, 25, 9))]],
     Status.STALL),
    (27, "went back twice, long ago, and goes on",
     [*WENT, *looks(60, lambda n: 130 + 2 * n - 60 * (n in (3, 9)), lambda n: 9_000 + n)], Status.OK),
    (28, "back again and again, but not for five minutes yet",
     [*WENT, *looks(9, lambda n: 130 - n % 3, lambda n: 300 + n)], Status.OK),
    (29, "back again and again, with a marker and a few aborted records at the end",
     [*WENT, *looks(40, lambda n: 130 - n % 3, const(137))], Status.OK),
    (25, "it catches up", looks(90, moving, const(5_000)), Status.OK),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "expected"), [pytest.param(*row[2:], id=f"{row[0]}-{row[1]}") for row in RULES])
def test_rules(rows: list[Row], expected: Status) -> None:
    track, at_ms = progress(rows)
    assert lag_status(track, at_ms, SETTINGS, 0) is expected


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        (silent(130, 40, const(999)), Status.STOP),
        (looks(40, const(130), const(999)), Status.STALL),
        (looks(40, lambda n: 130 - n % 3, const(999)), Status.STALL),
    ],
    ids=["silent", "the same offset", "back again and again"],
)
def test_what_was_there_before_the_members_does_not_count(rows: list[Row], status: Status) -> None:
    track, at_ms = progress([*WENT, *rows])
    assert [lag_status(track, at_ms, SETTINGS, at_ms - it) for it in (200_000, 300_000)] == [Status.OK, status]


def test_work_counts_from_when_the_end_passed_the_offset() -> None:
    track, at_ms = progress([*looks(4, const(130), const(130)), (130, 190, 5)])
    # Half a second for each record.
    assert (track.work_ms, at_ms) == (90_500, 120_000)
    assert standing_since_ms(track, 0) == 90_500


def test_a_standstill_that_is_over_does_not_hide_the_next_one() -> None:
    stood = [*WENT, *silent(130, 40, const(9_999))]
    track, at_ms = progress([*stood, *looks(8, lambda n: 200 + n, const(9_999)), *silent(207, 21, const(9_999))])
    assert lag_status(track, at_ms, SETTINGS, 0) is Status.STOP
    track, at_ms = progress([*stood, *looks(1, const(200), const(9_999)), *silent(200, 21, const(9_999))])
    assert lag_status(track, at_ms, SETTINGS, 0) is Status.OK


def test_what_is_stopped_again_after_it_was_committed_at_one_offset() -> None:
    track, at_ms = progress([*WENT, *looks(30, const(130), const(999)), *silent(130, 4, const(999))])
    assert lag_status(track, at_ms, SETTINGS, 0) is Status.STALL


# What the log alone tells.


def track(rows: list[int], *, commits_a_minute: int = 12, owned_ms: int = 0) -> tuple[PartitionTrack, int]:
    """Offsets, of one sample a minute; and the time of the last commit."""
    made = PartitionTrack.begin(Position(rows[0], 0, commits_a_minute))
    at_ms = 0
    for number, offset in enumerate(rows[1:], 1):
        at_ms = number * MINUTE_MS
        before = made.position
        made.follow(Position(offset, at_ms, (number + 1) * commits_a_minute), owned_ms)
        if offset < before.offset:
            made.mark_rewind(before.offset)
    return made, at_ms


# Number, why, offsets, minutes of silence after the last, silent, went back.
LOG_RULES: list[tuple[int, str, list[int], int, bool, bool]] = [
    (1, "it moves", [100 + n for n in range(12)], 0, False, False),
    (2, "silent", [100] * 12, 6, True, False),
    (3, "silent, but not for long", [100] * 12, 4, False, False),
    (4, "silent after one sample: its pace is not known", [100], 600, False, False),
    (5, "went back", [100, 200, 50], 0, False, True),
    (6, "went back, and is where it was", [100, 200, 50, 200], 0, False, False),
    (7, "went back, and is on its way", [100, 200, 50, 199], 0, False, True),
    (8, "went back twice", [100, 200, 50, 60, 20, 100], 0, False, True),
    (9, "went back long ago", [100, 200, 50], 10, True, False),
]


@pytest.mark.parametrize(
    ("rows", "minutes", "silent", "rewound"), [pytest.param(*row[2:], id=f"{row[0]}-{row[1]}") for row in LOG_RULES]
)
def test_rules_of_the_log_alone(rows: list[int], minutes: int, silent: bool, rewound: bool) -> None:
    followed, at_ms = track(rows)
    now_ms = at_ms + minutes * MINUTE_MS
    assert (is_silent(followed, now_ms, SETTINGS, 0), was_rewound(followed, now_ms, SETTINGS)) == (silent, rewound)


def test_silence_is_measured_by_the_pace_before_it() -> None:
    followed, at_ms = track([100, 200, 300], commits_a_minute=1)
    followed.follow(Position(400, at_ms + 40 * MINUTE_MS, 40), 0)  # one in 64 s
    assert followed.due_ms(SETTINGS) == at_ms + 45 * MINUTE_MS
    followed.follow(Position(500, at_ms + 80 * MINUTE_MS, 42), 0)  # one in 20 minutes
    assert followed.due_ms(SETTINGS) == at_ms + 140 * MINUTE_MS


def test_a_mean_pause_is_over_all_that_was_seen() -> None:
    followed, at_ms = track([100, 200, 300], commits_a_minute=1)
    assert followed.mean_pause_ms == MINUTE_MS
    followed.follow(Position(400, at_ms + 40 * MINUTE_MS, 7), 0)
    assert followed.mean_pause_ms == 7 * MINUTE_MS
    assert PartitionTrack.begin(Position(1, 1, 1)).mean_pause_ms == 0
    # As an image of an earlier version has it.
    followed.first = None
    assert followed.mean_pause_ms == 0


def test_a_new_owner_has_no_pace_yet() -> None:
    followed, at_ms = track([100] * 12, owned_ms=10 * MINUTE_MS + 1)
    assert (followed.pause_ms, followed.repeats) == (0, 0)
    assert not is_silent(followed, at_ms + 60 * MINUTE_MS, SETTINGS, 10 * MINUTE_MS + 1)


def test_nor_has_one_that_did_not_commit() -> None:
    followed, at_ms = track([100] * 12)
    assert not is_silent(followed, at_ms * 9, SETTINGS, at_ms + 1)


@pytest.mark.parametrize(
    ("of", "is_lag_known", "expected"),
    [
        (Status.STOP, True, Severity.CRITICAL),
        (Status.STOP, False, Severity.WARNING),
        (Status.STALL, True, Severity.CRITICAL),
        (Status.REWIND, True, Severity.WARNING),
        (Status.WARN, True, Severity.INFO),
    ],
)
def test_severities(of: Status, is_lag_known: bool, expected: Severity) -> None:
    assert severity_of(of, is_lag_known=is_lag_known) is expected


def test_of_several_states_the_worst_is_told() -> None:
    told = (Status.WARN, Status.STOP, Status.STALL)
    stuck = {("t", at): StuckPartition(of, f"c{at}", 0, 5, 10 + at, 0) for at, of in enumerate(told)}
    assert lag_condition(stuck, (), MINUTE_MS).summary == (
        "1 partition of c1 not committed for up to 1 min, with records to read; t-1 is at offset 5. "
        "11 records behind: t-1."
    )


def test_of_a_group() -> None:
    assert [it.of_group for it in Status] == ["OK", "WARN", "ERR", "ERR", "ERR"]


# The analyzer, on records.


def stable(generation: int = 1, *, moved: bool = False, group: str = GROUP) -> b.Pair:
    """Two members with two partitions each; `moved`: the other way round."""
    halves = ([0, 1], [2, 3])
    first, second = halves[::-1] if moved else halves
    members = (b.member("m0-1", {"t": first}), b.member("m1-1", {"t": second}))
    return b.classic_group(generation, *members, group=group)


def play(log: Log, minutes_long: int, offsets: dict[int, Callable[[int], int]], *, each_s: int = 1) -> Log:
    """Commits of partitions of topic t every `each_s` seconds; offsets by the number of the commit."""
    for number in range(minutes_long * 60 // each_s):
        at_ms = log.now_ms + each_s * 1000
        batch = [b.commit("t", partition, offset(number), at_ms=at_ms) for partition, offset in offsets.items()]
        log.add(*batch, after_ms=each_s * 1000)
    return log


ALL_SAME = dict.fromkeys(range(4), same)
"""A client that commits what did not move."""

HALF = {0: same, 1: same}


def test_a_member_that_is_silent_where_its_client_never_was() -> None:
    log = play(Log().add(stable()), 10, ALL_SAME)
    went_ms = log.now_ms
    play(log, 12, HALF)
    (opened,) = findings(log, NAME)
    assert states([opened]) == [("firing", "warning")]
    # Whether it is silent is known with the first sample after that.
    silent_s = (opened.at.timestamp_ms - went_ms) // 1000
    assert 300 <= silent_s <= 360
    assert opened.summary == (
        f"2 partitions of m1 not committed for up to {silent_s} s, though this group commits positions even when "
        "they do not move: t-2 and t-3."
    )
    assert opened.numbers == {
        "status": "STOP",
        "group_status": "ERR",
        "stopped": 2,
        "rewound": 0,
        "partitions": ["t-2", "t-3"],
        "clients": ["m1"],
        "silent_s": silent_s,
    }


def test_it_closes_once_it_commits_again() -> None:
    log = play(play(play(Log().add(stable()), 10, ALL_SAME), 12, HALF), 10, ALL_SAME)
    assert states(findings(log, NAME)) == [("firing", "warning"), ("resolved", "warning")]


def test_a_group_that_is_silent_altogether() -> None:
    log = play(Log().add(stable()), 10, ALL_SAME)
    (opened,) = findings(idle(log, 600_000), NAME)
    assert opened.numbers["stopped"] == 4


def test_silence_means_nothing_where_clients_commit_only_what_moved() -> None:
    log = play(Log().add(stable()), 10, dict.fromkeys(range(4), moving))
    assert findings(play(log, 60, dict.fromkeys(range(2), lambda n: 10_000 + n)), NAME) == []


def test_once_or_twice_the_same_offset_does_not_tell_a_client() -> None:
    log = play(Log().add(stable()), 10, dict.fromkeys(range(4), moving))
    play(log, 2, dict.fromkeys(range(4), lambda _: 10_000))
    assert findings(idle(log, 3_600_000), NAME) == []


def test_a_member_that_left_is_not_silent() -> None:
    log = play(Log().add(stable()), 10, ALL_SAME)
    log.add(b.classic_group(2, b.member("m0-1", {"t": [0, 1]})))
    assert findings(play(log, 30, HALF), NAME) == []


def test_a_partition_that_its_new_owner_has_not_committed_yet() -> None:
    log = play(Log().add(stable()), 10, ALL_SAME)
    log.add(stable(2, moved=True))
    assert findings(play(log, 30, HALF), NAME) == []


def test_who_was_set_aside_counts_again_once_committed() -> None:
    log = play(Log().add(stable()), 10, ALL_SAME)
    log.add(stable(2, moved=True))
    play(play(log, 30, HALF), 10, ALL_SAME)
    (opened,) = findings(play(log, 12, HALF), NAME)
    assert opened.numbers["clients"] == ["m0"]


def test_an_empty_group_is_silent_and_its_next_clients_may_be_others() -> None:
    log = play(Log().add(stable()), 10, ALL_SAME).add(b.classic_group(2))
    assert findings(idle(log, 3_600_000), NAME) == []
    log.add(stable(3))
    play(log, 6, {partition: lambda n: 200 + n for partition in range(4)})
    assert findings(idle(log, 3_600_000), NAME) == []


def test_offsets_without_members_and_a_group_that_is_gone() -> None:
    alone = play(Log(), 10, ALL_SAME)
    gone = play(Log().add(stable()), 10, ALL_SAME)
    for partition in range(4):
        gone.add(b.uncommit("t", partition))
    assert [findings(idle(log, 3_600_000), NAME) for log in (alone, gone)] == [[], []]


def test_a_pace_of_its_own() -> None:
    """Committed every 20 minutes: silent for half an hour is nothing."""
    log = play(Log().add(stable()), 240, ALL_SAME, each_s=60)
    slow = {**HALF, 2: same}
    for _ in range(12):
        play(play(log, 19, HALF, each_s=60), 1, slow, each_s=60)
    found = findings(log, NAME, silent_after_s="1500")
    assert [it.numbers["partitions"] for it in found if it.state == "firing"] == [["t-3"]]
    # Partition 2 is due after three times 20 minutes.
    found = findings(play(log, 50, HALF, each_s=60), NAME, silent_after_s="1500")
    assert [it.numbers["partitions"] for it in found if it.state == "firing"] == [["t-3"]]


def test_a_group_on_its_way_is_not_silent() -> None:
    """Members that give partitions up may commit nothing; once that is over, they may not."""
    log = Log().add(b.c_topics("t"), b.c_member("m1"), b.c_epoch(1), b.c_target("m1", {"t": [0, 1]}))
    log.add(b.c_target_epoch(1), b.c_current("m1", 1, {"t": [0, 1]}))
    play(log, 10, HALF).add(b.c_member("m2"), b.c_epoch(2))
    log.add(b.c_target_epoch(2), b.c_current("m2", 2, {}))
    assert findings(idle(log, 900_000), NAME) == []
    log.add(b.c_current("m1", 2, {"t": [0, 1]}))
    (opened,) = findings(idle(log, 120_000), NAME)
    assert opened.numbers["stopped"] == 2


# Rewinds.


def test_a_position_that_went_back() -> None:
    log = play(Log().add(stable()), 5, {0: lambda n: 1000 + 10 * n, 1: lambda n: 1000 + 10 * n})
    play(log, 5, {0: lambda n: 100 + n, 1: lambda n: 9000 + n})
    opened, *rest = findings(log, NAME)
    assert rest == []
    assert states([opened]) == [("firing", "warning")]
    assert opened.summary.startswith("Positions of 1 partition went back, of t-0 by ")
    assert opened.numbers["status"] == "REWIND"
    assert opened.numbers["partitions"] == ["t-0"]
    assert "auto.offset.reset" in opened.advice


def test_a_rewind_ends_where_it_began_or_after_ten_minutes() -> None:
    def log() -> Log:
        return play(Log().add(stable()), 5, {0: lambda n: 1000 + 10 * n})

    again = play(play(log(), 3, {0: lambda n: 100 + n}), 8, {0: lambda n: 9000 + n})
    stays = play(log(), 18, {0: lambda n: 100 + n})
    times = [[it.at.timestamp_ms // 1000 for it in findings(it, NAME)] for it in (again, stays)]
    assert [len(it) for it in times] == [2, 2]
    assert times[0][1] - times[0][0] < 600
    assert 870 <= times[1][1] - times[1][0] <= 900


@pytest.mark.parametrize("while_away", [True, False])
def test_an_admin_resets_a_group_without_members(while_away: bool) -> None:
    log = play(Log().add(stable()), 5, {0: lambda n: 1000 + 10 * n}).add(b.classic_group(2))
    if while_away:
        play(log, 3, {0: same})
    else:
        log.add(b.commit("t", 0, 100, at_ms=log.now_ms), after_ms=1)
    log.add(stable(3))
    assert findings(play(log, 5, {0: lambda n: 101 + n}), NAME) == []


def test_a_few_records_are_no_rewind() -> None:
    log = play(Log().add(stable()), 5, {0: lambda n: 1000 + n // 30})
    assert findings(play(log, 5, {0: lambda n: 1009 + n // 9}), NAME) == []


def test_stopped_is_worse_than_rewound() -> None:
    log = play(Log().add(stable()), 10, {**ALL_SAME, 0: lambda n: 1000 + n})
    play(log, 8, {0: lambda n: 10 + n, 1: same, 2: same})
    # What was the matter last is in the finding as it closes.
    log.add(b.classic_group(2, protocol=None, state_ms=log.now_ms))
    condition = findings(idle(log, 600_000), NAME)[-1]
    assert (condition.group, condition.state) == (GROUP, "resolved")
    assert [condition.numbers[it] for it in ("status", "stopped", "rewound")] == ["STOP", 1, 1]
    assert condition.summary.startswith("1 partition of m1 not committed")


@needs(CAPTURE)
def test_silent_on_the_capture() -> None:
    assert of_the_capture(NAME) == {}


def test_what_waits_for_its_sample_is_not_silent() -> None:
    """Committed each minute, which is too seldom for a sample each minute: its commits are seen five minutes late."""
    log = play(Log().add(stable()), 60, ALL_SAME, each_s=60)
    assert findings(log, NAME) == []
    (opened,) = findings(play(log, 30, HALF, each_s=60), NAME)
    assert opened.numbers["partitions"] == ["t-2", "t-3"]


# Where lag is known.

INTERVAL_MS = 30_000

Ends = Callable[[int], int]
"""Where a partition ends, by the seconds since the log began."""


class Looks:
    """Looks at the ends each 30 s, as a watch makes them."""

    until_ms = None

    def __init__(
        self, ends: dict[int, Ends], *, from_s: int = 0, until_s: int = 1_000_000, again_s: int = 1_000_000
    ) -> None:
        """From `until_s` to `again_s` ends are not seen."""
        self.since_ms = b.T0 + from_s * SECOND_MS
        self._ends, self._until_ms, self._again_ms = ends, b.T0 + until_s * SECOND_MS, b.T0 + again_s * SECOND_MS

    def lags(self, group: str, commits: ReadCommits, at_ms: int) -> KnownLags:
        look_ms = at_ms // INTERVAL_MS * INTERVAL_MS
        if look_ms < self._again_ms:
            look_ms = min(look_ms, self._until_ms)
        history = EndOffsetHistory(INTERVAL_MS)
        ends = {("t", number): end((look_ms - b.T0) // SECOND_MS) for number, end in self._ends.items()}
        history.add_high_watermarks(ends, look_ms)
        return WatchedLags(lambda: history.publish(look_ms)).lags(group, commits, at_ms)


def with_lag(
    log: Log,
    ends: Ends | dict[int, Ends],
    *,
    from_s: int = 0,
    until_s: int = 10**6,
    again_s: int = 10**6,
    **tuned: str,
) -> list[Finding]:
    by_partition = ends if isinstance(ends, dict) else dict.fromkeys(range(4), ends)
    return findings(log, NAME, Looks(by_partition, from_s=from_s, until_s=until_s, again_s=again_s), **tuned)


def hundred_a_second(second: int) -> int:
    return 1_000 + 100 * second


def keeps_up(number: int) -> int:
    """With ten seconds from commit to commit."""
    return 1_000 + 1_000 * number


ALL_KEEP_UP = dict.fromkeys(range(4), keeps_up)

HALF_STOPS = dict.fromkeys(range(2), lambda n: keeps_up(60 + n))
"""After ten minutes with all."""


def fleet() -> Log:
    """Ten minutes of a group that keeps up."""
    return play(Log().add(stable()), 10, ALL_KEEP_UP, each_s=10)


def test_a_client_that_does_not_poll_and_stays_in_the_group() -> None:
    log = fleet()
    went_ms = log.now_ms
    (opened,) = with_lag(play(log, 11, HALF_STOPS, each_s=10), hundred_a_second)
    assert states([opened]) == [("firing", "critical")]
    silent_s = (opened.at.timestamp_ms - went_ms) // 1000
    assert 300 <= silent_s <= 360
    # As of the last look at the ends.
    lag = hundred_a_second((opened.at.timestamp_ms // INTERVAL_MS * INTERVAL_MS - b.T0) // SECOND_MS) - keeps_up(59)
    assert lag > 25_000
    assert opened.summary == (
        "2 partitions of m1 not committed for up to 5.3 min, with records to read; t-2 is at "
        "offset 60000. 64,000 records behind: t-2 and t-3."
    )
    since_ms = opened.numbers["since_ms"]
    assert went_ms <= since_ms <= went_ms + 10_000
    assert opened.numbers == {
        "status": "STOP",
        "group_status": "ERR",
        "stopped": 2,
        "stalled": 0,
        "rewound": 0,
        "falling_behind": 0,
        "partitions": ["t-2", "t-3"],
        "offsets": [60_000, 60_000],
        "lags": [lag, lag],
        "clients": ["m1"],
        "lag_records": 2 * lag,
        "since_ms": since_ms,
    }
    assert "poison" not in opened.advice
    assert "stack dump" in opened.advice


def test_a_group_that_is_silent_altogether_with_work_to_do() -> None:
    (opened,) = with_lag(idle(fleet(), 420_000), hundred_a_second)
    assert (opened.numbers["status"], opened.numbers["stopped"]) == ("STOP", 4)


def test_a_client_that_commits_what_does_not_move() -> None:
    log = play(fleet(), 9, {**HALF_STOPS, 2: const(keeps_up(59)), 3: lambda n: keeps_up(60 + n)}, each_s=10)
    (opened,) = with_lag(log, hundred_a_second)
    assert states([opened]) == [("firing", "critical")]
    assert opened.summary.startswith("1 partition of m1 made no progress for up to 5.1 min, with records to read; ")
    assert "t-2 was repeatedly committed at offset 60000" in opened.summary
    assert (opened.numbers["status"], opened.numbers["stalled"]) == ("STALL", 1)


def test_a_poison_record_that_is_read_again_and_again() -> None:
    poison = {2: lambda n: keeps_up(59) - 7 * (n % 5), 3: lambda n: keeps_up(60 + n)}
    log = play(fleet(), 9, {**HALF_STOPS, **poison}, each_s=10)
    opened = next(it for it in with_lag(log, hundred_a_second) if it.numbers["status"] == "STALL")
    assert "t-2 repeatedly went back to before offset 60000" in opened.summary
    assert opened.numbers["offsets"] == [60_000]


def test_a_partition_that_a_new_owner_never_commits() -> None:
    log = fleet().add(stable(2, moved=True))
    (opened,) = with_lag(play(log, 10, HALF_STOPS, each_s=10), hundred_a_second)
    assert (opened.numbers["clients"], opened.numbers["partitions"]) == (["m0"], ["t-2", "t-3"])


def test_it_closes_once_it_moves_on_and_opens_for_the_next_standstill() -> None:
    log = play(fleet(), 12, HALF_STOPS, each_s=10)
    log = play(log, 15, dict.fromkeys(range(4), lambda n: keeps_up(132 + n)), each_s=10)
    log = play(log, 12, dict.fromkeys(range(2), lambda n: keeps_up(222 + n)), each_s=10)
    found = with_lag(log, hundred_a_second)
    assert states(found) == [("firing", "critical"), ("resolved", "critical"), ("firing", "critical")]


def test_nothing_to_read_is_no_standstill_even_where_clients_commit_what_does_not_move() -> None:
    log = play(Log().add(stable()), 10, ALL_SAME)
    assert findings(play(log, 12, HALF), NAME) != []
    assert with_lag(log, same) == []


def test_a_slow_consumer_and_one_that_catches_up() -> None:
    slow = play(Log().add(stable()), 60, dict.fromkeys(range(4), lambda n: 1_000 + 300 * n), each_s=240)
    assert with_lag(slow, lambda second: 90_000 + 300 * (second // 240)) == []
    fast = play(Log().add(stable()), 60, dict.fromkeys(range(4), lambda n: 1_000 + 99 * n), each_s=5)
    assert with_lag(fast, const(90_000)) == []


def test_a_slow_client_works_on_one_partition_after_the_other() -> None:
    """It is behind on all, and comes to each only every ten minutes: none is stuck, and when all stand, they are."""
    log = Log().add(stable())
    for turn in range(6):
        for held in ((0, 2), (1, 3)):
            play(log, 10, dict.fromkeys(held, lambda n, turn=turn: 1_000 + 600 * turn + 10 * n), each_s=10)
    assert [it.severity for it in with_lag(log, hundred_a_second) if it.severity is not Severity.INFO] == []
    opened = with_lag(idle(log, 3_600_000), hundred_a_second)[-1]
    assert opened.numbers["status"] == "STOP"


def test_lag_that_grows_for_half_an_hour() -> None:
    log = play(Log().add(stable()), 35, dict.fromkeys(range(4), lambda n: 1_000 + 50 * n), each_s=10)
    (opened,) = with_lag(log, hundred_a_second)
    assert states([opened]) == [("firing", "info")]
    assert opened.summary.startswith("4 partitions of m0 and m1 fell behind for 30 min, though committed.")
    assert [opened.numbers[it] for it in ("status", "group_status", "falling_behind")] == ["WARN", "WARN", 4]
    assert "Add members" in opened.advice


def test_a_rewind_is_over_once_nothing_is_left_to_read() -> None:
    log = play(Log().add(stable()), 5, {0: lambda n: 1_000 + 10 * n})
    play(log, 2, {0: lambda n: 100 + n})
    back_s = (log.now_ms - b.T0) // 1000
    play(log, 20, {0: const(219)})
    assert len(findings(log, NAME)) == 2
    closed = with_lag(log, {0: lambda second: 5_000 if second < back_s else 219})[-1]
    assert closed.at.timestamp_ms // 1000 - b.T0 // 1000 < back_s + 400


def test_without_members_and_while_members_come_and_go() -> None:
    empty = play(fleet(), 1, HALF_STOPS, each_s=10).add(b.classic_group(2))
    assert with_lag(idle(empty, 3_600_000), hundred_a_second) == []
    # What was there before they came is not their standstill.
    back = idle(empty, 1_000).add(stable(3))
    assert with_lag(idle(back, 200_000), hundred_a_second) == []
    log = fleet()
    for generation in range(2, 20):
        idle(log, 120_000).add(stable(generation, moved=bool(generation % 2)))
    assert with_lag(log, hundred_a_second) == []


def test_a_partition_that_nobody_holds() -> None:
    members = (b.member("m0-1", {"t": [0, 1]}), b.member("m1-1", {"t": [2]}))
    log = fleet().add(b.classic_group(2, *members))
    (opened,) = with_lag(play(log, 12, HALF_STOPS, each_s=10), hundred_a_second)
    assert opened.numbers["partitions"] == ["t-2"]


def test_a_group_on_its_way_does_not_stand() -> None:
    log = Log().add(b.c_topics("t"), b.c_member("m1"), b.c_epoch(1), b.c_target("m1", {"t": [0, 1]}))
    log.add(b.c_target_epoch(1), b.c_current("m1", 1, {"t": [0, 1]}))
    play(log, 10, {0: keeps_up, 1: keeps_up}, each_s=10).add(b.c_member("m2"), b.c_epoch(2))
    assert with_lag(idle(log, 900_000), hundred_a_second) == []


def test_a_streams_group_whose_members_hold_tasks() -> None:
    log = Log().add(b.k_topology(), b.k_member("m0-1"), b.k_member("m1-1"), b.k_epoch(2))
    log.add(b.k_target("m0-1", {"0": [0, 1]}), b.k_target("m1-1", {"0": [2, 3]}), b.k_target_epoch(2))
    log.add(b.k_current("m0-1", 2, {"0": [0, 1]}), b.k_current("m1-1", 2, {"0": [2, 3]}))
    play(log, 10, ALL_KEEP_UP, each_s=10)
    (opened,) = with_lag(play(log, 11, HALF_STOPS, each_s=10), hundred_a_second)
    assert [opened.numbers[it] for it in ("status", "partitions", "clients")] == ["STOP", ["t-2", "t-3"], ["m1"]]


def test_offsets_that_were_deleted_do_not_stand() -> None:
    log = play(fleet(), 12, HALF_STOPS, each_s=10)
    log.add(b.uncommit("t", 2), b.uncommit("t", 3))
    play(log, 8, dict.fromkeys(range(2), lambda n: keeps_up(133 + n)), each_s=10)
    assert states(with_lag(log, hundred_a_second)) == [("firing", "critical"), ("resolved", "critical")]


def test_lag_that_is_no_longer_known() -> None:
    """What was found stays for some looks, then it is of no account: also where the log alone tells of silence."""
    log = play(fleet(), 12, HALF_STOPS, each_s=10)
    opened, closed = with_lag(idle(log, 600_000), hundred_a_second, until_s=1_000)
    assert states([opened, closed]) == [("firing", "critical"), ("resolved", "critical")]
    # Ends are told for three intervals after they were seen, and it closes after five minutes.
    closed_s = (closed.at.timestamp_ms - b.T0) // 1000
    assert 1_000 + 90 + 300 <= closed_s <= 1_000 + 90 + 300 + 60
    same_log = play(play(Log().add(stable()), 10, ALL_SAME), 20, HALF)
    assert [it.numbers["status"] for it in with_lag(same_log, same, until_s=660)] == ["STOP"]
    assert states(with_lag(same_log, same, until_s=660, again_s=1_300)) == [
        ("firing", "warning"),
        ("resolved", "warning"),
    ]


def test_nobody_commits_while_brokers_are_away() -> None:
    """Ends were seen, and are not seen any more: as the agent, no client reaches the brokers."""
    log = play(Log().add(stable()), 10, ALL_SAME)
    away_s = (log.now_ms - b.T0) // 1000
    back = play(idle(log, 1_200_000), 10, ALL_SAME)
    assert with_lag(back, same, until_s=away_s - 15) == []
    assert with_lag(back, same, until_s=away_s - 15, again_s=away_s + 1_000) == []
    assert states(findings(back, NAME)) == [("firing", "warning"), ("resolved", "warning")]


def test_a_standstill_counts_anew_once_brokers_are_back() -> None:
    """Who is behind then had no chance to commit; and who is stuck is told as soon as if it had begun then."""
    behind = dict.fromkeys(range(4), lambda number: keeps_up(number) - 500)
    again_s = 601 + 1_200
    log = idle(play(Log().add(stable()), 10, behind, each_s=10), 1_290_000)
    back = dict.fromkeys(range(4), lambda number: keeps_up(189 + number))
    assert with_lag(play(log, 10, back, each_s=10), hundred_a_second, until_s=601, again_s=again_s) == []
    for other in ({}, dict.fromkeys((2, 3), lambda _: behind[2](59))):
        log = idle(play(Log().add(stable()), 10, behind, each_s=10), 1_190_000)
        play(play(log, 2, {0: back[0], 1: back[1], **other}, each_s=10), 5, back, each_s=10)
        assert with_lag(log, hundred_a_second, until_s=601, again_s=again_s) == [], "clients come back one by one"
    log = idle(play(Log().add(stable()), 10, ALL_KEEP_UP, each_s=10), 1_260_000)
    play(log, 10, dict.fromkeys(range(4), lambda number: keeps_up(59) + 6_000 + 1_000 * number), each_s=10)
    found = with_lag(
        log,
        lambda second: keeps_up(min(second // 10, 60) - 1) + 100 * max(second - again_s, 0),
        until_s=601,
        again_s=again_s,
    )
    assert found == [], "producers are back before clients that had nothing to read"
    log = idle(play(Log().add(stable()), 10, behind, each_s=10), 1_800_000)
    (opened,) = with_lag(log, hundred_a_second, until_s=601, again_s=again_s)
    assert opened.numbers["status"] == "STOP"
    assert 300 <= (opened.at.timestamp_ms - b.T0) // 1000 - again_s <= 360


def test_a_source_that_falls_silent_is_of_no_account_after_some_looks() -> None:
    """As when an agent goes on from an image with an open finding, and watches no ends any more."""
    analyzer = StalledConsumer(SETTINGS)
    log = play(fleet(), 12, HALF_STOPS, each_s=10)
    mirror = ClusterMirror()
    diagnosis = ClusterDiagnosis(
        mirror, AnalyzerSelection([lambda: analyzer]), lag_source=Looks(dict.fromkeys(range(4), hundred_a_second))
    )
    diagnosis.replay_batch(b.run_of(log.records))
    no_source = Looks({})
    no_source.since_ms = log.now_ms + 10**9
    diagnosis.set_lag_source(no_source)
    (closed,) = [it for it in diagnosis.advance(log.now_ms + 600_000) if isinstance(it, Finding)]
    assert closed.state is FindingState.RESOLVED


@pytest.mark.parametrize(
    ("each_s", "after_s"),
    [
        (10, 450),
        # No pace between moves is known by then either, but one between commits.
        (240, 3 * 240),
    ],
)
def test_looks_begin_once_ends_are_known(each_s: int, after_s: int) -> None:
    log = play(Log().add(stable()), 20, ALL_KEEP_UP, each_s=each_s)
    found = with_lag(idle(log, 3_600_000), hundred_a_second, from_s=1_200)
    assert [(it.at.timestamp_ms - b.T0) // 1000 - 1_200 for it in found] == [pytest.approx(after_s, abs=60)]


def test_a_small_setting_is_looked_at_often() -> None:
    log = fleet()
    went_ms = log.now_ms
    opened = with_lag(idle(log, 120_000), hundred_a_second, silent_after_s="60")[0]
    assert 60_000 <= opened.at.timestamp_ms - went_ms <= 120_000


# A history with samples.


def sampled(log: Log, ends: Ends, *, most_behind: int = 100, named: int = 100) -> SampledLags:
    """Samples as an agent makes them each 30 s, of what was committed by then."""
    mirror, samples, records = ClusterMirror(), [], list(log.records)
    for at_ms in range(-(-b.T0 // INTERVAL_MS) * INTERVAL_MS, log.now_ms + 1, INTERVAL_MS):
        while records and records[0].timestamp_ms <= at_ms:
            mirror.replay_batch(b.run_of([records.pop(0)]))
        committed = mirror.find(GROUP)[1] if mirror.find(GROUP) else ()
        end = ends((at_ms - b.T0) // SECOND_MS)
        behind = [PositionBehind(it.topic, it.partition, end) for it in committed if it.offset < end]
        lag = GroupLagTotal(len(committed), len(committed), 0, 0.0)
        sample = GroupSample(at_ms + 7, 7, 1, GROUP, "classic", "Stable", 2, 1.0, 1.0, lag, at_ms, behind[:named])
        samples.append(sample_event(sample))
    return SampledLags(reversed(samples), most_behind)


def test_a_history_with_samples_finds_the_same() -> None:
    log = play(fleet(), 12, HALF_STOPS, each_s=10)
    log = play(log, 9, {**HALF_STOPS, 2: const(70_000), 3: lambda n: 70_000 - 9 * (n % 4)}, each_s=10)
    for ends in (hundred_a_second, const(60_000), lambda second: max(60_000, 1_000 + 100 * (second - 500))):
        live = with_lag(log, ends)
        assert findings(log, NAME, sampled(log, ends)) == live
    assert [it.numbers["status"] for it in with_lag(log, hundred_a_second)] != []


def test_what_a_sample_does_not_name_is_not_behind_if_it_names_all() -> None:
    log = play(fleet(), 12, HALF_STOPS, each_s=10)
    (opened,) = findings(log, NAME, sampled(log, hundred_a_second))
    assert opened.numbers["stopped"] == 2
    columns = partial(CommitColumns, [("t", 0), ("t", 1)], [5, 5], [0, 0], [b"", b""])
    sample = {"group": GROUP, "ends_ms": 1_000, "partitions": 2, "lag_partitions": 2}
    one = {**sample, "behind": [{"topic": "t", "partition": 0, "end": 9}]}
    later = {**one, "ends_ms": 2_000}
    both = {("t", 0): 4, ("t", 1): 0}
    assert SampledLags([one, later], 100).lags(GROUP, columns, 2_500) == KnownLags(2_000, both)
    assert SampledLags([one, later], 100).lags(GROUP, columns, 1_999) == KnownLags(1_000, both)
    assert SampledLags([one, later], 1).lags(GROUP, columns, 2_500).lags == {("t", 0): 4}
    unknown = [{**it, "lag_partitions": 1} for it in (one, later)]
    assert SampledLags(unknown, 100).lags(GROUP, columns, 2_500).lags == {("t", 0): 4}


def test_after_the_last_sample_there_are_no_looks() -> None:
    """Else a record that is dated ages ahead, as any client may write it, would not come to an end."""
    log = fleet()
    samples = sampled(log, hundred_a_second)
    log.add(b.commit(), after_ms=1 << 62)
    assert findings(log, NAME, samples) == []


def test_without_a_sample_nothing_is_known() -> None:
    columns = partial(CommitColumns, [("t", 0)], [5], [0], [b""])
    old = {"group": GROUP, "type": "group_sample"}
    sample = {**old, "ends_ms": 1_000, "partitions": 1, "lag_partitions": 1, "behind": []}
    assert SampledLags([old], 100).since_ms is None
    two = SampledLags([sample, {**sample, "ends_ms": 2_000}, old], 100)
    assert two.since_ms == 1_000
    assert [two.lags(GROUP, columns, at_ms).lags for at_ms in (999, 5_000, 5_001)] == [{}, {("t", 0): 0}, {}]
    assert two.lags("other", columns, 2_000) == KnownLags(2_000, {})


class LooksWithout(Looks):
    """From `until_s` to `again_s` the ends of partitions 2 and 3 are not seen: their broker is away."""

    def lags(self, group: str, commits: ReadCommits, at_ms: int) -> KnownLags:
        away = self._until_ms <= at_ms // INTERVAL_MS * INTERVAL_MS < self._again_ms
        some = {number: end for number, end in self._ends.items() if number < 2 or not away}
        return Looks(some).lags(group, commits, at_ms)


def test_a_partition_whose_broker_was_away_is_no_standstill() -> None:
    behind = dict.fromkeys(range(4), lambda number: keeps_up(number) - 500)
    half = dict.fromkeys(range(2), lambda number: keeps_up(60 + number) - 500)
    log = play(play(Log().add(stable()), 10, behind, each_s=10), 21, half, each_s=10)
    looks = LooksWithout(dict.fromkeys(range(4), hundred_a_second), until_s=601, again_s=1_801)
    back = dict.fromkeys(range(4), lambda number: keeps_up(186 + number))
    assert findings(play(log, 10, back, each_s=10), NAME, looks) == []
    never = play(play(Log().add(stable()), 10, behind, each_s=10), 40, half, each_s=10)
    (opened,) = findings(never, NAME, looks)
    assert opened.numbers["partitions"] == ["t-2", "t-3"]
    assert 300 <= (opened.at.timestamp_ms - b.T0) // 1000 - 1_801 <= 360


# An agent that is started again.


def restarted(log: Log, ends: Ends, *, stopped_s: int, again_s: int) -> list[Finding]:
    """What an agent finds that saw ends until `stopped_s`, and goes on from its snapshot of then; another one sees
    them from `again_s` on."""
    by_partition = dict.fromkeys(range(4), ends)
    before = [it for it in log.records if it.timestamp_ms <= b.T0 + stopped_s * SECOND_MS]
    first, again = (ClusterState(select_analyzers({NAME}, {}), log=LogId("cluster", "topic")) for _ in range(2))
    first.diagnosis.set_lag_source(Looks(by_partition))
    found = first.replay_batch(b.run_of(before))
    found += first.advance(b.T0 + stopped_s * SECOND_MS)
    again.restore(log.partition, first.capture(log.partition).encode())
    again.diagnosis.set_lag_source(Looks(by_partition, from_s=again_s))
    found += again.replay_batch(b.run_of(log.records[len(before) :]))
    return [it for it in found if isinstance(it, Finding)]


def test_an_agent_that_is_started_again_in_an_outage_of_the_brokers() -> None:
    behind = dict.fromkeys(range(4), lambda number: keeps_up(number) - 500)
    back = dict.fromkeys(range(4), lambda number: keeps_up(189 + number))
    log = play(idle(play(Log().add(stable()), 10, behind, each_s=10), 1_290_000), 10, back, each_s=10)
    assert restarted(log, hundred_a_second, stopped_s=605, again_s=1_801) == []
    log = play(idle(play(Log().add(stable()), 10, ALL_SAME), 1_250_000), 10, ALL_SAME)
    assert restarted(log, same, stopped_s=605, again_s=1_801) == [], "nor by the log alone"


def test_an_agent_that_is_started_again_while_brokers_answer() -> None:
    """What it saw by then counts on."""
    log = play(fleet(), 11, HALF_STOPS, each_s=10)
    (opened,) = with_lag(log, hundred_a_second)
    (again,) = restarted(log, hundred_a_second, stopped_s=785, again_s=825)
    assert (again.severity, again.since_ms) == (opened.severity, opened.since_ms)


def test_clients_come_back_before_ends_are_seen_again() -> None:
    log = play(Log().add(stable()), 10, ALL_SAME)
    play(play(idle(log, 1_200_000), 2, HALF), 10, ALL_SAME)
    assert with_lag(log, same, until_s=585, again_s=1_890) == []
    never = play(play(idle(play(Log().add(stable()), 10, ALL_SAME), 1_200_000), 2, ALL_SAME), 20, HALF)
    assert [it.numbers["partitions"] for it in with_lag(never, same, until_s=585)] == [["t-2", "t-3"]]


def test_an_outage_is_no_time_in_which_a_lag_grew() -> None:
    behind = dict.fromkeys(range(4), lambda number: keeps_up(number) - 500)
    back = dict.fromkeys(range(4), lambda number: keeps_up(69 + number))
    log = idle(play(Log().add(stable()), 10, behind, each_s=10), 1_200_000)
    play(log, 10, back, each_s=10)
    for found in (
        with_lag(log, hundred_a_second, until_s=601, again_s=1_815),
        restarted(log, hundred_a_second, stopped_s=605, again_s=1_815),
    ):
        assert found == []

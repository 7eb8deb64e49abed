"""`stalled_consumer`: the rules by themselves, and what of them the log alone can tell."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agent.core.diagnosis.api import Severity
from agent.core.shadow.views import Position
from analyzers.stalled_consumer import PartitionTrack, StalledSettings, Status, partition_status, severity_of
from tests.unit.analyzers.driving import MINUTE_MS, Log, findings, idle, of_the_capture, states
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import GROUP
from tests.unit.core.wire.vectors import CAPTURE, needs

NAME = "stalled_consumer"

SETTINGS = StalledSettings()

Row = tuple[int, int | None]
"""Offset and lag, None where it is not known."""


def track(rows: list[Row], *, commits_a_minute: int = 12, owned_ms: int = 0) -> tuple[PartitionTrack, int]:
    """One sample a minute; and the time of the last commit."""
    (offset, lag), *rest = rows
    made = PartitionTrack(Position(offset, 0, commits_a_minute), lag)
    at_ms = 0
    for number, (offset, lag) in enumerate(rest, 1):
        at_ms = number * MINUTE_MS
        before = made.position
        made.follow(Position(offset, at_ms, (number + 1) * commits_a_minute), owned_ms, lag)
        if offset < before.offset:
            made.mark_rewind(before.offset)
    return made, at_ms


def minutes(count: int, offset: Callable[[int], int], lag: Callable[[int], int | None]) -> list[Row]:
    return [(offset(number), lag(number)) for number in range(count)]


def none(_: int) -> None:
    return None


def moving(number: int) -> int:
    return 100 + 10 * number


def same(_: int) -> int:
    return 100


# Number, why, samples, minutes of silence after the last, whether the client commits what did not move, expected.
RULES: list[tuple[int, str, list[Row], int, bool, Status]] = [
    (1, "it moves, lag unknown", minutes(12, moving, none), 0, True, Status.OK),
    (2, "silent, with work to do", minutes(12, moving, lambda _: 50), 6, False, Status.STOP),
    (3, "silent, but not for long", minutes(12, moving, lambda _: 50), 4, False, Status.OK),
    (4, "silent, and nothing to do", minutes(12, moving, lambda _: 0), 600, True, Status.OK),
    (5, "silent, lag unknown: perhaps nothing comes", minutes(12, moving, none), 600, False, Status.OK),
    (6, "silent, lag unknown, and it commits what did not move", minutes(12, same, none), 6, True, Status.STOP),
    (7, "silent after one sample: its pace is not known", minutes(1, moving, lambda _: 50), 600, True, Status.OK),
    (8, "stands with work to do", minutes(12, same, lambda _: 50), 0, False, Status.STALL),
    (9, "stands with work to do, but not for long", minutes(5, same, lambda _: 50), 0, False, Status.OK),
    (10, "stands, and nothing to do", minutes(12, same, lambda _: 0), 0, False, Status.OK),
    (11, "stands, lag unknown", minutes(12, same, none), 0, True, Status.OK),
    (12, "work came a moment ago", [*minutes(12, same, lambda _: 0), (100, 5)], 0, False, Status.OK),
    (13, "work has been there for long", [(100, 0), *minutes(9, same, lambda _: 5)], 0, False, Status.STALL),
    (14, "moves, and its lag grows", minutes(12, moving, lambda n: 50 + n), 0, False, Status.WARN),
    (15, "its lag grows, but not for ten minutes", minutes(10, moving, lambda n: 50 + n), 0, False, Status.OK),
    (16, "its lag stays", minutes(12, moving, lambda _: 50), 0, False, Status.OK),
    (17, "its lag fell once",
     [*minutes(6, moving, lambda n: 50 + n), *minutes(8, lambda n: 200 + n, lambda n: 9 + n)], 0, False, Status.OK),
    (18, "its lag was made up for once", [*minutes(6, moving, lambda n: 50 + n), (190, 0),
     *minutes(8, lambda n: 200 + n, lambda n: 90 + n)], 0, False, Status.OK),
    (19, "went back", [(100, None), (200, None), (50, None)], 0, False, Status.REWIND),
    (20, "went back, and is where it was", [(100, None), (200, None), (50, None), (200, None)], 0, False, Status.OK),
    (21, "went back, and is on its way", [(100, None), (200, None), (50, None), (199, None)], 0, False,
     Status.REWIND),
    (22, "went back twice", [(100, None), (200, None), (50, None), (60, None), (20, None), (100, None)], 0, False,
     Status.REWIND),
    (23, "went back long ago", [(100, None), (200, None), (50, None)], 10, False, Status.OK),
    (24, "went back, and nothing is to do", [(100, 1), (200, 1), (50, 0)], 0, False, Status.OK),
    (25, "the lag is no longer known", [*minutes(12, same, lambda _: 50), (100, None)], 0, False, Status.OK),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "silent", "recommits", "expected"), [pytest.param(*row[2:], id=f"{row[0]}-{row[1]}") for row in RULES]
)
def test_rules(rows: list[Row], silent: int, recommits: bool, expected: Status) -> None:
    followed, at_ms = track(rows)
    assert (
        partition_status(followed, at_ms + silent * MINUTE_MS, SETTINGS, owned_ms=0, recommits=recommits) is expected
    )


def test_silence_is_measured_by_the_pace_before_it() -> None:
    followed, at_ms = track([(100, None), (200, None), (300, None)], commits_a_minute=1)
    followed.follow(Position(400, at_ms + 40 * MINUTE_MS, 40), 0)  # one in 64 s
    assert followed.due_ms(SETTINGS) == at_ms + 45 * MINUTE_MS
    followed.follow(Position(500, at_ms + 80 * MINUTE_MS, 42), 0)  # one in 20 minutes
    assert followed.due_ms(SETTINGS) == at_ms + 140 * MINUTE_MS


def test_a_new_owner_has_no_pace_yet() -> None:
    followed, at_ms = track(minutes(12, same, none), owned_ms=10 * MINUTE_MS + 1)
    assert (followed.pause_ms, followed.repeats) == (0, 0)
    late = at_ms + 60 * MINUTE_MS
    assert partition_status(followed, late, SETTINGS, owned_ms=10 * MINUTE_MS + 1, recommits=True) is Status.OK


def test_nor_has_one_that_did_not_commit() -> None:
    followed, at_ms = track(minutes(12, same, none))
    assert partition_status(followed, at_ms * 9, SETTINGS, owned_ms=at_ms + 1, recommits=True) is Status.OK


@pytest.mark.parametrize(
    ("of", "lag", "expected"),
    [
        (Status.STOP, 5, Severity.CRITICAL),
        (Status.STOP, None, Severity.WARNING),
        (Status.STALL, 5, Severity.CRITICAL),
        (Status.REWIND, None, Severity.WARNING),
        (Status.WARN, 5, Severity.WARNING),
    ],
)
def test_severities(of: Status, lag: int | None, expected: Severity) -> None:
    assert severity_of(of, lag) is expected


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

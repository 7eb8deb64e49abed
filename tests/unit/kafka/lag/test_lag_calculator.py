"""The quick way of telling all lags against the general way, one by one."""

from __future__ import annotations

import random
from weakref import ref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.common import clock
from agent.core.end_offsets import Lag
from agent.core.shadow.offsets import CommittedOffsets
from agent.core.share_positions import SharePosition, ShareState
from agent.core.wire.offset_commit_fastpath import commit_key, commit_value
from agent.core.wire.primitives import ZERO_UUID, Uuid
from agent.kafka.lag.end_offset_history import EndOffsetHistory
from agent.kafka.lag.lag_calculator import LagCalculator, TopicLag, lowest_committed
from agent.kafka.lag.scraped import LagSnapshot, ScrapedLags
from tests import examples

INTERVAL_MS = 30_000
NOW = 1_000_000_000
IDS = [ZERO_UUID, Uuid(b"1" * 16), Uuid(b"2" * 16)]
TOPICS = ["a", "b"]
PLACES = [(topic, partition) for topic in TOPICS for partition in range(3)]

places = st.sampled_from(PLACES)
ends = st.integers(0, 30)
acts = st.one_of(
    *[st.tuples(st.just("written"), st.fixed_dictionaries(dict.fromkeys(PLACES, st.integers(0, 9))))] * 4,
    st.tuples(st.just("seen"), st.dictionaries(places, ends, min_size=1)),
    st.tuples(st.just("stable"), st.dictionaries(places, ends)),
    st.tuples(st.just("started"), st.dictionaries(places, ends)),
    st.tuples(st.just("identified"), st.dictionaries(st.sampled_from(TOPICS), st.sampled_from(IDS))),
    st.tuples(st.just("missing"), st.lists(places, max_size=2)),
    st.tuples(st.just("denied"), st.sampled_from(TOPICS)),
    st.tuples(st.just("seeded"), places, st.lists(ends, min_size=1, max_size=3), st.booleans()),
)
commits = st.dictionaries(
    st.tuples(st.sampled_from(["g", "h"]), places),
    st.tuples(st.integers(0, 35), st.integers(-100, 5), st.sampled_from(IDS), st.sampled_from(["", "m", "x" * 200])),
)


Committed = dict[tuple[str, tuple[str, int]], tuple[int, int, Uuid, str]]
"""By group and partition: the offset, when in seconds, the topic's id, metadata."""


def kept(book: EndOffsetHistory, act: tuple[object, ...], at_ms: int) -> None:
    match act:
        case "written", dict(found):
            book.add_high_watermarks({place: (book.end(place) or 0) + more for place, more in found.items()}, at_ms)
        case "seen", dict(found):
            book.add_high_watermarks(found, at_ms)
        case "stable", dict(found):
            book.add_last_stable(found)
        case "started", dict(found):
            book.add_log_starts(found)
        case "identified", dict(found):
            book.add_topic_ids(found)
        case "missing", list(found):
            book.add_missing(found)
        case "denied", str(topic):
            book.add_denied(topic)
        case "seeded", tuple(place), list(offsets), bool(is_complete):
            first_ms = at_ms - 1_000_000
            points = [(first_ms + 1000 * at, end) for at, end in enumerate(sorted(offsets))]
            book.add_seeds(place, points, is_complete=is_complete)


def topics_of(taken: LagSnapshot) -> list[tuple[str, TopicLag]]:
    found = taken.groups(topics=True, partitions=False)
    return [(group, it) for group, of in found.items() for it in of.topics]


def rows_of(taken: LagSnapshot) -> list[tuple[str, tuple[str, int], int, int | None]]:
    found = taken.groups(topics=False, partitions=True)
    return [(group, *row) for group, of in found.items() for row in zip(*of.shown, strict=True)]


def summed(topic: str, every: list[Lag]) -> TopicLag:
    known = [it for it in every if it.records is not None]
    lagging = [it for it in known if it.records]
    seconds = [it.seconds for it in lagging]
    # Nothing to read where that is known, and elsewhere perhaps: that is not 0.
    is_told = lagging or len(known) == len(every)
    return TopicLag(
        topic,
        sum(it.records or 0 for it in known) if is_told else None,
        None if not is_told or None in seconds else max([0.0, *(it for it in seconds if it is not None)]),
        len(every),
        len(every) - len(known),
        any(it.at_least for it in lagging),
    )


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(st.lists(acts, min_size=1, max_size=3), max_size=7),
    commits,
    st.none() | commits,
    st.integers(0, 4 * INTERVAL_MS),
)
def test_the_quick_way_is_the_general_way(
    story: list[list[tuple[object, ...]]],
    committed: Committed,
    since: Committed | None,
    later_ms: int,
) -> None:
    book = EndOffsetHistory(INTERVAL_MS)
    for number, look in enumerate(story):
        at_ms = NOW - (len(story) - number) * INTERVAL_MS
        for act in look:
            kept(book, act, at_ms)
        book.publish(at_ms)
    offsets = CommittedOffsets()
    known, now_ms = book.snapshot, NOW - INTERVAL_MS + later_ms
    for part in (committed, since or {}):
        for (group, (topic, partition)), (offset, seconds, topic_id, metadata) in part.items():
            value = commit_value(offset, NOW + 1000 * seconds, metadata=metadata, topic_id=topic_id)
            offsets.put(commit_key(group, topic, partition), group, (topic, partition), value)
        if since is not None and part is committed:
            offsets.begin_look()
            offsets.end_look(known.at_ms)

    every: dict[tuple[str, str], list[Lag]] = {}
    single: set[tuple[str, tuple[str, int], int, int | None]] = set()
    for group, _ in offsets.numbered():
        looked = offsets.looked_offsets(group, known.at_ms)
        for topic, partition, it in offsets.commits(group):
            then = looked.get((topic, partition))
            lag = known.lag(topic, partition, it.offset, it.commit_ms, it.topic_id, now_ms, looked=then)
            every.setdefault((group, topic), []).append(lag)
            single.add((group, (topic, partition), it.offset, lag.records))
    taken = LagSnapshot(LagCalculator().take(offsets), known, now_ms, lambda topic: True)
    found = {(group, it.topic): it for group, it in topics_of(taken)}
    assert found.keys() == every.keys()
    for (group, topic), wanted in every.items():
        it = found[group, topic]
        assert replace(it, seconds=None) == replace(summed(topic, wanted), seconds=None)
        assert it.seconds == pytest.approx(summed(topic, wanted).seconds, abs=1e-6)
    assert set(rows_of(taken)) == single
    assert all(records is None or records >= 0 for *_, records in single)


def commit(offsets: CommittedOffsets, group: str, topic: str, partition: int, offset: int) -> None:
    offsets.put(commit_key(group, topic, partition), group, (topic, partition), commit_value(offset, NOW))


def test_the_lowest_position_of_each_partition() -> None:
    one, other, sums = CommittedOffsets(), CommittedOffsets(), LagCalculator()
    commit(one, "g", "t", 0, 7)
    commit(one, "g", "t", 1, 8)
    commit(one, "h", "t", 0, 9)
    commit(other, "i", "t", 0, 5)
    commit(other, "i", "u", 3, 1)
    assert lowest_committed([sums.take(one), sums.take(other)]) == {"t": {0: 5, 1: 8}, "u": {3: 1}}
    assert lowest_committed([]) == {}


def test_nothing_to_read_where_ends_are_known_is_no_lag_of_nothing() -> None:
    """As where a broker is away that leads half of the partitions."""
    offsets, sums, book = CommittedOffsets(), LagCalculator(), EndOffsetHistory(INTERVAL_MS)
    book.add_high_watermarks({("t", 0): 10}, NOW)
    ends = book.publish(NOW)
    for group, offset in (("g", 10), ("h", 4)):
        commit(offsets, group, "t", 0, offset)
        commit(offsets, group, "t", 1, 5)
    taken = LagSnapshot(sums.take(offsets), ends, NOW, lambda topic: True)
    found = {group: (it.records, it.seconds is None, it.partitions, it.unknown) for group, it in topics_of(taken)}
    assert found == {"g": (None, True, 2, 1), "h": (6, True, 2, 1)}
    assert taken.totals() == {"h": 6}
    state = ShareState(10, 0, 0, NOW)
    shares = [SharePosition("s", "t", ZERO_UUID, at, state) for at in range(2)]
    taken = taken._replace(shares=shares)
    assert [it for group, it in topics_of(taken) if group == "s"] == [TopicLag("t", None, None, 2, 1)]
    assert taken.totals() == {"h": 6}


def test_a_topic_that_was_deleted_has_nothing_to_read() -> None:
    offsets, sums, book = CommittedOffsets(), LagCalculator(), EndOffsetHistory(INTERVAL_MS)
    for group, topics in (("both", ("t", "gone")), ("one", ("gone",))):
        for topic in topics:
            commit(offsets, group, topic, 0, 10)
    book.add_high_watermarks({("t", 0): 10, ("gone", 0): 12}, NOW)
    for _ in range(2):
        book.add_high_watermarks({("t", 0): 10}, NOW)
        book.add_missing([("gone", 0)])
    taken = LagSnapshot(sums.take(offsets), book.publish(NOW), NOW, lambda topic: True)
    assert taken.totals() == {"both": 0}
    assert {(group, it.topic, it.records) for group, it in topics_of(taken)} == {
        ("both", "t", 0),
        ("both", "gone", None),
        ("one", "gone", None),
    }


def test_positions_that_come_and_go() -> None:
    offsets, sums, book = CommittedOffsets(), LagCalculator(), EndOffsetHistory(INTERVAL_MS)
    book.add_high_watermarks({("t", 0): 10, ("t", 1): 20}, NOW)
    ends = book.publish(NOW)

    def now() -> dict[str, int]:
        return LagSnapshot(sums.take(offsets), ends, NOW, lambda topic: True).totals()

    assert now() == {}
    commit(offsets, "g", "t", 0, 4)
    assert now() == {"g": 6}
    commit(offsets, "g", "t", 0, 5)
    assert now() == {"g": 5}, "the same position moved on"
    commit(offsets, "g", "t", 1, 5)
    commit(offsets, "h", "unknown", 0, 5)
    assert now() == {"g": 20}, "of the other nothing is known"
    offsets.remove(commit_key("g", "t", 0), "g")
    assert now() == {"g": 15}
    book.add_high_watermarks({("t", 0): 10, ("t", 1): 25, ("unknown", 0): 5}, NOW)
    ends = book.publish(NOW)
    assert now() == {"g": 20, "h": 0}
    assert now() == {"g": 20, "h": 0}
    offsets = CommittedOffsets()
    assert now() == {}


def test_what_was_committed_before_something_hides_the_rest_tells_no_lag() -> None:
    offsets, book, hiding = CommittedOffsets(), EndOffsetHistory(INTERVAL_MS), set[int]()
    book.add_high_watermarks({("t", 0): 10}, clock.now_ms())
    ends = book.publish(clock.now_ms())
    commit(offsets, "g", "t", 0, 4)
    lags = ScrapedLags(lambda: ends, is_hidden=hiding.__contains__)
    assert [it.records for _, it in topics_of(lags.take(3, offsets))] == [6]
    hiding.add(3)
    taken = lags.take(3, offsets)
    assert [(it.records, it.unknown) for _, it in topics_of(taken)] == [(None, 1)]
    assert rows_of(taken) == [("g", ("t", 0), 4, None)]
    assert lowest_committed([taken.positions]) == {"t": {0: 4}}, "its end is asked for all the same"


def test_a_mirror_begun_anew_is_not_taken_for_the_one_before() -> None:
    before, after, sums = CommittedOffsets(), CommittedOffsets(), LagCalculator()
    commit(before, "g", "t", 0, 4)
    commit(after, "h", "t", 0, 4)
    assert lowest_committed([sums.take(before)]) == lowest_committed([sums.take(after)])
    assert [row.group for row in sums.take(after).layout.rows] == ["h"]


def test_nothing_is_kept_of_a_partition_that_is_gone() -> None:
    """Of one that another replica has now, all positions were, 310 bytes of each."""
    offsets, sums = CommittedOffsets(), LagCalculator()
    commit(offsets, "g", "t", 0, 4)
    sums.take(offsets)
    seen = ref(offsets)
    del offsets
    assert seen() is None
    assert not sums._layouts


def test_a_group_that_is_behind_and_commits_on_is_told_as_of_the_look() -> None:
    """Ten records a second are written, and consumed two seconds later."""
    offsets, book, sums = CommittedOffsets(), EndOffsetHistory(30_000), LagCalculator()

    def told(at_s: int) -> tuple[int | None, float | None]:
        ((_, lag),) = topics_of(LagSnapshot(sums.take(offsets), book.snapshot, NOW + 1000 * at_s, lambda topic: True))
        return lag.records, lag.seconds

    for at_s in range(100):
        commit(offsets, "g", "t", 0, 10 * at_s)
        if at_s % 30 == 0:
            offsets.begin_look()
            # It commits while brokers are asked.
            commit(offsets, "g", "t", 0, 10 * at_s + 1)
            book.add_high_watermarks({("t", 0): 10 * at_s + 20}, NOW + 1000 * at_s)
            offsets.end_look(book.publish(NOW + 1000 * at_s).at_ms)
        if at_s >= 30:
            records, seconds = told(at_s)
            assert (records, seconds) == (20, pytest.approx(2.0, abs=0.11)), at_s


def test_what_is_not_of_the_look_counts_as_it_is_now() -> None:
    offsets, book, sums = CommittedOffsets(), EndOffsetHistory(30_000), LagCalculator()

    def told() -> dict[int, int | None]:
        taken = LagSnapshot(sums.take(offsets), book.snapshot, NOW, lambda topic: True)
        return {partition: records for _, (_, partition), _, records in rows_of(taken)}

    for partition in range(3):
        commit(offsets, "g", "t", partition, 50)
    offsets.begin_look()
    offsets.end_look(0)
    book.add_high_watermarks({("t", partition): 100 for partition in range(4)}, NOW)
    book.publish(NOW)
    commit(offsets, "g", "t", 0, 90)
    assert told() == {0: 10, 1: 50, 2: 50}, "the ends are of another look"
    offsets.begin_look()
    offsets.end_look(NOW)
    commit(offsets, "g", "t", 0, 95)
    commit(offsets, "g", "t", 1, 20)
    assert told() == {0: 10, 1: 80, 2: 50}, "it moved on, and went back"
    offsets.remove(commit_key("g", "t", 2), "g")
    commit(offsets, "g", "t", 3, 80)
    assert told() == {0: 10, 1: 80, 3: 20}, "it came since, under the number of another"


def test_the_longest_of_many_partitions_over_many_looks() -> None:
    dice, book, offsets = random.Random(1), EndOffsetHistory(INTERVAL_MS), CommittedOffsets()
    ends_of = {("t", partition): 0 for partition in range(20)}
    for look in range(100):
        ends_of = {place: end + dice.randrange(10) for place, end in ends_of.items()}
        book.add_high_watermarks(ends_of, NOW + look * INTERVAL_MS)
        book.publish(NOW + look * INTERVAL_MS)
    for group in range(50):
        for (topic, partition), end in ends_of.items():
            commit(offsets, f"g{group}", topic, partition, dice.randrange(end // 5, end + 1))
    ends, now_ms = book.snapshot, NOW + 100 * INTERVAL_MS
    for group, it in topics_of(LagSnapshot(LagCalculator().take(offsets), ends, now_ms, lambda topic: True)):
        every = [
            ends.lag(topic, at, of.offset, of.commit_ms, ZERO_UUID, now_ms)
            for topic, at, of in offsets.commits(group)
        ]
        assert it.seconds == pytest.approx(summed("t", every).seconds)
        assert it.records == summed("t", every).records


@pytest.mark.parametrize("hidden", [(), ("b",), ("a", "c"), ("a", "b", "c")])
@pytest.mark.parametrize("share_group", ["s", "g"])
def test_what_groups_committed_is_told_by_group(hidden: tuple[str, ...], share_group: str) -> None:
    """Where names of topics are hidden, and where a share group is, of a name that has commits too."""
    offsets, book = CommittedOffsets(), EndOffsetHistory(INTERVAL_MS)
    book.add_high_watermarks({(topic, at): 10 for topic in "abc" for at in range(2)}, clock.now_ms())
    ends = book.publish(clock.now_ms())
    for group in ("g", "h"):
        for at, topic in enumerate("abc"):
            commit(offsets, group, topic, 0, at)
            commit(offsets, group, topic, 1, 2 * at)
    state = ShareState(4, 0, 0, NOW)
    shares = [SharePosition(share_group, topic, ZERO_UUID, at, state) for topic in "ab" for at in range(2)]
    lags = ScrapedLags(lambda: ends, lambda topic: topic not in hidden, lambda _: shares)
    taken = lags.take(3, offsets)
    found = taken.groups(topics=True, partitions=True)
    assert sorted(found) == sorted({"g", "h", share_group})
    shown = [(topic, at) for at, topic in enumerate("abc") if topic not in hidden]
    rows = [
        (group, (topic, partition), (1 + partition) * at, 10 - (1 + partition) * at)
        for group in ("g", "h")
        for topic, at in shown
        for partition in range(2)
    ]
    rows += [(share_group, (topic, at), 4, 6) for topic, _ in shown if topic != "c" for at in range(2)]
    assert sorted(rows_of(taken)) == sorted(rows)
    sums = [(group, topic, 20 - 3 * at) for group in ("g", "h") for topic, at in shown]
    sums += [(share_group, topic, 12) for topic, _ in shown if topic != "c"]
    assert sorted((group, it.topic, it.records) for group, it in topics_of(taken)) == sorted(sums)
    for some in ({"g"}, {"h", "nobody"}, {"s"}, set[str]()):
        fewer = taken.of_groups(some)
        assert topics_of(fewer) == [it for it in topics_of(taken) if it[0] in some]
        assert rows_of(fewer) == [it for it in rows_of(taken) if it[0] in some]
    assert taken.totals() == {
        group: sum(it.records or 0 for it in of.topics) for group, of in found.items() if of.topics
    }
    assert found["h"].last_commit_ms == NOW, "hidden or not"
    assert [*found["h"].places] == [(topic, at) for topic in "abc" for at in range(2)]
    less = taken.groups(topics=False, partitions=False)
    assert all(not of.topics and not of.shown.places for of in less.values())

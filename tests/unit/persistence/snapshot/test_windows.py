"""What spans partitions: images of different moments give every window once, with every partition's load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.core.diagnosis.api import (
    ClusterAnalyzer,
    Condition,
    Finding,
    LoadWindow,
    PartitionLoad,
    Settings,
    Severity,
    Verdict,
)
from agent.core.diagnosis.cluster import LOADS_RETENTION_MS, AnalyzerSelection
from agent.core.records import RawRecord
from agent.persistence.cluster_state import ClusterState
from tests import examples
from tests.harness.state_digest import cluster_digest
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log, run_of
from tests.unit.persistence.snapshot.cutting import LOG

MINUTE, WINDOW = 60_000, 300_000
FIRST = b.T0 // WINDOW * WINDOW
END = 160
"""Minutes: longer than partitions keep what they took in."""

Judged = list[tuple[int, dict[int, PartitionLoad]]]


class Watches(ClusterAnalyzer):
    """Keeps what it is shown, and finds windows with more than three records in one partition."""

    name: ClassVar[str] = "watches"
    rule: ClassVar[str] = "more than three"
    false_alarms: ClassVar[str] = "none"
    judged: ClassVar[Judged] = []

    def judge(self, window: LoadWindow) -> Verdict:
        self.judged.append((window.end_ms, dict(window.loads)))
        partition, load = max(window.loads.items(), key=lambda it: (it[1].records, it[0]))
        if load.records <= 3:
            return Verdict()
        return Verdict(Condition(Severity.INFO, "busy", "move", {"records": load.records}, partition=partition))


WHICH = AnalyzerSelection((), (Watches(Settings(open_after_s=100.0, close_after_s=400.0)),))


def log_of(partition: int, minutes: Sequence[int]) -> list[RawRecord]:
    log = Log(partition)
    for number, minute in enumerate(sorted(minutes)):
        at_ms = FIRST + minute * MINUTE + 10 + number
        log.add(b.commit("t", 0, number, group=f"g{partition}", at_ms=at_ms), after_ms=at_ms - log.now_ms)
    return log.records


def live(state: ClusterState, logs: Sequence[list[RawRecord]], minutes: Sequence[int]) -> list[Finding]:
    """At each of these minutes, what was written by then is read, then time passes."""
    out: list[Finding] = []
    for minute in minutes:
        now_ms = FIRST + minute * MINUTE
        for log in logs:
            done = state.position(log[0].partition).next_offset if log else 0
            rows = [row for row in log if row.offset >= done and row.timestamp_ms <= now_ms]
            if rows:
                state.replay_batch(run_of(rows))
        out += [it for it in state.advance(now_ms) if isinstance(it, Finding)]
    return out


def judged(of: list[Finding], since_ms: int = 0) -> tuple[Judged, list[tuple[str, int, int, int]]]:
    windows = [it for it in Watches.judged if it[0] > since_ms]
    told = [(str(it.state), *it.at) for it in of if it.at.timestamp_ms > since_ms]
    Watches.judged.clear()
    return windows, told


minutes_of = st.lists(st.integers(0, END - 1), max_size=60)
three = st.tuples(minutes_of, minutes_of, minutes_of)


@settings(max_examples=examples(60), deadline=None)
@given(three, st.lists(st.integers(0, END), min_size=4, max_size=4), st.integers(0, 15))
@example(([0, 1, 2, 3, 4, 5, 6], [5], []), [20, 20, 20, 0], 0)
@example(([0, 1, 2, 3, 4, 5, 6], [5], [90, 91, 92, 93, 94]), [100, 100, 100, 30], 0)
def test_images_of_different_moments(minutes: tuple[list[int], ...], at: list[int], pause: int) -> None:
    logs = [log_of(number, it) for number, it in enumerate(minutes)]
    every = range(END + 10)
    whole = ClusterState(WHICH, log=LOG)
    images: dict[int, bytes] = {}
    cluster, told = b"", list[Finding]()
    judged_ms = 0
    judged([])
    for minute in every:
        told += live(whole, logs, [minute])
        for number in range(3):
            if minute == at[number] and number in whole.partitions:
                images[number] = whole.capture(number).encode()
        if minute == at[3]:
            cluster, judged_ms = whole.capture_cluster().encode(), whole.judged_until_ms
    expected = judged(told, judged_ms)
    restart = min(max(at) + pause, every[-1])
    again = ClusterState(WHICH, log=LOG)
    again.restore_cluster(cluster)
    for number, image in images.items():
        again.restore(number, image)
    since_ms = max([judged_ms, *(it.loads_from_ms for it in again.diagnosis.partitions.values())])
    found = judged(live(again, logs, [restart, *range(restart + 1, END + 10)]), judged_ms)
    if since_ms == judged_ms:
        assert found == expected
    else:
        # An image of the cluster from more than an hour before: what nobody has any more is not judged by halves.
        assert max(at[:3]) - at[3] > LOADS_RETENTION_MS // MINUTE
        assert found[0] == [it for it in expected[0] if it[0] > since_ms]
    assert again.judged_until_ms == whole.judged_until_ms


@settings(max_examples=examples(60), deadline=None)
@given(three, st.sets(st.integers(0, END), max_size=20))
def test_how_time_passes_does_not_matter(minutes: tuple[list[int], ...], at: set[int]) -> None:
    logs = [log_of(number, it) for number, it in enumerate(minutes)]
    ends = [END + 30]
    one, other = ClusterState(WHICH, log=LOG), ClusterState(WHICH, log=LOG)
    judged([])
    first = judged(live(one, logs, [*range(END), *ends]))
    assert judged(live(other, logs, [*sorted(at), *ends])) == first
    assert cluster_digest(one) == cluster_digest(other)


def test_what_was_judged_is_kept_for_an_hour() -> None:
    state = ClusterState(WHICH, log=LOG)
    live(state, [log_of(0, range(END))], range(END))
    loads = state.diagnosis.partitions[0].loads
    assert (min(loads), max(loads)) == (FIRST + 95 * MINUTE + WINDOW, FIRST + 155 * MINUTE)
    judged([])


def test_a_partition_that_catches_up_is_waited_for() -> None:
    """Where time must not pass yet, no window is judged without it."""
    logs = [log_of(0, [1, 7, 13]), log_of(1, [1, 2, 8])]
    state = ClusterState(WHICH, log=LOG)
    judged([])
    state.replay_batch(run_of(logs[0]))
    state.replay_batch(run_of(logs[1][:1]))
    state.advance(FIRST + 20 * MINUTE, [0])
    assert judged([])[0] == []
    state.replay_batch(run_of(logs[1][1:]))
    state.advance(FIRST + 20 * MINUTE)
    windows, _ = judged([])
    assert [(end_ms - FIRST, {key: it.records for key, it in loads.items()}) for end_ms, loads in windows] == [
        (WINDOW, {0: 1, 1: 2}),
        (2 * WINDOW, {0: 1, 1: 1}),
        (3 * WINDOW, {0: 1}),
    ]

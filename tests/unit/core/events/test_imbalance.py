"""What an `assignment_changed` says of how even it is: the same as the metric, as of that record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings

from agent.core.events.events import event_of
from agent.core.records import RawRecord, RecordBatch
from agent.core.shadow.cluster import ClusterMirror
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.transitions import AssignmentChanged
from agent.kafka.source.segments import discover
from agent.serving.metrics.group_metrics import GroupShape
from analyzers.balance import assignment_imbalance
from tests import ROOT, examples
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log, Pair
from tests.unit.core.shadow.histories import histories
from tests.unit.core.wire.vectors import CAPTURE, needs

T = ("t",)
TU = ("t", "u")


def classic(*members: tuple[str, dict[str, Sequence[int]], tuple[str, ...]]) -> list[Pair]:
    return [b.classic_group(1, *(b.member(name, held, topics=topics) for name, held, topics in members))]


def modern(
    *members: tuple[str, dict[str, Sequence[int]], tuple[str, ...]], pattern: str | None = None, named: bool = True
) -> list[Pair]:
    out = [b.c_topics("t", "u")] if named else []
    for name, held, topics in members:
        out += [b.c_member(name, topics=topics, regex=pattern), b.c_target(name, held)]
    return [*out, b.c_epoch(1), b.c_target_epoch(1)]


# Number, why, records, ratio.
RATIOS: list[tuple[int, str, list[Pair], float | None]] = [
    (1, "even", classic(("a", {"t": [0, 1]}, T), ("b", {"t": [2]}, T)), 1.0),
    (2, "uneven", classic(("a", {"t": [0, 1, 2]}, T), ("b", {"t": [3]}, T), ("c", {"t": [4]}, T)), 1.8),
    (3, "rounded", classic(("a", {"t": range(5)}, T), ("b", {"t": [5]}, T), ("c", {"t": [6]}, T)), 2.1429),
    (4, "idle members", classic(("a", {"t": [0]}, T), ("b", {}, T), ("c", {}, T)), 1.0),
    (5, "who wants less has less", classic(("a", {"t": range(4)}, TU), ("b", {"u": [0]}, ("u",))), 1.0),
    (6, "a target", modern(("a", {"t": range(9)}, T), ("b", {"t": [9]}, T)), 1.8),
    (7, "by a pattern", modern(("a", {"t": range(9)}, ()), ("b", {"u": [0]}, ()), pattern="."), 1.8),
    (
        8,
        "of topics whose names are not known",
        modern(("a", {"t": range(9)}, T), ("b", {"t": [9]}, T), named=False),
        1.8,
    ),
    (9, "who wants less, by target", modern(("a", {"t": range(4)}, TU), ("b", {"u": [0]}, ("u",))), 1.0),
    (10, "what nobody wants any more", modern(("a", {"t": range(4)}, ("u",)), ("b", {"u": [0]}, ("u",))), 1.0),
    (
        11,
        "a target without a member",
        [*modern(("a", {"t": [0]}, T))[:-1], b.c_target("b", {"t": [1]}), b.c_target_epoch(1)],
        1.0,
    ),
    (
        12,
        "tasks",
        [
            *(b.k_member(name) for name in ("a", "b")),
            *(b.k_epoch(1), b.k_target("a", {"0": range(9)}), b.k_target("b", {"1": [0]}), b.k_target_epoch(1)),
        ],
        1.8,
    ),
    (
        13,
        "a share group",
        [b.s_member("a-1"), b.s_target("a-1", {"t": [0]}), b.s_epoch(1), b.s_target_epoch(1)],
        None,
    ),
]


@pytest.mark.parametrize(("records", "ratio"), [pytest.param(*row[2:], id=f"{row[0]}-{row[1]}") for row in RATIOS])
def test_a_first_assignment(records: list[Pair], ratio: float | None) -> None:
    log = Log().add(*records)
    told = [event_of(it) for it in log.replayed()[1] if isinstance(it, AssignmentChanged)]
    assert [event["imbalance_ratio"] for event in told] == [ratio]
    assert held_to_the_metric(PartitionMirror(log.partition), log.records), "it is the metric's, too"


def test_who_is_left_without_anything_shares_nothing_out() -> None:
    log = Log().add(b.classic_group(1, b.member("a", {"t": [0]}))).add(b.classic_group(2))
    assert [it.imbalance_ratio for it in log.replayed()[1] if isinstance(it, AssignmentChanged)] == [1.0, None]


def held_to_the_metric(mirror: PartitionMirror, records: Iterable[RawRecord]) -> list[tuple[str, float | None]]:
    """The group and the ratio of each change, after it was compared."""
    out = []
    for record in records:
        for it in mirror.replay(record):
            if isinstance(it, AssignmentChanged):
                view = mirror.view(it.group)
                assert view is not None, f"{it.group} was just assigned"
                assert it.imbalance_ratio == assignment_imbalance(view), it
                assert event_of(it)["imbalance_ratio"] == GroupShape.of(view).imbalance, it
                out.append((it.group, it.imbalance_ratio))
    return out


@settings(max_examples=examples(60), deadline=None)
@given(histories())
def test_any_history(log: Log) -> None:
    held_to_the_metric(PartitionMirror(log.partition), log.records)


@pytest.mark.parametrize(
    ("path", "changes", "uneven", "last"),
    [
        pytest.param(ROOT / "tests" / "data" / "cli" / "segments", 9, 0, 3, id="own"),
        pytest.param(CAPTURE / "segments", 76, 4, 1, id="shared", marks=needs(CAPTURE)),
    ],
)
def test_a_real_log(path: Path, changes: int, uneven: int, last: int) -> None:
    """At the end too, where a group has members: they stand as they were assigned last."""
    ratios: list[float | None] = []
    compared = 0
    cluster = ClusterMirror()
    newest: dict[str, float | None] = {}
    for log in discover(path):
        mirror = cluster.partition(log.partition)
        for run in log.committed():
            assert isinstance(run, RecordBatch), run
            found = held_to_the_metric(mirror, run.records())
            ratios += [ratio for _, ratio in found]
            newest |= dict(found)
    for view in cluster.views():
        if view.group in newest and view.members:
            assert newest[view.group] == assignment_imbalance(view), view
            compared += 1
    told = [it for it in ratios if it is not None]
    assert (len(ratios), sum(1 for it in told if it > 1), compared) == (changes, uneven, last)

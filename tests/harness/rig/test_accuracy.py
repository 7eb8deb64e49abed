"""How right kshadow is on groups of real client libraries, held: docs/accuracy.md has the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from agent.runtime.offline import load
from tests import ROOT
from tests.harness.rig.accuracy import LIBRARIES, Accuracy, Answer, page, score

DATA = Path(__file__).parents[2] / "data" / "accuracy"

NOT_RIGHT = {
    # Its goodbye came 2 s after its last commit, and another joined in between.
    ("rebalance", "kafkago-deploy", 7, "member_joined"),
    # Two of one seat died in the same join phase, the first of which nothing was committed by.
    ("rebalance", "aiokafka-loop", 6, "session_timeout"),
}
"""What is known not to be told right, all of it without confidence."""


@pytest.fixture(scope="module")
def found() -> Accuracy:
    """Both captures, replayed."""
    return score(sorted(DATA.iterdir()))


def wrong(what: str, answers: Iterable[Answer]) -> set[tuple[str, str, int, str]]:
    return {(what, it.group, it.generation, it.told) for it in answers if it.outcome != "right"}


def test_causes_are_told_right(found: Accuracy) -> None:
    assert len(found.rebalances) == 292
    assert len(found.departures) == 237
    assert wrong("rebalance", found.rebalances) | wrong("departure", found.departures) <= NOT_RIGHT
    assert [it for it in (*found.rebalances, *found.departures) if it.outcome == "sure"] == []


def test_each_rebalance_is_told_once(found: Accuracy) -> None:
    assert (found.missing, found.doubled, found.invented) == ([], [], [])


def test_costs_of_long_join_phases(found: Accuracy) -> None:
    """No less than the silence of all commits shows, and hardly more than the join phase by the broker's log."""
    assert len(found.costs) > 20
    assert [it for it in found.costs if it.told_ms < 0.8 * it.silence_ms] == []
    assert [it for it in found.costs if it.told_ms > 1.3 * it.logged_ms and not it.died_before] == []


@pytest.mark.parametrize(
    ("capture", "group", "generation", "cost_ms"),
    [
        ("kafka-4.3.1", "rdkafka-realloop", 5, 10 * 45_000),
        ("kafka-3.9.2", "java-realloop", 5, 4 * 45_000),
        ("kafka-3.9.2", "rdkafka-sameid", 10, 4 * 6_000),
    ],
)
def test_cost_of_members_that_died_before_their_first_commit(
    capture: str, group: str, generation: int, cost_ms: int
) -> None:
    """What they held, for the session that had to run out."""
    assert abs(cost_of(capture, group, generation) - cost_ms) < 1_000


def test_cost_of_a_stall_in_which_commits_went_on() -> None:
    """aiokafka's client goes on committing what does not move: six partitions did not for 13 s."""
    assert abs(cost_of("kafka-4.3.1", "aiokafka-stall", 3) - 6 * 13_000) < 1_000


def cost_of(capture: str, group: str, generation: int) -> int:
    events = load([str(DATA / capture / "records.ndjson.gz")], on_problem=pytest.fail).events()
    (cost,) = [
        it["stopped_partition_ms"]
        for it in events
        if it["type"] == "rebalance" and (it["group"], it["generation"]) == (group, generation)
    ]
    return int(cost)


def test_libraries_are_recognized(found: Accuracy) -> None:
    told = Counter(
        "right" if library == LIBRARIES[client] else library for client, library in found.members.elements()
    )
    assert set(told) <= {"right", "unknown"}
    assert told["right"] >= 0.95 * told.total()


def test_findings_where_they_are_due(found: Accuracy) -> None:
    storms = {client + kind for (_, client, kind), it in found.findings.items() if "rebalance_storm" in it}
    loops = {client + kind for _, client, kind in found.findings if kind in ("loop", "realloop")}
    assert loops <= storms
    assert not any(name.endswith("deploy") for name in storms)
    late = {(client, kind) for (_, client, kind), it in found.findings.items() if "poll_timeout" in it}
    assert {kind for _, kind in late} == {"stall", "stalljoin"}
    assert not {LIBRARIES[client] for client, _ in late} & {"sarama", "franz-go", "kafka-go", "kafkajs"}


def test_the_page_says_it(found: Accuracy) -> None:
    text = page(found)
    assert "- 292 rebalances: 99.3 % right, 0 unknown, 2 wrong, 0 wrong and sure" in text
    assert "| rebalance_storm | deploys | 8 | 0 | none |" in text
    # What is measured and what is not, as the page of the large captures says it.
    of_all = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    said = [it.partition("## Cost")[2].partition("| Library")[0] for it in (text, of_all)]
    assert said[0] == said[1]
    assert "that died or stalled had stopped before the join phase began" in said[0]

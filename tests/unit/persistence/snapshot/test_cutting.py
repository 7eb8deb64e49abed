"""Any replay, cut anywhere, goes on as if nothing had been."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.core.records import RawRecord
from tests import examples
from tests.unit.cli.running import SEGMENTS
from tests.unit.core.diagnosis.test_properties import timed
from tests.unit.core.shadow.build import run_of
from tests.unit.core.wire.vectors import CAPTURE, needs
from tests.unit.persistence.snapshot.cutting import Step, assert_goes_on
from tests.unit.serving.routes.replayed import of_path
from tests.unit.simulation.generator.making import SMALL, a_cluster

FAIR = settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@FAIR
@given(st.data())
def test_a_history_may_be_cut_anywhere(data: st.DataObject) -> None:
    left = [part for number in range(3) if (part := data.draw(timed(number)))]
    steps: list[Step] = []
    clock = 0
    while any(left):
        rows = data.draw(st.sampled_from([rows for rows in left if rows]))
        count = data.draw(st.integers(1, len(rows)))
        steps.append(run_of(rows[:count]))
        clock = max([clock, *(row.timestamp_ms for row in rows[:count])])
        del rows[:count]
        if data.draw(st.booleans()):
            clock += data.draw(st.sampled_from([1_000, 61_000, 400_000, 4_000_000]))
            steps.append(clock)
    cuts = data.draw(st.lists(st.integers(0, len(steps)), max_size=3))
    assert_goes_on(steps, cuts)


def pieces(records: list[RawRecord], size: int) -> list[Step]:
    return [run_of(records[at : at + size]) for at in range(0, len(records), size)]


def test_a_recorded_cluster_may_be_cut_anywhere() -> None:
    steps: list[Step] = []
    for run in of_path(SEGMENTS):
        steps += pieces(list(run.records()), 7)
    told = assert_goes_on(steps, range(0, len(steps), 2))
    assert {json.loads(line)["type"] for line in told} >= {"rebalance", "member_left", "finding"}


def test_a_generated_cluster_may_be_cut_anywhere() -> None:
    """As an agent reads it: all partitions side by side, and time passes."""
    records = sorted(a_cluster().records, key=lambda it: it.timestamp_ms)
    steps: list[Step] = []
    for at in range(0, len(records), 1_500):
        some = records[at : at + 1_500]
        for partition in sorted({it.partition for it in some}):
            steps.append(run_of([it for it in some if it.partition == partition]))
        steps.append(some[-1].timestamp_ms)
    steps.append(SMALL.until_ms + 3_600_000)
    told = assert_goes_on(steps, [len(steps) // 3, len(steps) * 2 // 3])
    analyzers = {event["analyzer"] for event in map(json.loads, told) if event["type"] == "finding"}
    assert len(analyzers) >= 6, analyzers


@needs(CAPTURE)
def test_the_captured_cluster_may_be_cut_anywhere() -> None:
    steps: list[Step] = []
    for run in of_path(CAPTURE / "segments"):
        steps += pieces(list(run.records()), 50)
    assert_goes_on(steps, range(0, len(steps), 11))

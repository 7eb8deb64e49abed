"""The same records give the same events, to the byte, however they come in runs and partitions take turns."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.core.diagnosis.cluster import AnalyzerSelection, ClusterDiagnosis
from agent.core.events.events import Event, event_of, sort_events
from agent.core.record_time import Lookahead
from agent.core.records import RawRecord, RecordBatch
from agent.core.shadow.cluster import ClusterMirror
from analyzers.registry import select_analyzers
from tests import examples
from tests.unit.core.diagnosis.doubles import Consumes, Twice, chosen
from tests.unit.core.packing import NEEDS_COMPILED, packed
from tests.unit.core.shadow.build import run_of
from tests.unit.core.shadow.histories import histories

FAIR = settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
ALL = select_analyzers()
WITH_DOUBLES = AnalyzerSelection((*ALL.makes, *chosen(Twice, Consumes).makes), ALL.cluster_analyzers)


@st.composite
def timed(draw: st.DrawFn, partition: int) -> list[RawRecord]:
    """A plausible history whose batches come with pauses from nothing to hours, and now and then late."""
    records = draw(histories(max_operations=25, partition=partition)).records
    shift, out, last = 0, list[RawRecord](), None
    for record in records:
        if record.timestamp_ms != last:
            shift += draw(st.sampled_from([0, 0, 0, 200, 5_000, 60_000, 200_000, 700_000, 7_200_000, -900, -30_000]))
            last = record.timestamp_ms
        out.append(record._replace(timestamp_ms=max(record.timestamp_ms + shift, 0)))
    return out


def told(
    runs: Sequence[Sequence[RawRecord]],
    which: AnalyzerSelection,
    form: Callable[[RecordBatch], RecordBatch] = lambda batch: batch,
) -> str:
    diagnosis = ClusterDiagnosis(ClusterMirror(), which)
    events: list[Event] = []
    lookahead = Lookahead()
    for records in runs:
        for batch, context in lookahead.put(run_of(records)):
            events += map(event_of, diagnosis.replay_batch(form(batch), context))
    for batch, context in lookahead.take():
        events += map(event_of, diagnosis.replay_batch(form(batch), context))
    events += map(event_of, diagnosis.finish())
    return "\n".join(map(json.dumps, sort_events(events)))


@NEEDS_COMPILED
@FAIR
@given(st.data())
def test_any_split_and_any_turns_give_the_same_bytes(data: st.DataObject) -> None:
    parts = [part for number in range(3) if (part := data.draw(timed(number)))]
    left = [list(part) for part in parts]
    turns: list[list[RawRecord]] = []
    while any(left):
        rows = data.draw(st.sampled_from([rows for rows in left if rows]))
        count = data.draw(st.integers(1, len(rows)))
        turns.append(rows[:count])
        del rows[:count]
    whole = told(parts, WITH_DOUBLES)
    assert told(turns, WITH_DOUBLES) == whole
    assert told(turns, WITH_DOUBLES, lambda batch: packed([*batch.records()])) == whole


@FAIR
@given(st.data())
def test_each_finding_is_told_once(data: st.DataObject) -> None:
    parts = [part for number in range(3) if (part := data.draw(timed(number)))]
    ids = [json.loads(line)["event_id"] for line in told(parts, WITH_DOUBLES).splitlines()]
    assert len(set(ids)) == len(ids)


def test_the_histories_make_findings() -> None:
    # A guard on the generator: without findings the properties above would say nothing of them.
    seen: set[tuple[str, str]] = set()

    @settings(max_examples=150, deadline=None, database=None, derandomize=True)
    @given(timed(0))
    def reach(records: list[RawRecord]) -> None:
        for line in told([records] if records else [], WITH_DOUBLES).splitlines():
            event = json.loads(line)
            if event["type"] == "finding":
                seen.add((event["analyzer"], event["state"]))

    reach()
    assert {("twice", "firing"), ("twice", "resolved")} <= seen

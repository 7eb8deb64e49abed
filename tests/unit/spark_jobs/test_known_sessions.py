"""Sessions that the brokers set: the jobs' reducer tells the events that `kshadow replay` tells of the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.core.events.events import event_of
from agent.core.inference.external_evidence import KnownSessions
from agent.core.inference.session_settings import SessionSetting
from agent.core.records import RecordBatch
from agent.kafka.source.paths import committed_batches_of
from agent.runtime.offline import load
from agent.tools.spark_submit.jobs import Diagnosis
from analyzers.registry import select_analyzers
from spark_jobs.partition_reducer import PartitionReducer, TaskState
from tests.unit.cli.running import kshadow

SESSIONS = {"consumer": SessionSetting(10_000)}


@pytest.fixture(scope="module")
def crashes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of two KIP-848 groups, in one partition, whose brokers give their members ten seconds."""
    out = tmp_path_factory.mktemp("made") / "crashes.ndjson"
    sized = ("--mix", "kip848_crash", "--groups", 2, "--members", 3, "--session-timeout", "10s", "--duration", "20m")
    more = ("--commit-interval", "5s", "--offsets-partitions", 1, "--start", "2026-07-06")
    assert kshadow("generate", *sized, *more, "--out", out).exit_code == 0
    return out


def replayed(path: Path, sessions: dict[str, SessionSetting]) -> list[dict[str, Any]]:
    return list(
        load([str(path)], on_problem=print, chosen=select_analyzers(), witness=KnownSessions(sessions)).events()
    )


def reduced(path: Path, diagnosis: Diagnosis, records: int) -> Iterator[dict[str, Any]]:
    """What a stream tells whose batches have so many records: its state is an image between them."""
    image: bytes | None = None
    for run in committed_batches_of(str(path)):
        assert isinstance(run, RecordBatch)
        for start in range(0, len(run), records):
            reducer = PartitionReducer(run.partition, TaskState(diagnosis), is_live=True)
            if image is not None:
                reducer.restore(image)
            some = run.part(start, min(start + records, len(run)))
            yield from (event_of(it, None) for it in (*reducer.take(some), *reducer.take_rest()))
            image = reducer.image()


@pytest.mark.parametrize("records", [700, 1_000_000])
@pytest.mark.parametrize("sessions", [{}, SESSIONS])
def test_who_is_killed_is_told_as_replay_tells_it(
    crashes: Path, sessions: dict[str, SessionSetting], records: int
) -> None:
    expected = replayed(crashes, sessions)
    assert any(it.get("cause") == "session_timeout" for it in expected) == bool(sessions), (
        "they differ by what is known"
    )
    came = {it["event_id"]: it for it in reduced(crashes, Diagnosis(sessions=sessions), records)}
    assert came == {it["event_id"]: it for it in expected if it["group"] is not None}

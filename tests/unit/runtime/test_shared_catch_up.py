"""What is shared among processes, how it is cut, and what is handed over."""

from __future__ import annotations

import dataclasses
import pickle

import pytest
from msgspec.structs import replace

from agent.config.settings import PLAIN_CLUSTER, GroupSource, ReadSettings
from agent.core.record_time import TOLERANCE_MS
from agent.core.records import LogId, RecordBatch
from agent.kafka.source.progress import PartitionProgress
from agent.kafka.source.topic import TopicReader
from agent.persistence.cluster_state import NO_LOG, ClusterState
from agent.runtime import shared_catch_up, shared_pieces
from agent.runtime.parts import AgentOptions, AgentParts, build_parts
from agent.runtime.shared_catch_up import MIN_WORKER_RECORDS, Sharing, _for_others, cut_into_tasks, plan_sharing
from agent.runtime.shared_pieces import Piece, PieceRead, PieceReading, Task
from agent.simulation.whatif.recent_recordings import RecentRecordings
from analyzers.registry import select_analyzers
from tests.harness.state_digest import digest
from tests.unit.core.diagnosis.doubles import chosen
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import T0, Log, run_of
from tests.unit.runtime.test_reader_loop import LocksSeen

PARTITION = Log().partition
LATER_MS = T0 + 86_400_000


def parts_of(ends: dict[int, int], **read: object) -> AgentParts:
    """Of an agent whose reader has yet to read these."""
    settings = dataclasses.replace(PLAIN_CLUSTER, read=ReadSettings(**read))  # type: ignore[arg-type]  # as each test gives it
    parts = build_parts(AgentOptions(conf={"bootstrap.servers": "127.0.0.1:1"}, settings=settings))
    if isinstance(parts.reader, TopicReader):
        parts.reader._assignment.progress = {it: PartitionProgress(0, end, end) for it, end in ends.items()}
    return parts


def test_as_many_processes_as_are_worth_it_and_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_catch_up, "usable_cores", lambda: 9)
    monkeypatch.setattr(shared_catch_up, "affordable_processes", lambda size: 3)
    monkeypatch.setattr(shared_catch_up, "reason_against", lambda conf: None)
    long = dict.fromkeys(range(50), MIN_WORKER_RECORDS)

    def processes(ends: dict[int, int], **read: object) -> int | None:
        sharing = plan_sharing(parts_of(ends, **read))
        return None if sharing is None else sharing.processes

    assert processes(long) == 3
    assert processes({0: MIN_WORKER_RECORDS, 1: MIN_WORKER_RECORDS, 2: 0}) == 2
    assert processes({0: MIN_WORKER_RECORDS, 1: MIN_WORKER_RECORDS - 1}) is None
    with monkeypatch.context() as patch:
        patch.setattr(shared_catch_up, "usable_cores", lambda: 5)
        assert processes(long) == 2
        patch.setattr(shared_catch_up, "reason_against", lambda conf: "nothing was compiled")
        assert processes(dict.fromkeys(range(50), 100_000)) == 2, "records that are read one by one"
        patch.setattr(shared_catch_up, "usable_cores", lambda: 2)
        assert processes(long) == 2
    # Who says how many is heeded, as far as there are partitions.
    assert processes({0: 1, 1: 1, 2: 1, 3: 0}, workers=9) == 3
    assert processes({0: MIN_WORKER_RECORDS * 9}, workers=2) is None
    assert processes(long, workers=1) is None
    assert processes(long, share_group="shared") is processes({}, source=GroupSource.ADMIN, workers=2) is None


def test_what_goes_on_from_a_snapshot_is_not_shared() -> None:
    parts = parts_of({0: 9, 1: 9, 2: 9}, workers=2)
    parts.state.replay_batch(run_of(Log(partition=1).add(b.new_group("g")).records))
    sharing = plan_sharing(parts)
    assert sharing is not None
    assert (sharing.ends, sharing.records) == ({0: 9, 2: 9}, 18)


def test_tasks_are_of_one_size_and_each_piece_is_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_catch_up, "PIECE_RECORDS", 100)
    sizes = [*[10] * 40, 1_000, 90, 3]
    pieces = [Piece(number, None, 1_000 + size) for number, size in enumerate(sizes)]
    tasks = cut_into_tasks(pieces, dict.fromkeys(range(len(sizes)), 1_000), 2)
    assert sorted(it.partition for task in tasks for it in task) == list(range(len(sizes)))
    records = [sum(min(sizes[it.partition], 100) for it in task) for task in tasks]
    most = sum(records) // 8
    assert len(tasks) >= 7
    assert all(it <= most or len(task) == 1 for it, task in zip(records, tasks, strict=True))


def test_what_is_read_before_others_have_started_is_not_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_catch_up, "HEAD_START_RECORDS", 1_000)

    def for_others(processes: int, size: int) -> int:
        sharing = Sharing(processes, dict.fromkeys(range(40), size), 40 * size)
        tasks = list(_for_others(sharing, dict.fromkeys(range(40), 0)))
        assert all(tasks)
        return sum(it.end for task in tasks for it in task)

    # Of 4,000 this one begins with the head start and half of the rest, and with what the task has that fills it.
    assert 1_000 <= for_others(2, 100) <= 1_500
    assert 1_500 <= for_others(4, 100) <= 2_250
    assert for_others(2, 10) == 0, "400 are read at once"


def history() -> list[RecordBatch]:
    """A group that changes, twenty times."""
    log = Log()
    for generation in range(1, 21):
        members = [b.member(f"m-{number}", {"t": [number]}) for number in range(generation % 3)]
        log.add(b.classic_group(generation, *members))
    return [run_of(log.records[start : start + 7]) for start in range(0, 20, 7)]


def reading(before: PieceRead | None = None, *, records: int = 1_000, latest_ms: int = LATER_MS) -> PieceReading:
    state = ClusterState(select_analyzers(), members=(recordings := RecentRecordings()))
    piece = Piece(PARTITION, before, 1 << 40)
    task = Task(LogId("c", "t"), NO_LOG, latest_ms, None, records, [piece])
    return PieceReading(piece, task, state, recordings, keeps_outputs=True)


def handed_over(it: PieceReading) -> PieceRead:
    found = it.result()
    assert found is not None
    copied: PieceRead = pickle.loads(pickle.dumps(found))
    return copied


def test_pieces_make_what_one_reading_makes() -> None:
    runs, outputs = history(), []
    recordings = RecentRecordings()
    whole = ClusterState(select_analyzers(), members=recordings)
    for run in runs:
        outputs += whole.replay_batch(run)
    shared = RecentRecordings()
    state, told, before = ClusterState(select_analyzers(), members=shared), [], None
    every = [it for run in runs for it in run.records()]
    while True:
        piece = reading(before, records=8)
        start = 0 if before is None else next(i for i, it in enumerate(every) if it.offset == before.next_offset)
        piece.take(run_of(every[start:]))
        found = piece.result()
        if found is None or not found.goes_on:
            break
        before = handed_over(piece)
        state.restore(PARTITION, before.image)
        shared.put(state.mirror.partition(PARTITION), before.recordings)
        told += before.outputs
    assert before is not None
    assert start > 10
    # The rest is read here.
    told += state.replay_batch(run_of(every[start:]))
    assert told == outputs
    assert digest(state, PARTITION) == digest(whole, PARTITION)
    assert shared.recording(b.GROUP) == recordings.recording(b.GROUP)
    assert len(shared) == len(recordings) > 0


def test_a_piece_ends_before_a_time_that_is_ahead() -> None:
    (run,) = [run_of([it for batch in history() for it in batch.records()])]
    ahead = replace(
        run, timestamps_ms=[*run.timestamps_ms[:12], LATER_MS + TOLERANCE_MS + 1, *run.timestamps_ms[13:]]
    )
    it = reading()
    it.take(ahead)
    found = handed_over(it)
    assert (found.goes_on, found.next_offset) == (False, run.offsets[12] - 3)
    assert it.has_ended


def test_with_many_events_a_piece_is_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_pieces, "PIECE_EVENTS", 5)
    it = reading()
    for run in history():
        it.take(run)
    found = handed_over(it)
    assert found.goes_on
    assert found.next_offset < history()[-1].offsets[0]


def test_nothing_is_handed_over_by_half() -> None:
    assert reading().result() is None
    it = reading()
    it.take(history()[0].part(0, 3))
    assert it.result() is None, "what follows these is not known"
    failing = reading()
    failing._state.diagnosis._makes = chosen(LocksSeen).makes  # fails: nobody has told it whose locks
    failing.take(history()[0])
    assert (failing.has_ended, failing.result()) == (True, None)

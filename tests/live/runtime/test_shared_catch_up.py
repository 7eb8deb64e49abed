"""A topic that several processes read at first, or one in bulk: what is known then is what one process knows that
reads record by record, to the byte."""

from __future__ import annotations

import json
import logging
import os
import random
import re
import signal
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from agent.common.workers import Workers
from agent.config.settings import PLAIN_CLUSTER, ReadSettings
from agent.core.diagnosis.api import WINDOW_MS
from agent.core.packed import PackedColumn
from agent.core.protocol.hashing import partition_for_group
from agent.core.records import RawRecord, RecordBatch
from agent.core.wire.offset_commit_fastpath import commit_key, commit_value
from agent.kafka.source import bulk, topic
from agent.kafka.source.topic import TopicReader
from agent.kafka.writer.topic import partition_count
from agent.persistence.cluster_state import NO_LOG, ClusterState
from agent.persistence.export.encoded_event import EncodedEvent
from agent.persistence.export.pipeline import ExportPipeline
from agent.persistence.export.sinks import BatchLimits, RejectedEvent
from agent.persistence.snapshot.directory_store import DirectoryStore
from agent.runtime import bulk_catch_up, shared_catch_up
from agent.runtime.agent import Agent
from agent.runtime.parts import AgentOptions
from agent.runtime.reader_loop import ReaderLoop
from agent.runtime.shared_catch_up import Sharing, cut_into_tasks
from agent.runtime.shared_pieces import Piece, PieceRead, Task, _InBulk, read_task
from agent.simulation.generator.histories import generate
from agent.simulation.generator.settings import GeneratorSettings
from agent.simulation.whatif.recent_recordings import RecentRecordings
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from analyzers.registry import select_analyzers
from tests.harness.state_digest import cluster_digest, digest
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

TOPIC = "__consumer_offsets"
PARTITIONS = 5
PLAIN, DAMAGED, AHEAD, JUNK, EMPTY = range(PARTITIONS)
"""The partitions, by what is in them beside groups."""

START_MS = round(time.time() * 1000) - 7_200_000
SETTINGS = GeneratorSettings(START_MS, groups=30, duration_ms=1_200_000, offsets_partitions=PARTITIONS, seed=5)
PIECE_RECORDS = 2_000
JUNK_RECORDS = 30


class Written(NamedTuple):
    servers: str
    newest_ms: int
    wrong: dict[int, int]
    """By partition the offset in its midst at which others were written."""
    ends: dict[int, int]


class Kept:
    """A sink that keeps all."""

    name = "kept"
    batching = BatchLimits(1, 1, 0.0)

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def write(self, batch: Sequence[EncodedEvent]) -> Sequence[RejectedEvent]:
        self.bodies += [it.body for it in batch]
        return ()

    def close(self) -> None:
        """Nothing is open."""

    def by_group(self) -> dict[str | None, list[bytes]]:
        """In order within each group."""
        out: dict[str | None, list[bytes]] = defaultdict(list)
        for body in self.bodies:
            out[json.loads(body)["group"]].append(body)
        return dict(out)


@pytest.fixture(scope="module")
def written() -> Iterator[Written]:
    """A history, and in its midst what no reader likes."""
    properties = {"offsets.topic.num.partitions": str(PARTITIONS)}
    with EmbeddedBroker(fetch_jars(), properties=properties, heap="512m") as broker:
        servers = broker.bootstrap_servers
        assert partition_count({"bootstrap.servers": servers}, create=True) == PARTITIONS
        by_partition: dict[int, list[RawRecord]] = defaultdict(list)
        for record in generate(SETTINGS):
            if record.partition != EMPTY:
                by_partition[record.partition].append(record)
        assert all(len(it) > 2 * PIECE_RECORDS for it in by_partition.values()), {
            k: len(v) for k, v in by_partition.items()
        }
        halves = [[r for it in by_partition.values() for r in it[: len(it) // 2]]]
        halves += [[r for it in by_partition.values() for r in it[len(it) // 2 :]]]
        produce(servers, halves[0])
        damage(broker)
        now_ms = round(time.time() * 1000)
        commit = commit_key("stranger", "orders", 0), commit_value(1, now_ms)
        produce(servers, [RawRecord(AHEAD, 0, now_ms + 1_800_000, *commit)])
        produce(servers, [RawRecord(JUNK, 0, START_MS, b"\0\x63%d" % it, b"") for it in range(JUNK_RECORDS)])
        produce(servers, halves[1])
        middles = {it: len(its) // 2 for it, its in by_partition.items()}
        more = {DAMAGED: 2, AHEAD: 1, JUNK: JUNK_RECORDS}
        ends = {it: len(its) + more.get(it, 0) for it, its in by_partition.items()}
        yield Written(servers, max(it.timestamp_ms for half in halves for it in half), middles, ends)


def produce(servers: str, records: Sequence[RawRecord]) -> None:
    own = {"client.id": "__admin_client", "compression.type": "none", "linger.ms": 50, "log_level": 0}
    producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": 1_000_000, **own})
    for it in records:
        producer.produce(TOPIC, it.value, it.key, it.partition, timestamp=it.timestamp_ms)
    assert producer.flush(60) == 0


def damage(broker: EmbeddedBroker) -> None:
    """One batch that the disk has changed."""
    produce(broker.bootstrap_servers, [RawRecord(DAMAGED, 0, START_MS, b"\0\0", random.Random(1).randbytes(500))] * 2)
    (segment,) = broker.log_dirs[0].glob(f"{TOPIC}-{DAMAGED}/*.log")
    with segment.open("r+b") as file:
        file.seek(segment.stat().st_size - 300)
        file.write(b"changed")


class Known(NamedTuple):
    """All that an agent knows and has told, as far as it is not of the clock on the wall."""

    states: dict[int, str]
    cluster: str
    groups: Any
    described: Any
    timelines: Any
    findings: Any
    recordings: Any
    counts: Any
    quarantined: Any
    events: dict[str | None, list[bytes]]
    rejects: list[str]


def agent_of(written: Written, workers: int, sink: Kept, snapshots: Path | None) -> Agent:
    """One for which it is the time of the newest record."""
    return Agent(
        AgentOptions(
            conf={"bootstrap.servers": written.servers},
            settings=replace(PLAIN_CLUSTER, read=ReadSettings(workers=workers)),
            analyzers=select_analyzers(),
            exports=ExportPipeline([sink], spool=None),
            open_store=None if snapshots is None else lambda _: DirectoryStore(str(snapshots)),
            wall_s=lambda: (written.newest_ms + 1_000) / 1000,
        )
    )


def read(
    written: Written, workers: int, caplog: pytest.LogCaptureFixture, snapshots: Path | None = None
) -> tuple[Known, str]:
    """What an agent knows that has read the topic with so many processes; and what it said."""
    caplog.clear()
    caplog.set_level(logging.INFO, "kshadow")
    sink = Kept()
    agent = agent_of(written, workers, sink, snapshots)
    agent.start()
    try:
        passed_ms = written.newest_ms - 4_000
        state = agent.state
        judged_ms = passed_ms // WINDOW_MS * WINDOW_MS
        until(
            lambda: (
                agent.queries.has_caught_up
                and state.judged_until_ms >= judged_ms
                and all(state.position(it).clock_ms >= passed_ms for it in state.partitions)
            ),
            120,
        )
        with agent.lock:
            known = known_by(agent)
    finally:
        agent.stop()
    said = [it.getMessage() for it in caplog.records]
    rejects = sorted(it for it in said if it.startswith("partition ") and "passed over" not in it)
    return known._replace(events=sink.by_group(), rejects=rejects), "\n".join(said)


def known_by(agent: Agent) -> Known:
    state, recordings = agent.state, agent._parts.recordings
    mirror = state.mirror
    groups = sorted(name for it in mirror.partitions.values() for name in it.groups)
    return Known(
        states={it: digest(state, it) for it in state.partitions},
        cluster=cluster_digest(state),
        groups=[*mirror.views()],
        described=[mirror.find(it) for it in groups],
        timelines={it: [*state.recent.timeline(it)[0]] for it in groups},
        findings=[*state.recent.findings()],
        recordings={it: recordings.recording(it) for it in groups},
        counts=[
            mirror.record_counts(),
            mirror.error_counts(),
            state.counts.totals(),
            state.diagnosis.records_ahead(),
        ],
        quarantined=agent._parts.reader.quarantine.records,
        events={},
        rejects=[],
    )


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[PieceRead]:
    """Those that are taken, which are small."""
    taken: list[PieceRead] = []
    take = ReaderLoop._take_piece

    def noting(loop: ReaderLoop, piece: PieceRead) -> None:
        taken.append(piece)
        take(loop, piece)

    monkeypatch.setattr(ReaderLoop, "_take_piece", noting)
    monkeypatch.setattr(shared_catch_up, "PIECE_RECORDS", PIECE_RECORDS)
    monkeypatch.setattr(shared_catch_up, "HEAD_START_RECORDS", 0)
    return taken


@pytest.fixture
def by_others(pieces: list[PieceRead], monkeypatch: pytest.MonkeyPatch) -> list[PieceRead]:
    """Pieces of every partition: what is shared this process leaves to the others."""
    monkeypatch.setattr(shared_catch_up, "_for_others", _all_tasks)
    monkeypatch.setattr(Workers, "take_back", lambda _: None)
    return pieces


def _all_tasks(sharing: Sharing, positions: Mapping[int, int]) -> list[list[Piece]]:
    pieces = [Piece(number, None, end) for number, end in sharing.ends.items()]
    return cut_into_tasks(pieces, positions, sharing.processes)


@pytest.fixture(scope="module")
def alone() -> dict[str, Known]:
    """What one process knows, once it was asked."""
    return {}


def known_alone(written: Written, alone: dict[str, Known], caplog: pytest.LogCaptureFixture) -> Known:
    if not alone:
        alone["all"], said = read(written, 1, caplog)
        assert "processes" not in said
    return alone["all"]


def assert_same(shared: Known, one: Known) -> None:
    for name in Known._fields:
        assert getattr(shared, name) == getattr(one, name), name


def test_what_is_known_is_the_same(
    written: Written, alone: dict[str, Known], by_others: list[PieceRead], caplog: pytest.LogCaptureFixture
) -> None:
    one = known_alone(written, alone, caplog)
    assert len(one.rejects) == JUNK_RECORDS
    assert sum(one.quarantined.values()) == 2
    assert len(one.events) > 20
    for workers in (2, 3):
        by_others.clear()
        shared, said = read(written, workers, caplog)
        assert f"{workers} processes read 4 partitions" in said
        assert_same(shared, one)
        taken = {it: [piece for piece in by_others if piece.partition == it] for it in range(PARTITIONS)}
        ends = {it: its[-1].next_offset for it, its in taken.items() if its}
        assert min(len(its) for it, its in taken.items() if it != EMPTY) > 1
        # To the last three records of the sound ones; and to the last three before what is wrong.
        assert {it: written.ends[it] - end for it, end in ends.items() if it in (PLAIN, JUNK)} == {PLAIN: 3, JUNK: 3}
        assert {it: written.wrong[it] - end for it, end in ends.items() if it in (DAMAGED, AHEAD)} == {
            DAMAGED: 3,
            AHEAD: 3,
        }


@pytest.fixture
def in_bulk(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """By partition the offset behind the last record that was read in bulk: everything is."""
    ends: dict[int, int] = {}
    take = ReaderLoop.take

    def noting(loop: ReaderLoop, batch: RecordBatch, next_ms: Sequence[int]) -> bool:
        assert isinstance(batch.keys, PackedColumn)
        ends[batch.partition] = batch.offsets[-1] + 1
        return take(loop, batch, next_ms)

    monkeypatch.setattr(ReaderLoop, "take", noting)
    monkeypatch.setattr(bulk_catch_up, "MIN_RECORDS", 0)
    return ends


def known_record_by_record(written: Written, alone: dict[str, Known], caplog: pytest.LogCaptureFixture) -> Known:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk_catch_up, "MIN_RECORDS", 1 << 60)
        return known_alone(written, alone, caplog)


def test_what_is_known_is_the_same_where_it_is_read_in_bulk(
    written: Written, alone: dict[str, Known], in_bulk: dict[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    one = known_record_by_record(written, alone, caplog)
    assert in_bulk == {}
    found, _ = read(written, 1, caplog)
    assert_same(found, one)
    # What cannot be taken apart the ordinary reader passes over, and so reads what is behind it.
    assert in_bulk == {
        DAMAGED: written.wrong[DAMAGED] - 3,
        **{it: written.ends[it] for it in (PLAIN, AHEAD, JUNK)},
    }


@pytest.mark.parametrize("workers", [2, 3])
def test_what_is_known_is_the_same_where_this_process_reads_beside_others(
    workers: int,
    written: Written,
    alone: dict[str, Known],
    in_bulk: dict[int, int],
    pieces: list[PieceRead],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In bulk, to the ends of the partitions that it begins with or takes back; the others to their last records."""
    one = known_record_by_record(written, alone, caplog)
    in_bulk.clear()
    shared, said = read(written, workers, caplog)
    assert f"{workers} processes read 4 partitions" in said
    assert_same(shared, one)
    elsewhere = {it.partition for it in pieces}
    assert elsewhere
    assert in_bulk.keys() - elsewhere
    assert elsewhere | in_bulk.keys() == {PLAIN, DAMAGED, AHEAD, JUNK}


def test_what_no_other_has_begun_this_process_reads(
    written: Written,
    alone: dict[str, Known],
    in_bulk: dict[int, int],
    pieces: list[PieceRead],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the other is at its first two tasks: the last two of all four."""
    one = known_record_by_record(written, alone, caplog)
    in_bulk.clear()
    monkeypatch.setattr(shared_catch_up, "_for_others", _all_tasks)
    shared, _ = read(written, 2, caplog)
    assert_same(shared, one)
    assert {it.partition for it in pieces} | in_bulk.keys() == {PLAIN, DAMAGED, AHEAD, JUNK}
    assert len(in_bulk) >= 2


def stopped_at(last: int, agent: Agent) -> int:
    """Let an agent read in bulk, and stop it as it is given a run, the first being 1: how many it took."""
    take, taken = ReaderLoop.take, list[int]()

    def stopping(loop: ReaderLoop, batch: RecordBatch, next_ms: Sequence[int]) -> bool:
        taken.append(batch.partition)
        if len(taken) == last:
            loop.request_stop()
        return take(loop, batch, next_ms)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReaderLoop, "take", stopping)
        agent.start()
        try:
            until(lambda: not agent._loop._thread.is_alive(), 60)
        finally:
            agent.stop()
    return len(taken)


def test_a_stop_in_the_midst_of_reading_in_bulk(
    written: Written,
    alone: dict[str, Known],
    in_bulk: dict[int, int],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The next start goes on from what was kept; each event is told once."""
    one = known_record_by_record(written, alone, caplog)
    monkeypatch.setattr(bulk, "RUN_RECORDS", 500)
    sink = Kept()
    agent = agent_of(written, 1, sink, tmp_path)
    assert stopped_at(6, agent) == 6
    assert not agent.queries.has_caught_up
    first = {it: agent.state.position(it).next_offset for it in agent.state.partitions}
    assert 0 < sum(first.values()) < sum(written.ends.values()) / 2
    in_bulk.clear()
    known, said = read(written, 1, caplog, tmp_path)
    assert re.search(r"\d of 5 partitions go on from their snapshots", said)
    assert sorted(in_bulk) == [PLAIN, DAMAGED, AHEAD, JUNK]
    told = sink.by_group()
    told = {group: told.get(group, []) + known.events.get(group, []) for group in {*told, *known.events}}
    assert told == one.events
    assert known.states == one.states
    assert known.described == one.described


def test_what_was_begun_while_others_read_is_gone_on_with_in_bulk(
    written: Written,
    alone: dict[str, Known],
    in_bulk: dict[int, int],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Three records of a partition that this process reads record by record at first wait to be applied then."""
    one = known_record_by_record(written, alone, caplog)
    monkeypatch.setattr(bulk, "RUN_RECORDS", 500)
    agent = agent_of(written, 1, Kept(), tmp_path)
    assert stopped_at(1, agent) == 1
    (begun,) = [it for it in agent.state.partitions if agent.state.position(it).next_offset]
    in_bulk.clear()
    held = list[int]()

    def reading(loop: ReaderLoop, _: float) -> None:
        if len(held) < 3:
            loop._step(0.2)
            held.append(loop._reader.positions[begun] - loop.next_offset(begun))

    monkeypatch.setattr(topic, "BATCH_RECORDS", 20)
    monkeypatch.setattr(shared_catch_up, "HEAD_START_RECORDS", 0)
    monkeypatch.setattr(ReaderLoop, "_read_beside_others", reading)
    in_bulk_at_once = ReaderLoop._read_what_is_long
    monkeypatch.setattr(
        ReaderLoop, "_read_what_is_long", lambda loop, also: len(held) == 3 and in_bulk_at_once(loop, also)
    )
    known, said = read(written, 2, caplog, tmp_path)
    assert "2 processes read 3 partitions" in said
    assert 3 in held, held
    assert begun in in_bulk
    assert known.states == one.states
    assert known.described == one.described


def test_pieces_are_the_same_where_they_are_read_in_bulk(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    in_bulk, take = set[int](), _InBulk.take

    def noting(pieces: _InBulk, batch: RecordBatch, next_ms: Sequence[int]) -> bool:
        in_bulk.add(batch.partition)
        return take(pieces, batch, next_ms)

    monkeypatch.setattr(_InBulk, "take", noting)
    conf = {"bootstrap.servers": written.servers}
    with TopicReader(conf) as reader:
        reader.connect()
        log_id = reader.log_id
    assert log_id is not None
    found: dict[int, list[PieceRead | None]] = {}
    for least in (0, 1 << 60):
        monkeypatch.setattr(bulk_catch_up, "MIN_RECORDS", least)
        its: list[PieceRead | None] = [None] * PARTITIONS
        for _ in range(2):
            pieces = [Piece(number, its[number], end) for number, end in sorted(written.ends.items())]
            task = Task(log_id, NO_LOG, written.newest_ms + 1_000, None, PIECE_RECORDS, pieces)
            with logging_as_before():
                read_of_task = read_task(conf, select_analyzers(), {}, True, task)
            for piece, it in zip(pieces, read_of_task, strict=True):
                its[piece.partition] = it
        found[least] = its
        assert in_bulk == {PLAIN, DAMAGED, AHEAD, JUNK}
    assert [it is None for it in found[0]] == [it == EMPTY for it in range(PARTITIONS)]
    for bulk_read, one in zip(found[0], found[1 << 60], strict=True):
        if bulk_read is not None and one is not None:
            assert restored(bulk_read) == restored(one)
            assert bulk_read[3:7] == one[3:7]


def test_of_groups_that_nobody_may_ask_for_a_process_remembers_nothing(
    written: Written, alone: dict[str, Known], caplog: pytest.LogCaptureFixture
) -> None:
    told = known_alone(written, alone, caplog).timelines
    chosen = {it for it in told if told[it] and partition_for_group(it, PARTITIONS) == PLAIN}
    assert len(chosen) > 1
    chosen.pop()
    conf = {"bootstrap.servers": written.servers}
    with TopicReader(conf) as reader:
        reader.connect()
        log_id = reader.log_id
    assert log_id is not None
    pieces = [Piece(PLAIN, None, written.ends[PLAIN])]
    task = Task(log_id, NO_LOG, written.newest_ms + 1_000, frozenset(chosen), 1 << 30, pieces)
    with logging_as_before():
        (piece,) = read_task(conf, select_analyzers(), {}, True, task)
    assert piece is not None
    state = ClusterState(select_analyzers())
    state.restore(piece.partition, piece.image)
    groups = state.mirror.partition(PLAIN).groups
    assert {it for it in groups if [*state.recent.timeline(it)[0]]} == chosen & groups.keys()
    assert groups.keys() - chosen


def restored(piece: PieceRead) -> tuple[object, ...]:
    """All that a piece hands over that does not say it in one order."""
    recordings = RecentRecordings()
    state = ClusterState(select_analyzers(), members=recordings)
    state.restore(piece.partition, piece.image)
    mirror = state.mirror.partition(piece.partition)
    recordings.put(mirror, piece.recordings)
    known = [recordings.recording(it) for it in sorted(mirror.groups)]
    return digest(state, piece.partition), known, piece.next_offset, piece.goes_on


@contextmanager
def logging_as_before() -> Iterator[None]:
    """`read_task` turns the logging of its process off."""
    level = logging.root.manager.disable
    try:
        yield
    finally:
        logging.disable(level)


def die_at_second_pieces(*arguments: Any) -> list[PieceRead | None]:
    """In place of `read_task`."""
    if any(it.before is not None for it in arguments[-1].pieces):
        os.kill(os.getpid(), signal.SIGKILL)
    return read_task(*arguments)


def raise_at_second_pieces(*arguments: Any) -> list[PieceRead | None]:
    """In place of `read_task`."""
    if any(it.before is not None for it in arguments[-1].pieces):
        raise ValueError("no such thing")
    return read_task(*arguments)


@pytest.mark.parametrize(
    ("instead", "why"),
    [
        pytest.param(die_at_second_pieces, "was ended by SIGKILL", id="killed"),
        pytest.param(raise_at_second_pieces, "ValueError: no such thing", id="raises"),
    ],
)
def test_without_a_process_it_goes_on_alone(
    instead: Any,
    why: str,
    written: Written,
    alone: dict[str, Known],
    by_others: list[PieceRead],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = known_alone(written, alone, caplog)
    monkeypatch.setattr(shared_catch_up, "read_task", instead)
    shared, said = read(written, 2, caplog)
    # First pieces, of which the last may be on its way as the process is missed.
    taken = [it.partition for it in by_others]
    assert len(taken) >= 3
    assert len(set(taken)) == len(taken)
    assert re.search(rf"(?s){why}.*; what is left is read by this process alone", said)
    assert active_children() == []
    assert_same(shared, one)


def test_a_stop_is_heeded_and_the_next_start_goes_on(
    written: Written,
    alone: dict[str, Known],
    by_others: list[PieceRead],
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    """What was taken is in the snapshots; each event is told once."""
    one = known_alone(written, alone, caplog)
    sink = Kept()
    agent = agent_of(written, 2, sink, tmp_path)
    agent.start()
    try:
        until(lambda: len(by_others) >= 3, 60)
        status = agent.queries.status()["partitions"]
        behind = sum(it["behind_records"] for it in status.values())
        assert 0 < behind < sum(written.ends.values())
        assert not agent.queries.ready().ready
    finally:
        agent.stop()
    assert active_children() == []
    assert not agent.queries.has_caught_up
    known, said = read(written, 1, caplog, tmp_path)
    assert re.search(r"\d of 5 partitions go on from their snapshots", said)
    first = sink.by_group()
    told = {group: first.get(group, []) + known.events.get(group, []) for group in {*first, *known.events}}
    assert told == one.events
    assert known.states == one.states
    assert known.described == one.described


def test_what_is_behind_an_open_transaction(written: Written, by_others: list[PieceRead]) -> None:
    """A process ends there as one that reads alone does, and once it has ended the rest is read. It writes, so it is
    last."""
    names = (f"{kind}-{number}" for number in range(1_000) for kind in ("holder", "behind"))
    holder, behind = [it for it in names if partition_for_group(it, PARTITIONS) == PLAIN][:2]
    bootstrap = {"bootstrap.servers": written.servers, "log_level": 0}
    admin = AdminClient(bootstrap)
    admin.create_topics([NewTopic("orders", 1)])["orders"].result(20)
    producer = Producer({**bootstrap, "transactional.id": "opened", "transaction.timeout.ms": 600_000})
    producer.init_transactions(60)
    producer.begin_transaction()
    asking = Consumer({**bootstrap, "group.id": holder})
    producer.send_offsets_to_transaction([TopicPartition("orders", 0, 1)], asking.consumer_group_metadata(), 60)
    asking.close()
    value = commit_value(1, round(time.time() * 1000))
    produce(written.servers, [RawRecord(PLAIN, 0, written.newest_ms, commit_key(behind, "orders", 0), value)])
    agent = agent_of(written, 2, Kept(), None)
    agent.start()
    try:
        until(lambda: agent.queries.has_caught_up, 60)
        assert max(it.next_offset for it in by_others if it.partition == PLAIN) == written.ends[PLAIN] - 3
        status = agent.queries.status()["partitions"][str(PLAIN)]
        assert status["open_transaction"]["group"] == holder
        assert agent.state.mirror.find(behind) is None
        producer.commit_transaction(60)
        until(lambda: agent.state.mirror.find(behind) is not None, 60)
        assert agent.state.mirror.find(holder) is not None
    finally:
        agent.stop()

"""The first reading of a long topic, shared among processes: each reads some partitions, a piece at a time.

A piece begins where the one before ended, and gives the partition's image as snapshots have it, with what came of
its records. It is taken whole or not at all, as a batch that is read here: so whatever happens to a process, this one
goes on from the last piece. A piece ends before anything out of the ordinary (what cannot be read, a log that is cut,
times ahead of the wall, an analyzer that fails), and before the last records that are there, since what follows them
is not known. These are read in this process, as if they came now.

Not shared is what is asked for while records are replayed: a broker's log, Kubernetes; nor partitions that go on from
a snapshot, and those that other replicas may take.
"""

from __future__ import annotations

import logging
import pickle
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from agent.common.threads import take_quick_turns
from agent.common.workers import WorkerDied, Workers, WorkFailed, affordable_processes, usable_cores
from agent.core.diagnosis.cluster import AnalyzerSelection
from agent.core.diagnosis.engine import AnalyzerFailure, DiagnosisOutput
from agent.core.inference.external_evidence import KnownSessions
from agent.core.inference.session_settings import SessionSettings
from agent.core.record_time import FOLLOWERS, TOLERANCE_MS, Context, Lookahead
from agent.core.records import LogId, RecordBatch
from agent.core.shadow.mirror import RejectedRecord
from agent.core.shadow.transitions import Transition
from agent.kafka.source.bulk import FETCHING, reason_against
from agent.kafka.source.errors import SourceDenied, SourceError
from agent.kafka.source.progress import OffsetReset, TopicRecreated
from agent.kafka.source.quarantine import PassedOver
from agent.kafka.source.shared import SharedTopicReader
from agent.kafka.source.topic import TopicReader
from agent.persistence.cluster_state import ClusterState
from agent.persistence.snapshot.errors import SnapshotRefused, UnwritableState
from agent.runtime.bulk_catch_up import read_in_bulk
from agent.runtime.parts import AgentParts, Visibility
from agent.simulation.whatif.recent_recordings import PartitionRecordings, RecentRecordings

log = logging.getLogger("kshadow")

MIN_WORKER_RECORDS, CORES_OF_EACH = 5_000_000, 2
"""To start a process, and to hand over what it read, takes a second and a half, as reading some 3 million records in
bulk does, which keeps nearly two cores busy: for fewer than this for each it is not done unasked."""

MIN_PLAIN_RECORDS = 2_000_000
"""The same where records are read one by one, which keeps one core busy."""

WORKER_BYTES = 200 << 20
"""What a process may take: itself, what it fetched, and the groups of a piece."""

HEAD_START_RECORDS = 1_000_000
"""What this process reads while the others start."""

PIECE_RECORDS = 2_000_000
"""Records of a piece, a second or two of reading in bulk: then they are in the answers and in the next snapshot."""

PIECE_EVENTS = 10_000
"""Events of a piece, and records of it that cannot be decoded: so that what is handed over is bounded."""

TASKS_OF_EACH = 4
"""Into so many tasks at least the reading is cut for each process, so that all end at about the same time."""

WAIT_S = 0.1
"""How long this process waits for another, or for records: for so long it heeds nothing else."""

CONNECT_S, POLL_S, SILENT_S = 10.0, 0.5, 10.0
"""How long a process tries to connect, waits for records, and gets none before it gives up: this one does not."""


class Piece(NamedTuple):
    """What is to be read: a partition from where another piece has ended (None: from its beginning) to its end."""

    partition: int
    before: PieceRead | None
    end: int


class Task(NamedTuple):
    """What a process reads at once: pieces of this log, which one reader fetches together; of each at most so many
    `records`. `reads`: the log's id, and `log` what the state calls it. No record can honestly have a time after
    `latest_ms`."""

    reads: LogId
    log: LogId
    latest_ms: int
    visibility: Visibility
    records: int
    pieces: Sequence[Piece]


class PieceRead(NamedTuple):
    """What came of a piece.

    `image` is the partition's after its last record, which was of time `last_ms`. `groups` are those that changed,
    `outputs` what happened in them, if anybody is told of that. `goes_on`: whether there is more that a process may
    read; if not, what is left is for the one that reads all.
    """

    partition: int
    next_offset: int
    image: bytes
    last_ms: int
    groups: Collection[str]
    outputs: Sequence[DiagnosisOutput]
    rejects: Sequence[RejectedRecord]
    recordings: PartitionRecordings
    goes_on: bool


class Stopped(Exception):
    """Nobody waits for what the processes read any more."""


class Sharing(NamedTuple):
    """By how many processes, with this one, which partitions are read, with the offsets at which these end."""

    processes: int
    ends: Mapping[int, int]
    records: int


def plan_sharing(parts: AgentParts) -> Sharing | None:
    """How the reading of what is there now is shared; None where it is not. The reader is connected."""
    options, reader = parts.options, parts.reader
    if isinstance(reader, SharedTopicReader) or not isinstance(reader, TopicReader):
        return None
    if options.broker_log is not None or options.origin_source is not None:
        return None
    begun = parts.state.partitions
    left = {it: bounds for it, bounds in reader.unread.items() if it not in begun and bounds.first < bounds.end}
    records = sum(bounds.end - bounds.first for bounds in left.values())
    processes = options.settings.read.workers
    if processes is None:
        in_bulk = reason_against(options.conf) is None
        cores, least = (CORES_OF_EACH, MIN_WORKER_RECORDS) if in_bulk else (1, MIN_PLAIN_RECORDS)
        processes = min(usable_cores() // cores, records // least)
        processes = min(processes, affordable_processes(WORKER_BYTES)) if processes > 1 else 1
    processes = min(processes, len(left))
    return Sharing(processes, {it: bounds.end for it, bounds in left.items()}, records) if processes > 1 else None


class Here(NamedTuple):
    """What the reader of this process does beside the others."""

    latest_ms: Callable[[], int]
    """As a task's."""
    take: Callable[[PieceRead], None]
    """What another has read, in the order of each partition."""
    read_in_bulk: Callable[[Callable[[], None]], object]
    """Read all that nobody else does and that can be read so; what it is given it calls now and then."""
    read: Callable[[float], None]
    """Read the rest of that bit by bit, each waited for so many seconds. What it raises ends it all."""


def share_catch_up(parts: AgentParts, sharing: Sharing, here: Here) -> None:
    """Have other processes read beside this one, which begins with its part and goes on with what no other has begun.
    At the end the reader goes on from where they have come to."""
    reader, options = parts.reader, parts.options
    assert isinstance(reader, TopicReader), "only then it is shared"
    log_id = reader.log_id
    assert log_id is not None, "it is connected"
    sessions = parts.sessions.known.of_brokers
    work = partial(read_task, dict(options.conf), options.analyzers, sessions, options.exports is not None)
    try:
        pickle.dumps(work)
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        log.warning("analyzers that cannot be handed to other processes, so this one reads alone: %s", error)
        return
    tasks = list(_for_others(sharing, reader.positions))
    if not tasks:
        # Before another has started this one is done.
        return
    log.info("%d processes read %d partitions, %d records", sharing.processes, len(sharing.ends), sharing.records)
    begun: dict[int, Sequence[Piece]] = {}

    def put(pieces: Sequence[Piece]) -> None:
        task = Task(log_id, parts.state.log, here.latest_ms(), options.visibility, PIECE_RECORDS, pieces)
        begun[workers.put(task)] = pieces

    def collect(timeout_s: float = 0.0) -> None:
        for number, found in workers.take(timeout_s):
            more = []
            for piece, it in zip(begun.pop(number), found, strict=True):
                if it is None or reader.log_id != log_id:
                    continue
                here.take(it)
                reader.read_elsewhere(it.partition, it.next_offset)
                if it.goes_on:
                    more.append(Piece(piece.partition, it._replace(outputs=(), rejects=()), piece.end))
            if more:
                put(more)

    try:
        with Workers(sharing.processes - 1, work) as workers:
            for task in tasks:
                reader.leave([it.partition for it in task])
                put(task)
            here.read_in_bulk(collect)
            while begun and reader.log_id == log_id:
                is_read = all(bounds.first >= bounds.end for bounds in reader.unread.values())
                if is_read and (back := workers.take_back()) is not None:
                    reader.take_back([it.partition for it in begun.pop(back)])
                    here.read_in_bulk(collect)
                # Whichever of the two there is to wait for.
                collect(WAIT_S if is_read else 0.0)
                here.read(0.0 if is_read else WAIT_S)
    except (WorkerDied, WorkFailed, SnapshotRefused) as error:
        log.warning("%s; what is left is read by this process alone", error)
    finally:
        reader.take_back(sharing.ends)


def _for_others(sharing: Sharing, positions: Mapping[int, int]) -> Iterator[list[Piece]]:
    """The tasks for the other processes: all but the first ones, which are this one's part."""
    pieces = [Piece(number, None, end) for number, end in sharing.ends.items()]
    part, own = (sharing.records + (sharing.processes - 1) * HEAD_START_RECORDS) // sharing.processes, 0
    for task in cut_into_tasks(pieces, positions, sharing.processes):
        if own < part:
            own += sum(it.end - positions[it.partition] for it in task)
        else:
            yield task


def cut_into_tasks(pieces: Iterable[Piece], positions: Mapping[int, int], processes: int) -> list[list[Piece]]:
    """The pieces, largest first, in tasks of about the same size, which one is that is large itself."""
    left = [(it, min(it.end - positions[it.partition], PIECE_RECORDS)) for it in pieces]
    most = min(PIECE_RECORDS, sum(records for _, records in left) // (processes * TASKS_OF_EACH))
    tasks: list[list[Piece]] = []
    room = 0
    for piece, records in sorted(left, key=lambda it: -it[1]):
        if records > room:
            tasks.append([])
            room = most
        tasks[-1].append(piece)
        room -= records
    return tasks


# In the other process.


def read_task(
    conf: Mapping[str, str],
    analyzers: AnalyzerSelection,
    sessions: SessionSettings,
    keeps_outputs: bool,
    task: Task,
) -> list[PieceRead | None]:
    """What came of each piece of a task; None where nothing did."""
    take_quick_turns()
    # What is wrong this process meets as well, and tells.
    logging.disable()
    recordings = RecentRecordings()
    state = ClusterState(
        analyzers,
        witness=KnownSessions(sessions),
        is_remembered=task.visibility.remembers_group,
        log=task.log,
        members=recordings,
    )
    reading = {it.partition: PieceReading(it, task, state, recordings, keeps_outputs) for it in task.pieces}
    starts = {it.partition: it.before.next_offset for it in task.pieces if it.before is not None}
    try:
        with TopicReader({**FETCHING, **conf}, partitions=list(reading), start=starts) as reader:
            reader.connect(CONNECT_S)
            is_same = reader.log_id == task.reads and _read(reader, conf, reading)
    except SourceError:
        # What was read until then is as good as if the piece had ended there.
        is_same = True
    return [it.result() if is_same else None for it in reading.values()]


class _InBulk(NamedTuple):
    """Pieces, as `read_in_bulk` gives them what they are read from."""

    reading: Mapping[int, PieceReading]

    def take(self, batch: RecordBatch, next_ms: Sequence[int]) -> bool:
        it = self.reading[batch.partition]
        it.take_followed(batch, next_ms)
        return not it.has_ended

    def next_offset(self, partition: int) -> int:
        return self.reading[partition].next_offset

    def let_go(self, partition: int) -> None:
        """Nothing is held back: it is read in bulk at first."""

    @property
    def wants_no_more(self) -> bool:
        return all(it.has_ended for it in self.reading.values())


def _read(reader: TopicReader, conf: Mapping[str, str], reading: Mapping[int, PieceReading]) -> bool:
    """Read until all pieces have ended; False where the log was made anew meanwhile."""
    read_in_bulk(reader, conf, _InBulk(reading))
    positions, deadline = reader.positions, time.monotonic() + SILENT_S
    while True:
        reached, now_at = reader.caught_up_partitions, reader.positions
        for number, it in reading.items():
            if reached[number] or now_at[number] >= it.piece.end:
                it.end()
        if all(it.has_ended for it in reading.values()):
            return True
        for run in reader.poll(POLL_S):
            reading[run.partition].take(run)
        for notice in reader.take_notices():
            if isinstance(notice, TopicRecreated):
                return False
            if isinstance(notice, PassedOver | OffsetReset):
                reading[notice.partition].end()
        before, positions = positions, reader.positions
        if before != positions:
            deadline = time.monotonic() + SILENT_S
        elif isinstance(reader.last_error, SourceDenied) or time.monotonic() >= deadline:
            return True


class PieceReading:
    """A piece as it is read: up to its end, or until so much came of it that it is to be handed over."""

    def __init__(
        self, piece: Piece, task: Task, state: ClusterState, recordings: RecentRecordings, keeps_outputs: bool
    ) -> None:
        """`state` and `recordings` get the piece's partition; the others are those of `read_task`."""
        self.piece, self.has_ended = piece, False
        self._goes_on = False
        self._state, self._recordings, self._latest_ms = state, recordings, task.latest_ms
        self._lookahead = Lookahead()
        self._room, self._last_ms = task.records, 0
        self._keeps_outputs = keeps_outputs
        self._outputs: list[DiagnosisOutput] = []
        self._groups: set[str] = set()
        self._rejects: list[RejectedRecord] = []
        # Whether anything was applied, and nothing by half.
        self._is_whole = False
        if piece.before is not None:
            state.restore(piece.partition, piece.before.image)
            recordings.put(state.mirror.partition(piece.partition), piece.before.recordings)

    @property
    def next_offset(self) -> int:
        """The offset behind the last record that was applied; 0 where none was."""
        return self._state.position(self.piece.partition).next_offset

    def end(self) -> None:
        """Nothing more of it is read here."""
        self.has_ended = True

    def take(self, run: RecordBatch) -> None:
        """Apply what came, as the live reader does while it is far from the end."""
        if self.has_ended:
            return
        count = self._room_for(run.timestamps_ms)
        self._room -= count
        for batch, context in self._lookahead.put(run.part(0, count), self._latest_ms):
            self._apply(batch, context)

    def take_followed(self, run: RecordBatch, next_ms: Sequence[int]) -> None:
        """The same of records that were read in bulk, which come again where they are among the times that follow."""
        times = [*run.timestamps_ms, *next_ms]
        if (count := self._room_for(times) - FOLLOWERS) > 0:
            self._room -= count
            self._apply(run.part(0, count), Context(times[count : count + FOLLOWERS], self._latest_ms))

    def _room_for(self, times_ms: Sequence[int]) -> int:
        """How many records of these times are still to be read here. Where not all are, nothing more is."""
        count = len(times_ms)
        if max(times_ms) > self._latest_ms + TOLERANCE_MS:
            # Whether the wall or the record is wrong is for the one that sees all partitions.
            self.end()
            count = len(list(takewhile(lambda it: it <= self._latest_ms + TOLERANCE_MS, times_ms)))
        if count >= self._room:
            count = self._room
            self._goes_on = True
            self.end()
        return count

    def _apply(self, batch: RecordBatch, context: Context) -> None:
        try:
            outputs = self._state.replay_batch(batch, context)
        except AnalyzerFailure:
            self._is_whole = False
            self.end()
            return
        self._is_whole = True
        self._last_ms = batch.timestamps_ms[-1]
        self._groups.update(it.group for it in outputs if isinstance(it, Transition))
        if self._keeps_outputs:
            self._outputs += outputs
        self._rejects += self._state.take_rejects(self.piece.partition)
        if len(self._outputs) + len(self._rejects) >= PIECE_EVENTS and not self.has_ended:
            self._goes_on = True
            self.end()

    def result(self) -> PieceRead | None:
        """What came of it; None where nothing was read, or it cannot be handed over whole."""
        number = self.piece.partition
        if not self._is_whole:
            return None
        snapshot = self._state.capture(number)
        if snapshot.omitted_analyzers:
            return None
        try:
            image = snapshot.encode()
        except UnwritableState:
            return None
        return PieceRead(
            number,
            snapshot.header.next_offset,
            image,
            self._last_ms,
            self._groups,
            self._outputs,
            self._rejects,
            self._recordings.kept(self._state.mirror.partition(number)),
            self._goes_on,
        )

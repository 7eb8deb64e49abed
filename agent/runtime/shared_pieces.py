"""What another process reads of a long topic, for the one that shares it (`agent.runtime.shared_catch_up`).

A piece begins where the one before ended, and gives the partition's image as snapshots have it, with what came of
its records. It ends before anything out of the ordinary (what cannot be read, a log that is cut, times ahead of the
wall, an analyzer that fails), and before the last records that are there, since what follows them is not known.

It imports little: that is most of what it takes to start such a process.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from agent.common.threads import take_quick_turns
from agent.core.diagnosis.cluster import AnalyzerSelection
from agent.core.diagnosis.engine import AnalyzerFailure, DiagnosisOutput
from agent.core.inference.external_evidence import KnownSessions
from agent.core.inference.session_settings import SessionSettings
from agent.core.record_time import FOLLOWERS, TOLERANCE_MS, Context, Lookahead
from agent.core.records import LogId, RecordBatch
from agent.core.shadow.mirror import RejectedRecord
from agent.core.shadow.transitions import Transition
from agent.kafka.source.bulk import FETCHING
from agent.kafka.source.errors import SourceDenied, SourceError
from agent.kafka.source.progress import OffsetReset, TopicRecreated
from agent.kafka.source.quarantine import PassedOver
from agent.kafka.source.topic import TopicReader
from agent.persistence.cluster_state import ClusterState
from agent.persistence.snapshot.errors import UnwritableState
from agent.runtime.bulk_catch_up import read_in_bulk
from agent.simulation.whatif.recent_recordings import PartitionRecordings, RecentRecordings

PIECE_EVENTS = 10_000
"""Events of a piece, and records of it that cannot be decoded: so that what is handed over is bounded."""

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
    `latest_ms`. Only of `groups` (None: of all) anything is to be remembered."""

    reads: LogId
    log: LogId
    latest_ms: int
    groups: frozenset[str] | None
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
        is_remembered=lambda group: task.groups is None or group in task.groups,
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

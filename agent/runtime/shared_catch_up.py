"""The first reading of a long topic, shared among processes: each reads some partitions, a piece at a time.

A piece (`agent.runtime.shared_pieces`) is taken whole or not at all, as a batch that is read here: so whatever
happens to a process, this one goes on from the last piece. What pieces leave is read here, as if it came now.

Not shared is what is asked for while records are replayed: a broker's log, Kubernetes; nor partitions that go on from
a snapshot, and those that other replicas may take.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from agent.common.workers import WorkerDied, Workers, WorkFailed, affordable_processes, usable_cores
from agent.kafka.source.bulk import reason_against
from agent.kafka.source.shared import SharedTopicReader
from agent.kafka.source.topic import TopicReader
from agent.persistence.snapshot.errors import SnapshotRefused
from agent.runtime.parts import AgentParts
from agent.runtime.shared_pieces import Piece, PieceRead, Task, read_task

log = logging.getLogger("kshadow")

MIN_WORKER_RECORDS, CORES_OF_EACH = 3_000_000, 2
"""To start a process, and to take over what it has read, costs as much CPU as to read some 1.5 million records in
bulk, which keeps nearly two cores busy: for fewer than twice as many for each it is not done unasked."""

MIN_PLAIN_RECORDS = 2_000_000
"""The same where records are read one by one, which keeps one core busy."""

WORKER_BYTES = 200 << 20
"""What a process may take: itself, what it fetched, and the groups of a piece."""

HEAD_START_RECORDS = 1_000_000
"""What this process reads while the others start."""

PIECE_RECORDS = 2_000_000
"""Records of a piece, a second or two of reading in bulk: then they are in the answers and in the next snapshot."""

TASKS_OF_EACH = 4
"""Into so many tasks at least the reading is cut for each process, so that all end at about the same time."""

WAIT_S = 0.1
"""How long this process waits for another, or for records: for so long it heeds nothing else."""


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
    others = min(sharing.processes - 1, len(tasks))
    log.info("%d processes read %d partitions, %d records", 1 + others, len(sharing.ends), sharing.records)
    begun: dict[int, Sequence[Piece]] = {}

    def put(pieces: Sequence[Piece]) -> None:
        task = Task(log_id, parts.state.log, here.latest_ms(), options.visibility.groups, PIECE_RECORDS, pieces)
        begun[workers.put(task)] = pieces

    def collect(timeout_s: float = 0.0) -> None:
        for number, found in workers.take(timeout_s):
            more = []
            for piece, it in zip(begun.pop(number), found, strict=True):
                if reader.log_id != log_id:
                    return
                if it is not None:
                    here.take(it)
                    reader.read_elsewhere(it.partition, it.next_offset)
                if it is not None and it.goes_on:
                    more.append(Piece(piece.partition, it._replace(outputs=(), rejects=()), piece.end))
                else:
                    # What is left of it is for this process.
                    reader.take_back([piece.partition])
            if more:
                put(more)

    try:
        with Workers(others, work) as workers:
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

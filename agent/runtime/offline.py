"""One-shot reading: files, or the live topic to its end, into a mirror and its history."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from agent.common.clock import now_ms
from agent.common.collector import no_cycle_collection
from agent.common.workers import Workers, usable_cores
from agent.core.diagnosis.api import PartitionLoad
from agent.core.diagnosis.cluster import NO_ANALYZERS, AnalyzerSelection, ClusterDiagnosis
from agent.core.diagnosis.engine import AnalyzerFailure, DiagnosisOutput
from agent.core.diagnosis.lag_source import LagSource
from agent.core.events.counts import PartitionCounts
from agent.core.events.events import Event, event_of, sort_events
from agent.core.events.recent import PartitionRecentEvents
from agent.core.inference.external_evidence import EvidenceSource, KnownSessions
from agent.core.open_transactions import OpenTransaction, OpenTransactions, hiding
from agent.core.read_limits import BeforeDeparture, DepartureTracker, ReadLimit
from agent.core.record_time import Context, Lookahead, newest_believed_ms
from agent.core.records import RecordBatch
from agent.core.shadow.cluster import ClusterMirror
from agent.core.shadow.mirror import PartitionMirror, RejectedRecord
from agent.core.shadow.offsets import CommittedOffsets
from agent.core.shadow.views import CommittedOffset
from agent.kafka.source.errors import SourcePathError
from agent.kafka.source.ndjson import STDIN, LineProblem, PayloadLine, is_ndjson
from agent.kafka.source.paths import committed_batches_of
from agent.kafka.source.problems import ProblemKind, SegmentProblem
from agent.kafka.source.segments import PartitionLog, discover, discover_all
from agent.persistence.snapshot.image_codec import ImageCodec, PartitionState
from agent.presentation.json_views import LagOf, describe_json, group_json, with_stale
from agent.presentation.narrative import findings
from agent.presentation.narrative.events import events_within
from agent.simulation.whatif.recorder import GroupRecorder

if TYPE_CHECKING:
    from agent.kafka.source.quarantine import PassedOver
    from agent.kafka.source.topic import TopicReader

Say = Callable[[str], None]


def check_readable(paths: Iterable[str]) -> None:
    """Raise `SourceError` for a PATH that cannot be read at all: before anything is printed of the others."""
    for path in paths:
        if not is_ndjson(path):
            discover(Path(path))
            continue
        if is_single_use(path):
            # Whoever writes to it would see the reader go.
            continue
        try:
            open(path, "rb").close()
        except OSError as error:
            raise SourcePathError(f"{path}: expected a readable NDJSON file: {error.strerror}") from error


def is_single_use(path: str) -> bool:
    """Whether what a PATH holds is gone once it was read."""
    with suppress(OSError):  # a name that is too long: whoever reads it says so
        return path == STDIN or Path(path).is_fifo()
    return False


class MirrorFound(NamedTuple):
    """A partition's groups as an image, unless nobody asks for them; what could not be decoded; what the partition
    took in, and its event clock, where analyzers run."""

    partition: int
    image: bytes | None
    error_counts: Counter[str]
    rejects: list[RejectedRecord]
    loads: tuple[dict[int, tuple[PartitionLoad, int]], int] | None


class PartitionFound(NamedTuple):
    """What came of one partition: what was wrong with it, and whether records are left out that are there; its newest
    record's time, its events; its mirror, if it has a record; and whoever followed the one group that is asked for,
    if it has that."""

    problems: list[str]
    is_incomplete: bool
    last_ms: int
    events: list[Event]
    mirror: MirrorFound | None
    followed: tuple[DepartureTracker, GroupRecorder | None] | None


class OfflineGroups:
    """A mirror that was read to the end of its source, and the history on the way if that was wanted."""

    def __init__(
        self,
        where: str,
        *,
        cluster: str | None = None,
        keep_events: bool = False,
        group: str | None = None,
        witness: EvidenceSource | None = None,
        chosen: AnalyzerSelection = NO_ANALYZERS,
        on_problem: Say | None = None,
        end: ReadLimit | None = None,
        recorder: GroupRecorder | None = None,
        lag_source: LagSource | None = None,
        is_live: bool = False,
    ) -> None:
        """`group`: the only one whose events are kept, where they are. `chosen` analyzers find what they find;
        `on_problem` is told of those that fail. `end`: no record behind it is applied. `recorder` follows its
        group. `lag_source`: where the analyzers know lag from. `is_live`: it is read as it is written."""
        self.where = where
        self.mirror = ClusterMirror(witness)
        self._on_problem = on_problem
        # Without analyzers the recorder replays in their place; with some it looks over their shoulder.
        self._recorder = recorder if chosen == NO_ANALYZERS else None
        self._recorder_given = recorder
        self._diagnosis = ClusterDiagnosis(
            self.mirror,
            chosen,
            on_failure=on_problem and self._failed,
            observe=None if recorder is None else recorder.observe,
            lag_source=lag_source,
        )
        self.problems = 0
        self.is_incomplete = False
        """Whether records were passed over that are there, and may be those that were asked for."""
        self._cluster = cluster
        self._group = group
        self._events: list[Event] | None = [] if keep_events else None
        self._leaving = None if group is None else DepartureTracker(group)
        self.held_back: OpenTransactions = {}
        """What is open where the live topic was read: what was written since is not known."""
        self._end, self._ended = end, set[int]()
        self._lookahead = Lookahead(is_history=not is_live)
        self.last_ms = 0
        """The newest record's time, be it applied or behind the end; one that is ahead is none."""

    def apply(self, run: RecordBatch) -> None:
        """Apply consecutive records, up to the end."""
        for batch, context in self._lookahead.put(run, now_ms()):
            self._apply(batch, context)

    def pass_over(self, piece: PassedOver) -> None:
        """These records come not."""
        self.problems += 1
        self.is_incomplete = True
        if self._on_problem is not None:
            self._on_problem(str(piece))

    def end_of_input(self) -> None:
        """Nothing follows what was applied so far."""
        for batch, context in self._lookahead.take(now_ms()):
            self._apply(batch, context)

    def _apply(self, run: RecordBatch, context: Context) -> None:
        self.last_ms = max(self.last_ms, newest_believed_ms(run, context))
        if self._end is not None:
            if run.partition in self._ended:
                return
            count = self._end.records_before(run)
            if count < len(run):
                self._ended.add(run.partition)
                context = context._replace(next_ms=[*run.timestamps_ms[count:], *context.next_ms])
                run = run.part(0, count)
        outputs: list[DiagnosisOutput]
        if self._recorder is None:
            outputs = self._diagnosis.replay_batch(run, context)
        else:
            mirror, passes_over = self.mirror.partition(run.partition), self._on_problem is not None
            outputs = [*self._recorder.replay_batch(mirror, run, passes_over=passes_over)]
        self._keep(outputs)
        if self._leaving is not None:
            self._leaving.observe(outputs)

    def found(self, problems: list[str], *, keeps_groups: bool) -> PartitionFound:
        """What came of the one partition that was read here, to be taken by another. Only with `keeps_groups` its
        groups are in it, and of a followed one's neighbours the names alone."""
        self.end_of_input()
        leaving = self._leaving
        has_group = leaving is not None and leaving.has_seen_group
        mirror_found = loads = None
        for number, mirror in self.mirror.partitions.items():
            diagnosis = self._diagnosis.partition(number)
            if diagnosis is not None:
                diagnosis.end_loads()
                loads = diagnosis.loads, diagnosis.clock_ms or 0
            if leaving is not None and not has_group:
                mirror.offsets = CommittedOffsets()
            image = _image_of(mirror) if keeps_groups else None
            mirror_found = MirrorFound(number, image, mirror.error_counts, mirror.take_rejects(), loads)
        followed = (leaving, self._recorder_given) if leaving is not None and has_group else None
        return PartitionFound(problems, self.is_incomplete, self.last_ms, self._events or [], mirror_found, followed)

    def take(self, found: PartitionFound, say: Say) -> None:
        """One more partition, read in another process, as if it had been read here; before `finish`."""
        for text in found.problems:
            self.problems += 1
            say(text)
        self.is_incomplete |= found.is_incomplete
        self.last_ms = max(self.last_ms, found.last_ms)
        if self._events is not None:
            self._events += found.events
        if found.followed is not None:
            self._leaving, recorder = found.followed
            if self._recorder_given is not None and recorder is not None:
                self._recorder_given.resume(recorder)
        if found.mirror is None:
            return
        number, image, error_counts, rejects, loads = found.mirror
        mirror = PartitionMirror(number) if image is None else _images().restore(image, number).mirror
        mirror.error_counts = error_counts
        mirror.rejects.extend(rejects)
        self.mirror.partitions[number] = mirror
        if loads is not None:
            self._diagnosis.merge_partition(number, *loads)

    @property
    def last_departure(self) -> BeforeDeparture | None:
        """Where `group` last lost members; None if it never did."""
        return None if self._leaving is None else self._leaving.last

    def advance(self, now_ms: int) -> None:
        """The topic was read to its end, and it is now: what was due by then has happened. Not where a transaction
        hides what was written: silence says nothing there."""
        read = [number for number in self._diagnosis.partitions if number not in self.held_back]
        self._keep(self._diagnosis.advance(now_ms, read))

    def finish(self) -> None:
        """Everything was read: find what only all of it together shows."""
        self.end_of_input()
        self._keep(self._diagnosis.finish())

    def _keep(self, outputs: Iterable[DiagnosisOutput]) -> None:
        if self._events is not None:
            self._events += [event_of(it, self._cluster) for it in outputs if self._group in (None, it.group)]

    def _failed(self, failure: AnalyzerFailure) -> None:
        assert self._on_problem is not None, "only then failures come here"
        self.problems += 1
        self._on_problem(str(failure))

    def events(self) -> list[Event]:
        """The history in order; empty unless it was to be kept."""
        return sort_events(self._events or [])

    def timeline(self, group: str, since_ms: int | None = None, until_ms: int | None = None) -> list[Event] | None:
        """One group's events of a range, bounds included, in order; None if there is and was no such group."""
        events = [event for event in self.events() if event["group"] == group]
        if not events and self.mirror.mirror_of(group) is None:
            return None
        return events_within(events, since_ms, until_ms)

    def findings(
        self, since_ms: int | None = None, until_ms: int | None = None, group: str | None = None
    ) -> list[Event]:
        """The newest event of each finding that was open in the range; without a range, of each that is open."""
        return findings.select_findings(self.events(), since_ms, until_ms, group)

    def groups(self) -> list[dict[str, Any]]:
        """Every group's row, by name."""
        hides = hiding(self.held_back, now_ms())
        views = sorted(self.mirror.views(), key=lambda view: view.group)
        return [with_stale(group_json(view), hides) for view in views]

    def describe(
        self, group: str, lag: LagOf | None = None, shares: tuple[CommittedOffset, ...] = ()
    ) -> dict[str, Any] | None:
        """One group in full, or None; `shares` are positions that the topic does not have, a share group's."""
        found = self.mirror.find(group)
        if found is None:
            return None
        hides = hiding(self.held_back, now_ms())
        known_lag = None if found[0].coordinator_partition in hides else lag
        return with_stale(describe_json(found[0], found[1] + shares, known_lag), hides)

    def report(self, say: Say) -> bool:
        """Say which records could not be decoded; whether anything was wrong with the data."""
        total = sum(self.mirror.error_counts().values())
        shown = 0
        for mirror in self.mirror.partitions.values():
            for reject in mirror.take_rejects():
                at = reject.at
                say(f"partition {at.partition}, offset {at.offset}: {reject.error.kind}: {reject.error}")
                shown += 1
        if total > shown:
            say(f"… and {total - shown} more records that could not be decoded")
        if total:
            say("what the other records tell is shown; kshadow decode prints these with their bytes")
        return bool(total or self.problems)


class ReplayOptions(TypedDict, total=False):
    """Keyword arguments of `OfflineGroups`; it says what each means."""

    cluster: str | None
    group: str | None
    witness: EvidenceSource | None
    chosen: AnalyzerSelection
    end: ReadLimit | None
    recorder: GroupRecorder | None
    lag_source: LagSource | None


def load(
    paths: Iterable[str],
    *,
    on_problem: Say,
    keep_events: bool = True,
    keep_groups: bool = True,
    workers: int | None = 1,
    **options: Unpack[ReplayOptions],
) -> OfflineGroups:
    """Read files to their end, as a read_committed consumer would. Raises `SourceError` for what holds no records.

    `workers`: so many processes share the partitions, as far as they can be shared; None: as many as are worth it.
    What comes of it is the same; `WorkerDied` is raised where one ends before its time. Without `keep_groups` nobody
    will ask for more than events.
    """
    paths = list(paths)

    def begin() -> OfflineGroups:
        return OfflineGroups("in " + ", ".join(paths), keep_events=keep_events, on_problem=on_problem, **options)

    logs = _shareable_logs(paths, options)
    count = worker_count([it.size_bytes for it in logs], workers)
    with no_cycle_collection():
        loaded = None
        if count > 1:
            work = partial(_read_partition, keep_events, keep_groups, options)
            with Workers(count, work) as processes:
                found = processes.results(logs, [it.size_bytes for it in logs])
                loaded = _joined(begin(), found, on_problem, follows=options.get("group") is not None)
        if loaded is None:
            loaded = begin()
            _apply_all(committed_batches_of(*paths), loaded, on_problem)
        loaded.finish()
    return loaded


MIN_WORKER_BYTES = 32 << 20
"""For less of the log a process is not started unasked: beside threads its start costs as much CPU as to read a
quarter of this."""


def worker_count(sizes: Collection[int], workers: int | None) -> int:
    """How many processes read partitions of these sizes in bytes. `workers`: so many at most; None: the processors'
    number, and no more than are worth it."""
    if workers is None:
        workers = min(usable_cores(), sum(sizes) // MIN_WORKER_BYTES)
    return min(workers, len(sizes))


def _shareable_logs(paths: Iterable[str], options: ReplayOptions) -> list[PartitionLog]:
    """The partitions that may be read apart from each other; none where all must be read together."""
    # Of a rebalance a witness may know what lies in other partitions.
    if options.get("lag_source") is not None or not isinstance(options.get("witness"), KnownSessions | None):
        return []
    recorder = options.get("recorder")
    if any(map(is_ndjson, paths)) or (recorder is not None and not recorder.is_of_one_group):
        return []
    logs = discover_all(paths)
    return logs if len({it.partition for it in logs}) == len(logs) else []


def _joined(
    loaded: OfflineGroups, found: Iterable[PartitionFound], say: Say, *, follows: bool
) -> OfflineGroups | None:
    """What was found in all partitions; None where the one group that is followed (`follows`) is in several of them,
    as it may be after the topic was given more: what one record tells of it then depends on another partition's."""
    if follows:
        found = list(found)
        if sum(it.followed is not None for it in found) > 1:
            return None
    for it in found:
        loaded.take(it, say)
    return loaded


def _read_partition(
    keep_events: bool, keep_groups: bool, options: ReplayOptions, log: PartitionLog
) -> PartitionFound:
    """In another process: all that is in a partition."""
    problems: list[str] = []
    with no_cycle_collection():
        # Whoever follows a group begins anew with each partition.
        apart: ReplayOptions = {**options, "recorder": copy.deepcopy(options.get("recorder"))}
        loaded = OfflineGroups("", keep_events=keep_events, on_problem=problems.append, **apart)
        _apply_all(log.committed(), loaded, problems.append)
        return loaded.found(problems, keeps_groups=keep_groups)


def _apply_all(
    items: Iterable[RecordBatch | PayloadLine | SegmentProblem | LineProblem], loaded: OfflineGroups, say: Say
) -> None:
    for item in items:
        match item:
            case RecordBatch():
                loaded.apply(item)
            case SegmentProblem(harmless=True) | PayloadLine():
                # Padding holds no record; a payload without its record belongs to no group.
                pass
            case _:
                loaded.problems += 1
                # What is damaged is no group's any more; this is whole.
                loaded.is_incomplete |= isinstance(item, SegmentProblem) and item.kind is ProblemKind.OVERSIZED
                say(str(item))


@cache
def _images() -> ImageCodec:
    return ImageCodec(NO_ANALYZERS)


def _image_of(mirror: PartitionMirror) -> bytes:
    alone = PartitionState(mirror, None, PartitionCounts(), PartitionRecentEvents(), 0)
    return _images().encode(_images().capture(alone))


def newest_timestamp_ms(path: str) -> int:
    """The time of a PATH's newest record, epoch milliseconds; 0 if it has none. Raises `SourceError`."""
    runs = (item for item in committed_batches_of(path) if isinstance(item, RecordBatch))
    return max((run.newest_ms for run in runs), default=0)


def load_topic(
    conf: Mapping[str, str],
    partitions: Collection[int] | None = None,
    *,
    keep_events: bool = False,
    on_problem: Say | None = None,
    **options: Unpack[ReplayOptions],
) -> OfflineGroups:
    """Read the live topic to where it ends now. Raises `SourceError`."""
    from agent.kafka.source.once import read_to_end
    from agent.kafka.source.open_transactions import first_records

    where = f"at {conf['bootstrap.servers']}"
    loaded = OfflineGroups(where, keep_events=keep_events, on_problem=on_problem, is_live=True, **options)
    held_back: Mapping[int, int] = {}

    def look(reader: TopicReader) -> None:
        nonlocal held_back
        held_back = reader.held_back

    for run in read_to_end(conf, partitions=partitions, on_passed_over=loaded.pass_over, on_end=look):
        loaded.apply(run)
    loaded.end_of_input()
    if held_back:
        unknown = {number: OpenTransaction(offset, now_ms()) for number, offset in held_back.items()}
        loaded.held_back = {**unknown, **first_records(conf, held_back, now_ms())}
    return loaded

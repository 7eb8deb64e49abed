"""One-shot reading: files, or the live topic to its end, into a mirror and its history."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from agent.common.clock import now_ms
from agent.common.collector import no_cycle_collection
from agent.core.diagnosis.cluster import NO_ANALYZERS, AnalyzerSelection, ClusterDiagnosis
from agent.core.diagnosis.engine import AnalyzerFailure, DiagnosisOutput
from agent.core.diagnosis.lag_source import LagSource
from agent.core.events.events import Event, event_of, sort_events
from agent.core.inference.external_evidence import EvidenceSource
from agent.core.open_transactions import OpenTransaction, OpenTransactions, hiding
from agent.core.read_limits import BeforeDeparture, DepartureTracker, ReadLimit
from agent.core.record_time import Context, Lookahead, newest_believed_ms
from agent.core.records import RawRecord, RecordBatch
from agent.core.shadow.cluster import ClusterMirror
from agent.core.shadow.views import CommittedOffset
from agent.core.wire.errors import WireError
from agent.core.wire.json_form import entry_json, message_json
from agent.core.wire.payloads import PAYLOADS, decode_payload
from agent.core.wire.records import TransactionMarker, Undecodable, decode
from agent.kafka.source.errors import SourcePathError
from agent.kafka.source.ndjson import STDIN, LineProblem, PayloadLine, is_ndjson
from agent.kafka.source.paths import committed_batches_of, raw_records
from agent.kafka.source.problems import ProblemKind, SegmentProblem
from agent.kafka.source.segments import discover
from agent.presentation.json_views import LagOf, describe_json, group_json, with_stale
from agent.presentation.narrative import findings
from agent.presentation.narrative.events import events_within
from agent.simulation.whatif.recorder import GroupRecorder

if TYPE_CHECKING:
    from agent.kafka.source.quarantine import PassedOver
    from agent.kafka.source.topic import TopicReader

Say = Callable[[str], None]

_PAYLOAD_CLASSES = {message.__name__: message for pair in PAYLOADS.values() for message in pair}


def decoded(path: str, *, expand: bool, on_problem: Say) -> Iterator[dict[str, Any]]:
    """Every record of a PATH in the contract's form, what cannot be decoded among them.

    Raises `SourceError` for a path that holds no records at all.
    """
    for item in raw_records(path):
        match item:
            case RawRecord():
                yield record_form(item, expand=expand)
            case PayloadLine():
                yield _payload_form(item)
            case LineProblem():
                yield _line_form(item)
            case SegmentProblem(harmless=True):
                pass
            case _:
                on_problem(str(item))


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
    return path == STDIN or Path(path).is_fifo()


def record_form(record: RawRecord, *, expand: bool) -> dict[str, Any]:
    """One record: its place, its time, and its key and value, or what kind of marker it is, or what is wrong."""
    place: dict[str, Any] = {"partition": record.partition, "offset": record.offset}
    entry = decode(record.key, record.value, control=record.control)
    match entry:
        case Undecodable(error=error):
            # Its traceback holds this frame, and that holds the bytes, until the cycle collector looks.
            error.__traceback__ = None
            return {
                **place,
                "timestamp": record.timestamp_ms,
                "error": {"kind": error.kind, "message": str(error)},
                "keyHex": None if record.key is None else record.key.hex(),
                "valueHex": None if record.value is None else record.value.hex(),
            }
        case TransactionMarker(outcome=outcome, coordinator_epoch=epoch):
            return {**place, "timestamp": record.timestamp_ms, "control": outcome, "coordinatorEpoch": epoch}
        case _:
            return {**place, "timestamp": record.timestamp_ms, **entry_json(entry, expand=expand)}


def _line_form(problem: LineProblem) -> dict[str, Any]:
    """A line that holds no record: in the output, so that lines in are lines out."""
    return {
        "partition": None,
        "offset": None,
        "line": problem.line,
        "error": {"kind": "bad_line", "message": str(problem)},
        "keyHex": None,
        "valueHex": None,
    }


def _payload_form(line: PayloadLine) -> dict[str, Any]:
    """A line that holds a member's payload alone."""
    place = {"line": line.line, "name": line.name}
    message = _PAYLOAD_CLASSES.get(line.name or "")
    if message is None:
        known = ", ".join(_PAYLOAD_CLASSES)
        error = {"kind": "unknown_payload", "message": f"expected one of {known}, got {line.name!r}"}
        return {**place, "error": error, "valueHex": line.data.hex()}
    try:
        version, payload = decode_payload(message, line.data)
    except WireError as wrong:
        return {**place, "error": {"kind": wrong.kind, "message": str(wrong)}, "valueHex": line.data.hex()}
    return {**place, "version": version, "data": message_json(payload, min(version, message.versions[1]))}


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
    ) -> None:
        """`group`: the only one whose events are kept, where they are. `chosen` analyzers find what they find;
        `on_problem` is told of those that fail. `end`: no record behind it is applied. `recorder` follows its
        group. `lag_source`: where the analyzers know lag from."""
        self.where = where
        self.mirror = ClusterMirror(witness)
        self._on_problem = on_problem
        # Without analyzers the recorder replays in their place; with some it looks over their shoulder.
        self._recorder = recorder if chosen == NO_ANALYZERS else None
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
        self._lookahead = Lookahead()
        self.last_ms = 0
        """The newest record's time, be it applied or behind the end; one that is ahead is none."""

    def apply(self, run: RecordBatch) -> None:
        """Apply consecutive records, up to the end."""
        for batch, context in self._lookahead.put(run):
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
            outputs = [*self._recorder.replay_batch(self.mirror.partition(run.partition), run)]
        self._keep(outputs)
        if self._leaving is not None:
            self._leaving.observe(outputs)

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
        if not events and self.mirror.find(group) is None:
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
    paths: Iterable[str], *, on_problem: Say, keep_events: bool = True, **options: Unpack[ReplayOptions]
) -> OfflineGroups:
    """Read files to their end, as a read_committed consumer would. Raises `SourceError` for what holds no records."""
    paths = list(paths)
    loaded = OfflineGroups("in " + ", ".join(paths), keep_events=keep_events, on_problem=on_problem, **options)
    with no_cycle_collection():
        for path in paths:
            for item in committed_batches_of(path):
                match item:
                    case RecordBatch():
                        loaded.apply(item)
                    case SegmentProblem(harmless=True) | PayloadLine():
                        # Padding holds no record; a payload without its record belongs to no group.
                        pass
                    case _:
                        loaded.problems += 1
                        # What is damaged is no group's any more; this is whole.
                        is_whole = isinstance(item, SegmentProblem) and item.kind is ProblemKind.OVERSIZED
                        loaded.is_incomplete |= is_whole
                        on_problem(str(item))
        loaded.finish()
    return loaded


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
    loaded = OfflineGroups(where, keep_events=keep_events, on_problem=on_problem, **options)
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

"""Runs the analyzers over the groups of one partition, on the event clock of that partition.

The clock is the greatest record timestamp seen, but for those that are ahead of what is written around them
(`agent.core.record_time`). What is due on it (an analyzer that wants to be asked again, a
finding that waits to open or close, the sample of each minute, a look at lag) happens before the first record that is
as late or later is applied, and carries the time at which it was due. So the findings depend on the records alone,
and not on how they come in runs; and, where lag is known, on when the ends were seen. Live, `advance` moves the clock
of a partition that nothing is written to.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cache, cached_property, partial
from itertools import accumulate
from sys import intern
from typing import Any, ClassVar, NamedTuple

from msgspec.structs import replace

from agent.core.diagnosis.api import WINDOW_MS, Analyzer, Finding, LagLook, PartitionLoad, Sample, TopicPartition
from agent.core.diagnosis.consumption import Consumption
from agent.core.diagnosis.hysteresis import FindingChange, Hysteresis
from agent.core.diagnosis.lag_source import CommitColumns, LagSource
from agent.core.inference.origin_evidence import NOTHING
from agent.core.inference.origins import Origin
from agent.core.record_time import FOLLOWERS, LATE_MS, TOLERANCE_MS, UNKNOWN, Context, believed_times
from agent.core.records import RecordBatch
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.transitions import GroupDeleted, LogPosition, OffsetsDeleted, Transition
from agent.core.shadow.views import CommittedOffset, GroupView, Position
from agent.core.state_fields import StateFields, put_or_drop

SAMPLE_MS = 60_000
"""From sample to sample, on the event clock: whole minutes."""

MIN_RECORDS_PER_POSITION = 60
"""A sample costs for each position what reading one or two commits does. So that it costs a fortieth of the reading,
it waits where positions were committed less often than this since the last one, till its window of five minutes
ends."""

LOOK_SPREAD = (5**0.5 - 1) / 2
"""By this part of the time between looks at lag each partition's are later than those of the partition before, and so
those of any partitions spread evenly: all at once they would hold up the reader, for half a second where there are
100,000 positions."""

AnalyzerFactory = Callable[[], Analyzer]
"""Makes an analyzer for one more group."""

DiagnosisOutput = Transition | Finding

RecordObserver = Callable[[PartitionMirror, Sequence[Transition]], None]
"""Sees what a record has changed, while the mirror is as that record left it."""


class RecordsAhead(NamedTuple):
    """Records of a partition whose times were ahead of what is written around them: how many, by how much the worst
    (milliseconds), and when on the clock the last one was read."""

    records: int = 0
    farthest_ms: int = 0
    last_ms: int | None = None

    def with_one(self, ahead_ms: int, clock_ms: int) -> RecordsAhead:
        """And one more, as the clock showed `clock_ms`."""
        return RecordsAhead(self.records + 1, max(self.farthest_ms, ahead_ms), clock_ms)


class AnalyzerFailure(RuntimeError):
    """An analyzer raised: which, and on which group."""


class MirroredGroup:
    """What an analyzer sees of its group: `agent.core.diagnosis.api.GroupContext`."""

    def __init__(
        self, name: str, now_ms: int, known_ms: int, mirror: PartitionMirror, consumption: Consumption
    ) -> None:
        self.name = name
        self.now_ms = now_ms
        self.known_ms = known_ms
        self._mirror, self._consumption = mirror, consumption
        self.view_of: Callable[[str], GroupView | None] = partial(mirror.view, with_commit=False)
        """Makes its view."""

    @cached_property
    def view(self) -> GroupView | None:
        """As of now; None if the group is gone.

        Topics go by the names that this partition's records have shown: what others show depends on how far they
        were read.
        """
        return self.view_of(self.name)

    @cached_property
    def holders(self) -> Mapping[TopicPartition, str]:
        """By partition, the id of the member that reads it."""
        return {} if self.view is None else self._mirror.holders(self.view)

    @property
    def last_commit_ms(self) -> int | None:
        """When it last committed; None: not known, or it did not."""
        view = self._mirror.view(self.name)
        return None if view is None else view.last_commit_ms

    @cached_property
    def offsets(self) -> tuple[CommittedOffset, ...]:
        """Every committed position."""
        return self._mirror.committed(self.name)

    @property
    def origins(self) -> Mapping[str, Origin]:
        """Of the members that left lately, what happened to their pods, as far as is known by now."""
        return self._mirror.origins.departed.get(self.name, NOTHING)

    @cached_property
    def consumed(self) -> Mapping[TopicPartition, int]:
        """Records by partition of the last minutes."""
        return self._consumption.records_until(self.now_ms)


class AnalyzerRun(NamedTuple):
    """One analyzer of a group, and what it found; None: nothing was found yet, and nothing is due."""

    analyzer: Analyzer
    hysteresis: Hysteresis | None = None


RestoreAnalyzers = Callable[[], tuple[Consumption, tuple[AnalyzerRun, ...]]]

_NOTHING_FOUND: Mapping[str, Hysteresis] = {}


class GroupAnalyzers:
    """All analyzers of one group, and when it is to be looked at next.

    Those that were restored are put together when they are first asked for: so an agent is ready sooner.
    """

    STATE: ClassVar = StateFields(
        {
            "consumption": Consumption,
            "due_ms": int | None,
            "group_type": str,
            "watches": tuple[AnalyzerRun, ...],
        }
    )

    __slots__ = ("_found", "_restore", "analyzers", "consumption", "due_ms", "group_type")

    def __init__(self, makes: Iterable[AnalyzerFactory]) -> None:
        self.analyzers = tuple(make() for make in makes)
        self._found = _NOTHING_FOUND
        """By analyzer's name."""
        self.consumption = Consumption()
        self.due_ms: int | None = None
        self.group_type = ""
        self._restore: RestoreAnalyzers | None = None

    @classmethod
    def restored_later(cls, group_type: str, due_ms: int | None, restore: RestoreAnalyzers) -> GroupAnalyzers:
        """Those of a group as they were; `restore` gives the rest of them, and never raises."""
        out = cls.__new__(cls)
        out.group_type, out.due_ms, out._restore = group_type, due_ms, restore
        return out

    def __getattr__(self, name: str) -> Any:
        # Python asks only for what is not there: once they are put together, this costs nothing.
        if name not in ("_found", "analyzers", "consumption"):
            raise AttributeError(name)
        self.put_together()
        return getattr(self, name)

    def put_together(self) -> None:
        """Put them together now, where they were restored. Not in two threads at once."""
        if self._restore is not None:
            self.consumption, self.watches = self._restore()
            self._restore = None

    @property
    def watches(self) -> tuple[AnalyzerRun, ...]:
        """The analyzers with what they found."""
        return tuple(AnalyzerRun(it, self._found.get(it.name)) for it in self.analyzers)

    @watches.setter
    def watches(self, runs: Iterable[AnalyzerRun]) -> None:
        self.analyzers = tuple(it.analyzer for it in runs)
        self._found = {it.analyzer.name: it.hysteresis for it in runs if it.hysteresis is not None} or _NOTHING_FOUND

    def judge(self, analyzer: Analyzer, group: MirroredGroup) -> FindingChange | None:
        """Ask one; what its answer changes."""
        verdict, hysteresis = analyzer.judge(group), self._found.get(analyzer.name)
        if hysteresis is None:
            if verdict.condition is None and verdict.wake_ms is None:
                return None
            hysteresis = Hysteresis.of(analyzer.settings)
            self._found = {**self._found, analyzer.name: hysteresis}
        change = hysteresis.apply(verdict, group.now_ms)
        if hysteresis.is_idle:
            self._found = {name: it for name, it in self._found.items() if it is not hysteresis} or _NOTHING_FOUND
        return change

    def drop(self, analyzer: Analyzer) -> FindingChange | None:
        """Ask one no more: what it found closes, which nobody would else."""
        found = self._found.get(analyzer.name)
        self.watches = tuple(it for it in self.watches if it.analyzer is not analyzer)
        return None if found is None else found.close()

    def ripe(self, now_ms: int) -> list[Analyzer]:
        """Those of which something is due."""
        return [it for it in self.analyzers if it.name in self._found and self._found[it.name].is_due(now_ms)]

    def next_due_ms(self) -> int | None:
        """When something is due next."""
        return min((it.due_ms for it in self._found.values() if it.due_ms is not None), default=None)

    def close(self) -> list[tuple[Analyzer, FindingChange]]:
        """The group is gone: what is open closes."""
        changes = ((it, self._found[it.name].close()) for it in self.analyzers if it.name in self._found)
        return [(analyzer, change) for analyzer, change in changes if change is not None]


class PartitionDiagnosis:
    """The analyzers of one partition's groups. Everything goes through `replay_batch` and `advance`."""

    STATE: ClassVar = StateFields(
        {
            "_groups": dict[str, GroupAnalyzers],
            "_next_sample_ms": int | None,
            "clock_ms": int | None,
            "loads": dict[int, tuple[PartitionLoad, int]],
            "loads_from_ms": int,
            "_active": set[str],
            "_window_records": int,
            "_records": int,
            "_counted_ms": int,
            "ahead": RecordsAhead,
            "_window_ahead": RecordsAhead,
        }
    )

    def __init__(
        self,
        mirror: PartitionMirror,
        makes: Sequence[AnalyzerFactory],
        *,
        on_failure: Callable[[AnalyzerFailure], None] | None = None,
        observe: RecordObserver | None = None,
        lag_source: LagSource | None = None,
    ) -> None:
        """An analyzer that raises is dropped for its group, and what it found closes, after `on_failure` was told;
        without that the `AnalyzerFailure` is raised. So is what a record raises in the mirror, where the mirror
        otherwise passes it over. `observe` is told of each record that changes a group, once it is applied.
        `lag_source`: where lag is known from, if it is."""
        self._mirror = mirror
        self.observer = observe
        self._makes = makes
        self._on_failure = on_failure
        self.lag_source = lag_source
        self._look_ms: int | None = None
        self._groups: dict[str, GroupAnalyzers] = {}
        self._wakes: list[tuple[int, str]] = []
        # None: to be set by the next record, whose minute it is.
        self._next_sample_ms: int | None = None
        self.clock_ms: int | None = None
        """The greatest record timestamp seen, or what `advance` moved it to; None before the first record."""
        self.loads: dict[int, tuple[PartitionLoad, int]] = {}
        """What the partition took in, for whoever watches all of them, by the window's end: with the offset of the
        last record by then. Windows that ended by `loads_from_ms` are not kept any more."""
        self.loads_from_ms = 0
        self._active: set[str] = set()
        self._window_records = 0
        self._records = 0
        self._counted_ms = 0
        self.ahead = RecordsAhead()
        self._window_ahead = RecordsAhead()
        self._last_view: tuple[object, int, int, GroupView] | None = None
        """See `_view_beside_offsets`: the group, its version and that of topics' names, and the view."""
        mirror.offsets.track_touched()

    def after_restore(self) -> None:
        """Wakes follow from what is due, and looks from who wants them."""
        if self._groups:
            self._note_looks(make() for make in self._makes)
        self._wakes = [(it.due_ms, name) for name, it in self._groups.items() if it.due_ms is not None]
        heapq.heapify(self._wakes)

    def replay_batch(self, run: RecordBatch, context: Context = UNKNOWN) -> list[DiagnosisOutput]:
        """Apply consecutive records: the transitions and findings that come of it, in order. `context`: what is known
        of those that follow."""
        out: list[DiagnosisOutput] = []
        times = self._believed(run, context)
        index, stop, end = 0, 0, len(run)
        # The clock at each record, as far as this run moves it: the times themselves, but for records that are late.
        is_in_order = times is run.timestamps_ms and run.is_in_time_order
        peaks = times if is_in_order else list(accumulate(times, max))
        # They are counted where they are read: windows end in between, wherever batches are cut.
        ahead = _ahead(run.timestamps_ms, times, peaks, self.clock_ms or 0)
        in_bulk = True
        while index < end:
            if index == stop:
                out += self._run_all_due(times[index])
                stop = self._next_due_index(peaks, index)
            before = index
            try:
                index, transitions = self._mirror.replay_until_transition(run, index, stop, in_bulk=in_bulk)
            except Exception as error:
                if self._on_failure is None or isinstance(error, MemoryError):
                    raise
                # Else one record would blind the agent for all groups, and again after each restart.
                index, transitions = self._mirror.pass_over(run, index, error)
            in_bulk = not transitions
            self.clock_ms = max(self.clock_ms or 0, peaks[index - 1])
            self._records += index - before
            while ahead and ahead[0][0] < index:
                self._count_ahead(*ahead.popleft()[1:])
            if transitions:
                if self.observer is not None:
                    self.observer(self._mirror, transitions)
                out += [it for it in transitions if it.is_event]
                out += self._observe(transitions)
                # What came of it may be due before the rest of the stretch.
                stop = min(stop, self._next_due_index(peaks, index))
        return out

    def run_due(self, run: RecordBatch, context: Context = UNKNOWN) -> list[DiagnosisOutput]:
        """What is due before the first of these records: what `replay_batch` of them begins with."""
        return self._run_all_due(self._believed(run, context)[0])

    def fork(self, group: str, mirror: PartitionMirror) -> PartitionDiagnosis:
        """The analyzers of one group alone, over a fork of the mirror, to apply the group's next record to; nothing
        may be due before it. Until `adopt` nothing else is done here, and the group's analyzers are not looked at:
        they are the same objects."""
        if group in self._groups:
            self._groups[group].put_together()
        out = copy(self)
        out._mirror = mirror
        out._groups = {group: self._groups[group]} if group in self._groups else {}
        out._wakes = []
        return out

    def adopt(self, fork: PartitionDiagnosis, group: str) -> None:
        """Take what a fork has of its group and of time in place of what is here."""
        put_or_drop(self._groups, fork._groups, group)
        for wake in fork._wakes:
            heapq.heappush(self._wakes, wake)
        mine = {name: vars(self)[name] for name in ("_mirror", "_groups", "_wakes", "observer")}
        vars(self).update(vars(fork) | mine)

    def advance(self, now_ms: int) -> list[DiagnosisOutput]:
        """Let time pass to `now_ms` without a record: what is due by then."""
        if self.clock_ms is None or now_ms <= self.clock_ms:
            return []
        out = self._run_all_due(now_ms)
        self.clock_ms = max(self.clock_ms, now_ms)
        return out

    def consumed(self, group: str) -> Mapping[TopicPartition, int]:
        """Records by partition that a group consumed in the last minutes."""
        watched = self._groups.get(group)
        return {} if watched is None or self.clock_ms is None else watched.consumption.records_until(self.clock_ms)

    def consumption(self, group: str) -> Consumption | None:
        """What `consumed` is told from: whoever asks often can see whether it changed."""
        watched = self._groups.get(group)
        return None if watched is None else watched.consumption

    # The clock.

    def _believed(self, run: RecordBatch, context: Context) -> Sequence[int]:
        """The times that may move the clock, `LATE_MS` for those that are ahead."""
        times, believed = run.timestamps_ms, believed_times(run, context)
        if believed is not times and self.clock_ms is None and believed[0] == LATE_MS:
            # There is no time yet that the first could leave as it is. The same few that follow it are asked wherever
            # batches are cut.
            following = [*times[1 : 1 + FOLLOWERS], *context.next_ms][:FOLLOWERS]
            return [min([*following, context.latest_ms, times[0]]), *believed[1:]]
        return believed

    def _count_ahead(self, ahead_ms: int, clock_ms: int) -> None:
        """A record was read whose time is ahead of the clock, by so much."""
        self.ahead = self.ahead.with_one(ahead_ms, clock_ms)
        self._window_ahead = self._window_ahead.with_one(ahead_ms, clock_ms)

    def _due_ms(self) -> int | None:
        """When the next thing is due."""
        while self._wakes:
            due, name = self._wakes[0]
            watched = self._groups.get(name)
            if watched is not None and watched.due_ms == due:
                break
            heapq.heappop(self._wakes)
        return min(self._due_times(), default=None)

    def _due_times(self) -> Iterator[int]:
        if self._wakes:
            yield self._wakes[0][0]
        if self._next_sample_ms is not None:
            yield self._next_sample_ms
        look_ms = self._next_look_ms()
        if look_ms is not None:
            yield look_ms

    def _next_look_ms(self) -> int | None:
        """When lag is to be looked at next; None where it is not known."""
        if self.lag_source is None or self._look_ms is None or self.clock_ms is None:
            return None
        since_ms, until_ms = self.lag_source.since_ms, self.lag_source.until_ms
        # One more shows that nothing is known any more. What follows may be years.
        if since_ms is None or (until_ms is not None and self.clock_ms > until_ms):
            return None
        first_ms = self._first_look_ms(self._look_ms)
        return first_ms + ((max(self.clock_ms, since_ms) - first_ms) // self._look_ms + 1) * self._look_ms

    def _first_look_ms(self, look_ms: int) -> int:
        """From which time on looks are each `look_ms`."""
        return round(self._mirror.partition * LOOK_SPREAD % 1 * look_ms)

    def _next_due_index(self, peaks: Sequence[int], start: int) -> int:
        """Up to which index nothing comes due. Records that are late count as of the clock."""
        if start == len(peaks):
            return start
        if self._next_sample_ms is None:
            now = max(self.clock_ms or 0, peaks[start])
            self._next_sample_ms = (now // SAMPLE_MS + 1) * SAMPLE_MS
        due = self._due_ms()
        assert due is not None, "the next sample is"
        return bisect_left(peaks, due, start)

    def _run_all_due(self, until_ms: int) -> list[DiagnosisOutput]:
        """Do what is due by then, each at its time."""
        out: list[DiagnosisOutput] = []
        while (due := self._due_ms()) is not None and due <= until_ms:
            out += self._run_due(due)
        return out

    def _run_due(self, due_ms: int) -> list[DiagnosisOutput]:
        """Do what is due at `due_ms`, and nothing that is due later."""
        assert self.clock_ms is not None, "the clock stands before the first record"
        is_look = self._next_look_ms() == due_ms
        self.clock_ms = max(self.clock_ms, due_ms)
        out: list[DiagnosisOutput] = []
        if self._next_sample_ms == due_ms:
            out += self._sample(due_ms)
        if is_look:
            out += self._look(due_ms)
        while self._wakes and self._wakes[0][0] <= due_ms:
            due, name = heapq.heappop(self._wakes)
            watched = self._groups.get(name)
            if watched is not None and watched.due_ms == due:
                out += self._judge(name, watched, watched.ripe(due), self._context_of(name, watched))
        return out

    # The analyzers.

    def _observe(self, transitions: Sequence[Transition]) -> list[DiagnosisOutput]:
        """What one record changed; nearly always of one group."""
        out: list[DiagnosisOutput] = []
        by_group: dict[str, list[Transition]] = {}
        for transition in transitions:
            by_group.setdefault(transition.group, []).append(transition)
        for name, changes in by_group.items():
            out += self._group_changed(name, changes)
        return out

    def _group_changed(self, name: str, changes: Sequence[Transition]) -> list[DiagnosisOutput]:
        watched = self._analyzers_of(name)
        watched.group_type = intern(str(changes[-1].group_type))
        deleted = None
        for position, change in enumerate(changes):
            if isinstance(change, OffsetsDeleted):
                watched.consumption.drop((change.topic, change.topic_partition))
            if isinstance(change, GroupDeleted):
                deleted = position
        out: list[DiagnosisOutput] = []
        if deleted is not None:
            out += self._group_deleted(name, watched)
            changes = changes[deleted + 1 :]
            if name not in self._mirror.groups:
                return out
            consumption, watched = watched.consumption, self._analyzers_of(name)
            # Positions outlive a group that goes over to the other protocol while it has no members.
            watched.consumption = consumption
            watched.group_type = intern(str(self._mirror.groups[name].group_type))
        if not self.clock_ms:
            # No record has had a timestamp: nothing tells what came within a window of time.
            return out
        context = self._context_of(name, watched)
        if all(isinstance(it, OffsetsDeleted) for it in changes):
            context.view_of = self._view_beside_offsets
        return out + self._judge(name, watched, watched.analyzers, context, changes)

    def _group_deleted(self, name: str, watched: GroupAnalyzers) -> list[DiagnosisOutput]:
        """A group is gone: its findings close."""
        del self._groups[name]
        return [self._finding(name, watched, analyzer, change) for analyzer, change in watched.close()]

    def close(self) -> list[DiagnosisOutput]:
        """All groups are dropped: their findings close."""
        return [it for name, watched in list(self._groups.items()) for it in self._group_deleted(name, watched)]

    def end_loads(self) -> None:
        """The input has ended, and with it the window that is under way."""
        if self._next_sample_ms is not None:
            self._count(self._next_sample_ms)
            self._end_window(-(-self._next_sample_ms // WINDOW_MS) * WINDOW_MS)

    def forget_loads(self, until_ms: int) -> None:
        """Keep no loads of windows that ended by then."""
        if until_ms > self.loads_from_ms:
            self.loads_from_ms = until_ms
            for end_ms in [it for it in self.loads if it <= until_ms]:
                del self.loads[end_ms]

    def _count(self, at_ms: int) -> list[tuple[str, GroupAnalyzers, Sample]]:
        """What each group committed since it was counted last."""
        samples = []
        self._counted_ms = at_ms
        for name, positions in self._mirror.offsets.take_touched().items():
            watched = self._analyzers_of(name)
            sample = Sample(at_ms, positions)
            watched.consumption.add(sample)
            samples.append((name, watched, sample))
            self._active.add(name)
        self._window_records += self._records
        self._records = 0
        return samples

    def _end_window(self, end_ms: int) -> None:
        commits = {
            name: self._groups[name].consumption.take_commit_count() for name in self._active if name in self._groups
        }
        most = max(commits, key=lambda name: (commits[name], name), default=None)
        commits_of_most, ahead = 0 if most is None else commits[most], self._window_ahead
        load = PartitionLoad(self._window_records, most, commits_of_most, ahead.records, ahead.farthest_ms)
        self.loads[end_ms] = load, self._mirror.next_offset - 1
        self._active, self._window_records, self._window_ahead = set(), 0, RecordsAhead()

    def _sample(self, due_ms: int) -> list[DiagnosisOutput]:
        """A minute has ended: hand what was committed since the last sample to who wants it, if that is worth it."""
        out: list[DiagnosisOutput] = []
        is_window_end = not due_ms % WINDOW_MS
        # In a window that has begun each minute is looked at, so that its end is.
        self._next_sample_ms = None if is_window_end else due_ms + SAMPLE_MS
        if not is_window_end and self._records < MIN_RECORDS_PER_POSITION * self._mirror.offsets.touched:
            return out
        for name, watched, sample in self._count(due_ms):
            wanting = [it for it in watched.analyzers if it.samples]
            if not wanting:
                continue
            out += self._judge(name, watched, wanting, self._context_of(name, watched), sample=sample)
        if is_window_end:
            self._end_window(due_ms)
        return out

    def _look(self, due_ms: int) -> list[DiagnosisOutput]:
        """Show how far groups are behind to who wants it."""
        source, out = self.lag_source, list[DiagnosisOutput]()
        assert source is not None, "else no look is due"
        assert self._look_ms is not None, "likewise"
        passed_ms = due_ms - self._first_look_ms(self._look_ms)
        for name, watched in self._groups.items():
            wanting = [
                it
                for it in watched.analyzers
                if (look_ms := it.look_ms) is not None and not passed_ms % look_ms and it.wants_look
            ]
            if not wanting:
                continue
            commits = cache(partial(self._commits_of, name))
            seen_ms, lags = source.lags(name, commits, due_ms)
            positions = self._positions(name, commits(), lags) if lags else {}
            look = LagLook(due_ms, seen_ms, positions, lags)
            out += self._judge(name, watched, wanting, self._context_of(name, watched), look=look)
        return out

    def _commits_of(self, name: str) -> CommitColumns:
        return CommitColumns(*self._mirror.offsets.commit_columns(name))

    def _positions(
        self, name: str, commits: CommitColumns, lags: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Position]:
        """A group's positions, those whose lag is known."""
        counts = self._mirror.offsets.commit_counts(name).values()
        positions = dict(zip(commits.slots, map(Position, *commits[1:3], counts), strict=True))
        if len(lags) == len(positions):
            return positions
        return {slot: position for slot, position in positions.items() if slot in lags}

    def _judge(
        self,
        name: str,
        watched: GroupAnalyzers,
        analyzers: Iterable[Analyzer],
        group: MirroredGroup,
        changes: Sequence[Transition] = (),
        sample: Sample | None = None,
        look: LagLook | None = None,
    ) -> list[DiagnosisOutput]:
        """Tell analyzers what came, ask them, and open and close findings. One that raises is dropped."""
        out: list[DiagnosisOutput] = []
        for analyzer in analyzers:
            try:
                for transition in changes:
                    analyzer.observe(transition, group)
                if sample is not None:
                    analyzer.sample(sample, group)
                if look is not None:
                    analyzer.look(look, group)
                change = watched.judge(analyzer, group)
            except Exception as error:
                failure = AnalyzerFailure(
                    f"analyzer {analyzer.name} on group {name!r}: {type(error).__name__}: {error}"
                )
                if self._on_failure is None:
                    raise failure from error
                failure.__cause__ = error
                self._on_failure(failure)
                change = watched.drop(analyzer)
            if change is not None:
                out.append(self._finding(name, watched, analyzer, change))
        due = watched.next_due_ms()
        if due is not None and due != watched.due_ms:
            heapq.heappush(self._wakes, (due, name))
        watched.due_ms = due
        return out

    def _finding(self, name: str, watched: GroupAnalyzers, analyzer: Analyzer, change: FindingChange) -> Finding:
        assert self.clock_ms is not None, "findings come of records"
        at = LogPosition(self._mirror.partition, self._mirror.next_offset - 1, self.clock_ms)
        found = finding(at, name, watched.group_type, analyzer.name, change)
        every_ms = self._mirror.sampled_every_ms
        return found if every_ms is None else replace(found, sampled_every_ms=every_ms)

    def _analyzers_of(self, name: str) -> GroupAnalyzers:
        watched = self._groups.get(name)
        if watched is None:
            watched = self._groups[name] = GroupAnalyzers(self._makes)
            self._note_looks(watched.analyzers)
        return watched

    def _note_looks(self, analyzers: Iterable[Analyzer]) -> None:
        """Lag is looked at as often as who wants that most often does."""
        for analyzer in analyzers:
            look_ms = analyzer.look_ms
            if look_ms is not None:
                self._look_ms = look_ms if self._look_ms is None else min(self._look_ms, look_ms)

    def _context_of(self, name: str, watched: GroupAnalyzers) -> MirroredGroup:
        assert self.clock_ms is not None, "groups come of records"
        known_ms = self._counted_ms if self._mirror.offsets.touched else self.clock_ms
        return MirroredGroup(name, self.clock_ms, known_ms, self._mirror, watched.consumption)

    def _view_beside_offsets(self, name: str) -> GroupView | None:
        """A group's view, as it was made last if nothing but its offsets has changed. Thousands of these may be
        deleted one by one, and a view may look at all that are left."""
        group = self._mirror.groups.get(name)
        if group is None:
            return None
        known, versions = self._last_view, (group, group.version, self._mirror.names_version)
        if known is not None and known[:3] == versions:
            return replace(known[3], committed_partitions=self._mirror.offsets.count(name))
        view = self._mirror.view(name, with_commit=False)
        # Origins come to be known without a record.
        self._last_view = None if view is None or view.origins is not None else (*versions, view)
        return view


def _ahead(
    times: Sequence[int], believed: Sequence[int], peaks: Sequence[int], clock_ms: int
) -> deque[tuple[int, int, int]]:
    """Of the times that are not believed, and are ahead of the clock: where, how far, and the clock there. It showed
    `clock_ms` before the first, and shows `peaks` as far as these are later.

    One that the clock shows already is not ahead, whatever follows: what follows is late."""
    if believed is times or (LATE_MS not in believed and believed[:1] == [*times[:1]]):
        return deque()
    clocks = [max(clock_ms, peak) for peak in peaks]
    return deque(
        (index, time - clocks[index], clocks[index])
        for index, (time, moves_to) in enumerate(zip(times, believed, strict=True))
        if moves_to != time and time - clocks[index] > TOLERANCE_MS
    )


def finding(
    at: LogPosition, group: str | None, group_type: str | None, analyzer: str, change: FindingChange
) -> Finding:
    """A change of a finding, to be told."""
    condition = change.condition
    return Finding(
        at,
        group,
        group_type,
        analyzer,
        condition.severity,
        change.state,
        change.since_ms,
        condition.summary,
        condition.advice,
        condition.numbers,
    )

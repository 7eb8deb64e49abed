"""Burrow's rules for one partition, each a function: of what was seen of it, and of the time as an argument.

Two things are kept of a partition. A `PartitionTrack` is what the log alone tells, from samples of commits. A
`ProgressTrack` is what looks at lag tell, where lag is known. Neither keeps Burrow's ten commits, but what the rules
read off them.

*Work.* A lag is work to do. But a lag of a few records that does not grow is none: the end of a partition that is
written in transactions is a marker, which no client consumes, and librdkafka never commits beyond it; so are records
of aborted transactions (`has_work`).

*Pace.* How long a consumer pauses while there is work is its own affair: one that commits every twenty minutes is
slow, not stuck. So a standstill must last a multiple of the longest pause that it made, which fades with each
move that comes sooner; and half as long again as `silent_after_s` while its pace is not known (`patience_ms`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from agent.core.end_offsets import interpolated_ms
from agent.core.shadow.views import Position
from analyzers.api import Settings, Severity, setting

REPEATS = 3
"""So often in a row makes a habit: samples of one offset that is committed again, moves that tell a pace, looks in
which a lag grew."""

RETURNS = 2
"""So often back, and never beyond where it was: once is a reset, which is made up for."""

UNKNOWN_PACE = 1.5
"""How much longer a standstill must last while the consumer's pace is not known: less than the double, within which
it is to be told."""

TAIL_RECORDS = 10
"""A lag of so many records is work only if it grows: one marker ends a transaction, and few records are aborted."""

GROWING_MS = 1_800_000
"""For so long a lag must grow and never fall: it does for minutes in any peak."""

FADING = 4
"""A pause that was made loses one part in so many with each move after a shorter one: a standstill that is over does
not hide the next one."""


class Status(StrEnum):
    """Of a partition, in Burrow's words."""

    OK = "OK"
    WARN = "WARN"
    REWIND = "REWIND"
    STALL = "STALL"
    STOP = "STOP"

    @property
    def of_group(self) -> str:
        """What it makes of the group: OK, WARN or ERR."""
        return str(self) if self in (Status.OK, Status.WARN) else "ERR"


@dataclass(frozen=True, slots=True, kw_only=True)
class StalledSettings(Settings):
    """Why these: a Java client that does not poll for five minutes (max.poll.interval.ms) leaves the group by itself,
    and that is told otherwise; who stays and is silent for longer waits for something. Ten commits are Burrow's. A
    rewind is over when all is consumed again, and told for ten minutes at most; one of a few records is an
    at-least-once retry."""

    silent_after_s: float = setting(300.0, "seconds without progress, with work to do, that are too long", least=1)
    silent_pauses: float = setting(3.0, "times its longest pause that a standstill must last", least=1)
    commits: int = setting(10, "commits of a partition before its silence is judged without known lag", least=2)
    rewind_s: float = setting(600.0, "seconds for which a rewind is told at most", least=1)
    rewind_records: int = setting(10, "records that a position must go back", least=1)


class PartitionTrack(Struct, array_like=True):
    """What the log tells of one partition's commits. Times are epoch milliseconds."""

    position: Position
    first: Position | None
    """As it was seen first; None: not known."""
    pause_ms: int = 0
    """The longest pause between commits of its owner, as a mean over a minute at least; 0: not known."""
    repeats: int = 0
    """In how many samples in a row its owner had committed the same offset again."""
    back_from: int = 0
    """The offset that it went back from, until that is reached again; 0: it did not."""
    back_by: int = 0
    back_ms: int = 0

    @classmethod
    def begin(cls, position: Position) -> PartitionTrack:
        """One that is seen for the first time."""
        return cls(position, position)

    def follow(self, position: Position, owned_ms: int = 0) -> None:
        """Take the newest position; its owner has had the partition since `owned_ms`."""
        before, self.position = self.position, position
        if before.commit_ms < owned_ms:
            self.pause_ms = self.repeats = 0
        else:
            # A position comes only if it was committed, and its commits are counted.
            pause_ms = (position.commit_ms - before.commit_ms) // (position.commits - before.commits)
            if pause_ms > self.pause_ms:
                self.pause_ms = pause_ms
            self.repeats = self.repeats + 1 if position.offset == before.offset else 0
        if position.offset >= self.back_from:
            self.back_from = 0

    @property
    def mean_pause_ms(self) -> int:
        """Between commits, since it was seen first; 0: not known."""
        first, last = self.first, self.position
        if first is None or first.commits == last.commits:
            return 0
        return (last.commit_ms - first.commit_ms) // (last.commits - first.commits)

    def mark_rewind(self, from_offset: int) -> None:
        """What `follow` took last went back."""
        self.back_from = max(from_offset, self.back_from)
        self.back_by = self.back_from - self.position.offset
        self.back_ms = self.position.commit_ms

    def due_ms(self, settings: StalledSettings) -> int:
        """From when on its silence is too long."""
        silent_ms = max(settings.silent_after_s * 1000, settings.silent_pauses * self.pause_ms)
        return self.position.commit_ms + round(silent_ms)


class ProgressTrack(Struct, array_like=True):
    """What looks at its lag tell of one partition. Times are epoch milliseconds."""

    position: Position
    lag: int
    seen_ms: int
    moved_ms: int
    best_ms: int
    """When it came to its offset, and to the furthest one, as far as is known."""
    work_ms: int | None
    """Since when there has been something to read at its offset; None: there is nothing."""
    best: int
    high: int
    low: int
    """The furthest offset; and of what was seen since it came there the highest and the lowest: who reads some
    records again and again is seen anywhere among them, and not beyond `best` by more than they are."""
    pause_ms: int
    """The longest of its latest pauses between moves, of those with work to do; 0: not known."""
    idle_ms: int
    """All that was there then is consumed, as far as is known; 0: not known."""
    mark: int
    mark_ms: int
    """Where the partition ended once, to be reached."""
    growing_ms: int
    growing_from: int
    """Since when the lag has not fallen, and what it was then."""
    grown: int = 0
    """In how many looks the end had moved since it came to its offset."""
    returns: int = 0
    """How often it went back since it came to the furthest offset."""
    moves: int = 0
    """In how many looks it had moved on, up to `REPEATS`."""

    @classmethod
    def begin(cls, position: Position, lag: int, seen_ms: int, pause_ms: int = 0) -> ProgressTrack:
        """One that is looked at for the first time. `pause_ms`: between its commits, as far as the log tells it; 0 if
        it does not."""
        offset, commit_ms, _ = position
        return cls(
            position,
            lag,
            seen_ms,
            moved_ms=commit_ms,
            best_ms=commit_ms,
            work_ms=seen_ms if lag else None,
            best=offset,
            high=offset,
            low=offset,
            pause_ms=pause_ms,
            idle_ms=0 if lag > TAIL_RECORDS else seen_ms,
            mark=offset + lag,
            mark_ms=seen_ms,
            growing_ms=seen_ms,
            growing_from=lag,
        )

    @property
    def offset(self) -> int:
        """Where it is, as last seen."""
        return self.position.offset

    @property
    def end(self) -> int:
        """Where the partition ended, as last seen."""
        return self.position.offset + self.lag

    def follow(self, position: Position, lag: int, seen_ms: int, at_ms: int) -> None:
        """Take how it stands at `at_ms`, with the lag as seen at `seen_ms`."""
        (offset, commit_ms, _), before = position, self.position.offset
        before_end, before_ms = before + self.lag, self.seen_ms
        fell = lag < self.lag
        if offset > before:
            self._learn_pace(position)
        self.position, self.lag, self.seen_ms = position, lag, seen_ms
        end = offset + lag
        if offset != before:
            self.moved_ms, self.grown = commit_ms, 0
            self.returns += offset < before
        elif end > before_end:
            self.grown += 1
        if offset < self.low:
            self.low = offset
        if offset > self.high:
            self.high = offset
        if offset > self.best + (self.best - self.low if self.returns else 0) or not lag:
            self.best = self.high = self.low = offset
            self.best_ms, self.returns = commit_ms, 0
        if not lag:
            self.work_ms = None
        elif self.work_ms is None or offset != before:
            passed = before_end > offset or seen_ms <= before_ms
            ends = before_ms, before_end, seen_ms, end
            self.work_ms = before_ms if passed else round(interpolated_ms(*ends, offset))
        if offset >= self.mark:
            self.idle_ms = self.mark_ms if lag else seen_ms
            self.mark, self.mark_ms = end, seen_ms
        if fell or not lag or offset < before:
            self.growing_ms, self.growing_from = at_ms, lag

    def count_anew(self, lag: int, seen_ms: int) -> None:
        """Perhaps nobody could commit before `seen_ms`: from then on counts that it stands, that it does not get
        beyond an offset, or that its lag grows."""
        self.growing_ms, self.growing_from, self.best_ms = seen_ms, lag, seen_ms
        # What there is to read by then came no earlier, for all that is known.
        self.seen_ms = seen_ms
        if self.work_ms is not None:
            self.work_ms = seen_ms

    def _learn_pace(self, position: Position) -> None:
        """It moves on from where it stood."""
        stood_ms, before = 0, self.position
        if self.work_ms is not None:
            # Of many moves between two looks only the mean is known; of many commits of one offset, not that.
            commits = max(position.commits - before.commits, 1)
            stood_ms = max(position.commit_ms - max(self.moved_ms, self.work_ms), 0) // commits
            stood_ms = max(stood_ms, before.commit_ms - max(self.moved_ms, self.work_ms))
        faded_ms = self.pause_ms - self.pause_ms // FADING if self.moves else 0
        self.pause_ms = max(stood_ms, faded_ms)
        self.moves = min(self.moves + 1, REPEATS)


# The rules of lag. `since_ms` is from when on a standstill counts: the group had no members before, say.


def has_work(track: ProgressTrack) -> bool:
    """Whether there is something to read for sure: more than what no client ever commits beyond, or ever more."""
    return track.lag > 0 and (track.lag > TAIL_RECORDS or track.grown >= REPEATS)


def patience_ms(track: ProgressTrack, settings: StalledSettings) -> float:
    """How long it may stand with work to do."""
    unknown = 1.0 if track.moves >= REPEATS else UNKNOWN_PACE
    return max(settings.silent_after_s * 1000 * unknown, settings.silent_pauses * track.pause_ms)


def standing_since_ms(track: ProgressTrack, since_ms: int) -> int:
    """Since when it has been at its offset with work to do."""
    return max(track.moved_ms, track.work_ms or track.moved_ms, since_ms)


def stands(track: ProgressTrack, now_ms: int, settings: StalledSettings, since_ms: int) -> bool:
    """Whether it has been at one offset for too long, with work to do."""
    too_long = now_ms - standing_since_ms(track, since_ms) >= patience_ms(track, settings)
    return too_long and has_work(track)


def is_stopped(track: ProgressTrack, now_ms: int, settings: StalledSettings, since_ms: int) -> bool:
    """STOP: it stands, and is not committed any more."""
    silent_ms = now_ms - max(track.position.commit_ms, standing_since_ms(track, since_ms))
    return stands(track, now_ms, settings, since_ms) and silent_ms >= patience_ms(track, settings) / 2


def is_reread(track: ProgressTrack, now_ms: int, settings: StalledSettings, since_ms: int) -> bool:
    """STALL: it goes back again and again, and never gets beyond one offset."""
    too_long = now_ms - max(track.best_ms, since_ms) >= patience_ms(track, settings)
    return too_long and track.returns >= RETURNS and has_work(track)


def is_busy(track: ProgressTrack, now_ms: int, settings: StalledSettings) -> bool:
    """Whether it moves, and is that far behind in time: who holds it may have had no time yet for what else it holds.

    A client that is behind works on what it fetched from one partition, thousands of records, and then on the next.
    """
    silent_ms = settings.silent_after_s * 1000
    return now_ms - track.moved_ms < silent_ms <= now_ms - track.idle_ms


def has_growing_lag(track: ProgressTrack, now_ms: int, since_ms: int) -> bool:
    """WARN: it moves, and its lag has grown and never fallen for long."""
    too_long = now_ms - max(track.growing_ms, since_ms) >= GROWING_MS
    return too_long and track.lag > track.growing_from and has_work(track)


def lag_status(track: ProgressTrack, now_ms: int, settings: StalledSettings, since_ms: int) -> Status:
    """The worst of what lag tells."""
    moved = now_ms - track.moved_ms < settings.silent_after_s * 1000
    if moved and not track.returns and now_ms - track.growing_ms < GROWING_MS:
        return Status.OK  # as nearly always: none of them can be
    if is_stopped(track, now_ms, settings, since_ms):
        return Status.STOP
    # It stands, and the same offset is committed again and again; or it is read again and again.
    if stands(track, now_ms, settings, since_ms) or is_reread(track, now_ms, settings, since_ms):
        return Status.STALL
    return Status.WARN if has_growing_lag(track, now_ms, since_ms) else Status.OK


# The rules of the log alone.


def is_silent(track: PartitionTrack, now_ms: int, settings: StalledSettings, owned_ms: int) -> bool:
    """STOP without lag: an owner whose pauses are known, and who commits also what did not move, has not committed
    for too long."""
    position = track.position
    is_known = track.pause_ms > 0 and position.commits >= settings.commits and position.commit_ms >= owned_ms
    return is_known and now_ms >= track.due_ms(settings)


def was_rewound(track: PartitionTrack, now_ms: int, settings: StalledSettings) -> bool:
    """REWIND: the offset went back lately, and is not where it was yet."""
    return track.back_from > 0 and now_ms < track.back_ms + settings.rewind_s * 1000


def severity_of(of: Status, *, is_lag_known: bool) -> Severity:
    """How much it matters. A silence without known lag may be one long piece of work, and who falls behind works."""
    if of is Status.WARN:
        return Severity.INFO
    is_certain = of in (Status.STALL, Status.STOP) and is_lag_known
    return Severity.CRITICAL if is_certain else Severity.WARNING

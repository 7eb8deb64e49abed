"""Partitions whose consumer makes no progress, or goes back: Burrow's rules, on what is known.

Burrow looks at the last ten commits of each partition with their lags. Here positions come in samples, of one to
five minutes, each with how often it was committed; so a `PartitionTrack` keeps, instead of ten commits, what
the rules read off them:

- STOP: no commit for much longer than the consumer ever paused, with work to do.
- STALL: the same offset again and again, with work to do.
- REWIND: the offset went back.
- WARN: the consumer commits, and its lag does not fall.
- OK: the rest. ERR, of a group, is any of the first three.

What happens between two samples and is over at the second goes unseen: a rewind that was made up for, say. The log
tells no lag. Without it there is no STALL and no WARN, and silence is a STOP only where the group's clients are known
to commit positions that did not move, as the Java client does and librdkafka does not: elsewhere nothing may have
come.

Rule: a partition is in one of these states, the worst counts.
Known false alarms: `StalledConsumer.false_alarms`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

from agent.core.protocol.states import GroupState
from agent.core.shadow.diff import owners_by_partition
from agent.core.shadow.transitions import AssignmentChanged, GroupEmptied, OffsetsDeleted, Rebalanced, Transition
from agent.core.shadow.views import Position
from agent.core.state_fields import ORDERED, StateFields, shared
from analyzers.api import (
    WINDOW_MS,
    Analyzer,
    Condition,
    GroupContext,
    Sample,
    Settings,
    Severity,
    TopicPartition,
    Verdict,
    setting,
)
from analyzers.formatting import count_text, list_text, truncated

REPEATS = 3
"""In so many samples in a row one owner committed one offset again: its client commits what did not move."""

LISTED_PARTITIONS = 10
LISTED_CLIENTS = 5

UNSTABLE_RECHECK_MS = 60_000
"""When to look again at a group that is not stable."""


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

    silent_after_s: float = setting(300.0, "seconds of silence, or at one offset, that are too long", least=1)
    silent_pauses: float = setting(3.0, "times its longest pause between commits that a silence must last", least=1)
    commits: int = setting(10, "commits of a partition before it is judged, and samples of growing lag", least=2)
    rewind_s: float = setting(600.0, "seconds for which a rewind is told at most", least=1)
    rewind_records: int = setting(10, "records that a position must go back", least=1)


@shared
class PartitionTrack:
    """The commits of one partition, as far as the rules need them. Times are epoch milliseconds."""

    STATE: ClassVar = StateFields(
        {
            "position": Position,
            "pause_ms": int,
            "repeats": int,
            "back_from": int,
            "back_by": int,
            "back_ms": int,
            "lag": int | None,
            "still_ms": int,
            "growing": int,
            "grown_from": int,
        }
    )

    __slots__ = (
        "back_by",
        "back_from",
        "back_ms",
        "growing",
        "grown_from",
        "lag",
        "pause_ms",
        "position",
        "repeats",
        "still_ms",
    )

    def __init__(self, position: Position, lag: int | None = None) -> None:
        self.position = position
        self.pause_ms = 0
        """The longest pause between commits of its owner, as a mean over a minute at least; 0: not known."""
        self.repeats = 0
        """In how many samples in a row its owner had committed the same offset again."""
        self.back_from = 0
        """The offset that it went back from, until that is reached again; 0: it did not."""
        self.back_by = 0
        self.back_ms = 0
        self.lag = lag
        """Records behind the newest position; None: not known."""
        self.still_ms = position.commit_ms
        """Since when it is at this offset with work to do."""
        self.growing = 0
        """In how many samples in a row the lag did not fall, up from `grown_from`."""
        self.grown_from = lag or 0

    def follow(self, position: Position, owned_ms: int = 0, lag: int | None = None) -> None:
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
        if self.back_from and position.offset >= self.back_from:
            self.back_from = 0
        if lag is not None or self.lag is not None:
            self._follow_lag(before, lag)

    def _follow_lag(self, before: Position, lag: int | None) -> None:
        was, self.lag = self.lag, lag
        if not lag or self.position.offset != before.offset:
            self.still_ms = self.position.commit_ms
        if not lag or not was or lag < was:
            self.growing, self.grown_from = 0, lag or 0
        else:
            self.growing += 1

    def mark_rewind(self, from_offset: int) -> None:
        """What `follow` took last went back."""
        self.back_from = max(from_offset, self.back_from)
        self.back_by = self.back_from - self.position.offset
        self.back_ms = self.position.commit_ms

    def due_ms(self, settings: StalledSettings) -> int:
        """From when on its silence is too long."""
        silent_ms = max(settings.silent_after_s * 1000, settings.silent_pauses * self.pause_ms)
        return self.position.commit_ms + round(silent_ms)


def partition_status(
    track: PartitionTrack, now_ms: int, settings: StalledSettings, *, owned_ms: int, recommits: bool
) -> Status:
    """What a partition is in, that has an owner since `owned_ms`; `recommits`: whether its owner is known to commit
    positions that did not move."""
    if track.lag == 0:
        return Status.OK
    if (track.lag is not None or recommits) and is_silent(track, now_ms, settings, owned_ms):
        return Status.STOP
    if is_at_one_offset(track, settings):
        return Status.STALL
    if was_rewound(track, now_ms, settings):
        return Status.REWIND
    return Status.WARN if has_growing_lag(track, settings) else Status.OK


def is_silent(track: PartitionTrack, now_ms: int, settings: StalledSettings, owned_ms: int) -> bool:
    """Whether an owner whose pauses are known has not committed for too long."""
    position = track.position
    is_known = track.pause_ms > 0 and position.commits >= settings.commits and position.commit_ms >= owned_ms
    return is_known and now_ms >= track.due_ms(settings)


def is_at_one_offset(track: PartitionTrack, settings: StalledSettings) -> bool:
    """Whether the same offset is committed again and again, with work to do."""
    stood_ms = track.position.commit_ms - track.still_ms
    return track.lag is not None and track.repeats >= REPEATS and stood_ms >= settings.silent_after_s * 1000


def was_rewound(track: PartitionTrack, now_ms: int, settings: StalledSettings) -> bool:
    """Whether the offset went back lately, and is not where it was yet."""
    return track.back_from > 0 and now_ms < track.back_ms + settings.rewind_s * 1000


def has_growing_lag(track: PartitionTrack, settings: StalledSettings) -> bool:
    """Whether it commits, and its lag has not fallen for long."""
    return track.lag is not None and track.growing >= settings.commits and track.lag > track.grown_from


def severity_of(of: Status, lag: int | None) -> Severity:
    """How much it matters. A silence without known lag may be one long piece of work."""
    is_certain = of is Status.STALL or (of is Status.STOP and lag is not None)
    return Severity.CRITICAL if is_certain else Severity.WARNING


class StalledConsumer(Analyzer):
    """Follows every position of a group, and looks at those that are silent or went back.

    `_tracks` is in the order in which positions were committed last, so that the silent ones come first.
    """

    STATE: ClassVar = StateFields(
        {
            "_tracks": Annotated[dict[TopicPartition, PartitionTrack], ORDERED],
            "_set_aside": dict[TopicPartition, PartitionTrack],
            "_back": dict[TopicPartition, PartitionTrack],
            "_recommits": bool,
            "_members_ms": int | None,
            "_owned_ms": int,
        }
    )

    name = "stalled_consumer"
    rule = (
        "A partition that a member of a stable group holds is not committed for `silent_after_s`, nor for "
        "`silent_pauses` times the longest pause that its owner had made, by a group whose clients are known to "
        "commit positions that did not move (STOP); or a position went back by `rewind_records` while the group had "
        "members (REWIND), until it is back where it was or for `rewind_s`."
    )
    false_alarms = (
        "An application that seeks back on purpose, and a topic that was deleted and made again, are rewinds; one "
        "long piece of work is a STOP. Where clients of several kinds share a group, one that commits what did not "
        "move speaks for all. Silent with need where none does (librdkafka), as nothing tells a stuck client from a "
        "topic without records while no lag is known; on partitions not committed since the assignment last changed; "
        "on what goes back and forth between two samples; on resets by an admin, with no member there."
    )
    settings_class = StalledSettings
    settings: StalledSettings
    samples = True

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._tracks: dict[TopicPartition, PartitionTrack] = {}
        self._set_aside: dict[TopicPartition, PartitionTrack] = {}
        """Silent, and of no account until they are committed again."""
        self._back: dict[TopicPartition, PartitionTrack] = {}
        self._recommits = False
        # Since when: there are members, and the assignment is what it is. None: there are no members.
        self._members_ms: int | None = None
        self._owned_ms = 0

    def observe(self, transition: Transition, group: GroupContext) -> None:
        """Keep who may commit, and since when."""
        match transition:
            case Rebalanced(members=0) | GroupEmptied():
                # Who comes next may be another client.
                self._members_ms, self._recommits = None, False
            case Rebalanced():
                if self._members_ms is None:
                    self._members_ms = group.now_ms
            case AssignmentChanged():
                self._owned_ms = group.now_ms
            case OffsetsDeleted(topic=topic, topic_partition=partition):
                for tracks in (self._tracks, self._set_aside, self._back):
                    tracks.pop((topic, partition), None)

    def sample(self, sample: Sample, group: GroupContext) -> None:
        """Follow what was committed since the sample before."""
        tracks, owned_ms = self._tracks, self._owned_ms
        for slot, position in sample.positions.items():
            track = tracks.pop(slot, None) or self._set_aside.pop(slot, None)
            if track is None:
                tracks[slot] = PartitionTrack(position)
                continue
            tracks[slot] = track
            before = track.position
            track.follow(position, owned_ms)
            if position.offset < before.offset:
                self._note_rewind(slot, track, before)
            elif track.repeats >= REPEATS:
                self._recommits = self._members_ms is not None

    def _note_rewind(self, slot: TopicPartition, track: PartitionTrack, before: Position) -> None:
        has_members = self._members_ms is not None and before.commit_ms >= self._members_ms
        if has_members and before.offset - track.position.offset >= self.settings.rewind_records:
            track.mark_rewind(before.offset)
            self._back[slot] = track

    def judge(self, group: GroupContext) -> Verdict:
        """Look at positions that are silent for long, and at those that went back."""
        if self._members_ms is None:
            return Verdict()
        now_ms = group.now_ms
        wakes: list[int] = []
        stopped = self._stopped(group, wakes) if self._recommits else {}
        for slot, track in list(self._back.items()):
            if was_rewound(track, now_ms, self.settings):
                wakes.append(track.back_ms + round(self.settings.rewind_s * 1000))
            else:
                del self._back[slot]
        # What is due, but not known yet, is known once the window has ended: by then there was a sample.
        window_end_ms = (now_ms // WINDOW_MS + 1) * WINDOW_MS
        wake_ms = min((at_ms if at_ms > now_ms else window_end_ms for at_ms in wakes), default=None)
        if stopped:
            return Verdict(_stop(stopped, self._tracks, self._back, now_ms), wake_ms)
        return Verdict(_rewind(self._back) if self._back else None, wake_ms)

    def _stopped(self, group: GroupContext, wakes: list[int]) -> dict[TopicPartition, str]:
        """The partitions that are stopped, with the client that holds each; adds to `wakes` when to look again."""
        silent = self._silent(group.known_ms, wakes)
        view = group.view if silent else None
        if view is None:
            return {}
        if view.state != GroupState.STABLE:
            # Members may be giving partitions up, which is no silence of theirs.
            wakes.append(group.now_ms + UNSTABLE_RECHECK_MS)
            return {}
        clients = {member.member_id: member.client_id for member in view.members}
        holders = owners_by_partition({member.member_id: member.assignment for member in view.members})
        out: dict[TopicPartition, str] = {}
        for slot in silent:
            track, holder = self._tracks[slot], holders.get(slot)
            now = partition_status(track, group.known_ms, self.settings, owned_ms=self._owned_ms, recommits=True)
            if holder is not None and now is Status.STOP:
                out[slot] = clients[holder]
            else:
                self._set_aside[slot] = self._tracks.pop(slot)
        return out

    def _silent(self, known_ms: int, wakes: list[int]) -> list[TopicPartition]:
        """The positions that are silent for too long, as far as commits are known; and when the next may be."""
        floor_ms = round(self.settings.silent_after_s * 1000)
        out: list[TopicPartition] = []
        for slot, track in self._tracks.items():
            if known_ms < track.position.commit_ms + floor_ms:
                wakes.append(track.position.commit_ms + floor_ms)
                break
            due_ms = track.due_ms(self.settings)
            if known_ms < due_ms:
                wakes.append(due_ms)
            else:
                out.append(slot)
        return out


def _stop(
    stopped: Mapping[TopicPartition, str],
    tracks: Mapping[TopicPartition, PartitionTrack],
    back: Mapping[TopicPartition, PartitionTrack],
    now_ms: int,
) -> Condition:
    longest_s = max(now_ms - tracks[slot].position.commit_ms for slot in stopped) // 1000
    clients = sorted(set(stopped.values()))
    names = _names(stopped)
    summary = (
        f"{count_text(len(stopped), 'partition')} of {list_text(clients)} not committed for up to {longest_s} s, "
        f"though "
        f"this group commits positions even when they do not move: {list_text(names)}."
    )
    advice = (
        "See what these clients are doing (a stack dump): they are in the group and do not come to commit. If they "
        "work on one batch for that long, lower max.poll.records; if a call waits for ever, give it a timeout."
    )
    numbers = {
        "status": str(Status.STOP),
        "group_status": Status.STOP.of_group,
        "stopped": len(stopped),
        "rewound": len(back),
        "partitions": names[:LISTED_PARTITIONS],
        "clients": [truncated(name) for name in clients[:LISTED_CLIENTS]],
        "silent_s": longest_s,
    }
    return Condition(severity_of(Status.STOP, None), summary, advice, numbers)


def _rewind(back: Mapping[TopicPartition, PartitionTrack]) -> Condition:
    (topic, number), furthest = max(back.items(), key=lambda it: (it[1].back_by, it[0]))
    names = _names(back)
    summary = (
        f"Positions of {count_text(len(back), 'partition')} went back, of {truncated(topic)}-{number} by "
        f"{furthest.back_by:,} records to {furthest.back_from - furthest.back_by}: {list_text(names)}."
    )
    advice = (
        "Records are consumed a second time. See whether the application seeks, whether auto.offset.reset took over "
        "because the position was gone (retention, a topic made anew), and whether two applications use the group.id."
    )
    numbers = {
        "status": str(Status.REWIND),
        "group_status": Status.REWIND.of_group,
        "stopped": 0,
        "rewound": len(back),
        "partitions": names[:LISTED_PARTITIONS],
        "records_back": furthest.back_by,
    }
    return Condition(severity_of(Status.REWIND, None), summary, advice, numbers)


def _names(slots: Iterable[TopicPartition]) -> list[str]:
    return [f"{truncated(topic)}-{number}" for topic, number in sorted(slots)]

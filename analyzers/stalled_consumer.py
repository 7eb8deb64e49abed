"""Partitions whose consumer makes no progress, or goes back: Burrow's rules, on what is known.

Burrow looks at the last ten commits of each partition with their lags. Here two things come: positions in samples, of
one to five minutes, each with how often it was committed; and, where the ends of partitions are known, looks at the
lag of every position, committed or not. The rules (`analyzers.stalled_rules`) read off them:

- STOP: no commit, and no progress, for much longer than the consumer ever paused, with work to do.
- STALL: the same offset again and again, with work to do; or back again and again to before a record that it never
  gets beyond.
- REWIND: the offset went back.
- WARN: the consumer commits, and its lag grows.
- OK: the rest. ERR, of a group, is any of the first three.

What happens between two samples and is over at the second goes unseen: a rewind that was made up for, say. The log
tells no lag. Without it there is no STALL and no WARN, and silence is a STOP only where the group's clients are known
to commit positions that did not move, as the Java client does and librdkafka does not: elsewhere nothing may have
come.

Rule: a partition is in one of these states, the worst counts.
Known false alarms: `StalledConsumer.false_alarms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from agent.core.protocol.states import GroupState
from agent.core.shadow.transitions import (
    AssignmentChanged,
    GroupCreated,
    GroupEmptied,
    OffsetsDeleted,
    Rebalanced,
    Transition,
)
from agent.core.shadow.views import Position
from agent.core.state_fields import ORDERED, StateFields
from analyzers.api import (
    WINDOW_MS,
    Analyzer,
    GroupContext,
    LagLook,
    Sample,
    Settings,
    TopicPartition,
    Verdict,
)
from analyzers.formatting import milliseconds
from analyzers.stalled_rules import (
    REPEATS,
    PartitionTrack,
    ProgressTrack,
    StalledSettings,
    Status,
    is_busy,
    is_reread,
    is_silent,
    lag_status,
    standing_since_ms,
    was_rewound,
)
from analyzers.stalled_texts import (
    SilentPartition,
    StuckPartition,
    lag_condition,
    rewind_condition,
    silence_condition,
)
from analyzers.stalled_tracks import TracksByPosition, packed, partition_track
from analyzers.windows import NONE_BY_KEY, found_members

UNSTABLE_RECHECK_MS = 60_000
"""When to look again at a group that is not stable."""

LOOKS = 10
"""So many looks at lag in `silent_after_s`: Burrow's window. What is stuck is told a look late at most."""

LEAST_LOOK_MS, MOST_LOOK_MS = 1_000, 30_000
"""Ends are seen each 30 s, unless told otherwise."""

STALE_LOOKS = 4
"""What was seen of lag so many looks ago is of no account."""

MISSED_LOOKS = 2
"""Where lag was not known for longer than so many looks, nothing tells whether clients could commit meanwhile."""


class StalledConsumer(Analyzer):
    """Follows every position of a group, and looks at those that are silent, went back, or stand with work to do.

    `_partition_tracks` is in the order in which positions were committed last: the silent ones come first.
    """

    STATE: ClassVar = StateFields(
        {
            "_tracks": Annotated[dict[TopicPartition, bytes], ORDERED],
            "_set_aside": dict[TopicPartition, bytes],
            "_back": dict[TopicPartition, None],
            "_progress": dict[TopicPartition, bytes],
            "_stuck": dict[TopicPartition, StuckPartition],
            "_looked_ms": int,
            "_recommits": bool,
            "_members_ms": int | None,
            "_owned_ms": int,
        }
    )

    name = "stalled_consumer"
    rule = (
        "Where lag is known: a partition that a member of a stable group holds makes no progress for "
        "`silent_after_s` with work to do, nor for `silent_pauses` times the longest pause that it lately made, and "
        "is not committed (STOP), or is committed again and again at one offset (STALL), while that member is not "
        "busy with others that it holds and is behind on; or goes back again and again to before one offset "
        "(STALL); or its lag grows for half an hour and never falls (WARN). A lag of ten records is work only if it "
        "grows. Where it is not known: such a partition is not committed for as long, by a group whose clients are "
        "known to commit positions that did not move (STOP). Anyway: a position went back by `rewind_records` while "
        "the group had members (REWIND), until it is back where it was, or nothing is left to read, or for "
        "`rewind_s`."
    )
    false_alarms = (
        "An application that seeks back on purpose, and a topic that was deleted and made again, are rewinds; one "
        "long piece of work is a STOP, the first time; more than ten records of aborted transactions alone are lag "
        "that librdkafka never commits away. Where lag is not known and clients of several kinds share a group, one "
        "that commits what did not move speaks for all. Silent with need: where lag is not known and no client "
        "commits what did not move (librdkafka), as nothing tells a stuck client from a topic without records; where "
        "lag was known and nobody has committed since it is not, as while brokers are away, and for as long anew "
        "once they or this agent are back; on a partition whose member moves on elsewhere and is behind there too, "
        "as it may come to it yet; on partitions that the group never committed; on topics that the topology of a "
        "streams group names by a pattern; on what goes back and forth between two samples; on resets by an admin, "
        "with no member there; while rebalances come faster than half of `silent_after_s`; where this machine's "
        "clock is ahead of the brokers' by more than three looks at the ends."
    )
    settings_class = StalledSettings
    settings: StalledSettings
    samples = True

    __slots__ = (
        "_back",
        "_back_ms",
        "_first_ms",
        "_looked_ms",
        "_members_ms",
        "_owned_ms",
        "_partition_tracks",
        "_progress_tracks",
        "_recommits",
        "_set_aside",
        "_stuck",
    )

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._partition_tracks = TracksByPosition(PartitionTrack)
        self._first_ms: int | None = None
        """When the first of them was committed last; None: not looked at yet."""
        self._set_aside: dict[TopicPartition, bytes] = NONE_BY_KEY
        """Silent, and of no account until they are committed again."""
        self._back: dict[TopicPartition, None] = NONE_BY_KEY
        self._progress_tracks = TracksByPosition(ProgressTrack)
        """Of the positions whose lag is known, or was."""
        self._stuck: dict[TopicPartition, StuckPartition] = NONE_BY_KEY
        """As of the last look at lag: what is not OK."""
        self._looked_ms = 0
        """When lag was known last; 0: it never was."""
        self._back_ms = 0
        """When the group was seen to commit again, after nobody was known to reach the brokers."""
        self._recommits = False
        # Since when: there are members, and the assignment is what it is. None: there are no members.
        self._members_ms: int | None = None
        self._owned_ms = 0

    def after_restore(self) -> None:
        """What is not kept is found again at the next look, and what is empty is shared."""
        self._first_ms, self._back_ms = None, 0
        self._set_aside = self._set_aside or NONE_BY_KEY
        self._back, self._stuck = self._back or NONE_BY_KEY, self._stuck or NONE_BY_KEY

    # As snapshots have them.

    @property
    def _tracks(self) -> Mapping[TopicPartition, bytes]:
        return self._partition_tracks.as_bytes()

    @_tracks.setter
    def _tracks(self, tracks: Mapping[TopicPartition, bytes]) -> None:
        self._partition_tracks = TracksByPosition(PartitionTrack)
        self._partition_tracks.keep_bytes(tracks)

    @property
    def _progress(self) -> Mapping[TopicPartition, bytes]:
        return self._progress_tracks.as_bytes()

    @_progress.setter
    def _progress(self, tracks: Mapping[TopicPartition, bytes]) -> None:
        self._progress_tracks = TracksByPosition(ProgressTrack)
        self._progress_tracks.keep_bytes(tracks)

    def observe(self, transition: Transition, group: GroupContext) -> None:
        """Keep who may commit, and since when."""
        match transition:
            case Rebalanced(members=0) | GroupEmptied():
                # Who comes next may be another client.
                self._members_ms, self._recommits = None, False
                self._stuck = NONE_BY_KEY
            case Rebalanced():
                if self._members_ms is None:
                    self._members_ms = group.now_ms
            case GroupCreated() if found_members(transition, group):
                self._members_ms = group.now_ms
            case AssignmentChanged():
                self._owned_ms = group.now_ms
            case OffsetsDeleted(topic=topic, topic_partition=partition):
                for tracks in (self._partition_tracks, self._progress_tracks):
                    tracks.drop((topic, partition))
                for kept in (self._set_aside, self._back, self._stuck):
                    kept.pop((topic, partition), None)
                self._first_ms = None

    def sample(self, sample: Sample, group: GroupContext) -> None:
        """Follow what was committed since the sample before."""
        if self._are_brokers_away(sample.at_ms):
            self._back_ms = sample.at_ms
        tracks, set_aside, owned_ms = self._partition_tracks.read(), self._set_aside, self._owned_ms
        for slot, position in sample.positions.items():
            track = tracks.pop(slot, None)
            if track is None and slot in set_aside:
                track = partition_track(set_aside.pop(slot))
            if track is None:
                tracks[slot] = PartitionTrack.begin(position)
                continue
            before = track.position
            track.follow(position, owned_ms)
            if position.offset < before.offset:
                self._note_rewind(slot, track, before)
            elif track.repeats >= REPEATS:
                self._recommits = self._members_ms is not None
            tracks[slot] = track
        self._partition_tracks.keep(tracks)
        self._first_ms = None

    def _note_rewind(self, slot: TopicPartition, track: PartitionTrack, before: Position) -> None:
        has_members = self._members_ms is not None and before.commit_ms >= self._members_ms
        if has_members and before.offset - track.position.offset >= self.settings.rewind_records:
            track.mark_rewind(before.offset)
            if self._back is NONE_BY_KEY:
                self._back = {}
            self._back[slot] = None

    def _all_tracks(self) -> dict[TopicPartition, PartitionTrack]:
        return {slot: partition_track(it) for slot, it in self._set_aside.items()} | self._partition_tracks.read()

    # Lag.

    @property
    def look_ms(self) -> int:
        """Some looks in the time after which a standstill is told."""
        return min(max(milliseconds(self.settings.silent_after_s) // LOOKS, LEAST_LOOK_MS), MOST_LOOK_MS)

    @property
    def wants_look(self) -> bool:
        """A group without members consumes nothing."""
        return self._members_ms is not None

    def look(self, look: LagLook, group: GroupContext) -> None:
        """Follow every position whose lag is known, and keep which are not OK."""
        at_ms, settings, since_ms = look.at_ms, self.settings, self._members_ms or 0
        if not look.lags:
            self._stuck = NONE_BY_KEY
            return
        progress = self._progress_tracks.read()
        # Brokers were away, or one of them, or nobody looked. Clients come back one by one, and may commit first
        # where they were.
        missed_ms = MISSED_LOOKS * self.look_ms
        were_all_missed = at_ms - self._looked_ms > missed_ms
        seen_before_ms = max((track.seen_ms for track in progress.values()), default=0)
        self._looked_ms = at_ms
        found: dict[TopicPartition, Status] = {}
        committed: Mapping[TopicPartition, PartitionTrack] | None = None
        positions, seen_ms = look.positions, look.seen_ms
        for slot, lag in look.lags.items():
            track = progress.get(slot)
            if track is None:
                if committed is None:
                    committed = self._all_tracks()
                pause_ms = self._pause_ms(committed.get(slot))
                progress[slot] = ProgressTrack.begin(positions[slot], lag, seen_ms, pause_ms)
                continue
            if were_all_missed or seen_before_ms - track.seen_ms > missed_ms:
                track.count_anew(lag, seen_ms)
            track.follow(positions[slot], lag, seen_ms, at_ms)
            if lag and (status := lag_status(track, at_ms, settings, since_ms)) is not Status.OK:
                found[slot] = status
        self._stuck = (found and self._held(found, progress, group)) or NONE_BY_KEY
        self._progress_tracks.keep(progress)

    def _pause_ms(self, track: PartitionTrack | None) -> int:
        """What the log tells of a partition's pace, which may be that of its producers: no more of it than this."""
        if track is None:
            return 0
        return min(max(track.mean_pause_ms, 0), milliseconds(self.settings.silent_after_s))

    def _held(
        self, found: dict[TopicPartition, Status], tracks: Mapping[TopicPartition, ProgressTrack], group: GroupContext
    ) -> dict[TopicPartition, StuckPartition]:
        """Those of the partitions that a member holds, and had time to consume."""
        view = group.view
        had_time = group.now_ms - self._owned_ms >= milliseconds(self.settings.silent_after_s) / 2
        if view is None or view.state != GroupState.STABLE or not had_time:
            return {}
        clients = {member.member_id: member.client_id for member in view.members}
        holders = group.holders
        out: dict[TopicPartition, StuckPartition] = {}
        now_ms = group.now_ms
        busy = {holders.get(slot) for slot, track in tracks.items() if is_busy(track, now_ms, self.settings)}
        for slot, status in found.items():
            holder, track = holders.get(slot), tracks[slot]
            if holder is None:
                continue
            stuck = self._stuck_partition(status, track, clients[holder], now_ms)
            if holder not in busy or stuck.returns or status is Status.WARN:
                out[slot] = stuck
        return out

    def _stuck_partition(self, status: Status, track: ProgressTrack, client: str, now_ms: int) -> StuckPartition:
        members_ms, offset = self._members_ms or 0, track.offset
        if status is Status.WARN:
            return StuckPartition(status, client, track.growing_ms, offset, track.lag, 0)
        if status is Status.STALL and is_reread(track, now_ms, self.settings, members_ms):
            since_ms = max(track.best_ms, members_ms)
            return StuckPartition(status, client, since_ms, track.high, track.lag, track.returns)
        return StuckPartition(status, client, standing_since_ms(track, members_ms), offset, track.lag, 0)

    def _known_lags(self, now_ms: int) -> dict[TopicPartition, int]:
        """The lag of each partition of which it is known, and still is."""
        if not self._is_fresh(now_ms):
            return {}
        tracks = self._progress_tracks.read().items()
        return {slot: track.lag for slot, track in tracks if self._looked_ms - track.seen_ms < WINDOW_MS}

    def _are_brokers_away(self, now_ms: int) -> bool:
        """Whether nobody is known to reach them: ends are not seen any more, and no client has committed since."""
        if not self._looked_ms or self._is_fresh(now_ms):
            return False
        committed_ms = (track.position.commit_ms for track in self._all_tracks().values())
        return max(committed_ms, default=0) < self._looked_ms + self.look_ms

    def _is_fresh(self, now_ms: int) -> bool:
        return now_ms < self._looked_ms + STALE_LOOKS * self.look_ms

    # Judging.

    def judge(self, group: GroupContext) -> Verdict:
        """Look at positions that are silent for long, those that went back, and what lag told last."""
        if self._members_ms is None:
            return Verdict()
        now_ms = group.now_ms
        wakes: list[int] = []
        silent = self._stopped(group, wakes) if self._recommits else {}
        back = self._rewound(now_ms) if self._back else {}
        wakes += [track.back_ms + round(self.settings.rewind_s * 1000) for track in back.values()]
        stuck = {}
        if self._stuck and self._is_fresh(now_ms):
            stuck = self._stuck
            wakes.append(self._looked_ms + STALE_LOOKS * self.look_ms)
        # What is due, but not known yet, is known once the window has ended: by then there was a sample.
        window_end_ms = (now_ms // WINDOW_MS + 1) * WINDOW_MS
        wake_ms = min((at_ms if at_ms > now_ms else window_end_ms for at_ms in wakes), default=None)
        if any(it.status is not Status.WARN for it in stuck.values()):
            return Verdict(lag_condition(stuck, back, now_ms), wake_ms)
        if silent:
            return Verdict(silence_condition(silent, back, now_ms), wake_ms)
        if back:
            return Verdict(rewind_condition(back), wake_ms)
        return Verdict(lag_condition(stuck, back, now_ms) if stuck else None, wake_ms)

    def _rewound(self, now_ms: int) -> dict[TopicPartition, PartitionTrack]:
        """The partitions that went back, with something left to read; forgets the others."""
        tracks, lags = self._all_tracks(), self._known_lags(now_ms)
        back = {
            slot: track
            for slot in self._back
            if (track := tracks.get(slot)) is not None
            and was_rewound(track, now_ms, self.settings)
            and lags.get(slot) != 0
        }
        self._back = dict.fromkeys(back) or NONE_BY_KEY
        return back

    def _stopped(self, group: GroupContext, wakes: list[int]) -> dict[TopicPartition, SilentPartition]:
        """The partitions that are stopped; adds to `wakes` when to look again."""
        silent = self._silent(group.known_ms, wakes)
        if silent:
            if self._are_brokers_away(group.now_ms):
                return {}
            due_ms = self._back_ms + milliseconds(self.settings.silent_after_s)
            if group.known_ms < due_ms:
                # Clients come back one by one.
                wakes.append(due_ms)
                return {}
            lags = self._known_lags(group.now_ms)
            silent = {slot: track for slot, track in silent.items() if slot not in lags}
        view = group.view if silent else None
        if view is None:
            return {}
        if view.state != GroupState.STABLE:
            # Members may be giving partitions up, which is no silence of theirs.
            wakes.append(group.now_ms + UNSTABLE_RECHECK_MS)
            return {}
        clients = {member.member_id: member.client_id for member in view.members}
        holders = group.holders
        out: dict[TopicPartition, SilentPartition] = {}
        for slot, track in silent.items():
            holder = holders.get(slot)
            if holder is not None and is_silent(track, group.known_ms, self.settings, self._owned_ms):
                out[slot] = SilentPartition(clients[holder], track.position.commit_ms)
            else:
                if self._set_aside is NONE_BY_KEY:
                    self._set_aside = {}
                self._set_aside[slot] = packed(track)
        if len(out) < len(silent):
            kept = self._partition_tracks.read().items()
            self._partition_tracks.keep({slot: track for slot, track in kept if slot in out or slot not in silent})
            self._first_ms = None
        return out

    def _silent(self, known_ms: int, wakes: list[int]) -> dict[TopicPartition, PartitionTrack]:
        """The positions that are silent for too long, as far as commits are known; and when the next may be."""
        floor_ms = round(self.settings.silent_after_s * 1000)
        out: dict[TopicPartition, PartitionTrack] = {}
        if self._first_ms is not None and known_ms < self._first_ms + floor_ms:
            wakes.append(self._first_ms + floor_ms)
            return out
        tracks = self._partition_tracks.read()
        self._first_ms = next((track.position.commit_ms for track in tracks.values()), None)
        for slot, track in tracks.items():
            if known_ms < track.position.commit_ms + floor_ms:
                wakes.append(track.position.commit_ms + floor_ms)
                break
            due_ms = track.due_ms(self.settings)
            if known_ms < due_ms:
                wakes.append(due_ms)
            else:
                out[slot] = track
        return out

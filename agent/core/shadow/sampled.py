"""A group as looks at it show it: what the Admin API tells where nobody may read `__consumer_offsets`.

A look is a description, a list's word on its state, or its committed offsets, at one time; what was between two looks
is not known, so a change has a time before which and one by which it came (`Between`). A classic group tells a
rebalance once it has come to rest again: who was missing or new while it prepared, and when. A KIP-848 group tells
one with each change of its members, as its coordinator raises the epoch with each.

The Admin API has no generations, epochs, timeouts and subscriptions. `generation` counts the rebalances that were
seen; it orders them and is told to nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from heapq import nlargest
from typing import Any, ClassVar

from msgspec import Struct, field
from msgspec.structs import replace

from agent.core.causes import Cause
from agent.core.inference.facts import Inference
from agent.core.inference.parameters import PARAMETERS
from agent.core.inference.sampled_inference import (
    Between,
    SampledRebalance,
    SampledSilence,
    Sighting,
    infer_sampled,
)
from agent.core.inference.session_settings import SessionSetting
from agent.core.protocol.library_recognition import recognize_by_client_id, recognize_kip848, recognize_streams
from agent.core.protocol.states import GroupState, GroupType
from agent.core.shadow.anomalies import AnomalyLog
from agent.core.shadow.diff import assignment_diff, member_changes, owner_key, owners_by_partition
from agent.core.shadow.fairness import fairness, target_or_assignment
from agent.core.shadow.offsets import CommittedOffsets
from agent.core.shadow.transitions import (
    AssignmentChanged,
    GroupCreated,
    GroupEmptied,
    LogPosition,
    MemberJoined,
    MemberLeft,
    Rebalanced,
    StaticMemberReplaced,
    Transition,
)
from agent.core.shadow.views import UNKNOWN_NUMBER, GroupView, Member
from agent.core.state_fields import StateFields

AT_REST = frozenset({str(GroupState.STABLE), str(GroupState.EMPTY)})
"""States in which a classic group's membership is what its last rebalance left."""
OFFSET_LOOKS_KEPT = 64
"""Times of looks at committed offsets that are kept: before the oldest, when a position moved is not known."""
ASSIGNED_LATE_MS = 15_000
"""After a change of members a KIP-848 group's targets change with it: so long that is no rebalance of its own."""


class SeenMember(Struct, frozen=True, array_like=True):
    """A member as a description has it. `assignment` is empty where the group is not at rest; `target` is None but in
    KIP-848 groups."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    assignment: dict[str, tuple[int, ...]]
    target: dict[str, tuple[int, ...]] | None = None


class GroupLook(Struct, frozen=True, omit_defaults=True):
    """What one look showed: the value of a record under the group's key (`agent.core.shadow.sampled_mirror`).

    `every_ms` is how often the group's state is looked at, `before_ms` when it was last before this (None: not
    known). `moving_ms` is when a group was last seen to rebalance, `rested_ms` when it was seen at rest after that.
    `members` is None where they were not asked for. `has_offsets`: its committed offsets were asked for too, and what
    moved stands in the records before this one. `is_withheld`: the group cannot be seen any more, and so
    nothing that is known of it; `withheld_topics`: likewise of what it has committed for these.
    """

    state: str
    every_ms: int
    group_type: str = str(GroupType.CLASSIC)
    before_ms: int | None = None
    moving_ms: int | None = None
    rested_ms: int | None = None
    protocol: str | None = None
    members: tuple[SeenMember, ...] | None = None
    has_offsets: bool = False
    is_withheld: bool = False
    withheld_topics: tuple[str, ...] = ()


class SampledRound(Struct):
    """A rebalance under way: when it began (None: it was not seen to), who came and went since, and when it was seen
    in motion last and at rest first. `described`: whether its members were looked at."""

    began: Between | None = None
    joined: list[Sighting] = field(default_factory=list)
    left: list[Sighting] = field(default_factory=list)
    replaced: list[tuple[Member, Member]] = field(default_factory=list)
    silences: dict[str, SampledSilence] = field(default_factory=dict)
    moving_ms: int | None = None
    rested_ms: int | None = None
    described: bool = False


class SampledGroup:
    """The mirror of one group that is looked at; built by `replay` alone."""

    STATE: ClassVar = StateFields(
        {
            "name": str,
            "created_at": LogPosition,
            "generation": int,
            "group_type": str,
            "state": str,
            "protocol": str | None,
            "members": dict[str, Member],
            "state_since_ms": int,
            "version": int,
            "rebalances": int,
            "notes": AnomalyLog,
            "_described_ms": int | None,
            "_changed_ms": int | None,
            "_round": SampledRound | None,
            "_held_since": dict[str, int],
            "_counts": dict[tuple[str, int], int],
            "_offset_looks": list[int],
        }
    )

    def __init__(self, name: str, at: LogPosition, absent_ms: int | None = None) -> None:
        """`absent_ms`: when a list last showed that there was no such group; None where nothing did."""
        self.name = name
        self.created_at = at
        self.generation = 0
        self.group_type = str(GroupType.CLASSIC)
        self.state = ""
        self.protocol: str | None = None
        self.members: dict[str, Member] = {}
        self.state_since_ms = at.timestamp_ms
        self.version = 0
        """Raised by each look that shows anything new: while it stands, so does the group's view, but for its
        offsets."""
        self.rebalances = 0
        self.notes = AnomalyLog()
        # When its members were looked at last, and when they were seen to change; None: not yet.
        self._described_ms = absent_ms
        self._changed_ms: int | None = None
        self._round: SampledRound | None = None
        # By member id since when it is seen to hold what it holds; by partition how often it had moved by then.
        self._held_since: dict[str, int] = {}
        self._counts: dict[tuple[str, int], int] = {}
        self._offset_looks: list[int] = []
        self.session: SessionSetting | None = None
        """What brokers say of the group's sessions: no state, the mirror asks before each look."""

    def after_restore(self) -> None:
        """Set what is no state."""
        self.session = None

    @property
    def is_described(self) -> bool:
        """Whether its members are known."""
        return self._described_ms is not None

    # Replay.

    def replay(self, look: GroupLook, at: LogPosition, offsets: CommittedOffsets) -> list[Transition]:
        """Apply one look: what it shows to have changed."""
        now_ms = at.timestamp_ms
        if look.has_offsets:
            self._offset_looks.append(now_ms)
            del self._offset_looks[:-OFFSET_LOOKS_KEPT]
        if look.state != self.state or look.group_type != self.group_type:
            self.version += 1
            self.state_since_ms = now_ms
            self.state, self.group_type = look.state, look.group_type
        members = () if look.state == GroupState.EMPTY else look.members
        if look.members is not None and look.protocol != self.protocol:
            self.version += 1
            self.protocol = look.protocol
        if not self.is_described:
            # What was before is not known, so the first look shows no change; nor how old the group is.
            if members is None:
                return []
            self._take_members(self._read_members(members), now_ms, offsets)
            return [GroupCreated(at, self.name, self.group_type, observed=False)]
        if self.group_type != GroupType.CLASSIC:
            return [] if members is None else self._described_epoch_group(members, at, offsets)
        return self._looked_at_classic(members, look, at, offsets)

    def _looked_at_classic(
        self,
        members: tuple[SeenMember, ...] | None,
        look: GroupLook,
        at: LogPosition,
        offsets: CommittedOffsets,
    ) -> list[Transition]:
        now_ms, out = at.timestamp_ms, list[Transition]()
        at_rest = self.state in AT_REST
        if self._round is not None and self._round.rested_ms is None:
            self._round.rested_ms = look.rested_ms
            self._round.moving_ms = _latest(self._round.moving_ms, look.moving_ms)
        if not at_rest:
            if self._round is not None and self._round.rested_ms is not None:
                # It rested in between, and moves again before its members were looked at.
                out += self._complete(self.members, at, offsets)
            if self._round is None:
                self._round = SampledRound(Between(look.before_ms, now_ms))
            self._round.moving_ms = now_ms
        elif self._round is not None and self._round.rested_ms is None:
            self._round.rested_ms = now_ms
        if members is None:
            return out
        seen = self._read_members(members)
        if not at_rest:
            seen = {name: self._with_assignment(it) for name, it in seen.items()}
        self._note_changes(seen, now_ms, offsets)
        if at_rest:
            out += self._complete(seen, at, offsets)
        self._take_members(seen, now_ms, offsets)
        return out

    def _described_epoch_group(
        self, members: tuple[SeenMember, ...], at: LogPosition, offsets: CommittedOffsets
    ) -> list[Transition]:
        seen = self._read_members(members)
        self._note_changes(seen, at.timestamp_ms, offsets)
        out = self._complete(seen, at, offsets)
        self._take_members(seen, at.timestamp_ms, offsets)
        return out

    def _with_assignment(self, member: Member) -> Member:
        """While a classic group prepares, descriptions leave out who has what: what was last known stands."""
        known = self.members.get(member.member_id)
        return member if known is None else replace(member, assignment=known.assignment)

    def _note_changes(self, seen: Mapping[str, Member], now_ms: int, offsets: CommittedOffsets) -> None:
        """Who came and went since the members were looked at last."""
        changes = member_changes(self.members, seen)
        if not (changes.joined or changes.left or changes.replaced):
            if self._round is not None:
                self._round.described = True
            return
        found = self._round = self._round or SampledRound()
        when = Between(self._described_ms, now_ms)
        first = when
        if found.began is not None and not found.described:
            # What set a rebalance off came before it was seen to prepare.
            first = Between(_latest(self._described_ms, found.began.after_ms), found.began.by_ms)
        found.described = True
        pending = {it.member.member_id for it in found.joined}
        gone = [it for it in changes.left if it.member_id not in pending]
        found.joined = [it for it in found.joined if it.member.member_id in seen]
        # Only if nobody else came can it be said that it was this that began it.
        found.left += [Sighting(it, when if changes.joined else first) for it in gone]
        found.joined += [Sighting(it, when if gone else first) for it in changes.joined]
        found.replaced += changes.replaced
        found.silences |= self._silences(gone, now_ms, offsets)

    def _complete(self, seen: Mapping[str, Member], at: LogPosition, offsets: CommittedOffsets) -> list[Transition]:
        """The group is at rest with these members: the rebalance that led there, if there was one."""
        found, self._round = self._round, None
        before, after = _by_owner(self.members.values()), _by_owner(seen.values())
        for sighting in () if found is None else found.left:
            member = sighting.member
            before.setdefault(owner_key(member.member_id, member.instance_id), target_or_assignment(member))
        change = assignment_diff(owners_by_partition(before), owners_by_partition(after))
        is_moved = bool(change.gained or change.lost)
        who = (at, self.name, self.group_type)
        out: list[Transition] = []
        is_epoch_group = self.group_type != GroupType.CLASSIC
        joined = tuple(it.member for it in found.joined) if found is not None else ()
        left = tuple(it.member for it in found.left) if found is not None else ()
        replaced = tuple(found.replaced) if found is not None else ()
        late = self._changed_ms is not None and at.timestamp_ms - self._changed_ms < ASSIGNED_LATE_MS
        is_assigning = is_epoch_group and is_moved and late and not (joined or left)
        is_replaced = bool(replaced) and not (joined or left or (found is not None and found.began is not None))
        if (found is not None or is_moved) and not is_assigning and not is_replaced:
            self.version += 1
            self.rebalances += 1
            self.generation += 1
            rebalance = self._rebalance(found or SampledRound(), seen, at, is_moved=is_moved)
            inferred = infer_sampled(rebalance)
            out.append(
                Rebalanced(
                    *who,
                    self.generation,
                    self.generation - 1,
                    self.protocol,
                    joined,
                    left,
                    len(seen),
                    join_ms=rebalance.join_ms,
                    stopped_partition_ms=self._stopped_ms(rebalance, inferred, seen),
                    observed=rebalance.began is not None and rebalance.began.after_ms is not None,
                    inferred=inferred,
                )
            )
            out += [MemberLeft(*who, self.generation, it, inferred.departures.get(it.member_id)) for it in left]
        out += [StaticMemberReplaced(*who, self.generation, old, new) for old, new in replaced]
        out += [MemberJoined(*who, self.generation, it) for it in joined]
        if joined or left:
            self._changed_ms = at.timestamp_ms
        if is_moved:
            out.append(AssignmentChanged(*who, self.generation, *change, self._imbalance(seen)))
        if not seen and left:
            out.append(GroupEmptied(*who, self.generation))
        return out

    def _rebalance(
        self, found: SampledRound, seen: Mapping[str, Member], at: LogPosition, *, is_moved: bool
    ) -> SampledRebalance:
        ended = None
        if found.moving_ms is not None:
            ended = Between(found.moving_ms, at.timestamp_ms if found.rested_ms is None else found.rested_ms)
        return SampledRebalance(
            group_type=self.group_type,
            cooperative="cooperative" in (self.protocol or ""),
            began=found.began,
            ended=ended,
            joined=tuple(found.joined),
            left=tuple(found.left),
            silences=found.silences,
            grown_topics=_grown(self.members.values(), seen.values()) if is_moved else {},
            session=self.session,
        )

    def _stopped_ms(self, rebalance: SampledRebalance, inferred: Inference, seen: Mapping[str, Member]) -> int | None:
        """Partition time that the rebalance cost at the least, where an eager group was seen to begin and to end it:
        members that stay may work until a heartbeat tells them of it, and no look shows when that was; one that timed
        out worked until it fell silent (`stopped_time` has the rules). None where that least is nothing, though
        members had partitions: what it did cost is not known then."""
        join_ms = rebalance.join_ms
        if join_ms is None or rebalance.cooperative or not seen:
            return None
        before, total = self._before(rebalance), 0
        for name, member in before.items():
            departure, silence = inferred.departures.get(name), rebalance.silences.get(name)
            stopped_ms = join_ms
            if departure is None:
                stopped_ms -= min(join_ms, PARAMETERS.heartbeat_interval_ms)
            elif departure.cause in (Cause.SESSION_TIMEOUT, Cause.POLL_TIMEOUT) and silence is not None:
                when = next(it.when for it in rebalance.left if it.member.member_id == name)
                stopped_ms += silence.silent_ms(when)
            total += stopped_ms * member.partitions
        return None if not total and any(it.partitions for it in before.values()) else total

    def _before(self, rebalance: SampledRebalance) -> dict[str, Member]:
        """The members before it."""
        joined = {it.member.member_id for it in rebalance.joined}
        stayed = {name: it for name, it in self.members.items() if name not in joined}
        return stayed | {it.member.member_id: it.member for it in rebalance.left}

    def _silences(
        self, gone: Collection[Member], gone_ms: int, offsets: CommittedOffsets
    ) -> dict[str, SampledSilence]:
        """What is known of members' commits when they were seen to be gone."""
        if not gone:
            return {}
        looks = [it for it in self._offset_looks if it <= gone_ms]
        moved = ((self._moves(it, 0, offsets)[1], name) for name, it in self.members.items())
        latest = nlargest(2, ((ms, name) for ms, name in moved if ms is not None))
        holding = sum(bool(it.partitions) for it in self.members.values())
        out: dict[str, SampledSilence] = {}
        for member in gone:
            held_ms = self._held_since.get(member.member_id, gone_ms)
            moves, newest = self._moves(member, held_ms, offsets)
            others_ms = next((ms for ms, name in latest if name != member.member_id and ms >= held_ms), None)
            out[member.member_id] = SampledSilence(
                # It moved after the look before the one that showed it.
                moved=None
                if newest is None
                else Between(max((it for it in looks if it < newest), default=None), newest),
                moves=moves,
                held_ms=max(gone_ms - held_ms, 0),
                looked_ms=looks[-1] if looks else None,
                others_moved_ms=others_ms,
                others=holding - bool(member.partitions),
            )
        return out

    def _moves(self, member: Member, since_ms: int, offsets: CommittedOffsets) -> tuple[int, int | None]:
        """How often that position of a member's was seen to move that did most, and when one of them was last."""
        most, newest = 0, None
        for topic, partitions in member.assignment.items():
            for partition in partitions:
                found = offsets.commit(self.name, topic, partition)
                if found is None:
                    continue
                commit, count = found
                before = self._counts.get((topic, partition), 0)
                if count <= max(before, 1) or commit.commit_ms < since_ms:
                    # The first look at a position shows that it is there, not that it moved.
                    continue
                most = max(most, count - max(before, 1))
                newest = commit.commit_ms if newest is None else max(newest, commit.commit_ms)
        return most, newest

    def _take_members(self, seen: dict[str, Member], now_ms: int, offsets: CommittedOffsets) -> None:
        if seen != self.members:
            self.version += 1
        since = {
            name: self._held_since[name]
            if name in self.members and name in self._held_since and self.members[name].assignment == it.assignment
            else now_ms
            for name, it in seen.items()
        }
        if since != self._held_since:
            counts = offsets.commit_counts(self.name)
            kept = {
                (topic, partition)
                for name, it in seen.items()
                if since[name] < now_ms
                for topic, partitions in it.assignment.items()
                for partition in partitions
            }
            self._counts = {
                slot: self._counts.get(slot, 0) if slot in kept else count for slot, count in counts.items()
            }
            self._held_since = since
        self.members = seen
        self._described_ms = now_ms

    def _read_members(self, members: Iterable[SeenMember]) -> dict[str, Member]:
        out: dict[str, Member] = {}
        is_classic = self.group_type == GroupType.CLASSIC
        recognize = recognize_streams if self.group_type == GroupType.STREAMS else recognize_kip848
        for it in members:
            if is_classic:
                library = recognize_by_client_id(it.client_id, self.name)
            else:
                library = recognize(it.member_id, it.client_id, self.name)
            out[it.member_id] = Member(
                member_id=it.member_id,
                client_id=it.client_id,
                client_host=it.client_host,
                instance_id=it.instance_id,
                assignment={topic: tuple(sorted(numbers)) for topic, numbers in it.assignment.items()},
                target=None
                if it.target is None
                else {topic: tuple(sorted(numbers)) for topic, numbers in it.target.items()},
                uses_classic_protocol=is_classic,
                client_library=library.library,
                library_evidence=library.evidence,
            )
        return out

    def _imbalance(self, seen: Mapping[str, Member]) -> float | None:
        members = [seen[name] for name in sorted(seen)]
        shares = [sum(map(len, target_or_assignment(it).values())) for it in members]
        found = fairness(self.group_type, shares, lambda: members)
        return None if found is None else found.ratio

    def view(self, committed_partitions: int, last_commit_ms: int | None) -> GroupView:
        """The group as a plain value."""
        return GroupView(
            group=self.name,
            group_type=self.group_type,
            state=self.state,
            generation=UNKNOWN_NUMBER,
            protocol_type="consumer",
            protocol=self.protocol,
            leader=None,
            target_generation=None,
            state_since_ms=self.state_since_ms,
            members=tuple(self.members[name] for name in sorted(self.members)),
            coordinator_partition=UNKNOWN_NUMBER,
            committed_partitions=committed_partitions,
            last_commit_ms=last_commit_ms,
            rebalances=self.rebalances,
            generations_skipped=UNKNOWN_NUMBER,
            anomalies=tuple(self.notes.latest),
            offsets_seen_ms=self._offset_looks[-1] if self._offset_looks else None,
        )


def _latest(*times: int | None) -> int | None:
    return max((it for it in times if it is not None), default=None)


def _by_owner(members: Iterable[Member]) -> dict[str, Mapping[str, tuple[int, ...]]]:
    return {owner_key(it.member_id, it.instance_id): target_or_assignment(it) for it in members}


def _grown(before: Collection[Member], after: Collection[Member]) -> dict[str, Any]:
    """Topics of which more partitions are held than there seemed to be: before and after, by topic."""
    was, now = _counts(before), _counts(after)
    return {topic: [was[topic], count] for topic, count in sorted(now.items()) if 0 < was.get(topic, 0) < count}


def _counts(members: Iterable[Member]) -> dict[str, int]:
    out: dict[str, int] = {}
    for member in members:
        for topic, partitions in target_or_assignment(member).items():
            out[topic] = max(out.get(topic, 0), max(partitions, default=-1) + 1)
    return out

"""Finds each rollout of a group: by Kubernetes' revisions, or by the turnover of its members.

Members are counted by *places*. Who leaves vacates one; who joins takes one that was left by a member of the same
name (instance id, else client id, its numbers and version put aside), best its own, then one that an old member
left, then the one that was left last. If nobody of its name left, it takes one whose name nobody has that joined: the
new version has another name. Who joins before anybody left (a surge, or a member whose dead predecessor still has its
session) takes over from who leaves next. Who comes back under its own member id, as clients of KIP-848 do that a
broker had given up, is the same process: nobody was replaced. So is, as far as anybody knows, who comes back from the
same host under the same name after its session had ended in an outage of its coordinator, or as that had stood still.
So a rollout replaces each place once, a crash loop one place again and again, and scaling replaces none.

Changes of members that follow each other within `gap_ms` are one episode. It is a rollout if

- Kubernetes says so: a member joined or left with an `origin` of kind `rolled_out`; or
- nothing is known of Kubernetes, or nothing else of it, and more than `replaced_share` of the members that were there
  when it began have been replaced. Where the origins of those that left are known and others (drained, evicted,
  scaled down, …), it is none.

An episode ends, and the next begins, where `gap_ms` pass without a change, where members of another revision join, or
where all have been replaced and the group was steady for `settle_ms`. In the last case what follows is a rollout of
its own only if it replaces all members, and they said goodbye or each went once; or most, once, with goodbyes.
Until then, and if it does not, what happens to the new members is still the earlier rollout's.

Known to be taken for a rollout without Kubernetes: an outage of which the log does not tell, as a pause of a
broker that changed no leader, after which most members come back as new ones before their old sessions end, and a
fault that makes most of them crash. Not seen without Kubernetes: a rollout that stops before half of the members.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from msgspec import Struct, field

from agent.core.causes import Cause
from agent.core.events.events import SAMPLE, Event
from agent.core.events.samples import GroupLagTotal, LagNote
from agent.core.inference.origins import OriginKind
from agent.presentation.narrative.events import Departure, MemberRef, member_ref, parse_rebalance
from agent.presentation.rollouts.parameters import PARAMETERS as P
from agent.presentation.rollouts.places import Place, PlacesByLikeness

Origin = Mapping[str, Any]

_CLEAN_CAUSES = frozenset(map(str, (Cause.MEMBER_LEFT, Cause.ADMIN_REMOVED)))

_SIGNS_OF_OUTAGE = {
    str(Cause.SESSION_TIMEOUT): ("coordinator_changed", "nothing_written_ms"),
    # Or it closed, or stalled.
    str(Cause.UNKNOWN_DEPARTURE): ("nothing_written_ms",),
}
"""What evidence says of members that went so that their coordinator was away, or stood still, by their cause."""

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_POD_HASHES = re.compile(
    r"(?<=-)(?:[bcdfghjklmnpqrstvwxz2456789]{5,10}-)?[bcdfghjklmnpqrstvwxz2456789]{5}(?![a-z0-9])"
)
"""What Kubernetes puts behind a Deployment's name: the template's hash and five characters, of an alphabet without
vowels (apimachinery's `rand.SafeEncodeString`)."""
_ARROW = re.compile(r"([^\s`]+)`? → `?([^\s`.,;:]+)")
_DIGITS = re.compile(r"[0-9]+")
_VERSIONS = re.compile(r"[-_.]?(?<![A-Za-z])[vV]#(?:\.#)*")
"""A version in a name whose digits are put aside: `payments-0v2`, `payments-v1.2-0`."""


class Revisions(NamedTuple):
    """From which to which a workload was rolled out; None: that is not told."""

    old: str | None
    new: str | None


def rolled_out(origin: Origin | None, *, is_join: bool) -> Revisions | None:
    """The revisions of an origin of that kind; None of another. Its own revision is the pod's: of who joins the new
    one, of who left the old; the message has "old → new"."""
    if origin is None or origin.get("kind") != OriginKind.ROLLED_OUT:
        return None
    said, own = _ARROW.search(str(origin.get("message", ""))), origin.get("revision")
    old, new = (said[1], said[2]) if said is not None else (None, None)
    old = None if old == "?" else old
    own = own if isinstance(own, str) else None
    return Revisions(old, own or new) if is_join else Revisions(own or old, new)


def name_pattern(member: MemberRef) -> str:
    """What members of one workload have in common: the name without what tells them, or its versions, apart."""
    named = member.instance_id if member.instance_id is not None else member.client_id
    return _VERSIONS.sub("", _DIGITS.sub("#", _POD_HASHES.sub("*", _UUID.sub("*", named))))


class RolloutDeparture(Struct, frozen=True):
    """A member that left during a rollout. `is_new`: it had come during it."""

    member: MemberRef
    cause: str
    at_ms: int
    origin: Origin | None
    is_new: bool


class Disturbance(Struct, frozen=True):
    """A rebalance of the group, or a static member that was replaced without one. `stopped_ms`: the event's."""

    at_ms: int
    is_rebalance: bool
    stopped_ms: int | None
    never_completed: int
    members: int


class Episode(Struct):
    """Changes of members that belong together. Times are epoch milliseconds.

    `members_before` is None where nothing tells. `imbalance_*`: as `assignment_changed` events have it; `partitions`
    are the most that were assigned.
    """

    began_ms: int
    members_before: int | None
    imbalance_before: float | None
    last_change_ms: int
    replaced_ms: int | None = None
    """When a place was taken over last."""
    places: dict[Place, None] = field(default_factory=dict)
    replaced: int = 0
    """How many places have changed hands."""
    occupied: dict[str, Place] = field(default_factory=dict)
    departures: list[RolloutDeparture] = field(default_factory=list)
    disturbances: list[Disturbance] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    lags: list[LagNote] = field(default_factory=list)
    members_after: int | None = None
    imbalance_after: float | None = None
    partitions: int = 0
    revision: str | None = None
    """To which Kubernetes rolled out, and from which."""
    revision_from: str | None = None
    workload: str | None = None
    old_left: int = 0
    numbers: Iterator[int] = field(default_factory=count)
    """Of what happens to places, in order."""
    vacant: PlacesByLikeness = field(default_factory=partial(PlacesByLikeness, is_last_best=True))
    """Those that were left, by when; closed are the names that joined."""
    extras: PlacesByLikeness = field(default_factory=partial(PlacesByLikeness, is_last_best=False))
    """Those that are occupied, by when their members came, and were taken by who found none vacant; closed are the
    names that left."""

    @property
    def is_complete(self) -> bool:
        """Whether nobody is left of those that were there before."""
        return self.members_before is not None and self.old_left >= self.members_before and self.replaced > 0

    @property
    def is_by_kubernetes(self) -> bool:
        """Whether Kubernetes says that it is a rollout."""
        return any(it.get("kind") == OriginKind.ROLLED_OUT for it in self.origins)

    @property
    def is_rollout(self) -> bool:
        """By the rule of the module."""
        if self.is_by_kubernetes:
            return True
        old = [it for it in self.departures if not it.is_new]
        if 2 * sum(it.origin is not None for it in old) > len(old) > 0:
            return False
        before = self.members_before
        return before is not None and before >= P.least_members and self.replaced > P.replaced_share * before

    # Who comes and goes.

    def leave(self, member: MemberRef, at_ms: int, cause: str, origin: Origin | None, *, is_lost: bool) -> None:
        """A member is gone; `is_lost`: in an outage of the coordinator."""
        place = self._vacate(member)
        is_new = place is not None
        self.departures.append(RolloutDeparture(member, cause, at_ms, origin, is_new))
        if place is None:
            place = self._left_by_old(member)
        else:
            place.restarts_ms.append(at_ms)
        place.last, place.is_lost = member, is_lost
        is_free = place.pattern not in self.vacant.closed
        extra = self.extras.best(place.pattern, member, of_others=is_free)
        if extra is None:
            self.vacant.put(place, next(self.numbers))
            return
        # Its successor was there before it was gone.
        number = self.extras.take(extra)
        del self.places[extra]
        place.restarts_ms = sorted(place.restarts_ms + extra.restarts_ms)
        self._occupy(place, extra.last, number)
        self._taken(place, at_ms)

    def join(self, member: MemberRef, at_ms: int) -> None:
        """A member is there that was not."""
        own = self.vacant.own(member)
        if own is not None:
            self._return(own, member)
            return
        pattern = name_pattern(member)
        self.vacant.closed.add(pattern)
        # A name takes places of its own, or those of a name of which nobody joined if nobody of its own left.
        place = self.vacant.best(pattern, member, of_others=pattern not in self.extras.closed)
        if place is None:
            place = Place(pattern, member, is_extra=True)
            self.places[place] = None
        else:
            self.vacant.take(place)
            self._taken(place, at_ms)
        self._occupy(place, member, next(self.numbers))

    def _return(self, place: Place, member: MemberRef) -> None:
        """The member that left a place is there again."""
        self.vacant.take(place)
        if place.is_replaced or place.is_extra:
            place.restarts_ms.pop()
            self._occupy(place, member, next(self.numbers))
        else:
            del self.places[place]
            self.old_left -= 1

    def _occupy(self, place: Place, member: MemberRef, number: int) -> None:
        place.last = member
        self.occupied[member.member_id] = place
        if place.is_extra:
            self.extras.put(place, number)

    def _vacate(self, member: MemberRef) -> Place | None:
        """The place of one that came since the rollout began."""
        place = self.occupied.pop(member.member_id, None)
        if place is not None and place.is_extra:
            self.extras.take(place)
        return place

    def _left_by_old(self, member: MemberRef) -> Place:
        """The place of one that was there before."""
        self.old_left += 1
        place = Place(name_pattern(member), member)
        self.extras.closed.add(place.pattern)
        self.places[place] = None
        return place

    def replace(self, old: MemberRef) -> None:
        """A static member gives its place to who comes under its instance id: no departure that anybody noticed."""
        place = self._vacate(old)
        if place is None:
            place = self._left_by_old(old)
        else:
            place.restarts_ms.append(self.last_change_ms)
        self.vacant.put(place, next(self.numbers))

    def _taken(self, place: Place, at_ms: int) -> None:
        if not place.is_extra and not place.is_replaced:
            self.replaced_ms, place.is_replaced = at_ms, True
            self.replaced += 1


class _Group(Struct):
    """What is known between episodes."""

    members: int | None = None
    imbalance: float | None = None
    revisions: dict[str, str] = field(default_factory=dict)


def find_rollouts(events: Iterable[Event], *, members_now: int | None = None) -> list[Episode]:
    """The rollouts that one group's events show, in order; `events` are in order, of one group.

    `members_now`: how many it has now, for where no event tells; None: not known.
    """
    finder = _Finder()
    for event in events:
        finder.observe(event)
    return finder.finish(members_now)


class _Finder:
    """Cuts events into episodes; `finish` gives those that are rollouts."""

    def __init__(self) -> None:
        self._group = _Group()
        self._done: list[Episode] = []
        self._now: Episode | None = None
        # What followed a rollout that was through: its own if it becomes one, else part of that one.
        self._after: Episode | None = None

    def observe(self, event: Event) -> None:
        """Take the next event."""
        match event["type"]:
            case "rebalance":
                self._rebalance(event)
            case "static_member_replaced":
                self._static(event)
            case "assignment_changed":
                self._assignment(event)
            case "group_deleted":
                self._close()
                self._group = _Group()
            case "group_created":
                self._group.members = 0 if event["observed"] else None
            case kind if kind == SAMPLE:
                lag = GroupLagTotal(
                    event.get("partitions", 0),
                    event.get("lag_partitions", 0),
                    event.get("lag_records"),
                    event.get("lag_seconds"),
                    event.get("lag_at_least", False),
                )
                for episode in self._open():
                    episode.lags.append(lag.note(event["at_ms"]))

    def finish(self, members_now: int | None) -> list[Episode]:
        """The events are over."""
        for episode in self._open():
            if episode.members_before is None and self._group.members is None:
                # Static members were replaced, which changes no number, and nothing else happened.
                episode.members_before = episode.members_after = members_now
        self._close()
        return self._done

    def _open(self) -> list[Episode]:
        return [it for it in (self._now, self._after) if it is not None]

    def _rebalance(self, event: Event) -> None:
        done = parse_rebalance(event)
        before = max(done.members - len(done.joined) + len(done.left), 0)
        for episode in self._open():
            if episode.members_before is None:
                episode.members_before = before
        origins = {it["member_id"]: it.get("origin") for it in (*event["joined"], *event["left"])}
        if done.joined or done.left:
            came = [(it.get("origin"), True) for it in event["joined"]]
            went = [(it.get("origin"), False) for it in event["left"]]
            self._begin(done.at_ms, before, [*came, *went], is_leaving=bool(done.left))
        for episode in self._open():
            _apply(episode, done.left, done.joined, origins, done.at_ms)
            never = sum(
                int(it.get("never_completed") or 0) for it in done.evidence if it.get("kind") == "generation_gap"
            )
            episode.disturbances.append(Disturbance(done.at_ms, True, done.stopped_ms, never, done.members))
            episode.members_after = done.members
        for member in event["joined"]:
            self._note_revision(member["member_id"], member.get("origin"))
        for member in event["left"]:
            self._group.revisions.pop(member["member_id"], None)
        self._group.members = done.members

    def _static(self, event: Event) -> None:
        old, new = member_ref(event["old_member"]), member_ref(event["member"])
        origin = event["member"].get("origin") or event["old_member"].get("origin")
        at_ms = event["at_ms"]
        came, went = event["member"].get("origin"), event["old_member"].get("origin")
        self._begin(at_ms, self._group.members, [(came, True), (went, False)], is_leaving=True)
        for episode in self._open():
            _apply(episode, (), (new,), {new.member_id: origin}, at_ms, replaced=old)
            # Where nothing tells how many there are, one at least: it was replaced.
            episode.disturbances.append(Disturbance(at_ms, False, None, 0, self._group.members or 1))
            episode.members_after = self._group.members
        self._group.revisions.pop(old.member_id, None)
        self._note_revision(new.member_id, event["member"].get("origin"))

    def _assignment(self, event: Event) -> None:
        self._group.imbalance = event["imbalance_ratio"]
        for episode in self._open():
            episode.imbalance_after = self._group.imbalance
            episode.partitions = max(episode.partitions, event["assigned_partitions"])

    def _note_revision(self, member_id: str, origin: Origin | None) -> None:
        if origin and isinstance(origin.get("revision"), str):
            self._group.revisions[member_id] = origin["revision"]

    def _begin(
        self, at_ms: int, members_before: int | None, told: Sequence[tuple[Origin | None, bool]], *, is_leaving: bool
    ) -> None:
        """Close what is over, and see that there is an episode that takes what happens at that time. `told`: the
        origins of those that came or went, and whether they came."""
        origins = [it for it, _ in told if it]
        revisions = [found for it, is_join in told if (found := rolled_out(it, is_join=is_join)) is not None]
        revision = next((it.new for it in revisions if it.new is not None), None)
        old = next((it.old for it in revisions if it.old not in (None, revision)), None)
        if (latest := self._after or self._now) is not None:
            quiet_ms = at_ms - latest.disturbances[-1].at_ms
            is_other = revision is not None and latest.revision not in (None, revision)
            if at_ms - latest.last_change_ms > P.gap_ms or is_other:
                self._close()
            elif (
                not latest.members_before
                and latest.members_before is not None
                and quiet_ms >= (P.begin_ms if is_leaving else P.settle_ms)
            ):
                # The group began.
                self._close()
            elif latest.is_complete and quiet_ms >= P.settle_ms:
                if self._after is not None:
                    self._settle_after()
                self._after = Episode(at_ms, members_before, self._group.imbalance, at_ms)
        if self._now is None:
            self._now = Episode(at_ms, members_before, self._group.imbalance, at_ms)
        for episode in self._open():
            episode.last_change_ms = at_ms
            episode.origins += origins
            if revision is not None:
                episode.revision = revision
            episode.revision_from = episode.revision_from or old
            workloads = [it["workload"] for it in origins if isinstance(it.get("workload"), str)]
            episode.workload = next(iter(workloads), episode.workload)

    def _settle_after(self) -> None:
        """What followed is a rollout of its own, and what came before it is over; or it is no rollout."""
        after, self._after = self._after, None
        assert after is not None
        if not self._is_own(after):
            return
        before = self._now
        assert before is not None
        _cut(before, after)
        if before.is_rollout:
            self._done.append(before)
        self._now = after

    def _is_own(self, after: Episode) -> bool:
        """Whether what followed a rollout is another, by the rule of the module. Else the new members of the first do
        not hold."""
        if after.is_by_kubernetes or not after.is_rollout:
            return after.is_by_kubernetes
        is_looping = any(len(it.restarts_ms) >= P.crash_restarts for it in after.places)
        old = [it for it in after.departures if not it.is_new]
        if after.is_complete:
            return self._are_clean(old) or not any(it.restarts_ms for it in after.places)
        return not is_looping and self._are_clean(after.departures)

    def _are_clean(self, departures: Sequence[RolloutDeparture]) -> bool:
        clean = sum(it.cause in _CLEAN_CAUSES for it in departures)
        return clean >= P.clean_share * len(departures)

    def _close(self) -> None:
        if self._after is not None:
            self._settle_after()
        if self._now is not None and self._now.is_rollout:
            self._done.append(self._now)
        self._now = None


def _apply(
    episode: Episode,
    left: Iterable[Departure],
    joined: Iterable[MemberRef],
    origins: Mapping[str, Origin | None],
    at_ms: int,
    replaced: MemberRef | None = None,
) -> None:
    for gone in left:
        signs = _SIGNS_OF_OUTAGE.get(gone.cause, ())
        is_lost = any(it.get(sign) for it in gone.evidence for sign in signs)
        episode.leave(gone.member, at_ms, gone.cause, origins.get(gone.member.member_id), is_lost=is_lost)
    if replaced is not None:
        episode.replace(replaced)
    for member in joined:
        episode.join(member, at_ms)


def _cut(episode: Episode, after: Episode) -> None:
    """Take back what belongs to the rollout that came after."""
    until_ms = after.began_ms
    episode.disturbances = [it for it in episode.disturbances if it.at_ms < until_ms]
    episode.departures = [it for it in episode.departures if it.at_ms < until_ms]
    episode.lags = [it for it in episode.lags if it.at_ms < until_ms]
    for place in episode.places:
        place.restarts_ms = [it for it in place.restarts_ms if it < until_ms]
    episode.last_change_ms = max((it.at_ms for it in episode.disturbances), default=episode.began_ms)
    episode.members_after, episode.imbalance_after = after.members_before, after.imbalance_before

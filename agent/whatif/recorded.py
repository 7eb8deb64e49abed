"""From a recording to a script: what its clients did, and when, as far as the log bounds it.

The log shows when a join phase ended, not when it began or why. What is taken:

- what set a rebalance off came half a heartbeat interval before its join phase ended (or half of the time since the
  assignment before, if that is less): members that stay notice within one interval, so it is a quarter off on
  average. Where somebody saw the join phase begin, it came then.
- in an empty group, the initial rebalance delay before; the last member of a group left when the group became empty.
- whose session ran out died one session timeout before the join phase ended, but not before its last commit.
- who did not poll in time stalled one poll timeout before, and polls again when its client is back.
- `unknown_departure` is taken as a close.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from agent.coordinator.script import (
    BrokerSettings,
    ClientSettings,
    Close,
    Grow,
    Kill,
    Rejoin,
    Remove,
    Resubscribe,
    Script,
    Stall,
    Start,
    Step,
)
from agent.shadow.causes import Cause
from agent.shadow.diff import MemberChanges
from agent.shadow.views import Member
from agent.whatif import pulse
from agent.whatif.changes import allowing, starts
from agent.whatif.clients import Clients, clients_of, departure_cause, leaves_in_order, steps_of
from agent.whatif.recorder import Recording, Seen

DEFAULT_SESSION_MS, DEFAULT_POLL_MS = 45_000, 300_000
LEAST_TIMEOUT_MS = 1_000
"""No group works with less, whatever a client writes."""

RESTART_MS = 1_000
"""How long a static member is away for a restart that nothing else tells of."""

KNOWN = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""Kafka's own assignors."""
UNNAMED = "range"

FOREVER_MS = 10 * 365 * 86_400_000
"""A stall that does not end."""


class Expected(NamedTuple):
    """A generation that the log shows, and who was in it. `skipped`: generations before it that never completed."""

    generation: int
    at_ms: int
    clients: frozenset[str]
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Recorded:
    """A script and what a play of it must come to. Times are epoch milliseconds.

    `opening_ms` is from when on it counts: a group that was found with members is first brought there. `closing_ms`
    is until when standstill counts; the script goes on until every death would be noticed. `notes` counts what was
    taken for granted, by kind (`NOTES`). `heartbeat_ms` and `delay_ms` are the values taken, with whether somebody
    told them. `stopped_ms` is the standstill that the log itself shows, in partition-milliseconds.
    """

    script: Script
    opening_ms: int
    closing_ms: int
    opening: Expected | None
    expected: tuple[Expected, ...]
    clients: Clients
    notes: Mapping[str, int]
    heartbeat_ms: int
    heartbeat_told: bool
    delay_ms: int
    delay_told: bool
    stopped_ms: int


NOTES = {
    "unknown_departure": "departures of which the log does not tell how, taken as closes",
    "unknown_rebalance": "rebalances with nobody coming or going and no known cause, taken as the leader's rejoining",
    "never_completed": "generations that never completed, of which the log shows only that the number jumps",
    "static_restart": "restarts of static members, away since their last commit for all that the log shows",
    "no_stall": "poll timeouts that had too little time since the last rebalance, taken as closes",
    "foreign_assignor": "members with an assignor that the model does not know, taken as range (cooperative-sticky "
    "where they keep partitions through a rebalance)",
}
"""By kind, in the plural."""


class NothingRecorded(ValueError):
    """There is no rebalance to replay."""


@dataclass(slots=True)
class _Build:
    recording: Recording
    clients: Clients
    heartbeat_ms: int
    delay_ms: int
    share: float
    assignors: Mapping[str, tuple[str, ...]]
    steps: list[Step] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    partitions: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    stalled: dict[str, int] = field(default_factory=dict)
    """Clients that do not poll, with the index of the step that says so."""
    started: dict[str, int] = field(default_factory=dict)


def recorded(
    recording: Recording,
    end_ms: int,
    *,
    heartbeat_ms: int | None = None,
    delay_ms: int | None = None,
    share: float = 0.5,
) -> Recorded:
    """The script of a recording that was looked at until `end_ms`.

    `heartbeat_ms` and `delay_ms`: if they are known better than from the log. `share`: how much of a heartbeat
    interval before the end of a join phase that came which set it off. Raises `NothingRecorded`.
    """
    if not any(seen.members for seen in recording.seen):
        raise NothingRecorded("the log shows no member of it in this time")
    beat, delay = pulse.heartbeat_ms(recording), pulse.initial_delay_ms(recording)
    taken_beat = heartbeat_ms or beat or pulse.DEFAULT_HEARTBEAT_MS
    assignors, foreign = _assignors(recording)
    build = _Build(
        recording,
        clients_of(recording),
        taken_beat,
        delay_ms if delay_ms is not None else pulse.DEFAULT_DELAY_MS if delay is None else delay,
        share,
        assignors,
        notes=Counter(foreign_assignor=foreign),
    )
    opening_ms, opening = _open(build)
    for before, seen, changes in steps_of(recording):
        _step(build, before, seen, changes)
    script = Script(
        recording.group,
        build.partitions,
        tuple(sorted(build.steps, key=lambda step: step.at_ms)),
        recording.seen[-1].at_ms,
        BrokerSettings(initial_rebalance_delay_ms=build.delay_ms),
        latency_ms=0,
    )
    closing_ms = _closing(recording, end_ms)
    return Recorded(
        lasting(allowing(script), closing_ms),
        opening_ms,
        closing_ms,
        opening,
        tuple(_expected(build, opening is not None)),
        build.clients,
        {kind: count for kind, count in build.notes.items() if count},
        build.heartbeat_ms,
        heartbeat_ms is not None or beat is not None,
        build.delay_ms,
        delay_ms is not None or delay is not None,
        sum(seen.stopped_ms or 0 for seen in recording.seen),
    )


def _closing(recording: Recording, end_ms: int) -> int:
    """Until when standstill counts: to the end, or until the last member of a group that has ended left."""
    last = recording.seen[-1]
    return max(end_ms, last.at_ms) if last.members else last.at_ms


def lasting(script: Script, closing_ms: int) -> Script:
    """A script looked at for so long that every session that can end by itself does: a death at the end is noticed,
    a static member that closed is taken out."""
    settings = [it.settings for it in starts(script)]
    longest_ms = max(
        script.broker.consumer_session_timeout_ms,
        *(it.session_timeout_ms + 2 * it.heartbeat_interval_ms for it in settings),
        *(it.max_poll_interval_ms for it in settings),
    )
    return replace(script, until_ms=closing_ms + longest_ms)


def _session(member: Member) -> int:
    return max(member.session_timeout_ms or DEFAULT_SESSION_MS, LEAST_TIMEOUT_MS)


def _poll(member: Member) -> int:
    return max(member.rebalance_timeout_ms or DEFAULT_POLL_MS, LEAST_TIMEOUT_MS)


def _assignors(recording: Recording) -> tuple[dict[str, tuple[str, ...]], int]:
    """The protocols that were chosen while a member was there, by its id, the latest preferred; and how many members
    had one that the model does not know."""
    seen_with: dict[str, list[str]] = {}
    foreign: set[str] = set()
    for seen in recording.seen:
        for member_id, member in seen.members.items():
            name = seen.protocol or UNNAMED
            if name not in KNOWN:
                foreign.add(member_id)
                name = "cooperative-sticky" if any((member.owned or {}).values()) else UNNAMED
            names = seen_with.setdefault(member_id, [])
            if name not in names:
                names.append(name)
    return {member_id: tuple(reversed(names)) for member_id, names in seen_with.items()}, len(foreign)


def _expected(build: _Build, opened: bool) -> Iterable[Expected]:
    """Generations that a play must come to, those that never completed left out of the count."""
    if not opened:
        yield _shown(build, build.recording.seen[0], 0)
    for before, seen, _ in steps_of(build.recording):
        if seen.generation != before.generation:
            skipped = seen.generation - before.generation - 1
            build.notes["never_completed"] += skipped
            yield _shown(build, seen, skipped)


def _shown(build: _Build, seen: Seen, skipped: int) -> Expected:
    clients = frozenset(build.clients.by_member_id[member_id] for member_id in seen.members)
    return Expected(seen.generation, seen.at_ms, clients, skipped)


# The beginning.


def _open(build: _Build) -> tuple[int, Expected | None]:
    """Start the first members: as the group was made, or, if it was found with members, early enough before."""
    first = build.recording.seen[0]
    _learn(build, first)
    if first.inferred is not None and first.generation == 1:
        at_ms = _triggered(build, None, first)
        for member in first.members.values():
            _start(build, at_ms, member)
        return min(at_ms, first.at_ms), None
    settle_ms = 2 * build.delay_ms + 6 * build.heartbeat_ms + 1_000
    for member in first.members.values():
        _start(build, first.at_ms - settle_ms, member)
    return first.at_ms, _shown(build, first, 0)


def _triggered(build: _Build, before: Seen | None, seen: Seen) -> int:
    """When what set a rebalance off happened."""
    end_ms = seen.joined_ms
    since_ms = None if before is None else before.at_ms
    if seen.join_ms is not None:
        return end_ms - seen.join_ms if since_ms is None else max(end_ms - seen.join_ms, since_ms)
    if pulse.was_empty(before):
        # Whoever comes while the group is new prolongs the wait, once.
        waits = 2 if before is None and len(seen.members) > 1 else 1
        at_ms = end_ms - waits * build.delay_ms
        return at_ms if since_ms is None else max(at_ms, since_ms)
    assert since_ms is not None, "a group with members has a record"
    if not seen.members:
        return end_ms
    return end_ms - round(min(build.heartbeat_ms, end_ms - since_ms) * build.share)


# One rebalance.


def _step(build: _Build, before: Seen, seen: Seen, changes: MemberChanges) -> None:
    _learn(build, seen)
    if seen.generation == before.generation:
        _replaced_in_place(build, seen, changes)
        return
    at_ms = _triggered(build, before, seen)
    assert seen.inferred is not None, "a new generation completes a rebalance"
    stays = bool(before.members.keys() & seen.members.keys())
    waits = not stays or seen.inferred.cause is Cause.MEMBER_JOINED
    dead = [member for member in changes.left if departure_cause(member, seen) is Cause.SESSION_TIMEOUT]
    if dead and changes.joined and seen.join_ms is None:
        at_ms = _awaited(build, before, seen, max(_died(build, before, seen, it, waits=waits) for it in dead))
    closed = [member for member in changes.left if leaves_in_order(member, seen)]
    gone_ms = {
        _client(build, member): _leave(build, before, seen, member, at_ms, waits=waits)
        for member in changes.left
        if member not in closed
    }
    # With nobody staying, a member that goes in order has seen its successor come.
    for member in closed if stays else ():
        _close(build, seen, member, at_ms)
    for member in changes.joined:
        _start(build, max(at_ms, gone_ms.get(_client(build, member), at_ms)), member)
    for member in () if stays else closed:
        _close(build, seen, member, at_ms)
    for old, new in changes.replaced:
        _return(build, before, seen, old, new, at_ms, alone=not (changes.joined or changes.left))
    _stayed(build, before, seen, at_ms)
    if not (changes.joined or changes.left or changes.replaced):
        _nobody_changed(build, before, seen, at_ms)


def _awaited(build: _Build, before: Seen, seen: Seen, died_ms: int) -> int:
    """When a member came that waited for the session of a dead one to end: after it died, and so early that its
    coming was what the others noticed. Their last commits tell, if they give their partitions up; else half way."""
    latest_ms = max(seen.joined_ms - build.heartbeat_ms, died_ms + 1)
    stayed = before.members.keys() & seen.members.keys()
    gave_up_ms = max((seen.last_ms.get(member_id, 0) for member_id in stayed), default=0)
    if died_ms < gave_up_ms and not any((seen.members[member_id].owned or {}) for member_id in stayed):
        return min(max(gave_up_ms - build.heartbeat_ms // 2, died_ms + 1), latest_ms)
    return (died_ms + latest_ms) // 2


def _close(build: _Build, seen: Seen, member: Member, at_ms: int) -> None:
    client = _client(build, member)
    if departure_cause(member, seen) is not Cause.MEMBER_LEFT:
        build.notes["unknown_departure"] += 1
    build.steps.append(Close(at_ms, client))
    if member.instance_id is not None:
        # A static member does not say that it leaves: somebody said so for it.
        build.steps.append(Remove(at_ms, client))


def _leave(build: _Build, before: Seen, seen: Seen, member: Member, at_ms: int, *, waits: bool) -> int:
    """A member that did not leave by itself: from when on its client may come back."""
    client = _client(build, member)
    match departure_cause(member, seen):
        case Cause.ADMIN_REMOVED:
            build.steps += [Kill(at_ms, client), Remove(at_ms, client)]
            return at_ms
        case Cause.POLL_TIMEOUT if member.instance_id is None:
            stalled_ms = at_ms - _poll(member)
            if stalled_ms < before.at_ms:
                build.notes["no_stall"] += 1
                build.steps.append(Close(at_ms, client))
            else:
                build.stalled[client] = len(build.steps)
                build.steps.append(Stall(stalled_ms, client, FOREVER_MS))
            return at_ms
    # A static member that stalls falls silent without leaving: as if it died.
    died_ms = _died(build, before, seen, member, waits=waits)
    build.steps.append(Kill(died_ms, client))
    return died_ms


def _died(build: _Build, before: Seen, seen: Seen, member: Member, *, waits: bool) -> int:
    """When a member died whose session ran out, `waits`: and nobody had to notice that first."""
    died_ms = seen.joined_ms - _session(member) + (build.heartbeat_ms // 2 if waits else 0)
    # A dynamic member took part in the rebalance before; a static one may have been dead then.
    alive_ms = before.at_ms + 1 if member.instance_id is None else build.started[_client(build, member)] + 1
    died_ms = max(died_ms, alive_ms, seen.last_ms.get(member.member_id, 0))
    return min(died_ms, max(seen.joined_ms - 1, alive_ms))


def _client(build: _Build, member: Member) -> str:
    return build.clients.by_member_id[member.member_id]


def _start(build: _Build, at_ms: int, member: Member) -> None:
    client = _client(build, member)
    stalled = build.stalled.pop(client, None)
    build.started[client] = at_ms
    if stalled is not None:
        # The client was there all the time and polls again.
        stall = build.steps[stalled]
        assert isinstance(stall, Stall), "what was put there"
        build.steps[stalled] = replace(stall, for_ms=max(at_ms - stall.at_ms, 0))
        return
    build.steps.append(Start(at_ms, client, _settings(build, member)))


def _settings(build: _Build, member: Member) -> ClientSettings:
    session_ms, poll_ms = _session(member), _poll(member)
    return ClientSettings(
        client_id=member.client_id,
        topics=frozenset(member.subscription),
        client_host=member.client_host,
        instance_id=member.instance_id,
        session_timeout_ms=session_ms,
        # Who notices too late would lose its place with each rebalance.
        heartbeat_interval_ms=min(build.heartbeat_ms, session_ms // 3, poll_ms // 3),
        max_poll_interval_ms=poll_ms,
        assignors=build.assignors[member.member_id],
    )


def _replaced_in_place(build: _Build, seen: Seen, changes: MemberChanges) -> None:
    """A static member came back under a new id; whatever else changed within a generation should not have."""
    for old, new in changes.replaced:
        build.notes["static_restart"] += 1
        client = _client(build, old)
        last_ms = seen.last_ms.get(old.member_id, seen.at_ms - RESTART_MS)
        away_ms = min(max(last_ms, build.started[client] + 1), seen.at_ms)
        build.steps.append(Close(away_ms, client))
        _start(build, seen.at_ms, new)
    build.steps += [Close(seen.at_ms, _client(build, member)) for member in changes.left]
    for member in changes.joined:
        _start(build, seen.at_ms, member)


def _return(build: _Build, before: Seen, seen: Seen, old: Member, new: Member, at_ms: int, *, alone: bool) -> None:
    """A static member that came back in a new generation: if nothing else (`alone`) made it, it had been taken out,
    or its session had run out."""
    client = _client(build, old)
    assert seen.inferred is not None, "a new generation completes a rebalance"
    match seen.inferred.cause:
        case Cause.ADMIN_REMOVED:
            build.steps += [Close(at_ms, client), Remove(at_ms, client)]
        case Cause.SESSION_TIMEOUT | Cause.POLL_TIMEOUT:
            build.steps.append(Kill(_died(build, before, seen, old, waits=True), client))
        case _ if alone:
            build.notes["unknown_departure"] += 1
            build.steps += [Close(at_ms, client), Remove(at_ms, client)]
        case _:
            last_ms = seen.last_ms.get(old.member_id, at_ms - RESTART_MS)
            build.steps.append(Close(min(max(last_ms, build.started[client] + 1), at_ms), client))
    _start(build, at_ms, new)


def _stayed(build: _Build, before: Seen, seen: Seen, at_ms: int) -> None:
    """What members that stayed changed: their subscriptions."""
    for member_id in before.members.keys() & seen.members.keys():
        wanted = set(seen.members[member_id].subscription)
        if wanted != set(before.members[member_id].subscription):
            client = build.clients.by_member_id[member_id]
            build.steps.append(Resubscribe(at_ms, client, frozenset(wanted)))


def _nobody_changed(build: _Build, before: Seen, seen: Seen, at_ms: int) -> None:
    assert seen.inferred is not None, "a new generation completes a rebalance"
    match seen.inferred.cause:
        case Cause.COOPERATIVE_FOLLOWUP | Cause.SUBSCRIPTION_CHANGED | Cause.PARTITIONS_CHANGED:
            return
        case Cause.LEADER_REJOINED:
            pass
        case _:
            build.notes["unknown_rebalance"] += 1
    if before.leader in build.clients.by_member_id:
        build.steps.append(Rejoin(at_ms, build.clients.by_member_id[before.leader]))


# Partitions.


def _learn(build: _Build, seen: Seen) -> None:
    """How many partitions the topics have, as far as they are assigned."""
    counts: dict[str, int] = {}
    for member in seen.members.values():
        for topic, partitions in member.assignment.items():
            counts[topic] = max(counts.get(topic, 0), max(partitions, default=-1) + 1)
    grows = seen.inferred is not None and Cause.PARTITIONS_CHANGED in seen.inferred.causes
    for topic, count in sorted(counts.items()):
        known = build.counts.get(topic, 0)
        if count <= known:
            continue
        build.counts[topic] = count
        if known and (grows or topic in {step.topic for step in build.steps if isinstance(step, Grow)}):
            beat = min(build.heartbeat_ms // 2, 1)
            build.steps.append(Grow(seen.joined_ms - beat, topic, count))
        else:
            build.partitions[topic] = count

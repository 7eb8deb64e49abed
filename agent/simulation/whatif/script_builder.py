"""What clients did, step by step: for each record of a group, what led to it and when that was.

The log shows when a join phase ended, not when it began or why. What is taken:

- what set a rebalance off came half a heartbeat interval before its join phase ended (or half of the time since the
  assignment before, if that is less): members that stay notice within one interval, so it is a quarter off on
  average. Where somebody saw the join phase begin, it came then.
- in an empty group, the initial rebalance delay before; the last member of a group left when the group became empty.
- whose session ran out died one session timeout before the join phase ended, but not before its last commit.
- who did not poll in time stalled one poll timeout before, and polls again when its client is back.
- where a group waited for a member that stalled until it left or its time to rejoin was over, what set off the
  rebalance came when the join phase began, as far as that is known; who did not rejoin stalled then.
- who came while a dead member was still counted on came when the others gave up their partitions.
- `unknown_departure` is taken as a close.
"""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from agent.core.causes import Cause
from agent.core.shadow.diff import MemberChanges
from agent.core.shadow.views import Member
from agent.simulation.groups.script import (
    AdminRemove,
    ClientSettings,
    Close,
    Kill,
    Rejoin,
    Resubscribe,
    SetPartitions,
    Stall,
    Start,
    Step,
)
from agent.simulation.whatif import timing_estimates
from agent.simulation.whatif.clients import ClientNames, departure_cause, left_gracefully
from agent.simulation.whatif.recorder import GroupRecording, RecordedState

DEFAULT_SESSION_MS, DEFAULT_POLL_MS = 45_000, 300_000
LEAST_TIMEOUT_MS = 1_000
"""No group works with less, whatever a client writes."""

RESTART_MS = 1_000
"""How long a static member is away for a restart that nothing else tells of."""

KNOWN_ASSIGNORS = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""Kafka's own assignors."""

FALLBACK_ASSIGNOR = "range"
"""What another assignor is taken for."""

_HELD_UP = (Cause.MEMBER_JOINED, Cause.COOPERATIVE_FOLLOWUP)
"""What sets off a rebalance that members which stalled may hold up."""

FOREVER_MS = 10 * 365 * 86_400_000
"""A stall that does not end."""


class ScriptBuilder:
    """Collects the steps of one recording, in no order.

    Call `add_first_members`, then `add_state` for each record but the first. `heartbeat_ms`: how often clients send
    heartbeats. `delay_ms`: the broker's initial rebalance delay. `share`: the trigger of a rebalance is placed this
    share of a heartbeat interval before the end of its join phase. `notes` counts the assumptions made, by kind;
    `partitions` is how many partitions each topic had at first.
    """

    def __init__(
        self, recording: GroupRecording, clients: ClientNames, heartbeat_ms: int, delay_ms: int, share: float
    ) -> None:
        self.recording, self.clients = recording, clients
        self.heartbeat_ms, self.delay_ms, self.share = heartbeat_ms, delay_ms, share
        self.steps: list[Step] = []
        self.assignors, foreign = _assignors(recording)
        self.notes: Counter[str] = Counter(foreign_assignor=foreign)
        self.partitions: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        # Clients that do not poll, with the index of the step that says so.
        self._stalled: dict[str, int] = {}
        self._started: dict[str, int] = {}

    def add_first_members(self) -> tuple[int, bool]:
        """Start the first members: as the group was made, or, if it was found with members, early enough before.

        From when on it counts, and whether the group was found.
        """
        first = self.recording.states[0]
        self._learn(first, first.at_ms)
        if first.inferred is not None and first.view.generation == 1:
            at_ms = self._triggered(None, first)
            if self.recording.created_ms is not None and first.join_ms is None:
                # The group was made when its first member came.
                at_ms = min(self.recording.created_ms, first.joined_ms)
            for member in first.members.values():
                self._start(at_ms, member)
            return min(at_ms, first.at_ms), False
        settle_ms = 2 * self.delay_ms + 6 * self.heartbeat_ms + 1_000
        for member in first.members.values():
            self._start(first.at_ms - settle_ms, member)
        return first.at_ms, True

    def _triggered(self, before: RecordedState | None, seen: RecordedState) -> int:
        """When what set a rebalance off happened."""
        end_ms = seen.joined_ms
        since_ms = None if before is None else before.at_ms
        if seen.join_ms is not None:
            return end_ms - seen.join_ms if since_ms is None else max(end_ms - seen.join_ms, since_ms)
        if timing_estimates.was_empty(before):
            # Whoever comes while the group is new prolongs the wait, once.
            waits = 2 if before is None and len(seen.members) > 1 else 1
            at_ms = end_ms - waits * self.delay_ms
            return at_ms if since_ms is None else max(at_ms, since_ms)
        assert since_ms is not None, "a group with members has a record"
        if not seen.members:
            return end_ms
        return end_ms - round(min(self.heartbeat_ms, end_ms - since_ms) * self.share)

    def add_state(self, before: RecordedState, seen: RecordedState, changes: MemberChanges) -> None:
        """What led from one record to the next."""
        if seen.view.generation == before.view.generation:
            self._learn(seen, seen.at_ms)
            self._replaced_in_place(seen, changes)
            return
        at_ms = self._triggered(before, seen)
        self._learn(seen, at_ms)
        assert seen.inferred is not None, "a new generation completes a rebalance"
        stays = bool(before.members.keys() & seen.members.keys())
        waits = not stays or seen.inferred.cause is Cause.MEMBER_JOINED
        dead = [member for member in changes.left if departure_cause(member, seen) is Cause.SESSION_TIMEOUT]
        if dead and changes.joined and seen.join_ms is None:
            at_ms = self._awaited(before, seen, max(self._died(before, seen, it, waits=waits) for it in dead))
        left_ms = at_ms
        if _was_held_up(seen, changes):
            left_ms = seen.joined_ms
            if seen.join_ms is None and seen.inferred.began_ms is not None:
                at_ms = min(max(seen.inferred.began_ms, before.at_ms + 1), left_ms)
        closed = [member for member in changes.left if left_gracefully(member, seen)]
        gone_ms = {
            self._client(member): self._leave(before, seen, member, at_ms, left_ms, waits=waits)
            for member in changes.left
            if member not in closed
        }
        # With nobody staying, a member that goes in order has seen its successor come.
        for member in closed if stays else ():
            self._close(seen, member, at_ms)
        for member in changes.joined:
            self._start(max(at_ms, gone_ms.get(self._client(member), at_ms)), member)
        for member in () if stays else closed:
            self._close(seen, member, at_ms)
        for old, new in changes.replaced:
            self._return(seen, old, new, at_ms, alone=not (changes.joined or changes.left))
        self._stayed(before, seen, at_ms)
        if not (changes.joined or changes.left or changes.replaced):
            self._nobody_changed(before, seen, at_ms)

    def _awaited(self, before: RecordedState, seen: RecordedState, died_ms: int) -> int:
        """When a member came that waited for the session of a dead one to end: after it died, and so early that its
        coming was what the others noticed. Their last commits tell, if they give up partitions; else half way."""
        latest_ms = max(seen.joined_ms - self.heartbeat_ms, died_ms + 1)
        members = seen.members
        stayed = before.members.keys() & members.keys()
        gave_up_ms = max((seen.last_ms.get(member_id, 0) for member_id in stayed), default=0)
        if died_ms < gave_up_ms and not any((members[member_id].owned or {}) for member_id in stayed):
            return min(max(gave_up_ms - self.heartbeat_ms // 2, died_ms + 1), latest_ms)
        return (died_ms + latest_ms) // 2

    def _close(self, seen: RecordedState, member: Member, at_ms: int) -> None:
        client = self._client(member)
        if departure_cause(member, seen) is not Cause.MEMBER_LEFT:
            self.notes[str(Cause.UNKNOWN_DEPARTURE)] += 1
        self.steps.append(Close(at_ms, client))
        if member.instance_id is not None:
            # A static member does not say that it leaves: somebody said so for it.
            self.steps.append(AdminRemove(at_ms, client))

    def _leave(
        self, before: RecordedState, seen: RecordedState, member: Member, at_ms: int, left_ms: int, *, waits: bool
    ) -> int:
        """A member that did not leave by itself, at `left_ms` of a rebalance that came at `at_ms`: from when on its
        client may come back."""
        client = self._client(member)
        match departure_cause(member, seen):
            case Cause.ADMIN_REMOVED:
                self.steps += [Kill(at_ms, client), AdminRemove(at_ms, client)]
                return at_ms
            case Cause.POLL_TIMEOUT if member.instance_id is None:
                stalled_ms = left_ms - _poll(member)
                if stalled_ms < before.at_ms:
                    self.notes["no_stall"] += 1
                    self.steps.append(Close(at_ms, client))
                else:
                    self._stall(stalled_ms, client)
                return left_ms
            case Cause.REJOIN_TIMEOUT if member.instance_id is None and at_ms < left_ms:
                self._stall(at_ms, client)
                return left_ms
        # A static member that stalls falls silent without leaving: as if it died.
        died_ms = self._died(before, seen, member, waits=waits)
        self.steps.append(Kill(died_ms, client))
        return died_ms

    def _stall(self, at_ms: int, client: str) -> None:
        self._stalled[client] = len(self.steps)
        self.steps.append(Stall(at_ms, client, FOREVER_MS))

    def _died(self, before: RecordedState, seen: RecordedState, member: Member, *, waits: bool) -> int:
        """When a member died whose session ran out, `waits`: and nobody had to notice that first."""
        died_ms = seen.joined_ms - _session(member) + (self.heartbeat_ms // 2 if waits else 0)
        # A dynamic member took part in the rebalance before; a static one may have been dead then.
        alive_ms = before.at_ms + 1 if member.instance_id is None else self._started[self._client(member)] + 1
        died_ms = max(died_ms, alive_ms, seen.last_ms.get(member.member_id, 0))
        return min(died_ms, max(seen.joined_ms - 1, alive_ms))

    def _client(self, member: Member) -> str:
        return self.clients.by_member_id[member.member_id]

    def _start(self, at_ms: int, member: Member) -> None:
        client = self._client(member)
        stalled = self._stalled.pop(client, None)
        self._started[client] = at_ms
        if stalled is not None:
            # The client was there all the time and polls again.
            stall = self.steps[stalled]
            assert isinstance(stall, Stall), "what was put there"
            self.steps[stalled] = replace(stall, duration_ms=max(at_ms - stall.at_ms, 0))
            return
        self.steps.append(Start(at_ms, client, self._settings(member)))

    def _settings(self, member: Member) -> ClientSettings:
        session_ms, poll_ms = _session(member), _poll(member)
        return ClientSettings(
            client_id=member.client_id,
            topics=frozenset(member.subscription),
            client_host=member.client_host,
            instance_id=member.instance_id,
            session_timeout_ms=session_ms,
            # Who notices too late would lose its place with each rebalance.
            heartbeat_interval_ms=min(self.heartbeat_ms, session_ms // 3, poll_ms // 3),
            max_poll_interval_ms=poll_ms,
            assignors=self.assignors[member.member_id],
        )

    def _replaced_in_place(self, seen: RecordedState, changes: MemberChanges) -> None:
        """A static member came back under a new id; whatever else changed within a generation should not have."""
        for old, new in changes.replaced:
            self.notes["static_restart"] += 1
            self.steps.append(Close(self._away(seen, old, seen.at_ms), self._client(old)))
            self._start(seen.at_ms, new)
        self.steps += [Close(seen.at_ms, self._client(member)) for member in changes.left]
        for member in changes.joined:
            self._start(seen.at_ms, member)

    def _return(self, seen: RecordedState, old: Member, new: Member, at_ms: int, *, alone: bool) -> None:
        """A static member that came back in a new generation. If nothing else (`alone`) made that, it had been taken
        out, or its session had run out."""
        client = self._client(old)
        assert seen.inferred is not None, "a new generation completes a rebalance"
        cause = seen.inferred.cause
        if cause in (Cause.SESSION_TIMEOUT, Cause.POLL_TIMEOUT):
            # Its session had ended when it came back.
            gone_ms = max(at_ms - _session(old) - 1, self._started[client] + 1)
            self.steps.append(Kill(gone_ms, client))
        elif cause is Cause.ADMIN_REMOVED or alone:
            self.notes[str(Cause.UNKNOWN_DEPARTURE)] += cause is not Cause.ADMIN_REMOVED
            gone_ms = at_ms
            self.steps += [Close(at_ms, client), AdminRemove(at_ms, client)]
        else:
            gone_ms = self._away(seen, old, at_ms)
            self.steps.append(Close(gone_ms, client))
        self._start(max(at_ms, gone_ms), new)

    def _away(self, seen: RecordedState, old: Member, back_ms: int) -> int:
        """Since when a static member was away that came back in time: since its last commit, if it made any."""
        last_ms = seen.last_ms.get(old.member_id, back_ms - RESTART_MS)
        return min(max(last_ms, self._started[self._client(old)] + 1), back_ms)

    def _stayed(self, before: RecordedState, seen: RecordedState, at_ms: int) -> None:
        """What members that stayed changed: their subscriptions."""
        old, new = before.members, seen.members
        for member_id in sorted(old.keys() & new.keys()):
            wanted = set(new[member_id].subscription)
            if wanted != set(old[member_id].subscription):
                client = self.clients.by_member_id[member_id]
                self.steps.append(Resubscribe(at_ms, client, frozenset(wanted)))

    def _nobody_changed(self, before: RecordedState, seen: RecordedState, at_ms: int) -> None:
        assert seen.inferred is not None, "a new generation completes a rebalance"
        match seen.inferred.cause:
            case Cause.COOPERATIVE_FOLLOWUP | Cause.SUBSCRIPTION_CHANGED | Cause.PARTITIONS_CHANGED:
                return
            case Cause.LEADER_REJOINED:
                pass
            case _:
                self.notes["unknown_rebalance"] += 1
        if before.view.leader in self.clients.by_member_id:
            self.steps.append(Rejoin(at_ms, self.clients.by_member_id[before.view.leader]))

    def _learn(self, seen: RecordedState, at_ms: int) -> None:
        """How many partitions the topics have: as many as are assigned. Their numbers are a client's word, and may be
        two thousand million."""
        assigned: dict[str, set[int]] = {}
        for member in seen.members.values():
            for topic, partitions in member.assignment.items():
                assigned.setdefault(topic, set()).update(partitions)
        counts = {topic: len(partitions) for topic, partitions in assigned.items()}
        grows = seen.inferred is not None and Cause.PARTITIONS_CHANGED in seen.inferred.causes
        for topic, count in sorted(counts.items()):
            known = self._counts.get(topic, 0)
            if count <= known:
                continue
            self._counts[topic] = count
            if known and (grows or known > self.partitions[topic]):
                self.steps.append(SetPartitions(at_ms, topic, count))
            else:
                # They were there, only nobody had them.
                self.partitions[topic] = count


def _was_held_up(seen: RecordedState, changes: MemberChanges) -> bool:
    """Whether something else set off the rebalance, and the group waited for members that did not poll."""
    assert seen.inferred is not None, "a new generation completes a rebalance"
    is_dated = seen.join_ms is not None or seen.inferred.began_ms is not None
    if not is_dated or seen.inferred.cause not in _HELD_UP:
        return False
    return any(departure_cause(it, seen) in (Cause.POLL_TIMEOUT, Cause.REJOIN_TIMEOUT) for it in changes.left)


def _session(member: Member) -> int:
    return max(member.session_timeout_ms or DEFAULT_SESSION_MS, LEAST_TIMEOUT_MS)


def _poll(member: Member) -> int:
    return max(member.rebalance_timeout_ms or DEFAULT_POLL_MS, LEAST_TIMEOUT_MS)


def _assignors(recording: GroupRecording) -> tuple[dict[str, tuple[str, ...]], int]:
    """The protocols that were chosen while a member was there, by its id, the latest preferred; and how many members
    had one that the model does not know."""
    seen_with: dict[str, dict[str, None]] = {}
    foreign: set[str] = set()
    for seen in recording.states:
        for member_id, member in seen.members.items():
            name = seen.view.protocol or FALLBACK_ASSIGNOR
            if name not in KNOWN_ASSIGNORS:
                foreign.add(member_id)
                name = "cooperative-sticky" if any((member.owned or {}).values()) else FALLBACK_ASSIGNOR
            seen_with.setdefault(member_id, {})[name] = None
    return {member_id: tuple(reversed(names)) for member_id, names in seen_with.items()}, len(foreign)

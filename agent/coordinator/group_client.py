"""A member of a classic group: its poll loop and its heartbeat thread, over virtual time.

After the Java client's `AbstractCoordinator`. It sends requests and takes answers. What it says of itself when it
joins, how it assigns when it leads, and what it does with what it is given, is a consumer's (`client.py`) or a
Connect worker's (`worker.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from enum import StrEnum
from typing import Any, ClassVar

from agent.coordinator.assignors import Slot
from agent.coordinator.classic import Request as GroupRequest
from agent.coordinator.link import JOIN_LAPSE_MS, Link
from agent.coordinator.requests import (
    Beaten,
    Error,
    FindCoordinator,
    Found,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    Leaver,
    Left,
    Offer,
    Synced,
    SyncGroup,
    Why,
)
from agent.coordinator.script import ClientSettings
from agent.coordinator.timers import earliest

RETRY_MS = 100
"""`retry.backoff.ms`: how long a client waits before it asks again after a retriable error."""

Request = GroupRequest | FindCoordinator
"""What a member sends."""


class Phase(StrEnum):
    """Where a member stands."""

    STOPPED = "stopped"
    UNJOINED = "unjoined"
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"
    FAILED = "failed"


_BEATING = frozenset({Phase.SYNCING, Phase.STABLE})
"""Where the heartbeat thread runs; while it waits to join, a consumer hears only in its poll loop."""


class GroupClient(ABC):
    """One client.

    Each method that makes something happen gives the requests that it sends for it.
    """

    protocol_type: ClassVar[str]

    def __init__(self, group: str, settings: ClientSettings) -> None:
        self.group = group
        self.settings = settings
        self.phase = Phase.STOPPED
        self.member_id = ""
        self.generation = -1
        self.protocol: str | None = None
        self.owned: frozenset[Slot] = frozenset()
        self.down_since: int | None = None
        """Since when it does not poll (stalled, frozen or dead), None while it does."""
        self.failure: Error | None = None
        self._link = Link(group)
        self._beats_at: int | None = None
        self._rejoins_at: int | None = None
        self._back_at: int | None = None
        self._thaws_at: int | None = None
        self._is_reset = False
        self._kept: list[Any] = []
        self._why: Why | None = None

    # What happens to it.

    def start(self, now: int) -> list[Request]:
        """Subscribe and poll."""
        self.phase, self.down_since = Phase.UNJOINED, None
        return self._join(now)

    def close(self, now: int) -> list[Request]:
        """Close in order: a dynamic member says so, a static one keeps its place until its session ends."""
        if self.settings.instance_id is not None:
            return self.kill(now)
        requests = self._farewell(Why.MEMBER_LEFT)
        self._stop()
        return requests

    def kill(self, now: int) -> list[Request]:
        """Die without a word: what it was and held stays with it until somebody notices."""
        member_id, owned, since = self.member_id, self.owned, self.down_since
        self._stop()
        self.member_id, self.owned = member_id, owned
        self.down_since = now if since is None else since
        return []

    def stall(self, for_ms: int, now: int) -> list[Request]:
        """Do not poll for so long; heartbeats go on."""
        self.down_since = now if self.down_since is None else self.down_since
        self._back_at = _later(now + for_ms, self._back_at)
        return []

    def freeze(self, for_ms: int, now: int) -> list[Request]:
        """Stand still for so long, with every thread."""
        self._thaws_at = _later(now + for_ms, self._thaws_at)
        return self.stall(for_ms, now)

    def resubscribe(self, topics: frozenset[str], now: int) -> list[Request]:
        """Want these topics; if it wants them already, nothing comes of it."""
        if topics == self.settings.topics:
            return []
        self.settings = replace(self.settings, topics=topics)
        return self._need_to_join(now, Why.SUBSCRIPTION_CHANGED)

    def rejoin(self, now: int) -> list[Request]:
        """Ask to join again (`enforceRebalance`)."""
        return self._need_to_join(now, Why.LEADER_REJOINED)

    @abstractmethod
    def metadata_changed(self, now: int) -> list[Request]:
        """The number of some topic's partitions changed."""

    # Time.

    @property
    def is_running(self) -> bool:
        """Whether the process is there at all."""
        return self.phase not in (Phase.STOPPED, Phase.FAILED)

    @property
    def due(self) -> int | None:
        """When it does something by itself next, heartbeats among them."""
        return earliest(self.due_but_heartbeats, None if self._is_frozen else self._beats_at, self._link_due)

    @property
    def due_but_heartbeats(self) -> int | None:
        """When it does something else than a heartbeat next."""
        if not self.is_running:
            return None
        rejoins_at = self._rejoins_at if self.down_since is None and self._link.is_up else None
        return earliest(self._back_at, self._thaws_at, self._poll_times_out_at, rejoins_at)

    @property
    def _link_due(self) -> int | None:
        """When the coordinator is looked for if nothing is heard of it, by the heartbeat thread or the poll loop."""
        listens = not self._is_frozen and (self.phase in _BEATING or (self.is_running and self.down_since is None))
        return self._link.due if listens else None

    @property
    def _is_frozen(self) -> bool:
        return self._thaws_at is not None

    @property
    def _poll_times_out_at(self) -> int | None:
        if self.down_since is None or self._is_frozen or self.phase not in _BEATING:
            return None
        return self.down_since + self.settings.max_poll_interval_ms

    @property
    def beats_safely(self) -> bool:
        """Whether its heartbeats follow each other faster than its session could end."""
        settings = self.settings
        beats = self._beats_at is not None and not self._is_frozen
        return beats and 2 * settings.heartbeat_interval_ms < settings.session_timeout_ms

    def skip_heartbeats(self, until: int) -> int | None:
        """Take all heartbeats before `until` for sent: when the last of them was, None if there is none."""
        if self._beats_at is None or self._is_frozen or self._beats_at >= until:
            return None
        interval = self.settings.heartbeat_interval_ms
        last = self._beats_at + (until - 1 - self._beats_at) // interval * interval
        self._beats_at = last + interval
        return last

    def heard(self, now: int) -> None:
        """The coordinator answered: so it is there."""
        if self.phase in _BEATING:
            self._link.expect(now + self.settings.session_timeout_ms)

    def wake(self, now: int) -> list[Request]:
        """Do what is due at `now`."""
        requests = self._come_back(now)
        late = self._poll_times_out_at
        if late is not None and late <= now:
            requests += self._poll_timed_out()
        if self._link_due is not None:
            requests += self._link.wake(now)
            if not self._link.is_up:
                self._beats_at = None
        if self._beats_at is not None and not self._is_frozen and self._beats_at <= now:
            self._beats_at = now + self.settings.heartbeat_interval_ms
            requests.append(Heartbeat(self.group, self.generation, self.member_id, self.settings.instance_id))
        return requests + self._join_if_due(now)

    def _come_back(self, now: int) -> list[Request]:
        if self._thaws_at is not None and self._thaws_at <= now:
            self._thaws_at = None
        if self._back_at is not None and self._back_at <= now:
            self._back_at = self.down_since = None
            if self.phase is Phase.UNJOINED:
                self._rejoins_at = now
        kept, self._kept = self._kept, []
        return [request for answer in kept for request in self.answered(answer, now)]

    def _poll_timed_out(self) -> list[Request]:
        """A dynamic member leaves. A static one only ceases to say that it is there; both come back without an id."""
        requests = self._farewell(Why.POLL_TIMEOUT) if self.settings.instance_id is None else []
        self.phase = Phase.UNJOINED
        self._beats_at = self._rejoins_at = None
        self._is_reset = True
        self._link.expect(None)
        return requests

    # Answers.

    def answered(self, answer: Any, now: int) -> list[Request]:
        """Take an answer. A frozen process takes it when it runs again, and one to JoinGroup waits for a poll."""
        if not self.is_running:
            return []
        if self._is_frozen or (self.down_since is not None and isinstance(answer, Joined)):
            self._kept.append(answer)
            return []
        self.heard(now)
        match answer:
            case Found():
                return self._found(now)
            case Joined():
                return self._joined(answer, now)
            case Synced():
                return self._synced(answer, now)
            case Beaten():
                return self._beaten(answer, now)
            case Left():
                return []
        raise TypeError(f"an answer of a coordinator expected, {answer!r} came")

    def _found(self, now: int) -> list[Request]:
        """It is known again: who waits for it to answer a JoinGroup asks again, who is a member says so at once."""
        if self._link.is_up:
            return []
        self._link.found()
        self.heard(now)
        if self.phase is Phase.JOINING:
            return self._join(now)
        if self.phase in _BEATING:
            self._beats_at = now
        return self.wake(now)

    def _joined(self, answer: Joined, now: int) -> list[Request]:
        if self.phase is not Phase.JOINING:
            return []
        if answer.error is Error.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return self._join(now)
        if answer.error is not Error.NONE:
            return self._refused(answer.error, now)
        self.phase = Phase.SYNCING
        self.member_id, self.generation, self.protocol = answer.member_id, answer.generation, answer.protocol
        self._beats_at = now + self.settings.heartbeat_interval_ms
        self.heard(now)
        leads = answer.leader == answer.member_id
        self._begins(answer, now)
        assignments = self._assign(answer) if leads and not answer.skip_assignment else {}
        return [
            SyncGroup(
                self.group,
                self.generation,
                self.member_id,
                self.settings.instance_id,
                answer.protocol_type,
                answer.protocol,
                assignments,
            )
        ]

    def _synced(self, answer: Synced, now: int) -> list[Request]:
        if self.phase is not Phase.SYNCING:
            return []
        if answer.error is not Error.NONE:
            return self._refused(answer.error, now)
        self.phase = Phase.STABLE
        return self._take(answer.assignment, now)

    def _beaten(self, answer: Beaten, now: int) -> list[Request]:
        if self.phase not in _BEATING or answer.error is Error.NONE:
            return []
        if answer.error is Error.REBALANCE_IN_PROGRESS:
            if self.phase is Phase.STABLE and self._rejoins_at is None:
                self._rejoins_at = now + self.settings.rejoins_ms
            return self._join_if_due(now)
        return self._refused(answer.error, now)

    def _refused(self, error: Error, now: int) -> list[Request]:
        wait_ms = 0
        match error:
            case Error.REBALANCE_IN_PROGRESS:
                # Until it polls it is a member as before.
                self._rejoins_at = now
                return self._join_if_due(now)
            case Error.UNKNOWN_MEMBER_ID:
                self._forget()
            case Error.ILLEGAL_GENERATION:
                self.generation = -1
                self._lose()
            case Error.COORDINATOR_NOT_AVAILABLE:
                wait_ms = RETRY_MS
            case _:
                # The application's to handle: poll() throws.
                self._stop()
                self.phase, self.failure = Phase.FAILED, error
                return []
        self.phase = Phase.UNJOINED
        self._beats_at = None
        self._rejoins_at = now + wait_ms
        self._link.expect(None)
        return self._join_if_due(now)

    # Joining.

    def _need_to_join(self, now: int, why: Why) -> list[Request]:
        self._why = why
        if self.phase is Phase.STABLE:
            self._rejoins_at = now
        return self._join_if_due(now)

    def _join_if_due(self, now: int) -> list[Request]:
        due = self._rejoins_at is not None and self._rejoins_at <= now
        return self._join(now) if due and self.down_since is None and self._link.is_up else []

    def _join(self, now: int) -> list[Request]:
        if self._is_reset:
            self._forget()
        offers = self._offers()
        self.phase = Phase.JOINING
        self._rejoins_at = self._beats_at = None
        settings, why = self.settings, self._why
        self._link.expect(now + settings.max_poll_interval_ms + JOIN_LAPSE_MS)
        self._why = None
        return [
            JoinGroup(
                self.group,
                settings.session_timeout_ms,
                settings.max_poll_interval_ms,
                self.member_id,
                self.protocol_type,
                offers,
                settings.instance_id,
                settings.client_id,
                settings.client_host,
                why,
            )
        ]

    # What is a consumer's or a worker's own.

    @abstractmethod
    def _offers(self) -> tuple[Offer, ...]:
        """Make ready to join: what it supports, and says of itself."""

    @abstractmethod
    def _begins(self, answer: Joined, now: int) -> None:
        """A generation begins, with or without it as the leader."""

    @abstractmethod
    def _assign(self, answer: Joined) -> dict[str, Any]:
        """As the leader: who gets what, by member id."""

    @abstractmethod
    def _take(self, assignment: Any, now: int) -> list[Request]:
        """What it is given."""

    @abstractmethod
    def _lose(self) -> None:
        """It is no longer in the generation in which it got what it has."""

    # Leaving.

    def _farewell(self, why: Why) -> list[Request]:
        if not self.member_id or self.phase is Phase.UNJOINED:
            return []
        return [LeaveGroup(self.group, (Leaver(self.member_id, self.settings.instance_id, why),))]

    def _forget(self) -> None:
        self.member_id, self.generation, self._is_reset = "", -1, False
        self._lose()

    def _stop(self) -> None:
        self._forget()
        self.owned = frozenset()
        self.phase = Phase.STOPPED
        self._beats_at = self._rejoins_at = self._back_at = self._thaws_at = self.down_since = None
        self._kept = []
        self._why = None
        self._link = Link(self.group)


def _later(at_ms: int, other_ms: int | None) -> int:
    return at_ms if other_ms is None else max(at_ms, other_ms)

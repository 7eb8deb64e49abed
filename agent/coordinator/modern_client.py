"""A consumer of a KIP-848 group (`group.protocol=consumer`): its poll loop and its heartbeats, over virtual time.

After the Java client's `ConsumerMembershipManager` and `ConsumerHeartbeatRequestManager`, in the shape of
`agent.coordinator.client.Consumer`. What a new assignment takes away is given back, and what it brings is taken up,
when the consumer polls, `rejoins_ms` after it hears of it (which does not count against `max.poll.interval.ms`); that
is told at once, with a heartbeat of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from agent.coordinator.assignors import Slot
from agent.coordinator.modern_requests import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NO_TIMEOUT,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupBeaten,
    ConsumerGroupHeartbeat,
)
from agent.coordinator.requests import Error, Why
from agent.coordinator.script import ClientSettings
from agent.coordinator.timers import earliest

Requests = list[ConsumerGroupHeartbeat]


class ModernPhase(StrEnum):
    """Where a consumer stands. Stale: it has not polled for too long, has left, and joins again when it polls."""

    STOPPED = "stopped"
    JOINING = "joining"
    RECONCILING = "reconciling"
    STABLE = "stable"
    STALE = "stale"
    FAILED = "failed"


IN_GROUP = frozenset({ModernPhase.JOINING, ModernPhase.RECONCILING, ModernPhase.STABLE})


@dataclass(frozen=True, slots=True)
class LocalAssignment:
    """An assignment as the consumer counts them: the same partitions may come again, and are told again."""

    number: int
    slots: frozenset[Slot]


class ModernConsumer:
    """One consumer. `new_id` makes its member id, which it keeps for its whole life.

    Each method that makes something happen gives the requests that the consumer sends for it. Each request is to be
    answered, in the order sent, by `answered`.
    """

    def __init__(self, group: str, settings: ClientSettings, new_id: Callable[[], str]) -> None:
        self.group = group
        self.settings = settings
        self.phase = ModernPhase.STOPPED
        self.member_id = ""
        self.epoch = JOIN_EPOCH
        self.owned: frozenset[Slot] = frozenset()
        self.down_since: int | None = None
        """Since when it does not poll (stalled, frozen or dead), None while it does."""
        self.failure: Error | None = None
        self._new_id = new_id
        self._interval_ms = 0
        self._beats_at: int | None = None
        self._back_at: int | None = None
        self._frozen = False
        self._kept: list[ConsumerGroupBeaten] = []
        # Of each request that is not answered yet: whether the answer matters.
        self._awaits: deque[bool] = deque()
        self._target: LocalAssignment | None = None
        self._current: LocalAssignment | None = None
        self._reconciling: LocalAssignment | None = None
        self._reconciles_at: int | None = None
        self._must_tell = False
        # What the coordinator was told last, None where it is to be told all anew.
        self._told: tuple[frozenset[str], LocalAssignment | None] | None = None

    # What happens to it.

    def start(self, now: int) -> Requests:
        """Subscribe and poll."""
        self.member_id, self.down_since = self._new_id(), None
        return self._join(now)

    def close(self, now: int) -> Requests:
        """Close in order: a dynamic member leaves for good, a static one for a restart, with its partitions kept."""
        requests = self._farewell(Why.MEMBER_LEFT) if self.phase in IN_GROUP else []
        if self.settings.instance_id is not None:
            return requests + self.kill(now)
        self._stop()
        self.member_id, self.owned = "", frozenset()
        return requests

    def kill(self, now: int) -> Requests:
        """Die without a word: what it was and held stays with it until somebody notices."""
        since = self.down_since
        self._stop()
        self.down_since = now if since is None else since
        return []

    def stall(self, for_ms: int, now: int) -> Requests:
        """Do not poll for so long; heartbeats go on."""
        self.down_since = now if self.down_since is None else self.down_since
        self._back_at = max(now + for_ms, self._back_at or 0)
        return []

    def freeze(self, for_ms: int, now: int) -> Requests:
        """Stand still for so long, with every thread."""
        self._frozen = True
        return self.stall(for_ms, now)

    def resubscribe(self, topics: frozenset[str], now: int) -> Requests:
        """Want other topics: the next heartbeat says so."""
        self.settings = replace(self.settings, topics=topics)
        return []

    def rejoin(self, now: int) -> Requests:
        """Ask to join again (`enforceRebalance`): a consumer of this protocol cannot, and goes on as before."""
        return []

    def metadata_changed(self, now: int) -> Requests:
        """The number of some topic's partitions changed: the coordinator sees that for itself."""
        return []

    # Time.

    @property
    def is_running(self) -> bool:
        """Whether the process is there at all."""
        return self.phase not in (ModernPhase.STOPPED, ModernPhase.FAILED)

    @property
    def due(self) -> int | None:
        """When it does something by itself next, heartbeats among them."""
        return earliest(self.due_but_heartbeats, self._next_beat)

    @property
    def due_but_heartbeats(self) -> int | None:
        """When it does something else next than a heartbeat that says nothing new."""
        if not self.is_running:
            return None
        news = self._next_beat if self._has_news else None
        if self.down_since is None:
            return earliest(self._reconciles_at, news)
        return earliest(self._back_at, self._expires_at, news)

    @property
    def beats_safely(self) -> bool:
        """Whether it does nothing but send heartbeats that say nothing new."""
        return self.phase is ModernPhase.STABLE and self._next_beat is not None and not self._has_news

    def skip_heartbeats(self, until: int) -> int | None:
        """Take all heartbeats before `until` for sent: when the last of them was, None if there is none."""
        beats_at = self._next_beat
        if beats_at is None or beats_at >= until:
            return None
        last = beats_at + (until - 1 - beats_at) // self._interval_ms * self._interval_ms
        self._beats_at = last + self._interval_ms
        return last

    def wake(self, now: int) -> Requests:
        """Do what is due at `now`."""
        requests: Requests = []
        if self._expires_at is not None and self._expires_at <= now:
            requests += self._poll_timed_out()
        if self._back_at is not None and self._back_at <= now:
            requests += self._come_back(now)
        self._reconcile_if_due(now)
        return requests + self._beat_if_due(now)

    @property
    def _next_beat(self) -> int | None:
        """When it sends a heartbeat; while one is not answered it sends none."""
        silent = self._frozen or any(self._awaits) or self.phase not in IN_GROUP
        return None if silent else self._beats_at

    @property
    def _expires_at(self) -> int | None:
        """When `max.poll.interval.ms` is over. A frozen process finds that out when it runs again."""
        if self.down_since is None or self.phase not in IN_GROUP:
            return None
        expires_at = self.down_since + self.settings.max_poll_interval_ms
        return max(expires_at, self._back_at or 0) if self._frozen else expires_at

    def _come_back(self, now: int) -> Requests:
        self._frozen = False
        self._back_at = self.down_since = None
        kept, self._kept = self._kept, []
        requests = [request for answer in kept for request in self.answered(answer, now)]
        return requests + (self._join(now) if self.phase is ModernPhase.STALE else [])

    def _poll_timed_out(self) -> Requests:
        requests = self._farewell(Why.POLL_TIMEOUT)
        self.phase = ModernPhase.STALE
        self._abandon()
        return requests

    # Answers.

    def answered(self, answer: ConsumerGroupBeaten, now: int) -> Requests:
        """Take an answer. A frozen process takes it when it runs again."""
        if not self.is_running:
            return []
        if self._frozen:
            self._kept.append(answer)
            return []
        if not self._awaits.popleft():
            return []
        match answer.error:
            case Error.NONE:
                self._accepted(answer, now)
            case Error.FENCED_MEMBER_EPOCH | Error.UNKNOWN_MEMBER_ID:
                # What it had may be another's by now: it lets go of it, and begins anew at once.
                self._abandon()
                return self._join(now)
            case _:
                # The application's to handle: poll() throws.
                self._stop()
                self.phase, self.failure, self.owned = ModernPhase.FAILED, answer.error, frozenset()
        return self._beat_if_due(now)

    def _accepted(self, answer: ConsumerGroupBeaten, now: int) -> None:
        self.epoch = answer.member_epoch
        if answer.heartbeat_interval_ms != self._interval_ms:
            self._interval_ms = answer.heartbeat_interval_ms
            self._beats_at = now + self._interval_ms
        if answer.assignment is not None:
            self._assigned(answer.assignment, now)

    def _assigned(self, slots: frozenset[Slot], now: int) -> None:
        if self._target is None or self._target.slots != slots:
            self._target = LocalAssignment(self._target.number + 1 if self._target is not None else 0, slots)
        if self._target == self._current:
            self.phase = ModernPhase.STABLE
        else:
            self.phase = ModernPhase.RECONCILING
            self._reconcile(now)

    # Reconciliation.

    def _reconcile(self, now: int) -> None:
        """Begin with the newest target, unless the last one is still being worked on: that is finished first."""
        if self._reconciling is None:
            self._reconciling = self._target
            self._reconciles_at = now + self.settings.rejoins_ms
        self._reconcile_if_due(now)

    def _reconcile_if_due(self, now: int) -> None:
        if self._reconciles_at is None or self.down_since is not None or self._reconciles_at > now:
            return
        assert self._reconciling is not None
        self._current, self.owned = self._reconciling, self._reconciling.slots
        self._reconciling = self._reconciles_at = None
        self._must_tell = True

    # Heartbeats.

    @property
    def _has_news(self) -> bool:
        return self._told is not None and self._told[0] != self.settings.topics

    def _beat_if_due(self, now: int) -> Requests:
        beats_at = self._next_beat
        if beats_at is None or not (self._must_tell or beats_at <= now):
            return []
        requests = [self._beat(now)]
        if self._target == self._current:
            self.phase = ModernPhase.STABLE
        elif self._reconciling is None:
            self._reconcile(now)
        return requests

    def _beat(self, now: int) -> ConsumerGroupHeartbeat:
        settings, told = self.settings, self._told
        self._told = (settings.topics, self._current)
        self._must_tell = False
        self._beats_at = now + self._interval_ms
        self._awaits.append(True)
        return ConsumerGroupHeartbeat(
            self.group,
            self.member_id,
            self.epoch,
            settings.instance_id,
            settings.rack if told is None else None,
            settings.max_poll_interval_ms if told is None else NO_TIMEOUT,
            settings.topics if told is None or told[0] != settings.topics else None,
            settings.remote_assignor if told is None else None,
            self.owned if told is None or told[1] != self._current else None,
            settings.client_id,
            settings.client_host,
        )

    def _join(self, now: int) -> Requests:
        self.phase, self.epoch = ModernPhase.JOINING, JOIN_EPOCH
        self._told = None
        return [self._beat(now)]

    # Leaving.

    def _farewell(self, why: Why) -> Requests:
        """Say that it goes. No answer that is still to come matters then."""
        settings = self.settings
        epoch = LEAVE_EPOCH if settings.instance_id is None else STATIC_LEAVE_EPOCH
        self._awaits = deque([False] * (len(self._awaits) + 1))
        return [
            ConsumerGroupHeartbeat(
                self.group,
                self.member_id,
                epoch,
                settings.instance_id,
                client_id=settings.client_id,
                client_host=settings.client_host,
                why=why,
            )
        ]

    def _abandon(self) -> None:
        self.owned = frozenset()
        self._target = self._current = self._reconciling = self._reconciles_at = None
        self._must_tell = False

    def _stop(self) -> None:
        self.phase = ModernPhase.STOPPED
        self._beats_at = self._back_at = self._reconciles_at = self.down_since = None
        self._frozen = False
        self._kept = []

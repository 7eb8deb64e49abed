"""A consumer of a KIP-848 group (`group.protocol=consumer`): its poll loop and its heartbeats, over virtual time.

After the Java client's `ConsumerMembershipManager` and `ConsumerHeartbeatRequestManager`. The consumer gives up
revoked partitions and takes up new ones when it polls, `rejoin_delay_ms` after it hears of them (that delay does not
count against `max.poll.interval.ms`); an extra heartbeat tells the coordinator at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from agent.core.protocol.assignors import Slot
from agent.simulation.groups.group_client import GroupClient
from agent.simulation.groups.kip848_messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NO_TIMEOUT,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from agent.simulation.groups.messages import ErrorCode, RebalanceReason
from agent.simulation.groups.script import ClientSettings
from agent.simulation.groups.timers import earliest

Requests = list[ConsumerGroupHeartbeatRequest]


class Kip848Phase(StrEnum):
    """Where a consumer stands. Stale: it has not polled for too long, has left, and joins again when it polls."""

    STOPPED = "stopped"
    JOINING = "joining"
    RECONCILING = "reconciling"
    STABLE = "stable"
    STALE = "stale"
    FAILED = "failed"


IN_GROUP = frozenset({Kip848Phase.JOINING, Kip848Phase.RECONCILING, Kip848Phase.STABLE})


class LocalAssignment(Struct, frozen=True):
    """An assignment as the consumer counts them: the same partitions may come again, and are told again."""

    number: int
    slots: frozenset[Slot]


class Kip848Consumer(GroupClient):
    """One consumer. `new_id` makes its member id, which it keeps for its whole life.

    Each request is to be answered, in the order sent, by `handle_response`.
    """

    def __init__(self, group: str, settings: ClientSettings, new_id: Callable[[], str]) -> None:
        super().__init__(group, settings)
        self.phase = Kip848Phase.STOPPED
        self.epoch = JOIN_EPOCH
        self._new_id = new_id
        self._is_frozen = False
        # Of each request that is not answered yet: whether the answer matters.
        self._pending_responses: deque[bool] = deque()
        self._target: LocalAssignment | None = None
        self._current: LocalAssignment | None = None
        self._reconciling: LocalAssignment | None = None
        self._reconciles_at_ms: int | None = None
        self._heartbeat_is_urgent = False
        # What the coordinator was told last, None where it is to be told all anew.
        self._last_sent: tuple[frozenset[str], LocalAssignment | None] | None = None

    # What happens to it.

    def start(self, now_ms: int) -> Requests:
        """Subscribe and poll, under a new member id."""
        self.member_id = self._new_id()
        return super().start(now_ms)

    def freeze(self, for_ms: int, now_ms: int) -> Requests:
        """Stand still for so long, with every thread."""
        self._is_frozen = True
        return self.stall(for_ms, now_ms)

    def resubscribe(self, topics: frozenset[str], now_ms: int) -> Requests:
        """Want other topics: the next heartbeat says so."""
        self.settings = replace(self.settings, topics=topics)
        return []

    # Time.

    @property
    def due_ms_except_heartbeats(self) -> int | None:
        """When it does something else next than a heartbeat that says nothing new."""
        if not self.is_running:
            return None
        news = self._next_heartbeat_ms if self._subscription_is_unsent else None
        if self.not_polling_since_ms is None:
            return earliest(self._reconciles_at_ms, news)
        return earliest(self._resumes_polling_at_ms, self._poll_times_out_at_ms, news)

    @property
    def beats_safely(self) -> bool:
        """Whether it does nothing but send heartbeats that say nothing new."""
        return (
            self.phase is Kip848Phase.STABLE
            and self._next_heartbeat_ms is not None
            and not self._subscription_is_unsent
        )

    def coordinator_responded(self, now_ms: int) -> None:
        """That a coordinator is out of reach is not modelled."""

    def wake(self, now_ms: int) -> Requests:
        """Do what is due at `now_ms`."""
        requests: Requests = []
        if self._poll_times_out_at_ms is not None and self._poll_times_out_at_ms <= now_ms:
            requests += self._poll_timed_out()
        if self._resumes_polling_at_ms is not None and self._resumes_polling_at_ms <= now_ms:
            requests += self._resume(now_ms)
        self._reconcile_if_due(now_ms)
        return requests + self._heartbeat_if_due(now_ms)

    @property
    def _next_heartbeat_ms(self) -> int | None:
        """When it sends a heartbeat; while one is not answered it sends none."""
        silent = self._is_frozen or any(self._pending_responses) or self.phase not in IN_GROUP
        return None if silent else self._heartbeat_at_ms

    @property
    def _poll_times_out_at_ms(self) -> int | None:
        """When `max.poll.interval.ms` is over. A frozen process finds that out when it runs again."""
        if self.not_polling_since_ms is None or self.phase not in IN_GROUP:
            return None
        expires_at = self.not_polling_since_ms + self.settings.max_poll_interval_ms
        return max(expires_at, self._resumes_polling_at_ms or 0) if self._is_frozen else expires_at

    def _resume(self, now_ms: int) -> Requests:
        self._is_frozen = False
        self._resumes_polling_at_ms = self.not_polling_since_ms = None
        requests = self._handle_deferred_responses(now_ms)
        return requests + (self._join(now_ms) if self.phase is Kip848Phase.STALE else [])

    def _poll_timed_out(self) -> Requests:
        requests = self._leave_requests(RebalanceReason.POLL_TIMEOUT)
        self.phase = Kip848Phase.STALE
        self._abandon()
        return requests

    # Answers.

    def handle_response(self, answer: ConsumerGroupHeartbeatResponse, now_ms: int) -> Requests:
        """Take an answer. A frozen process takes it when it runs again."""
        if not self.is_running:
            return []
        if self._is_frozen:
            self._deferred_responses.append(answer)
            return []
        if not self._pending_responses.popleft():
            return []
        match answer.error:
            case ErrorCode.NONE:
                self._accepted(answer, now_ms)
            case ErrorCode.FENCED_MEMBER_EPOCH | ErrorCode.UNKNOWN_MEMBER_ID:
                # What it had may be another's by now: it lets go of it, and begins anew at once.
                self._abandon()
                return self._join(now_ms)
            case _:
                # The application's to handle: poll() throws.
                self._stop()
                self.phase, self.fatal_error, self.owned = Kip848Phase.FAILED, answer.error, frozenset()
        return self._heartbeat_if_due(now_ms)

    def _accepted(self, answer: ConsumerGroupHeartbeatResponse, now_ms: int) -> None:
        self.epoch = answer.member_epoch
        if answer.heartbeat_interval_ms != self._heartbeat_interval_ms:
            self._heartbeat_interval_ms = answer.heartbeat_interval_ms
            self._heartbeat_at_ms = now_ms + self._heartbeat_interval_ms
        if answer.assignment is not None:
            self._assigned(answer.assignment, now_ms)

    def _assigned(self, slots: frozenset[Slot], now_ms: int) -> None:
        if self._target is None or self._target.slots != slots:
            self._target = LocalAssignment(self._target.number + 1 if self._target is not None else 0, slots)
        if self._target == self._current:
            self.phase = Kip848Phase.STABLE
        else:
            self.phase = Kip848Phase.RECONCILING
            self._reconcile(now_ms)

    # Reconciliation.

    def _reconcile(self, now_ms: int) -> None:
        """Begin with the newest target, unless the last one is still being worked on: that is finished first."""
        if self._reconciling is None:
            self._reconciling = self._target
            self._reconciles_at_ms = now_ms + self.settings.rejoin_delay_ms
        self._reconcile_if_due(now_ms)

    def _reconcile_if_due(self, now_ms: int) -> None:
        if self._reconciles_at_ms is None or self.not_polling_since_ms is not None or self._reconciles_at_ms > now_ms:
            return
        assert self._reconciling is not None
        self._current, self.owned = self._reconciling, self._reconciling.slots
        self._reconciling = self._reconciles_at_ms = None
        self._heartbeat_is_urgent = True

    # Heartbeats.

    @property
    def _subscription_is_unsent(self) -> bool:
        return self._last_sent is not None and self._last_sent[0] != self.settings.topics

    def _heartbeat_if_due(self, now_ms: int) -> Requests:
        beats_at = self._next_heartbeat_ms
        if beats_at is None or not (self._heartbeat_is_urgent or beats_at <= now_ms):
            return []
        requests = [self._heartbeat(now_ms)]
        if self._target == self._current:
            self.phase = Kip848Phase.STABLE
        elif self._reconciling is None:
            self._reconcile(now_ms)
        return requests

    def _heartbeat(self, now_ms: int) -> ConsumerGroupHeartbeatRequest:
        settings, told = self.settings, self._last_sent
        self._last_sent = (settings.topics, self._current)
        self._heartbeat_is_urgent = False
        self._heartbeat_at_ms = now_ms + self._heartbeat_interval_ms
        self._pending_responses.append(True)
        return ConsumerGroupHeartbeatRequest(
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

    def _join(self, now_ms: int) -> Requests:
        self.phase, self.epoch = Kip848Phase.JOINING, JOIN_EPOCH
        self._last_sent = None
        return [self._heartbeat(now_ms)]

    # Leaving.

    def _leave_requests(self, reason: RebalanceReason) -> Requests:
        """A static member leaves for a restart. No answer that is still to come matters then."""
        if self.phase not in IN_GROUP:
            return []
        settings = self.settings
        epoch = LEAVE_EPOCH if settings.instance_id is None else STATIC_LEAVE_EPOCH
        self._pending_responses = deque([False] * (len(self._pending_responses) + 1))
        return [
            ConsumerGroupHeartbeatRequest(
                self.group,
                self.member_id,
                epoch,
                settings.instance_id,
                client_id=settings.client_id,
                client_host=settings.client_host,
                reason=reason,
            )
        ]

    def _abandon(self) -> None:
        self.owned = frozenset()
        self._target = self._current = self._reconciling = self._reconciles_at_ms = None
        self._heartbeat_is_urgent = False

    def _stop(self) -> None:
        super()._stop()
        self.phase, self._is_frozen, self._reconciles_at_ms = Kip848Phase.STOPPED, False, None

"""A member of a classic group: how it joins, syncs, sends heartbeats and leaves, over virtual time.

After the Java client's `AbstractCoordinator`: it sends requests and takes responses. What it offers when it joins,
how it assigns as the leader, and what it does with its assignment, is a consumer's (`classic_consumer.py`) or a
Connect worker's (`connect_worker.py`).
"""

from __future__ import annotations

from abc import abstractmethod
from enum import StrEnum
from typing import Any, ClassVar

from msgspec.structs import replace

from agent.simulation.groups.coordinator_connection import JOIN_GROUP_TIMEOUT_LAPSE_MS, CoordinatorConnection
from agent.simulation.groups.group_client import GroupClient, latest
from agent.simulation.groups.messages import (
    ClassicRequest,
    ErrorCode,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    RebalanceReason,
    SupportedProtocol,
    SyncGroupRequest,
    SyncGroupResponse,
)
from agent.simulation.groups.script import ClientSettings
from agent.simulation.groups.timers import earliest

RETRY_MS = 100
"""`retry.backoff.ms`: how long a client waits before it asks again after a retriable error."""


class ClassicPhase(StrEnum):
    """Where a member stands."""

    STOPPED = "stopped"
    UNJOINED = "unjoined"
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"
    FAILED = "failed"


_HEARTBEATING = frozenset({ClassicPhase.SYNCING, ClassicPhase.STABLE})
"""Where the heartbeat thread runs; while it waits to join, a consumer hears only in its poll loop."""


class ClassicClient(GroupClient):
    """One client."""

    protocol_type: ClassVar[str]

    def __init__(self, group: str, settings: ClientSettings) -> None:
        super().__init__(group, settings)
        self.phase = ClassicPhase.STOPPED
        self.generation = -1
        self.protocol: str | None = None
        self._heartbeat_interval_ms = settings.heartbeat_interval_ms
        self._connection = CoordinatorConnection(group)
        self._rejoin_at_ms: int | None = None
        self._frozen_until_ms: int | None = None
        self._rejoins_without_member_id = False
        self._rejoin_reason: RebalanceReason | None = None

    # What happens to it.

    def freeze(self, for_ms: int, now_ms: int) -> list[ClassicRequest]:
        """Stand still for so long, with every thread."""
        self._frozen_until_ms = latest(now_ms + for_ms, self._frozen_until_ms)
        return self.stall(for_ms, now_ms)

    def resubscribe(self, topics: frozenset[str], now_ms: int) -> list[ClassicRequest]:
        """Want these topics; if it wants them already, nothing comes of it."""
        if topics == self.settings.topics:
            return []
        self.settings = replace(self.settings, topics=topics)
        return self._request_rejoin(now_ms, RebalanceReason.SUBSCRIPTION_CHANGED)

    def rejoin(self, now_ms: int) -> list[ClassicRequest]:
        """Ask to join again (`enforceRebalance`)."""
        return self._request_rejoin(now_ms, RebalanceReason.LEADER_REJOINED)

    # Time.

    @property
    def due_ms(self) -> int | None:
        """When it does something by itself next, heartbeats among them."""
        return earliest(super().due_ms, self._link_due)

    @property
    def due_ms_except_heartbeats(self) -> int | None:
        """When it does something else than a heartbeat next."""
        if not self.is_running:
            return None
        rejoins_at = self._rejoin_at_ms if self.not_polling_since_ms is None and self._connection.is_known else None
        return earliest(self._resumes_polling_at_ms, self._frozen_until_ms, self._poll_times_out_at, rejoins_at)

    @property
    def _link_due(self) -> int | None:
        """When the coordinator is looked for if nothing is heard of it, by the heartbeat thread or the poll loop."""
        listens = not self._is_frozen and (
            self.phase in _HEARTBEATING or (self.is_running and self.not_polling_since_ms is None)
        )
        return self._connection.due_ms if listens else None

    @property
    def _identity(self) -> tuple[str, int, str, str | None]:
        """As whom it asks: group, generation, member id, static id."""
        return self.group, self.generation, self.member_id, self.settings.instance_id

    @property
    def _is_frozen(self) -> bool:
        return self._frozen_until_ms is not None

    @property
    def _next_heartbeat_ms(self) -> int | None:
        return None if self._is_frozen else self._heartbeat_at_ms

    @property
    def _poll_times_out_at(self) -> int | None:
        if self.not_polling_since_ms is None or self._is_frozen or self.phase not in _HEARTBEATING:
            return None
        return self.not_polling_since_ms + self.settings.max_poll_interval_ms

    @property
    def beats_safely(self) -> bool:
        """Whether its heartbeats follow each other faster than its session could end."""
        is_fast = 2 * self._heartbeat_interval_ms < self.settings.session_timeout_ms
        return is_fast and self._next_heartbeat_ms is not None

    def coordinator_responded(self, now_ms: int) -> None:
        """The coordinator answered: so it is there."""
        if self.phase in _HEARTBEATING:
            self._connection.expect_response_by(now_ms + self.settings.session_timeout_ms)

    def wake(self, now_ms: int) -> list[ClassicRequest]:
        """Do what is due at `now_ms`."""
        requests = self._resume(now_ms)
        late = self._poll_times_out_at
        if late is not None and late <= now_ms:
            requests += self._poll_timed_out()
        if self._link_due is not None:
            requests += self._connection.wake(now_ms)
            if not self._connection.is_known:
                self._heartbeat_at_ms = None
        if (beats_at := self._next_heartbeat_ms) is not None and beats_at <= now_ms:
            self._heartbeat_at_ms = now_ms + self._heartbeat_interval_ms
            requests.append(HeartbeatRequest(*self._identity))
        return requests + self._join_if_due(now_ms)

    def _resume(self, now_ms: int) -> list[ClassicRequest]:
        if self._frozen_until_ms is not None and self._frozen_until_ms <= now_ms:
            self._frozen_until_ms = None
        if self._resumes_polling_at_ms is not None and self._resumes_polling_at_ms <= now_ms:
            self._resumes_polling_at_ms = self.not_polling_since_ms = None
            if self.phase is ClassicPhase.UNJOINED:
                self._rejoin_at_ms = now_ms
        return self._handle_deferred_responses(now_ms)

    def _poll_timed_out(self) -> list[ClassicRequest]:
        """A dynamic member leaves. A static one only ceases to say that it is there; both come back without an id."""
        requests = self._leave_requests(RebalanceReason.POLL_TIMEOUT)
        self.phase = ClassicPhase.UNJOINED
        self._heartbeat_at_ms = self._rejoin_at_ms = None
        self._rejoins_without_member_id = True
        self._connection.expect_response_by(None)
        return requests

    # Answers.

    def handle_response(self, answer: Any, now_ms: int) -> list[ClassicRequest]:
        """Take an answer. A frozen process takes it when it runs again, and one to JoinGroup waits for a poll."""
        if not self.is_running:
            return []
        if self._is_frozen or (self.not_polling_since_ms is not None and isinstance(answer, JoinGroupResponse)):
            self._deferred_responses.append(answer)
            return []
        self.coordinator_responded(now_ms)
        match answer:
            case FindCoordinatorResponse():
                return self._handle_coordinator_found(now_ms)
            case JoinGroupResponse():
                return self._handle_join_response(answer, now_ms)
            case SyncGroupResponse():
                return self._handle_sync_response(answer, now_ms)
            case HeartbeatResponse():
                return self._handle_heartbeat_response(answer, now_ms)
            case LeaveGroupResponse():
                return []
        raise TypeError(f"expected an answer of a coordinator, got {answer!r}")

    def _handle_coordinator_found(self, now_ms: int) -> list[ClassicRequest]:
        """It is known again: who waits for it to answer a JoinGroup asks again, who is a member says so at once."""
        if self._connection.is_known:
            return []
        self._connection.coordinator_found()
        self.coordinator_responded(now_ms)
        if self.phase is ClassicPhase.JOINING:
            return self._join(now_ms)
        if self.phase in _HEARTBEATING:
            self._heartbeat_at_ms = now_ms
        return self.wake(now_ms)

    def _handle_join_response(self, answer: JoinGroupResponse, now_ms: int) -> list[ClassicRequest]:
        if self.phase is not ClassicPhase.JOINING:
            return []
        if answer.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return self._join(now_ms)
        if answer.error is not ErrorCode.NONE:
            return self._handle_error(answer.error, now_ms)
        self.phase = ClassicPhase.SYNCING
        self.member_id, self.generation, self.protocol = answer.member_id, answer.generation, answer.protocol
        self._heartbeat_at_ms = now_ms + self._heartbeat_interval_ms
        self.coordinator_responded(now_ms)
        leads = answer.leader == answer.member_id
        self._generation_began(answer, now_ms)
        assignments = self._assign(answer) if leads and not answer.skip_assignment else {}
        return [SyncGroupRequest(*self._identity, answer.protocol_type, answer.protocol, assignments)]

    def _handle_sync_response(self, answer: SyncGroupResponse, now_ms: int) -> list[ClassicRequest]:
        if self.phase is not ClassicPhase.SYNCING:
            return []
        if answer.error is not ErrorCode.NONE:
            return self._handle_error(answer.error, now_ms)
        self.phase = ClassicPhase.STABLE
        return self._take_assignment(answer.assignment, now_ms)

    def _handle_heartbeat_response(self, answer: HeartbeatResponse, now_ms: int) -> list[ClassicRequest]:
        if self.phase not in _HEARTBEATING or answer.error is ErrorCode.NONE:
            return []
        if answer.error is ErrorCode.REBALANCE_IN_PROGRESS:
            if self.phase is ClassicPhase.STABLE and self._rejoin_at_ms is None:
                self._rejoin_at_ms = now_ms + self.settings.rejoin_delay_ms
            return self._join_if_due(now_ms)
        return self._handle_error(answer.error, now_ms)

    def _handle_error(self, error: ErrorCode, now_ms: int) -> list[ClassicRequest]:
        wait_ms = 0
        match error:
            case ErrorCode.REBALANCE_IN_PROGRESS:
                # Until it polls it is a member as before.
                self._rejoin_at_ms = now_ms
                return self._join_if_due(now_ms)
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self._reset_membership()
            case ErrorCode.ILLEGAL_GENERATION:
                self.generation = -1
                self._generation_lost()
            case ErrorCode.COORDINATOR_NOT_AVAILABLE:
                wait_ms = RETRY_MS
            case _:
                # The application's to handle: poll() throws.
                self._stop()
                self.phase, self.fatal_error, self.member_id, self.owned = ClassicPhase.FAILED, error, "", frozenset()
                return []
        self.phase = ClassicPhase.UNJOINED
        self._heartbeat_at_ms = None
        self._rejoin_at_ms = now_ms + wait_ms
        self._connection.expect_response_by(None)
        return self._join_if_due(now_ms)

    # Joining.

    def _request_rejoin(self, now_ms: int, reason: RebalanceReason) -> list[ClassicRequest]:
        self._rejoin_reason = reason
        if self.phase is ClassicPhase.STABLE:
            self._rejoin_at_ms = now_ms
        return self._join_if_due(now_ms)

    def _join_if_due(self, now_ms: int) -> list[ClassicRequest]:
        due = self._rejoin_at_ms is not None and self._rejoin_at_ms <= now_ms
        return self._join(now_ms) if due and self.not_polling_since_ms is None and self._connection.is_known else []

    def _join(self, now_ms: int) -> list[ClassicRequest]:
        if self._rejoins_without_member_id:
            self._reset_membership()
        offers = self._prepare_join()
        self.phase = ClassicPhase.JOINING
        self._rejoin_at_ms = self._heartbeat_at_ms = None
        settings, reason = self.settings, self._rejoin_reason
        self._connection.expect_response_by(now_ms + settings.max_poll_interval_ms + JOIN_GROUP_TIMEOUT_LAPSE_MS)
        self._rejoin_reason = None
        return [
            JoinGroupRequest(
                self.group,
                settings.session_timeout_ms,
                settings.max_poll_interval_ms,
                self.member_id,
                self.protocol_type,
                offers,
                settings.instance_id,
                settings.client_id,
                settings.client_host,
                reason,
            )
        ]

    # What is a consumer's or a worker's own.

    @abstractmethod
    def _prepare_join(self) -> tuple[SupportedProtocol, ...]:
        """Make ready to join: what it supports, and says of itself."""

    @abstractmethod
    def _generation_began(self, answer: JoinGroupResponse, now_ms: int) -> None:
        """A generation begins, with or without it as the leader."""

    @abstractmethod
    def _assign(self, answer: JoinGroupResponse) -> dict[str, Any]:
        """As the leader: who gets what, by member id."""

    @abstractmethod
    def _take_assignment(self, assignment: Any, now_ms: int) -> list[ClassicRequest]:
        """What it is given."""

    @abstractmethod
    def _generation_lost(self) -> None:
        """It is no longer in the generation in which it got what it has."""

    # Leaving.

    def _leave_requests(self, reason: RebalanceReason) -> list[ClassicRequest]:
        """A static member does not say that it leaves: its place is kept until its session ends."""
        if not self.member_id or self.phase is ClassicPhase.UNJOINED or self.settings.instance_id is not None:
            return []
        return [LeaveGroupRequest(self.group, (LeavingMember(self.member_id, reason=reason),))]

    def _reset_membership(self) -> None:
        self.member_id, self.generation, self._rejoins_without_member_id = "", -1, False
        self._generation_lost()

    def _stop(self) -> None:
        super()._stop()
        self.phase, self.generation = ClassicPhase.STOPPED, -1
        self._rejoin_at_ms = self._frozen_until_ms = self._rejoin_reason = None
        self._rejoins_without_member_id = False
        self._connection = CoordinatorConnection(self.group)

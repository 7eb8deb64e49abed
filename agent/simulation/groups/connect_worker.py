"""A Kafka Connect worker as a member of its group: joins, leads, takes and gives back work, joins again when told to.

After `WorkerCoordinator` and `DistributedHerder` of Kafka 4.3. Its threads and timers are a consumer's. Reading the
configuration takes no time here, nor does starting or stopping work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from agent.simulation.groups.classic_client import ClassicClient, ClassicPhase
from agent.simulation.groups.connect import (
    DEFAULT_MAX_DELAY_MS,
    EAGER_PROTOCOL,
    PROTOCOL_TYPE,
    SUPPORTED_PROTOCOLS,
    ConnectAssignmentProblem,
    ConnectConfig,
    ConnectError,
    ConnectProtocol,
    ConnectWork,
    WorkerAssignment,
    WorkerState,
    eager_assign,
    in_wire_order,
)
from agent.simulation.groups.connect_incremental_assignor import IncrementalAssignor
from agent.simulation.groups.messages import (
    ClassicRequest,
    ErrorCode,
    HeartbeatResponse,
    JoinGroupResponse,
    RebalanceReason,
    SupportedProtocol,
)
from agent.simulation.groups.script import ClientSettings


class WorkerSettings(ClientSettings, frozen=True):
    """A worker's settings, in Kafka's names and with its defaults; `url` is where the others reach it.

    `max_poll_interval_ms` is Connect's `rebalance.timeout.ms`. `topics` are the connectors, which the worker itself
    reads from the configuration.
    """

    client_id: str = "connect-1"
    topics: frozenset[str] = frozenset()
    session_timeout_ms: int = 10_000
    max_poll_interval_ms: int = 60_000
    url: str = ""
    connect_protocol: ConnectProtocol = ConnectProtocol.SESSIONED
    scheduled_rebalance_max_delay_ms: int = DEFAULT_MAX_DELAY_MS


class ConnectWorker(ClassicClient):
    """One process of a Connect cluster. `read` gives the configuration as it is now.

    `held_work` is what it counts as its own and tells the leader of, `owned` the tasks that it runs. They differ
    during an eager rebalance, and where it has to join again before it may start what it got.
    """

    protocol_type = PROTOCOL_TYPE

    def __init__(self, group: str, settings: WorkerSettings, read: Callable[[], ConnectConfig]) -> None:
        super().__init__(group, settings)
        self.held_work = ConnectWork()
        self._read = read
        self._connect_protocol = settings.connect_protocol
        self._assignor = IncrementalAssignor(settings.scheduled_rebalance_max_delay_ms)
        self._url = settings.url
        self._allocation: WorkerAssignment | None = None
        self._completed = -1
        self._assigns_at = 0
        self._config_at_join = ConnectConfig()
        self._read_topics()

    def metadata_changed(self, now_ms: int) -> list[ClassicRequest]:
        """Connectors or tasks came or went: every worker joins again."""
        self._read_topics()
        return self._request_rejoin(now_ms, RebalanceReason.PARTITIONS_CHANGED)

    def _read_topics(self) -> None:
        self.settings = replace(self.settings, topics=frozenset(self._read().connectors))

    # Joining.

    def _prepare_join(self) -> tuple[SupportedProtocol, ...]:
        """The incremental protocols let all run on until they are told otherwise; the eager one stops all now."""
        self._config_at_join = self._read()
        if (self.protocol or SUPPORTED_PROTOCOLS[self._connect_protocol][0]) == EAGER_PROTOCOL:
            self.owned = frozenset()
        return tuple(
            SupportedProtocol(name, self._state(name)) for name in SUPPORTED_PROTOCOLS[self._connect_protocol]
        )

    def _state(self, protocol: str) -> WorkerState:
        allocation = None if protocol == EAGER_PROTOCOL else self._allocation
        return WorkerState(self._url, self._config_at_join.offset, allocation)

    def _generation_began(self, answer: JoinGroupResponse, now_ms: int) -> None:
        self._assigns_at = now_ms

    def _assign(self, answer: JoinGroupResponse) -> dict[str, Any]:
        problem = ConnectAssignmentProblem(
            leader=self.member_id,
            members={member_id: state for member_id, _, state in answer.members},
            config=self._config_at_join,
            generation=self.generation,
            last_generation=self._completed,
            latest_config=self._read(),
        )
        if self.protocol == EAGER_PROTOCOL:
            return eager_assign(problem)
        return self._assignor.assign(problem, self._assigns_at)

    # Answers.

    def _take_assignment(self, assignment: Any, now_ms: int) -> list[ClassicRequest]:
        given: WorkerAssignment = assignment
        self._completed = self.generation
        self._hold(given)
        self._rejoin_at_ms = now_ms + given.delay_ms if given.delay_ms else None
        if given.error is ConnectError.CONFIG_MISMATCH or self._read().offset > given.config_offset:
            # What it got is not of the newest configuration; it starts none of it.
            return self._request_rejoin(now_ms, RebalanceReason.PARTITIONS_CHANGED)
        self.owned = frozenset(self.held_work.tasks)
        if given.revoked:
            return self._request_rejoin(now_ms, RebalanceReason.COOPERATIVE_FOLLOWUP)
        if given.delay_ms and self._rejoin_reason is None:
            self._rejoin_reason = RebalanceReason.COOPERATIVE_FOLLOWUP  # when it joins, at the end of the delay
            return []
        return self._request_rejoin(now_ms, self._rejoin_reason) if self._rejoin_reason is not None else []

    def _hold(self, given: WorkerAssignment) -> None:
        started = in_wire_order(given.assigned)
        if self.protocol == EAGER_PROTOCOL:
            self.held_work = started
        else:
            self.held_work = started.union(self.held_work.difference(given.revoked))
            self.owned -= set(given.revoked.tasks)
        self._allocation = replace(given, assigned=in_wire_order(self.held_work))

    def _handle_heartbeat_response(self, answer: HeartbeatResponse, now_ms: int) -> list[ClassicRequest]:
        if self.phase is ClassicPhase.STABLE and answer.error is ErrorCode.REBALANCE_IN_PROGRESS:
            # Whatever rebalance of its own is scheduled, this one comes first.
            self._rejoin_reason = None
            self._rejoin_at_ms = now_ms + self.settings.rejoin_delay_ms
            return self._join_if_due(now_ms)
        return super()._handle_heartbeat_response(answer, now_ms)

    def _generation_lost(self) -> None:
        """Unlike a consumer, it keeps running what it has, even when it is no longer a member."""

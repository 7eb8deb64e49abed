"""A Kafka Connect worker as a member of its group: joins, leads, takes and gives back work, joins again when told to.

After `WorkerCoordinator` and `DistributedHerder` of Kafka 4.3. Its threads and timers are a consumer's. Reading the
configuration takes no time here, nor does starting or stopping work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from agent.coordinator.connect import (
    DEFAULT_MAX_DELAY_MS,
    EAGER_PROTOCOL,
    OFFERED,
    PROTOCOL_TYPE,
    ConnectConfig,
    ConnectError,
    ConnectProblem,
    ConnectState,
    Mode,
    Work,
    WorkerAssignment,
    as_sent,
    eager_assign,
)
from agent.coordinator.group_client import GroupClient, Phase, Request
from agent.coordinator.incremental import IncrementalAssignor
from agent.coordinator.requests import Beaten, Error, Joined, Offer, Why
from agent.coordinator.script import ClientSettings


@dataclass(frozen=True, slots=True)
class WorkerSettings(ClientSettings):
    """A worker's settings, in Kafka's names and with its defaults; `url` is where the others reach it.

    `max_poll_interval_ms` is Connect's `rebalance.timeout.ms`. `topics` are the connectors, which the worker itself
    reads from the configuration.
    """

    client_id: str = "connect-1"
    topics: frozenset[str] = frozenset()
    session_timeout_ms: int = 10_000
    max_poll_interval_ms: int = 60_000
    url: str = ""
    connect_protocol: Mode = Mode.SESSIONED
    scheduled_rebalance_max_delay_ms: int = DEFAULT_MAX_DELAY_MS


class ConnectWorker(GroupClient):
    """One process of a Connect cluster. `read` gives the configuration as it is now.

    `held` is what it counts as its own and tells the leader of, `owned` the tasks that it runs. They differ during an
    eager rebalance, and where it has to join again before it may start what it got.
    """

    protocol_type = PROTOCOL_TYPE

    def __init__(self, group: str, settings: WorkerSettings, read: Callable[[], ConnectConfig]) -> None:
        super().__init__(group, settings)
        self.held = Work()
        self._read = read
        self._connect_protocol = settings.connect_protocol
        self._assignor = IncrementalAssignor(settings.scheduled_rebalance_max_delay_ms)
        self._url = settings.url
        self._allocation: WorkerAssignment | None = None
        self._completed = -1
        self._assigns_at = 0
        self._joins_with = ConnectConfig()
        self._read_topics()

    def metadata_changed(self, now: int) -> list[Request]:
        """Connectors or tasks came or went: every worker joins again."""
        self._read_topics()
        return self._need_to_join(now, Why.PARTITIONS_CHANGED)

    def _read_topics(self) -> None:
        self.settings = replace(self.settings, topics=frozenset(self._read().connectors))

    # Joining.

    def _offers(self) -> tuple[Offer, ...]:
        """The incremental protocols let all run on until they are told otherwise; the eager one stops all now."""
        self._joins_with = self._read()
        if (self.protocol or OFFERED[self._connect_protocol][0]) == EAGER_PROTOCOL:
            self.owned = frozenset()
        return tuple(Offer(name, self._state(name)) for name in OFFERED[self._connect_protocol])

    def _state(self, protocol: str) -> ConnectState:
        allocation = None if protocol == EAGER_PROTOCOL else self._allocation
        return ConnectState(self._url, self._joins_with.offset, allocation)

    def _begins(self, answer: Joined, now: int) -> None:
        self._assigns_at = now

    def _assign(self, answer: Joined) -> dict[str, Any]:
        problem = ConnectProblem(
            leader=self.member_id,
            members={member_id: state for member_id, _, state in answer.members},
            config=self._joins_with,
            generation=self.generation,
            last_generation=self._completed,
            fresh=self._read(),
        )
        if self.protocol == EAGER_PROTOCOL:
            return eager_assign(problem)
        return self._assignor.assign(problem, self._assigns_at)

    # Answers.

    def _take(self, assignment: Any, now: int) -> list[Request]:
        given: WorkerAssignment = assignment
        self._completed = self.generation
        self._hold(given)
        self._rejoins_at = now + given.delay_ms if given.delay_ms else None
        if given.error is ConnectError.CONFIG_MISMATCH or self._read().offset > given.config_offset:
            # What it got is not of the newest configuration; it starts none of it.
            return self._need_to_join(now, Why.PARTITIONS_CHANGED)
        self.owned = frozenset(self.held.tasks)
        if given.revoked:
            return self._need_to_join(now, Why.COOPERATIVE_FOLLOWUP)
        if given.delay_ms and self._why is None:
            self._why = Why.COOPERATIVE_FOLLOWUP  # when it joins, at the end of the delay
            return []
        return self._need_to_join(now, self._why) if self._why is not None else []

    def _hold(self, given: WorkerAssignment) -> None:
        started = as_sent(given.assigned)
        if self.protocol == EAGER_PROTOCOL:
            self.held = started
        else:
            self.held = started.plus(self.held.minus(given.revoked))
            self.owned -= set(given.revoked.tasks)
        self._allocation = replace(given, assigned=as_sent(self.held))

    def _beaten(self, answer: Beaten, now: int) -> list[Request]:
        if self.phase is Phase.STABLE and answer.error is Error.REBALANCE_IN_PROGRESS:
            # Whatever rebalance of its own is scheduled, this one comes first.
            self._why = None
            self._rejoins_at = now + self.settings.rejoins_ms
            return self._join_if_due(now)
        return super()._beaten(answer, now)

    def _lose(self) -> None:
        """Unlike a consumer, it keeps running what it has, even when it is no longer a member."""

"""A Kafka Connect worker as a member of its group: joins, leads, takes and gives back work, joins again when told to.

After `WorkerCoordinator` and `DistributedHerder` of Kafka 4.3. Its threads and timers are a consumer's. Reading the
configuration takes no time here, nor does starting or stopping work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from agent.coordinator.client import Consumer, Phase, Request
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
from agent.coordinator.incremental import IncrementalAssignor
from agent.coordinator.requests import Beaten, Error, Joined, JoinGroup, Offer, Synced, Why
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


class ConnectWorker(Consumer):
    """One process of a Connect cluster. `read` gives the configuration as it is now.

    `held` is what it counts as its own and tells the leader of, `owned` the tasks that it runs. They differ during an
    eager rebalance, and where it has to join again before it may start what it got.
    """

    def __init__(self, group: str, settings: WorkerSettings, read: Callable[[], ConnectConfig]) -> None:
        super().__init__(group, settings, {})
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

    def _join(self, now: int) -> list[Request]:
        """The incremental protocols let all run on until they are told otherwise; the eager one stops all now."""
        if self._is_reset:
            # Out of the group its tasks run on: what they are is its own to know.
            owned = self.owned
            self._forget()
            self.owned = owned
        self._joins_with = self._read()
        if (self.protocol or OFFERED[self._connect_protocol][0]) == EAGER_PROTOCOL:
            self.owned = frozenset()
        self._awaits_join(now)
        self._rejoins_at = self._beats_at = None
        settings, why = self.settings, self._why
        self._why = None
        return [
            JoinGroup(
                self.group,
                settings.session_timeout_ms,
                settings.max_poll_interval_ms,
                self.member_id,
                PROTOCOL_TYPE,
                tuple(Offer(name, self._state(name)) for name in OFFERED[self._connect_protocol]),
                client_id=settings.client_id,
                client_host=settings.client_host,
                why=why,
            )
        ]

    def _state(self, protocol: str) -> ConnectState:
        allocation = None if protocol == EAGER_PROTOCOL else self._allocation
        return ConnectState(self._url, self._joins_with.offset, allocation)

    def _joined(self, answer: Joined, now: int) -> list[Request]:
        self._assigns_at = now
        return super()._joined(answer, now)

    def _counts_of(self, answer: Joined) -> dict[str, int]:
        return {}

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

    def _synced(self, answer: Synced, now: int) -> list[Request]:
        if self.phase is not Phase.SYNCING or answer.error is not Error.NONE:
            return super()._synced(answer, now)
        self.phase = Phase.STABLE
        self._completed = self.generation
        given: WorkerAssignment = answer.assignment
        self._take(given)
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

    def _take(self, given: WorkerAssignment) -> None:
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

    def _refused(self, error: Error, now: int) -> list[Request]:
        """Unlike a consumer, it keeps running what it has, even when it is no longer a member."""
        if error not in (Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION):
            return super()._refused(error, now)
        if error is Error.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self.generation = -1
        self.phase, self._beats_at = Phase.UNJOINED, None
        self._rejoins_at = now
        self._link.expect(None)
        return self._join_if_due(now)

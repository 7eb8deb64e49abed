"""A member's process: a poll loop, which may stall, and a heartbeat thread, which stops only when the process does.

What it sends and makes of the responses is its protocol's: `classic_client.py` or `kip848_client.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import Any

from agent.core.protocol.assignors import Slot
from agent.simulation.groups.messages import ErrorCode, RebalanceReason
from agent.simulation.groups.script import ClientSettings
from agent.simulation.groups.timers import earliest


class GroupClient(ABC):
    """One client. Each method that makes something happen returns the requests that the client sends for it."""

    phase: StrEnum

    def __init__(self, group: str, settings: ClientSettings) -> None:
        self.group = group
        self.settings = settings
        self.member_id = ""
        self.owned: frozenset[Slot] = frozenset()
        self.not_polling_since_ms: int | None = None
        """Since when it does not poll (stalled, frozen or dead), None while it does."""
        self.fatal_error: ErrorCode | None = None
        self._heartbeat_interval_ms = 0
        self._heartbeat_at_ms: int | None = None
        self._resumes_polling_at_ms: int | None = None
        self._deferred_responses: list[Any] = []

    # What happens to it.

    def start(self, now_ms: int) -> list[Any]:
        """Subscribe and poll."""
        self.not_polling_since_ms = None
        return self._join(now_ms)

    def close(self, now_ms: int) -> list[Any]:
        """Close in order: a dynamic member leaves for good, a static one keeps its place and its partitions."""
        requests = self._leave_requests(RebalanceReason.MEMBER_LEFT)
        if self.settings.instance_id is not None:
            return requests + self.kill(now_ms)
        self._stop()
        self.member_id, self.owned = "", frozenset()
        return requests

    def kill(self, now_ms: int) -> list[Any]:
        """Die without a word: what it was and held stays with it until somebody notices."""
        since = self.not_polling_since_ms
        self._stop()
        self.not_polling_since_ms = now_ms if since is None else since
        return []

    def stall(self, for_ms: int, now_ms: int) -> list[Any]:
        """Do not poll for so long; heartbeats go on."""
        self.not_polling_since_ms = now_ms if self.not_polling_since_ms is None else self.not_polling_since_ms
        self._resumes_polling_at_ms = latest(now_ms + for_ms, self._resumes_polling_at_ms)
        return []

    def rejoin(self, now_ms: int) -> list[Any]:
        """Ask to join again (`enforceRebalance`), where clients can."""
        return []

    def metadata_changed(self, now_ms: int) -> list[Any]:
        """The number of some topic's partitions changed; where the coordinator assigns, it sees that for itself."""
        return []

    @abstractmethod
    def handle_response(self, answer: Any, now_ms: int) -> list[Any]:
        """Take the coordinator's answer to one of its requests."""

    @abstractmethod
    def _join(self, now_ms: int) -> list[Any]: ...

    @abstractmethod
    def _leave_requests(self, reason: RebalanceReason) -> list[Any]:
        """What it sends when it leaves, if it is a member and says so."""

    def _stop(self) -> None:
        """Nothing is to be done any more; what it held and was known by stays."""
        self._heartbeat_at_ms = self._resumes_polling_at_ms = self.not_polling_since_ms = None
        self._deferred_responses = []

    def _handle_deferred_responses(self, now_ms: int) -> list[Any]:
        deferred, self._deferred_responses = self._deferred_responses, []
        return [request for answer in deferred for request in self.handle_response(answer, now_ms)]

    # Time.

    @property
    def is_running(self) -> bool:
        """Whether the process is there at all."""
        return self.phase not in ("stopped", "failed")

    @property
    def due_ms(self) -> int | None:
        """When it does something by itself next, heartbeats among them."""
        return earliest(self.due_ms_except_heartbeats, self._next_heartbeat_ms)

    @property
    @abstractmethod
    def due_ms_except_heartbeats(self) -> int | None:
        """When it does something else next than a heartbeat that says nothing new."""

    @property
    @abstractmethod
    def _next_heartbeat_ms(self) -> int | None: ...

    def skip_heartbeats(self, until_ms: int) -> int | None:
        """Take all heartbeats before `until_ms` for sent: when the last of them was, None if there is none."""
        beats_at, interval = self._next_heartbeat_ms, self._heartbeat_interval_ms
        if beats_at is None or beats_at >= until_ms:
            return None
        last = beats_at + (until_ms - 1 - beats_at) // interval * interval
        self._heartbeat_at_ms = last + interval
        return last


def latest(at_ms: int, other_ms: int | None) -> int:
    """The later of these times, where there are two."""
    return at_ms if other_ms is None else max(at_ms, other_ms)

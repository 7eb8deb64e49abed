"""What a member knows of its coordinator: whether it can be reached, as far as answers tell.

After `AbstractCoordinator` of the Java client: no answer for the session timeout (or to a JoinGroup, for five seconds
more than a rebalance may take) means that the coordinator is unknown. Then it is looked up, until somebody answers.
"""

from __future__ import annotations

from agent.coordinator.requests import FindCoordinator

JOIN_LAPSE_MS = 5_000
"""How much longer than `max.poll.interval.ms` a member waits for the answer to its JoinGroup."""
LOOKUP_MS = 1_000
"""`reconnect.backoff.max.ms`: from one lookup to the next, when nobody answers."""


class Link:
    """To the coordinator of `group`, which is known at first."""

    def __init__(self, group: str) -> None:
        self.is_up = True
        self._group = group
        self._expires_at: int | None = None
        self._asks_at: int | None = None

    @property
    def due(self) -> int | None:
        """When it is taken for lost unless something is heard of it; when lost, when it is looked up next."""
        return self._expires_at if self.is_up else self._asks_at

    def expect(self, at_ms: int | None) -> None:
        """Something must be heard of it by then; None: nothing needs to."""
        if self.is_up:
            self._expires_at = at_ms

    def wake(self, now: int) -> list[FindCoordinator]:
        """What is due: give it up for lost, look for it."""
        due = self.due
        if due is None or due > now:
            return []
        self.is_up, self._expires_at = False, None
        self._asks_at = now + LOOKUP_MS
        return [FindCoordinator(self._group)]

    def found(self) -> None:
        """It is known again."""
        self.is_up, self._asks_at = True, None

"""What a member knows of its coordinator: whether it can be reached, as far as answers tell.

After `AbstractCoordinator` of the Java client: no answer for the session timeout (or to a JoinGroup, for five seconds
more than a rebalance may take) means that the coordinator is unknown. Then it is looked up, until somebody answers.
"""

from __future__ import annotations

from agent.simulation.groups.messages import FindCoordinatorRequest

JOIN_GROUP_TIMEOUT_LAPSE_MS = 5_000
"""How much longer than `max.poll.interval.ms` a member waits for the answer to its JoinGroup."""
RECONNECT_BACKOFF_MAX_MS = 1_000
"""`reconnect.backoff.max.ms`: from one lookup to the next, when nobody answers."""


class CoordinatorConnection:
    """To the coordinator of `group`, which is known at first."""

    def __init__(self, group: str) -> None:
        self.is_known = True
        self._group = group
        self._unreachable_at_ms: int | None = None
        self._lookup_at_ms: int | None = None

    @property
    def due_ms(self) -> int | None:
        """When it is taken for lost unless something is heard of it; when lost, when it is looked up next."""
        return self._unreachable_at_ms if self.is_known else self._lookup_at_ms

    def expect_response_by(self, at_ms: int | None) -> None:
        """Something must be heard of it by then; None: nothing needs to."""
        if self.is_known:
            self._unreachable_at_ms = at_ms

    def wake(self, now_ms: int) -> list[FindCoordinatorRequest]:
        """What is due: give it up for lost, look for it."""
        due = self.due_ms
        if due is None or due > now_ms:
            return []
        self.is_known, self._unreachable_at_ms = False, None
        self._lookup_at_ms = now_ms + RECONNECT_BACKOFF_MAX_MS
        return [FindCoordinatorRequest(self._group)]

    def coordinator_found(self) -> None:
        """It is known again."""
        self.is_known, self._lookup_at_ms = True, None

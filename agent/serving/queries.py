"""What is served over HTTP: the questions about groups, and what is asked of whoever answers them.

Imports neither the web framework nor Prometheus, so that who answers may import it before either is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agent.common import clock
from agent.core.events.samples import LagNote
from agent.core.queries import GroupQueries, Health, JsonObject
from agent.serving.metrics.readings import Readings
from agent.simulation.whatif.recorder import GroupRecording


class ServedQueries(GroupQueries, Protocol):
    """Answers about groups, and how whoever gives them is."""

    @property
    def now_ms(self) -> int:
        """The clock on the wall."""
        return clock.now_ms()

    @property
    def queries(self) -> ServedQueries:
        """Itself: agents name here what answers for them, and what answers for several agents does so itself."""
        return self

    def alive(self) -> Health:
        """Whether the process does its work at all; not ready where only a restart would help."""

    def status(self) -> JsonObject:
        """What `/api/v1/status` says beside version, readiness and uptime."""
        return {}

    def of_cluster(self, cluster: str) -> ServedQueries | None:
        """Who answers for the cluster of that name; None if none has it."""
        return None

    def unseen_reason(self, group: str) -> str | None:
        """Why a group that is not known may be there all the same, in words; None where nothing speaks for it."""
        return None

    def recording(self, group: str) -> GroupRecording | None:
        """A group's newest states, members and all, as far as they are kept; None where nothing is.

        Raises `AmbiguousGroup` where several clusters have one of that name.
        """
        return None

    def lag_notes(self, group: str) -> Sequence[LagNote]:
        """How far a group was behind while its members changed, as far as that is kept, in order.

        Raises `AmbiguousGroup` where several clusters have one of that name.
        """
        return ()

    def readings(self) -> Readings:
        """What a scrape needs. Raises `TypeError` where several clusters answer: each has readings of its own."""

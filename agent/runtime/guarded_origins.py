"""Asks an `OriginSource` so that nothing it does ends the reader: what it raises is logged, and counts as unknown."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from agent.common.pacing import Interval
from agent.core.inference.origins import Origin, OriginSource
from agent.core.shadow.views import Member

log = logging.getLogger("kshadow")

TELL_EVERY_S = 60.0
"""A source that fails does so for each member of a rebalance."""


class GuardedOrigins:
    """An `OriginSource` that raises nothing."""

    def __init__(self, source: OriginSource) -> None:
        self._source = source
        self._tells = Interval(TELL_EVERY_S)

    @property
    def is_behind(self) -> bool:
        """See `OriginSource`."""
        return self._source.is_behind

    def departure_origin(self, member: Member, departed_ms: int | None, shown_ms: int) -> Origin | None:
        """See `OriginSource`."""
        return self._asked(lambda: self._source.departure_origin(member, departed_ms, shown_ms))

    def join_origin(self, member: Member, shown_ms: int) -> Origin | None:
        """See `OriginSource`."""
        return self._asked(lambda: self._source.join_origin(member, shown_ms))

    def _asked(self, ask: Callable[[], Origin | None]) -> Origin | None:
        try:
            return ask()
        except Exception:
            if self._tells.due(time.monotonic()):
                log.exception("what happened to a member's pod could not be looked up; it counts as unknown")
            return None

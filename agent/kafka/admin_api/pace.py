"""When to ask again: at intervals, and after errors. Time is an argument (seconds of a clock that runs evenly)."""

from __future__ import annotations

FIRST_PAUSE_S, LAST_PAUSE_S = 1.0, 60.0
"""After an error: the first pause, doubled each time up to the last."""


class Interval:
    """Something that is to happen each so many seconds."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._at: float | None = None

    def due(self, now: float) -> bool:
        """Whether it is to happen now; then the interval begins anew."""
        if self._at is not None and now < self._at:
            return False
        self._at = now + self._interval_s
        return True

    def remaining_s(self, now: float) -> float:
        """How long until it is due; 0 if it is."""
        return 0.0 if self._at is None else max(self._at - now, 0.0)

    def restart_in(self, seconds: float, now: float) -> None:
        """The next time after this long."""
        self._at = now + seconds

    def not_before(self, seconds: float, now: float) -> None:
        """The next time after the interval, and after this long from now."""
        self._at = now + seconds if self._at is None else max(self._at, now + seconds)


class Backoff:
    """Which brokers do not answer, and until when each is left in peace."""

    def __init__(self) -> None:
        self._until: dict[int, tuple[float, float]] = {}

    def failed(self, broker: int, now: float) -> None:
        """It did not answer: the pause is twice the one before."""
        _, before = self._until.get(broker, (now, FIRST_PAUSE_S / 2))
        pause = min(2 * before, LAST_PAUSE_S)
        self._until[broker] = (now + pause, pause)

    def succeeded(self, broker: int) -> None:
        """It did."""
        self._until.pop(broker, None)

    def waiting(self, now: float) -> set[int]:
        """Those that are not to be asked now."""
        return {broker for broker, (until, _) in self._until.items() if until > now}

    def remaining_s(self, broker: int, now: float) -> float:
        """How long it is still to be left in peace; 0 if it is not."""
        until, _ = self._until.get(broker, (now, 0.0))
        return max(until - now, 0.0)

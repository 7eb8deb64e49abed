"""When to try again: at intervals, and after failures; and that this process did not run meanwhile. Time is an
argument (seconds of a clock that runs evenly)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

FIRST_PAUSE_S, LAST_PAUSE_S = 1.0, 60.0
"""After a failure: the first pause, doubled each time up to the last."""

STOOD_STILL_S = 10.0
"""What comes many times a second, and did not for so long: the process was stopped, or the machine slept, or had far
too much to do."""

Target = TypeVar("Target", bound=Hashable)


def growing_pauses(first_s: float = FIRST_PAUSE_S, last_s: float = LAST_PAUSE_S) -> Iterator[float]:
    """Pauses between attempts, in seconds, without an end: each twice the one before, up to `last_s`."""
    pause_s = first_s
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, last_s)


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


class Backoff(Generic[Target]):
    """Which targets (brokers, say) failed, and until when each is left in peace."""

    def __init__(self) -> None:
        self._pauses: dict[Target, Iterator[float]] = {}
        self._until: dict[Target, float] = {}

    def failed(self, target: Target, now: float) -> None:
        """It did not answer: the pause is twice the one before."""
        self._until[target] = now + next(self._pauses.setdefault(target, growing_pauses()))

    def succeeded(self, target: Target) -> None:
        """It did."""
        self._pauses.pop(target, None)
        self._until.pop(target, None)

    def waiting(self, now: float) -> set[Target]:
        """Those that are not to be asked now."""
        return {target for target, until in self._until.items() if until > now}

    def remaining_s(self, target: Target, now: float) -> float:
        """How long it is still to be left in peace; 0 if it is not."""
        return max(self._until.get(target, now) - now, 0.0)


class StandstillDetector:
    """Told many times a second that a loop runs, it notices when that stood still: others were not silent then."""

    def __init__(self) -> None:
        self._ran_s: float | None = None

    def lasted_s(self, now: float) -> float:
        """The loop runs; how long it had not, 0 where that is no standstill."""
        lasted_s, self._ran_s = self.idle_s(now), now
        return lasted_s

    def idle_s(self, now: float) -> float:
        """How long it has not run, 0 where that is no standstill. For any thread."""
        idle_s = 0.0 if self._ran_s is None else now - self._ran_s
        return idle_s if idle_s >= STOOD_STILL_S else 0.0

"""Time on an axis: where a time is, and which round times of UTC to write."""

from __future__ import annotations

from msgspec import Struct

from agent.common.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from agent.presentation.narrative.words import clock, day

_S, _M, _H, _D = SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS
STEPS_MS = (
    100, 200, 500, _S, 2 * _S, 5 * _S, 10 * _S, 15 * _S, 30 * _S, _M, 2 * _M, 5 * _M, 10 * _M, 15 * _M, 30 * _M, _H,
    2 * _H, 3 * _H, 6 * _H, 12 * _H, _D, 2 * _D, 7 * _D, 14 * _D, 28 * _D, 91 * _D, 182 * _D, 364 * _D,
)  # fmt: skip
"""Steps between ticks that people count in."""
APART = 84

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Scale(Struct, frozen=True):
    """Pixels from `left` to `right` stand for the times of a range."""

    since_ms: int
    until_ms: int
    left: float
    right: float

    def at(self, at_ms: int) -> float:
        """Where a time is, to a tenth of a pixel; what lies outside is at the edge."""
        span = max(self.until_ms - self.since_ms, 1)
        part = min(max((at_ms - self.since_ms) / span, 0.0), 1.0)
        return round(self.left + part * (self.right - self.left), 1)

    def ticks(self) -> list[tuple[float, str]]:
        """Places and words of the axis, at least `APART` pixels apart."""
        span = max(self.until_ms - self.since_ms, 1)
        most = max((self.right - self.left) / APART, 1)
        step = next((it for it in STEPS_MS if span / it <= most), None)
        if step is None:
            # Centuries: whatever comes out as few enough.
            step = STEPS_MS[-1] * -(-span // round(STEPS_MS[-1] * most))
        first = -(-self.since_ms // step) * step
        return [(self.at(at), _word(at, step)) for at in range(first, self.until_ms + 1, step)]


def _word(at_ms: int, step_ms: int) -> str:
    if step_ms < SECOND_MS:
        return f"{clock(at_ms)}.{at_ms % SECOND_MS // 100}"
    if at_ms % DAY_MS == 0 or step_ms >= DAY_MS:
        year, month, number = day(at_ms).rsplit("-", 2)
        date = f"{int(number)} {MONTHS[int(month) - 1]}"
        return f"{date} {year}" if step_ms > 90 * DAY_MS else date
    return clock(at_ms) if step_ms < MINUTE_MS else clock(at_ms)[:5]

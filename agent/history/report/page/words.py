"""Numbers as the page shows them. Every function takes None for what is not known, and then gives None."""

from __future__ import annotations

from agent.common.units import DAY_MS
from agent.presentation.narrative.words import duration, percent, timestamp
from analyzers.formatting import count_text

MINUS = "\N{MINUS SIGN}"

count = count_text
"""`1 group`, `1,234 groups`."""


def number(value: float | None) -> str | None:
    """`1,234`: something that is counted."""
    return None if value is None else f"{value:,.0f}".replace("-", MINUS)


def decimal(value: float | None) -> str | None:
    """`0.04`, `3.4`, `51.2`, `1,234`: something that is not."""
    if value is None:
        return None
    size = abs(value)
    if size == 0:
        return "0"
    if size < 0.005:
        return "<0.01" if value > 0 else f">{MINUS}0.01"
    places = 2 if size < 0.995 else 1 if size < 99.95 else 0
    return f"{value:,.{places}f}".replace("-", MINUS)


def time(ms: float | None) -> str | None:
    """`320 ms`, `1 h 20 min`, `1,234 d`."""
    if ms is None:
        return None
    if ms < 0:
        return f"{MINUS}{time(-ms)}"
    if ms >= 1_000 * DAY_MS:
        return f"{ms / DAY_MS:,.0f} d"
    return "0" if ms == 0 else duration(round(ms))


def seconds(value: float | None) -> str | None:
    """The same of seconds."""
    return None if value is None else time(1_000 * value)


def share(value: float | None) -> str | None:
    """`34 %`, `<0.1 %`, `>99.9 %`: 0 % and 100 % are said of nothing and of all."""
    if value is None:
        return None
    if 0.995 <= value < 0.9995:
        return f"{100 * value:.1f} %"
    return ">99.9 %" if 0.9995 <= value < 1 else percent(value).replace("less than ", "<")


def part(some: float | None, of_all: float | None) -> str | None:
    """`34 %`; None as well of nothing."""
    return None if some is None or not of_all else share(some / of_all)


def moment(at_ms: int) -> str:
    """`2026-11-21 10:00`, UTC: hours begin with minutes."""
    return timestamp(at_ms)[:16]


def ratio(value: float | None) -> str | None:
    """`1.25`."""
    if value is None:
        return None
    return "0" if abs(value) < 0.005 else f"{value:,.2f}".replace("-", MINUS)


def signed(shown: str | None) -> str | None:
    """With a plus where there is no minus."""
    return shown if shown is None or shown == "0" or MINUS in shown else f"+{shown}"


def changed(before: float | None, after: float | None) -> str | None:
    """`+12 %`, `-80 %` with a true minus, `from 0`; None where one of them is not known."""
    if before is None or after is None:
        return None
    if not before:
        return "from 0" if after else "0 %"
    more = after / before - 1
    sign = "" if abs(more) < 0.0005 else "+" if more > 0 else MINUS
    return f"{sign}{share(abs(more))}" if abs(more) < 9.995 else f"{number(after / before)} times as much"

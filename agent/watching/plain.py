"""The watch as lines: a summary, then one line for each thing that changes. No cursor moves, and there is no colour:
for screen readers, pipes and terminals that can do no more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from agent.story.words import clock, count, stamp
from agent.watching.asking import Asker
from agent.watching.changes import Happening
from agent.watching.lines import human
from agent.watching.model import Fleet, Row, ordered, rank, shown
from agent.watching.source import Away
from analyzers.severity import Severity

MOST_TROUBLES = 50
"""Groups with trouble that the summary names."""


def plain(
    asker: Asker,
    interval_s: float,
    say: Callable[[str], None],
    wait: Callable[[float], object] = time.sleep,
) -> None:
    """Say how it is, then what changes, for ever; once, where the source stands still.

    Raises what `wait` and `say` raise: Ctrl-C, a reader that went away.
    """
    away = False
    while True:
        began = time.monotonic()
        try:
            told = asker.round()
        except Away as reason:
            if not away:
                away = True
                say(f"{clock(asker.now_ms)} AWAY: {shown(reason, 400)}")
        else:
            if told.first:
                lines = summary(told.fleet, asker.source.where, live=asker.source.live)
            else:
                lines = [f"{clock(asker.now_ms)} answers again"] if away else []
                lines += [line(it) for it in told.news]
            away = False
            for text in lines:
                say(text)
            if not asker.source.live:
                return
        wait(max(interval_s, time.monotonic() - began))


def line(it: Happening) -> str:
    """One change."""
    return f"{clock(it.at_ms)} {it.name}: {it.what}"


def summary(fleet: Fleet, where: str, *, live: bool) -> list[str]:
    """How it is, the worst first."""
    health = f" Source: {fleet.health}." if fleet.health else ""
    when = f"at {stamp(fleet.at_ms)} UTC" if live else f"a still picture of {stamp(fleet.at_ms)} UTC"
    out = [f"kshadow watch {shown(where)}, {when}.{health}"]
    worst = [rank(event) for event in fleet.findings]
    by = [(severity, worst.count(severity.rank)) for severity in reversed(Severity)]
    said = ", ".join(f"{n} {severity}" for severity, n in by if n)
    out.append(f"{count(fleet.groups, 'group')}, {count(len(worst), 'open finding')}{f': {said}' if said else ''}.")
    troubled = [row for row in ordered(fleet.rows) if row.worst >= 0 or row.late]
    for row in troubled[:MOST_TROUBLES]:
        out += _trouble(row, fleet)
    if len(troubled) > MOST_TROUBLES:
        out.append(f"And {count(len(troubled) - MOST_TROUBLES, 'more group')} with trouble.")
    calm = [row for row in fleet.rows if row not in troubled] if len(troubled) < 100 else []
    states = sorted({row.state for row in calm})
    if calm:
        each = ", ".join(f"{sum(row.state == state for row in calm)} {state}" for state in states)
        out.append(f"{count(len(calm), 'group')} without trouble: {each}.")
    if live:
        out.append("From now on, one line for each change; times are UTC.")
    return out


def _trouble(row: Row, fleet: Fleet) -> Iterable[str]:
    if row.key.group is not None:
        parts = [row.state, count(row.members or 0, "member"), count(row.partitions or 0, "partition")]
        if row.late:
            parts.append(f"{count(row.late, 'rebalance')} in 10 min")
        if row.lag is not None:
            parts.append(f"lag {human(row.lag)}")
        yield f"{row.name}: {', '.join(parts)}"
    for event in fleet.found.get(row.key, ()):
        text = f"{event['severity']}: {event['analyzer']}: {event['summary']} Advice: {event['advice']}"
        yield f"{row.name}: {shown(text, 1_000)}"

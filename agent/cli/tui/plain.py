"""The watch as lines: a summary, then one line for each thing that changes. No cursor moves, and there is no colour:
for screen readers, pipes and terminals that can do no more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from agent.cli.answers import SourceAway
from agent.cli.tui.fleet import Fleet, FleetRow, display_text, severity_rank, sorted_rows
from agent.cli.tui.lines import short_number
from agent.cli.tui.poller import Poller
from agent.core.diagnosis.severity import Severity
from agent.presentation.narrative.words import clock, count, timestamp

MAX_TROUBLED_GROUPS = 50
"""Groups with trouble that the summary names."""


def watch_as_lines(
    asker: Poller,
    interval_s: float,
    say: Callable[[str], None],
    wait: Callable[[float], object],
) -> None:
    """Say how it is, then what changes, for ever; once, where the source stands still.

    Raises what `wait` and `say` raise: Ctrl-C, a reader that went away.
    """
    away = False
    while True:
        began = time.monotonic()
        try:
            told = asker.poll_fleet()
        except SourceAway as reason:
            if not away:
                away = True
                say(f"{clock(asker.now_ms)} AWAY: {display_text(reason, 400)}")
        else:
            if told.first:
                lines = summary(told.fleet, asker.source.where, live=asker.source.capabilities.live)
            else:
                lines = [f"{clock(asker.now_ms)} answers again"] if away else []
                lines += [f"{clock(it.at_ms)} {it.name}: {it.text}" for it in told.changes]
            away = False
            for text in lines:
                say(text)
            if not asker.source.capabilities.live:
                return
        wait(max(interval_s, time.monotonic() - began))


def summary(fleet: Fleet, where: str, *, live: bool) -> list[str]:
    """How it is, the worst first."""
    health = f" Source: {fleet.health}." if fleet.health else ""
    time = f"{timestamp(fleet.at_ms)} UTC" if fleet.at_ms else "an unknown time"
    when = f"at {time}" if live else f"a still picture of {time}"
    out = [f"kshadow watch {display_text(where)}, {when}.{health}"]
    worst = [severity_rank(event) for event in fleet.findings]
    by = [(severity, worst.count(severity.rank)) for severity in reversed(Severity)]
    said = ", ".join(f"{n} {severity}" for severity, n in by if n)
    out.append(f"{count(fleet.groups, 'group')}, {count(len(worst), 'open finding')}{f': {said}' if said else ''}.")
    troubled = [row for row in sorted_rows(fleet.rows) if row.worst_rank >= 0 or row.recent_rebalances]
    for row in troubled[:MAX_TROUBLED_GROUPS]:
        out += _trouble_lines(row, fleet)
    if len(troubled) > MAX_TROUBLED_GROUPS:
        out.append(f"And {count(len(troubled) - MAX_TROUBLED_GROUPS, 'more group')} with trouble.")
    calm = [row for row in fleet.rows if row not in troubled] if len(troubled) < 100 else []
    states = sorted({row.state for row in calm})
    if calm:
        each = ", ".join(f"{sum(row.state == state for row in calm)} {state}" for state in states)
        out.append(f"{count(len(calm), 'group')} without trouble: {each}.")
    if live:
        out.append("From now on, one line for each change; times are UTC.")
    return out


def _trouble_lines(row: FleetRow, fleet: Fleet) -> Iterable[str]:
    if row.key.group is not None:
        parts = [row.state, count(row.members or 0, "member"), count(row.partitions or 0, "partition")]
        if row.recent_rebalances:
            parts.append(f"{count(row.recent_rebalances, 'rebalance')} in the last 10 min")
        if row.lag is not None:
            parts.append(f"lag {short_number(row.lag)}")
        yield f"{row.name}: {', '.join(parts)}"
    for event in fleet.findings_by_key.get(row.key, ()):
        as_of = f"as of {clock(event['at_ms'])}"
        text = f"{event['severity']}: {event['analyzer']}, {as_of}: {event['summary']} Advice: {event['advice']}"
        yield f"{row.name}: {display_text(text, 1_000)}"

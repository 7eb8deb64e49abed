"""What a comparison says, in sentences: how true the replay is, what would help, and what is taken for granted."""

from __future__ import annotations

from collections.abc import Iterator

from agent.presentation.narrative.words import (
    capitalized,
    clock,
    count,
    day,
    duration,
    duration_range,
    join_counted,
    join_words,
    name,
)
from agent.simulation.whatif.calibrated_replay import CalibratedReplay, GenerationDifference
from agent.simulation.whatif.changes import CHANGES, format_setting
from agent.simulation.whatif.comparison import AlternativeOutcome, Comparison, best_alternatives
from agent.simulation.whatif.recorded_script import ASSUMPTION_NOTES

MOST = 3
"""Differences that are told in full."""


def partition_seconds(ms: int) -> str:
    """`12.3 partition-seconds`."""
    return f"{ms / 1000:,.1f} partition-seconds"


def headline(fitted: CalibratedReplay) -> str:
    """What was replayed, of which time."""
    found = fitted.recorded
    until_ms = found.closing_ms
    clients = len(set(found.clients.by_member_id.values()))
    return (
        f"{name(found.script.group)}: {count(fitted.reproduction.generations, 'generation')} of "
        f"{count(clients, 'client')} between {day(found.opening_ms)} {clock(found.opening_ms)} and {day(until_ms)} "
        f"{clock(until_ms)} UTC ({duration(max(until_ms - found.opening_ms, 0))})."
    )


def reproduced(fitted: CalibratedReplay, compared: Comparison) -> list[str]:
    """How near the replay under today's settings comes to what the log shows: first of all, where it does not."""
    it = fitted.reproduction
    if it.is_exact:
        out = [
            f"Replayed under today's settings it comes out as it was: {count(it.generations, 'generation')}, "
            "with the same members."
        ]
    else:
        extra = sum(difference.recorded is None for difference in it.differences)
        out = [
            f"Replayed under today's settings it is NOT exact: of {count(it.generations, 'generation')} "
            f"{it.matched} come out with the same members, {it.generations - it.matched} do not, "
            f"and {extra} come that the log does not have. So the numbers below are off by as much."
        ]
        out += [_difference(difference) for difference in it.differences[:MOST]]
    if it.late_ms:
        off = sorted(abs(late) for late in it.late_ms)
        out.append(
            f"Their assignments come within {duration(off[-1])} of the log's, half of them within "
            f"{duration(off[len(off) // 2])}. Partitions stand still for "
            f"{partition_seconds(compared.today.stopped_ms)}."
        )
    return out


def _difference(it: GenerationDifference) -> str:
    if it.recorded is not None:
        who = join_counted(sorted(map(name, it.recorded.clients))) if it.recorded.clients else "nobody"
        return f"Generation {it.recorded.generation} ({clock(it.recorded.at_ms)}: {who}) does not come out."
    assert it.played is not None, "one of the two is there"
    who = join_counted(sorted(map(name, it.played.clients))) if it.played.clients else "nobody"
    return f"At {clock(it.played.at_ms)} the replay has a generation of {who} that the log does not have."


def advice(fitted: CalibratedReplay, compared: Comparison) -> list[str]:
    """What would have helped most."""
    by_time, by_count = best_alternatives(fitted.recorded, compared)
    today = compared.today
    out = []
    if by_time is None:
        out.append("None of these would have saved standstill worth the name.")
    else:
        saved = compared.saved(by_time)
        out.append(
            f"{capitalized(by_time.alternative.label)} would have saved most standstill: {saved[1] / 1000:,.1f} of "
            f"{partition_seconds(today.stopped_ms)}{_rebalances(saved[0])}.{_detection(today, by_time)}"
        )
    if by_count is not None and by_count is not by_time:
        saved = compared.saved(by_count)
        less = (
            f"saves {partition_seconds(saved[1])}" if saved[1] >= 0 else f"costs {partition_seconds(-saved[1])} more"
        )
        out.append(
            f"{capitalized(by_count.alternative.label)} would have saved most rebalances: {saved[0]} of "
            f"{today.rebalances}; it {less} of standstill.{_detection(today, by_count)}"
        )
    return out


def _rebalances(saved: int) -> str:
    if not saved:
        return ""
    return f", and {count(saved, 'rebalance')}" if saved > 0 else f", for {count(-saved, 'rebalance')} more"


def _detection(today: AlternativeOutcome, other: AlternativeOutcome) -> str:
    """What it does to how soon a death is noticed, where that is worth saying."""
    if other.deaths > len(other.detected_ms) and len(other.detected_ms) < len(today.detected_ms):
        return (
            f" Of {count(today.deaths, 'death')} or stalls it takes out the members of {len(other.detected_ms)} "
            f"(today {len(today.detected_ms)}): the others are back before that."
        )
    now, then = today.detects_ms, other.detects_ms
    if now is None or then is None or abs(then - now) < 0.1 * now:
        return ""
    return f" A member that dies is then taken out after {duration(then)} (median), today after {duration(now)}."


def assumptions(fitted: CalibratedReplay, compared: Comparison) -> Iterator[str]:
    """What is taken for granted."""
    found = fitted.recorded
    told = (
        "by the log, or as told" if found.heartbeat_told else "not in the log: the clients' default or what fits best"
    )
    yield (
        f"Clients notice a rebalance with their next heartbeat, every {format_setting(found.heartbeat_ms)} ({told}), "
        "and join at once: no time for the records at hand."
    )
    told = "by the log, or as told" if found.delay_told else "not in the log: the brokers' default"
    yield f"Brokers wait {format_setting(found.delay_ms)} for more members of an empty group ({told})."
    yield (
        "When a client came, went or died the log bounds to about a heartbeat interval; it is taken to be the same "
        "under every setting, and so is how long a restart takes."
    )
    yield "Every partition counts alike, whatever its load; what was not consumed before or after is not made up for."
    for kind, number in sorted(found.notes.items()):
        yield f"{capitalized(ASSUMPTION_NOTES[kind])}: {number}."
    if found.clients.replacements:
        taken = [f"{name(client_id)} for {name(place)}" for client_id, place in found.clients.replacements]
        yield (
            f"{count(len(taken), 'newcomer')} {'is' if len(taken) == 1 else 'are'} taken for the restart of a client "
            f"that left for good: {join_words(taken)}."
        )
    changed = {key for outcome in compared.outcomes for key in outcome.alternative.values}
    yield from (f"{capitalized(CHANGES[key].assumes)}." for key in CHANGES if key in changed)
    for alternative, reason in compared.not_played:
        yield f"{capitalized(alternative.label)} is left out: {reason}."


def detection(outcome: AlternativeOutcome) -> str | None:
    """`6.0 s`, `6.0 to 7.5 s`; None if no death was noticed."""
    if not outcome.detected_ms:
        return None
    assert outcome.detects_ms is not None, "the median of some"
    assert outcome.detects_at_most_ms is not None, "the longest of some"
    return duration_range([outcome.detects_ms, outcome.detects_at_most_ms])


def saving(compared: Comparison, outcome: AlternativeOutcome) -> str | None:
    """`3 rebalances, 12.5 s`; what is negative costs more. None for nothing."""
    rebalances, ms = compared.saved(outcome)
    if outcome is compared.today or not (rebalances or ms):
        return None
    noun = "rebalance" if abs(rebalances) == 1 else "rebalances"
    return f"{rebalances} {noun}, {ms / 1000:,.1f} s"

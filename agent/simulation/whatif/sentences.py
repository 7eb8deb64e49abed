"""What a comparison says, in sentences: how true the replay is, what would help, and what is taken for granted."""

from __future__ import annotations

from collections.abc import Iterator

from agent.presentation.narrative.gains import ALIKE_FACTOR
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
    percent,
)
from agent.simulation.whatif.calibrated_replay import CalibratedReplay, GenerationDifference, ReplayAccuracy
from agent.simulation.whatif.changes import CHANGES, format_setting
from agent.simulation.whatif.comparison import AlternativeOutcome, Comparison, best_alternatives
from agent.simulation.whatif.recorded_script import ASSUMPTION_NOTES, RecordedScript

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
            f"The replay under today's settings reproduces the log: {count(it.generations, 'generation')} "
            "with the same members."
        ]
    else:
        extra = sum(difference.recorded is None for difference in it.differences)
        out = [
            f"The replay under today's settings differs from the log: it reproduces {it.matched} of "
            f"{count(it.generations, 'generation')}{f' and adds {extra}' if extra else ''}. "
            "The numbers below are off by as much."
        ]
        out += [_difference(difference) for difference in it.differences[:MOST]]
    if it.late_ms:
        off = sorted(abs(late) for late in it.late_ms)
        out.append(
            f"Assignments come within {duration(off[-1])} of the log's, half of them within "
            f"{duration(off[len(off) // 2])}."
        )
    out.append(_times(it, compared.today.stopped_ms))
    return out


def _times(it: ReplayAccuracy, all_ms: int) -> str:
    """Whether partitions are stopped for as long as in the log."""
    text = f"In the replay partitions are stopped for {partition_seconds(all_ms)}."
    if not it.costed:
        return f"{text} The log does not show for how long they were: {_ONLY_EACH_OTHER}"
    whose = f"In the {it.costed} of {count(it.generations, 'generation')} whose stopped time the log shows"
    text += f" {whose} it is {partition_seconds(it.stopped_ms)}, and {it.log_stopped_ms / 1000:,.1f} by the log"
    if it.has_times_of_log:
        return f"{text}."
    return (
        f"{text}: more than a factor of {ALIKE_FACTOR} apart. "
        f"The model's times are not this group's: {_ONLY_EACH_OTHER}"
    )


_ONLY_EACH_OTHER = "compare its numbers with each other only."


def _difference(it: GenerationDifference) -> str:
    if it.recorded is not None:
        who = join_counted(sorted(map(name, it.recorded.clients))) if it.recorded.clients else "no members"
        return f"Generation {it.recorded.generation} ({clock(it.recorded.at_ms)}: {who}) is not reproduced."
    assert it.played is not None, "one of the two is there"
    who = f"of {join_counted(sorted(map(name, it.played.clients)))}" if it.played.clients else "without members"
    return f"At {clock(it.played.at_ms)} the replay has a generation {who} that is not in the log."


def advice(fitted: CalibratedReplay, compared: Comparison) -> list[str]:
    """What would have helped most."""
    by_time, by_count = best_alternatives(fitted.recorded, compared)
    today = compared.today
    out = []
    if by_time is None:
        out.append("No setting saves notable stopped time.")
    else:
        saved = compared.saved(by_time)
        out.append(
            f"{capitalized(by_time.alternative.label)} saves most stopped time: "
            f"{_part(fitted, compared, saved[1])}{_rebalances(saved[0])}.{_detection(today, by_time)}"
        )
    if by_count is not None and by_count is not by_time:
        saved = compared.saved(by_count)
        less = ""
        if round(saved[1] / 1000, 1):
            less = f", {'and' if saved[1] > 0 else 'but costs'} {_time(fitted, compared, abs(saved[1]))}"
        detected = _detection(today, by_count)
        out.append(
            f"{capitalized(by_count.alternative.label)} saves most rebalances: {saved[0]} of "
            f"{today.rebalances}{less}."
            f"{'' if by_time is not None and detected == _detection(today, by_time) else detected}"
        )
    return out


def _part(fitted: CalibratedReplay, compared: Comparison, ms: int) -> str:
    today_ms = compared.today.stopped_ms
    if fitted.reproduction.has_times_of_log:
        return f"{ms / 1000:,.1f} of {partition_seconds(today_ms)}"
    return f"{percent(ms / today_ms)} of the model's"


def _time(fitted: CalibratedReplay, compared: Comparison, ms: int) -> str:
    if fitted.reproduction.has_times_of_log:
        return f"{partition_seconds(ms)} of stopped time"
    today_ms = compared.today.stopped_ms
    return f"{percent(ms / today_ms)} of the model's stopped time" if today_ms else "stopped time"


def _rebalances(saved: int) -> str:
    if not saved:
        return ""
    return f", and {count(saved, 'rebalance')}" if saved > 0 else f", but adds {count(-saved, 'rebalance')}"


def _detection(today: AlternativeOutcome, other: AlternativeOutcome) -> str:
    """What it does to how soon a death is noticed, where that is worth saying."""
    if not other.alternative.has_part_in_detection:
        return ""
    if other.deaths > len(other.detected_ms) and len(other.detected_ms) < len(today.detected_ms):
        return (
            f" It removes the members of {len(other.detected_ms)} of {count(today.deaths, 'death')} or stalls "
            f"(today {len(today.detected_ms)}); the others return before that."
        )
    now, then = today.detects_ms, other.detects_ms
    if now is None or then is None or abs(then - now) < 0.1 * now:
        return ""
    return f" A dead member is then removed after {duration(then)} (median; today {duration(now)})."


def assumptions(fitted: CalibratedReplay, compared: Comparison) -> Iterator[str]:
    """What the replay assumes."""
    found = fitted.recorded
    told = (
        "from the log or the command line"
        if found.heartbeat_told
        else "not in the log: the clients' default, or what fits best"
    )
    yield (
        f"Clients notice a rebalance with their next heartbeat, every {format_setting(found.heartbeat_ms)} ({told}), "
        "and rejoin at once."
    )
    told = "from the log or the command line" if found.delay_told else "not in the log: the brokers' default"
    yield f"Brokers wait {format_setting(found.delay_ms)} for more members of an empty group ({told})."
    yield (
        "The log bounds the time of a join, departure or death to about a heartbeat interval. These times, and "
        "how long a restart takes, are the same under every setting."
    )
    yield "Every partition counts the same, whatever its load; a backlog is not counted."
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
    if any(outcome.alternative.values.get("protocol") == "consumer" for outcome in compared.outcomes):
        yield f"{capitalized(kip848_session(found))}, unless others are tried."
    for alternative, reason in compared.not_played:
        yield f"{capitalized(alternative.label)} is left out: {reason}."


def kip848_session(found: RecordedScript) -> str:
    """What sessions are taken to be with KIP-848, and whence that is known."""
    broker = found.script.broker
    told = "from the brokers or the command line" if found.kip848_session_told else "assumed: Kafka's defaults"
    return (
        f"with KIP-848 the session timeout is {format_setting(broker.consumer_session_timeout_ms)} and the heartbeat "
        f"interval {format_setting(broker.consumer_heartbeat_interval_ms)} ({told})"
    )


def detection(outcome: AlternativeOutcome) -> str | None:
    """`6.0 s`, `6.0 to 7.5 s`; None if no death was noticed."""
    if not outcome.detected_ms:
        return None
    assert outcome.detects_ms is not None, "the median of some"
    assert outcome.detects_at_most_ms is not None, "the longest of some"
    return duration_range([outcome.detects_ms, outcome.detects_at_most_ms])


def saving(fitted: CalibratedReplay, compared: Comparison, outcome: AlternativeOutcome) -> str | None:
    """`3 rebalances, 12.5 s`; `3 rebalances, 76 %` where the model's times are not the group's. What is negative
    costs more. None for nothing."""
    rebalances, ms = compared.saved(outcome)
    if outcome is compared.today or not (rebalances or ms):
        return None
    noun = "rebalance" if abs(rebalances) == 1 else "rebalances"
    if fitted.reproduction.has_times_of_log:
        return f"{rebalances} {noun}, {ms / 1000:,.1f} s"
    today_ms = compared.today.stopped_ms
    if not (rebalances or today_ms):
        return None
    # `percent` is of what is not negative.
    share = f", {'-' if ms < 0 else ''}{percent(abs(ms) / today_ms)}" if today_ms else ""
    return f"{rebalances} {noun}{share}"

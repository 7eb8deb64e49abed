"""What happened, in order: a line each while there are few, else a paragraph for each busy time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from agent.presentation.narrative.events import Departure, Rebalance
from agent.presentation.narrative.origins import origins_suffix
from agent.presentation.narrative.patterns import find_crash_loops, rolling_restart_phrase
from agent.presentation.narrative.phrases import because, generation_phrase, went
from agent.presentation.narrative.timeline import TimelineEntry
from agent.presentation.narrative.timeline import with_certainty as hedge
from agent.presentation.narrative.words import (
    Calendar,
    capitalized,
    count,
    duration,
    grouped,
    join_counted,
    join_words,
    name,
    times,
)

MAX_SINGLE_LINES = 8
"""So many things are told one by one."""

QUIET_MS = 300_000
"""A pause as long as this parts two busy times."""

MAX_BUSY_PARAGRAPHS = 8
"""Only the longest pauses part more than this."""

MAX_LINES_OF_ONE_PARAGRAPH = 3
"""So many things of one busy time are told one by one."""

FIRST_REBALANCE_WITHIN_MS = 10_000
"""A first rebalance that comes so soon after a group appeared tells of that; brokers wait for more members first."""

MAIN_CLIENT_SHARE = 0.6
"""From this share on, one client is named before all others."""


def busy_paragraphs(
    lines: Sequence[TimelineEntry], calendar: Calendar, group_type: str | None
) -> list[tuple[str, tuple[TimelineEntry, ...]]]:
    """Paragraphs, each with the lines that it tells of. What only carries out a rebalance is left out."""
    told = [
        line
        for line, after in zip(lines, [*lines[1:], None], strict=True)
        if line.label != "assigned" and not _is_told_by_next(line, after)
    ]
    if len(told) <= MAX_SINGLE_LINES:
        return [_single_line(line, calendar) for line in told]
    out: list[tuple[str, tuple[TimelineEntry, ...]]] = []
    for chapter in _split_at_pauses(told):
        if len(chapter) <= MAX_LINES_OF_ONE_PARAGRAPH:
            out += [_single_line(line, calendar) for line in chapter]
        else:
            out.append((_busy_paragraph(chapter, calendar, group_type), tuple(chapter)))
    return out


def _is_told_by_next(line: TimelineEntry, after: TimelineEntry | None) -> bool:
    """Whether a group that appeared is told of by the first rebalance that follows at once."""
    return (
        line.label == "created"
        and after is not None
        and after.rebalance is not None
        and after.at_ms - line.at_ms <= FIRST_REBALANCE_WITHIN_MS
        and all(event["observed"] for event in line.events)
    )


def _single_line(line: TimelineEntry, calendar: Calendar) -> tuple[str, tuple[TimelineEntry, ...]]:
    cost = f"; partitions stopped for {duration(line.cost_ms)} in sum" if line.cost_ms else ""
    return f"{calendar.at(line.at_ms)} {line.text or line.label}{cost}.", (line,)


def _split_at_pauses(lines: Sequence[TimelineEntry]) -> list[list[TimelineEntry]]:
    pauses = sorted(
        (
            (after.at_ms - before.at_ms, at)
            for at, (before, after) in enumerate(pairwise(lines), 1)
            if after.at_ms - before.at_ms >= QUIET_MS
        ),
        key=lambda pause: (-pause[0], pause[1]),
    )
    cuts = sorted(at for _, at in pauses[: MAX_BUSY_PARAGRAPHS - 1])
    return [list(lines[start:end]) for start, end in pairwise([0, *cuts, len(lines)])]


def _busy_paragraph(lines: Sequence[TimelineEntry], calendar: Calendar, group_type: str | None) -> str:
    first, last = lines[0].at_ms, lines[-1].at_ms
    between = f"{capitalized(calendar.between(first, last))} ({duration(last - first)})"
    done = [line.rebalance for line in lines if line.rebalance is not None]
    out = []
    if done:
        why = causes_phrase(Counter(it.cause for it in done))
        out.append(f"{between} the group rebalanced {times(len(done))}: {why}.")
        out += [f"{text}." for text in departure_clauses([gone for it in done for gone in it.left])]
        out += _pattern_sentences(done)
        left = f"with {count(done[-1].members, 'member')}" if done[-1].members else "without members"
        at = generation_phrase(group_type, done[-1].generation)
        out.append(f"It ended {f'at {at} ' if at else ''}{left}.")
    else:
        out.append(f"{between} the group did not rebalance.")
    others = Counter(line.label for line in lines if line.rebalance is None)
    if others:
        out.append(
            f"Also: {join_words([_other_event_phrase(label, number) for label, number in others.items()], 9)}."
        )
    return " ".join(out)


def _pattern_sentences(done: Sequence[Rebalance]) -> list[str]:
    out = [
        f"{name(loop.client)} on {loop.host} left {times(len(loop.losses))} and joined again {times(loop.returns)}."
        for loop in find_crash_loops(done)[:MAX_LINES_OF_ONE_PARAGRAPH]
    ]
    restarts = rolling_restart_phrase(done)
    return [*out, f"{capitalized(restarts)}."] if restarts else out


def causes_phrase(found: Mapping[str, int]) -> str:
    """`twice because a member joined and once for an unknown reason`, the most frequent first."""
    if len(found) == 1:
        ((cause, number),) = found.items()
        return because(cause) if number == 1 else f"each time {because(cause)}"
    ordered = sorted(found.items(), key=lambda cause: -cause[1])
    return join_words([f"{times(number)} {because(cause)}" for cause, number in ordered], 12)


def departure_clauses(gone: Iterable[Departure]) -> list[str]:
    """Who went, and how: a clause a way, without a full stop."""
    ways = grouped(gone, lambda it: it.told_as)
    out = []
    for (cause, observed, _), same in sorted(ways.items(), key=lambda way: -len(way[1])):
        least = min(it.confidence for it in same)
        if len(same) == 1:
            out.append(
                f"{hedge(f'{clients_of_departures(same)} {went(cause)}', least, observed)}{origins_suffix(same)}"
            )
        else:
            claim = f"{count(len(same), 'member')} {went(cause, len(same))}"
            out.append(f"{hedge(claim, least, observed)}{origins_suffix(same)}: {clients_of_departures(same)}")
    return out


def clients_of_departures(gone: Sequence[Departure]) -> str:
    """`always x on host y`, `mostly x on host y (9 of 12)`, or the names."""
    (top, number), *others = Counter((it.member.label, it.member.host) for it in gone).most_common()
    who = f"{name(top[0])} on {top[1]}"
    if not others:
        return who if number == 1 else f"{'both times' if number == 2 else 'always'} {who}"
    if number > 1 and number / len(gone) >= MAIN_CLIENT_SHARE:
        return f"mostly {who} ({number} of {len(gone)})"
    return join_counted(name(it.member.label) for it in gone)


def _other_event_phrase(label: str, number: int) -> str:
    match label:
        case "replaced":
            return f"a static member joined again {times(number)} without a rebalance"
        case "created" | "deleted" | "emptied":
            return f"the group was {label}" + (f" {times(number)}" if number > 1 else "")
        case "offsets":
            return f"committed offsets were deleted or expired {times(number)}"
        case _:
            return f"{label} {times(number)}"

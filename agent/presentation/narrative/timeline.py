"""One group's events folded into lines: what one rebalance did is one line, however many events tell of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

from msgspec import Struct

from agent.core.causes import Cause, cause_info
from agent.presentation.narrative.events import (
    Departure,
    Event,
    MemberRef,
    Rebalance,
    member_ref,
    parse_departure,
    parse_rebalance,
)
from agent.presentation.narrative.origins import joins_suffix, origins_suffix, short_words
from agent.presentation.narrative.phrases import generation_phrase, went, work
from agent.presentation.narrative.words import certainty_percent, count, duration, grouped, join_words, name, sentence

REBALANCE_EVENT_TYPES = ("rebalance", "member_joined", "member_left", "assignment_changed", "group_emptied")
"""Types of events that one record may show together, as one rebalance."""


TOGETHER_MS = 1_000
"""Offsets that are deleted within so little time were deleted together."""


class TimelineEntry(Struct, frozen=True):
    """What happened at one time. `cost_ms` is stopped partition time, None where it is not known.

    `label` is one word for it, `text` the rest of the line. `rebalance` is there if it was one; `events` are all
    that it was folded from, in order.
    """

    at_ms: int
    label: str
    text: str
    cost_ms: int | None
    events: tuple[Event, ...]
    rebalance: Rebalance | None = None


def timeline_entries(events: Iterable[Event]) -> list[TimelineEntry]:
    """The lines of one group's events, which are in their order."""
    groups: list[list[Event]] = []
    for event in events:
        if groups and _belongs_to(groups[-1], event):
            groups[-1].append(event)
        else:
            groups.append([event])
    entries, was_deleted = [], False
    for group in groups:
        entries.append(_entry(group, was_deleted=was_deleted))
        was_deleted = was_deleted or group[0]["type"] == "group_deleted"
    return entries


def _belongs_to(group: Sequence[Event], event: Event) -> bool:
    first, kind = group[0], event["type"]
    if kind == "offsets_deleted":
        # An expiry or a deletion takes a group's offsets together.
        return bool(first["type"] == kind and event["at_ms"] - group[-1]["at_ms"] <= TOGETHER_MS)
    if kind not in REBALANCE_EVENT_TYPES or first["type"] not in REBALANCE_EVENT_TYPES:
        return False
    if kind == "assignment_changed" and event["at_ms"] == first["at_ms"]:
        # Newer group types write the target assignment behind the epoch, in the same batch.
        return bool(event["generation"] == first["generation"])
    # What looks show has no place in the log, and one time instead.
    where = "partition", "offset", "at_ms"
    return kind != "rebalance" and all(event[it] == first[it] for it in where)


def _entry(group: list[Event], *, was_deleted: bool) -> TimelineEntry:
    """`was_deleted`: the consumer group was, before."""
    first = group[0]
    found = next((event for event in group if event["type"] == "rebalance"), None)
    if found is not None:
        done = parse_rebalance(found)
        text = rebalance_line(done, group, first["group_type"])
        return TimelineEntry(first["at_ms"], "rebalance", text, done.stopped_ms, tuple(group), done)
    say = _LINE_OF_TYPE.get(first["type"])
    if first["type"] == "group_created":
        say = partial(_created_line, was_deleted=was_deleted)
    label, text = (first["type"], "") if say is None else say(group)
    return TimelineEntry(first["at_ms"], label, text, None, tuple(group))


def rebalance_line(rebalance: Rebalance, events: Iterable[Event], group_type: str | None) -> str:
    """A rebalance in one line."""
    said = [
        part
        for part in (
            _joined_clause(rebalance),
            *_left_clauses(rebalance.left),
            _cause_clause(rebalance),
            count(rebalance.members, "member"),
            _moved_clause(rebalance, events, group_type),
        )
        if part
    ]
    return _after_generation(group_type, rebalance.generation, "; ".join(said))


def _after_generation(group_type: str | None, generation: int | None, text: str) -> str:
    unit = generation_phrase(group_type, generation)
    return f"{unit}: {text}" if unit else text


def member_labels(members: Iterable[MemberRef]) -> str:
    """Members by their client ids; where several have one, how many."""
    found = Counter(member.label for member in members)
    return join_words([name(label) if n == 1 else f"{name(label)} ({n})" for label, n in found.items()])


def with_certainty(text: str, confidence: float, observed: bool) -> str:
    """A claim with how it is known: seen, or inferred and how surely; what the log itself shows needs neither."""
    if observed:
        return f"{text} (observed)"
    return text if confidence >= 1 or confidence <= 0 else f"{text} ({certainty_percent(confidence)})"


def _is_first_seen(rebalance: Rebalance) -> bool:
    """Whether the log lacks the generation before, so that members may have been there."""
    is_unknown = rebalance.cause == Cause.UNKNOWN
    return is_unknown and rebalance.previous_generation is None and rebalance.generation is not None


def _joined_clause(rebalance: Rebalance) -> str:
    if not rebalance.joined:
        return ""
    if _is_first_seen(rebalance):
        return f"first seen with {member_labels(rebalance.joined)}{joins_suffix(rebalance.joined)}"
    # One that died and came back has the same client id; so have all members of a fleet, so no more is said.
    again = {member.label for member in rebalance.joined} <= {gone.member.label for gone in rebalance.left}
    return f"{member_labels(rebalance.joined)} joined{' again' if again else ''}{joins_suffix(rebalance.joined)}"


def _left_clauses(left: Sequence[Departure]) -> list[str]:
    return [
        with_certainty(
            f"{member_labels(gone.member for gone in same)} {went(cause, len(same))}",
            min(gone.confidence for gone in same),
            observed,
        )
        + origins_suffix(same)
        for (cause, observed, _), same in grouped(left, lambda gone: gone.told_as).items()
    ]


def _cause_clause(rebalance: Rebalance) -> str:
    """What set it off, unless the members that came or went say so already."""
    ways = {gone.cause for gone in rebalance.left} | ({"member_joined"} if rebalance.joined else set())
    if ways == {rebalance.cause} or (rebalance.joined and _is_first_seen(rebalance)):
        return ""
    info = cause_info(rebalance.cause)
    text = info.came_first or f"cause {rebalance.cause}"
    if info.reason is not None and (not ways or info.came_first is None):
        text = info.reason
    return with_certainty(text, rebalance.confidence, rebalance.observed)


def _moved_clause(rebalance: Rebalance, events: Iterable[Event], group_type: str | None) -> str:
    change = next((event for event in events if event["type"] == "assignment_changed"), None)
    if change is None or not change["assigned_partitions"]:
        return ""
    if len(rebalance.joined) == rebalance.members:
        return f"{count(change['assigned_partitions'], work(group_type))} assigned"
    return _assignment_clause(change, group_type)


def _assignment_clause(event: Event, group_type: str | None) -> str:
    assigned, gained, lost = (event[f"{it}_partitions"] for it in ("assigned", "gained", "lost"))
    noun = work(group_type)
    out = f"{gained} of {count(assigned, noun)} moved" if gained else f"{count(assigned, noun)} assigned"
    return f"{out}, {lost} unassigned" if lost else out


def _partial_rebalance_line(group: list[Event]) -> tuple[str, str]:
    """Events of a rebalance without their `rebalance`, which was cut off or is not one."""
    event = group[0]
    unit = partial(_after_generation, event["group_type"], event["generation"])
    match event["type"]:
        case "member_joined":
            member = [member_ref(event["member"])]
            return "joined", unit(f"{member_labels(member)} joined{joins_suffix(member)}")
        case "member_left":
            return "left", unit(_left_clauses([parse_departure(event)])[0])
        case "assignment_changed":
            return "assigned", unit(_assignment_clause(event, event["group_type"]))
        case _:
            return "emptied", unit("the last member left")


def _replaced_line(group: list[Event]) -> tuple[str, str]:
    member, old = member_ref(group[0]["member"]), member_ref(group[0]["old_member"])
    why = "" if old.origin is None else f": {short_words(old.origin)}"
    return "replaced", (
        f"{name(member.label)} (static, {name(member.instance_id or '')}) joined again with a new member id{why}"
    )


def _created_line(group: list[Event], *, was_deleted: bool) -> tuple[str, str]:
    if group[0]["observed"]:
        return "created", "the group was created"
    return "created", "first seen again" if was_deleted else "first seen; the group may be older than the log"


def _offsets_line(group: list[Event]) -> tuple[str, str]:
    topics = Counter(event["topic"] for event in group)
    where = join_words([f"{name(topic)} ({n})" if 1 < n < len(group) else name(topic) for topic, n in topics.items()])
    return "offsets", f"{count(len(group), 'committed offset')} of {where} deleted or expired"


def _finding_line(group: list[Event]) -> tuple[str, str]:
    event = group[0]
    if event["state"] == "resolved":
        after = duration(max(event["at_ms"] - event["since_ms"], 0))
        return "finding", f"resolved after {after}: {event['analyzer']}: {sentence(event['summary'])}"
    return "finding", f"{event['severity']}: {event['analyzer']}: {sentence(event['summary'])}"


_LINE_OF_TYPE = {
    "group_deleted": lambda _: ("deleted", "the group was deleted"),
    "static_member_replaced": _replaced_line,
    "offsets_deleted": _offsets_line,
    "finding": _finding_line,
    "member_joined": _partial_rebalance_line,
    "member_left": _partial_rebalance_line,
    "assignment_changed": _partial_rebalance_line,
    "group_emptied": _partial_rebalance_line,
}

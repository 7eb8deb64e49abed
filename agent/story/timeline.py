"""One group's events folded into lines: what one rebalance did is one line, however many events tell of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent.story.phrases import FIRST, REASONS, epochs, went, work
from agent.story.reading import Event, Gone, Rebalance, Who, departure, rebalance, who
from agent.story.words import count, duration, listed, name, sentence, sure

OF_A_REBALANCE = ("rebalance", "member_joined", "member_left", "assignment_changed", "group_emptied")
"""Types of events that one record may show together, as one rebalance."""


TOGETHER_MS = 1_000
"""Offsets that are deleted within so little time were deleted together."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What happened at one time. `cost_ms` is stopped partition time, None where it is not known.

    `label` is one word for it, `what` the rest of the line. `rebalance` is there if it was one; `events` are all
    that it was folded from, in order.
    """

    at_ms: int
    label: str
    what: str
    cost_ms: int | None
    events: tuple[Event, ...]
    rebalance: Rebalance | None = None


def entries(events: Iterable[Event]) -> list[Entry]:
    """The lines of one group's events, which are in their order."""
    groups: list[list[Event]] = []
    for event in events:
        if groups and _belongs(groups[-1], event):
            groups[-1].append(event)
        else:
            groups.append([event])
    return [_entry(group) for group in groups]


def _belongs(group: Sequence[Event], event: Event) -> bool:
    first, kind = group[0], event["type"]
    if kind == "offsets_deleted":
        # An expiry or a deletion takes a group's offsets together.
        return bool(first["type"] == kind and event["at_ms"] - group[-1]["at_ms"] <= TOGETHER_MS)
    if kind not in OF_A_REBALANCE or first["type"] not in OF_A_REBALANCE:
        return False
    if kind == "assignment_changed" and event["at_ms"] == first["at_ms"]:
        # Newer group types write the target assignment behind the epoch, in the same batch.
        return bool(event["generation"] == first["generation"])
    return kind != "rebalance" and (event["partition"], event["offset"]) == (first["partition"], first["offset"])


def _entry(group: list[Event]) -> Entry:
    first = group[0]
    found = next((event for event in group if event["type"] == "rebalance"), None)
    if found is not None:
        done = rebalance(found)
        text = of_rebalance(done, group, first["group_type"])
        return Entry(first["at_ms"], "rebalance", text, done.stopped_ms, tuple(group), done)
    say = _SAID.get(first["type"])
    label, text = (first["type"], "") if say is None else say(group)
    return Entry(first["at_ms"], label, text, None, tuple(group))


def of_rebalance(done: Rebalance, events: Iterable[Event], group_type: str | None) -> str:
    """A rebalance in one line."""
    said = [
        part
        for part in (_came(done), *_went(done.left), _reason(done), _members(done), _moved(done, events, group_type))
        if part
    ]
    return f"{epochs(group_type)} {done.generation}: {'; '.join(said)}"


def labels(members: Iterable[Who]) -> str:
    """Members by their client ids; where several have one, how many."""
    found = Counter(member.label for member in members)
    return listed([name(label) if n == 1 else f"{name(label)} ({n})" for label, n in found.items()])


def hedged(text: str, confidence: float, observed: bool) -> str:
    """A claim with how it is known: seen, or inferred and how surely; what the log itself shows needs neither."""
    if observed:
        return f"{text} (observed)"
    return text if confidence >= 1 or confidence <= 0 else f"{text} ({sure(confidence)})"


def _came(done: Rebalance) -> str:
    if not done.joined:
        return ""
    # One that died and came back has the same client id; so have all members of a fleet, so no more is said.
    again = {member.label for member in done.joined} <= {gone.who.label for gone in done.left}
    return f"{labels(done.joined)} joined{' anew' if again else ''}"


def _went(left: Sequence[Gone]) -> list[str]:
    ways: dict[tuple[str, bool], list[Gone]] = {}
    for gone in left:
        ways.setdefault((gone.cause, gone.observed), []).append(gone)
    return [
        hedged(
            f"{labels(gone.who for gone in all_)} {went(cause, len(all_))}",
            min(gone.confidence for gone in all_),
            observed,
        )
        for (cause, observed), all_ in ways.items()
    ]


def _reason(done: Rebalance) -> str:
    """What set it off, unless the members that came or went say so already."""
    ways = {gone.cause for gone in done.left} | ({"member_joined"} if done.joined else set())
    if ways == {done.cause}:
        return ""
    if done.cause in REASONS and (not ways or done.cause not in FIRST):
        return hedged(REASONS[done.cause], done.confidence, done.observed)
    text = FIRST.get(done.cause, f"cause {done.cause}")
    return hedged(text, done.confidence, done.observed)


def _members(done: Rebalance) -> str:
    return count(done.members, "member") if done.members else "nobody is left"


def _moved(done: Rebalance, events: Iterable[Event], group_type: str | None) -> str:
    change = next((event for event in events if event["type"] == "assignment_changed"), None)
    if change is None or not change["assigned_partitions"]:
        return ""
    if len(done.joined) == done.members:
        return f"{count(change['assigned_partitions'], work(group_type))} assigned"
    return _change(change, group_type)


def _change(event: Event, group_type: str | None) -> str:
    assigned, gained, lost = (event[f"{it}_partitions"] for it in ("assigned", "gained", "lost"))
    noun = work(group_type)
    out = f"{gained} of {count(assigned, noun)} moved" if gained else f"{count(assigned, noun)} assigned"
    return f"{out}, {lost} left without an owner" if lost else out


def _alone(group: list[Event]) -> tuple[str, str]:
    """Events of a rebalance without their `rebalance`, which was cut off or is not one."""
    event = group[0]
    unit = f"{epochs(event['group_type'])} {event['generation']}"
    match event["type"]:
        case "member_joined":
            return "joined", f"{unit}: {labels([who(event['member'])])} joined"
        case "member_left":
            return "left", f"{unit}: {_went([departure(event)])[0]}"
        case "assignment_changed":
            return "assigned", f"{unit}: {_change(event, event['group_type'])}"
        case _:
            return "emptied", f"{unit}: the last member is gone"


def _replaced(group: list[Event]) -> tuple[str, str]:
    member = who(group[0]["member"])
    return "replaced", (
        f"{name(member.label)} (static, {name(member.instance_id or '')}) came back under a new member id"
    )


def _created(group: list[Event]) -> tuple[str, str]:
    if group[0]["observed"]:
        return "created", "the group appeared"
    return "created", "first seen; the group may be older than what the log still holds"


def _offsets(group: list[Event]) -> tuple[str, str]:
    topics = Counter(event["topic"] for event in group)
    where = listed([f"{name(topic)} ({n})" if 1 < n < len(group) else name(topic) for topic, n in topics.items()])
    return "offsets", f"{count(len(group), 'committed offset')} of {where} deleted or expired"


def _finding(group: list[Event]) -> tuple[str, str]:
    event = group[0]
    if event["state"] == "resolved":
        after = duration(max(event["at_ms"] - event["since_ms"], 0))
        return "finding", f"resolved after {after}: {event['analyzer']}: {sentence(event['summary'])}"
    return "finding", f"{event['severity']}: {event['analyzer']}: {sentence(event['summary'])}"


_SAID = {
    "group_created": _created,
    "group_deleted": lambda _: ("deleted", "the group was deleted"),
    "static_member_replaced": _replaced,
    "offsets_deleted": _offsets,
    "finding": _finding,
    "member_joined": _alone,
    "member_left": _alone,
    "assignment_changed": _alone,
    "group_emptied": _alone,
}

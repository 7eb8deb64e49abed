"""A group as `describe` tells it → what each assignor would give it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from agent.core.protocol.assignors import (
    ASSIGNORS,
    SERVER_ASSIGNORS,
    AssignmentNeverEnds,
    AssignmentProblem,
    MemberSubscription,
    Slot,
)
from agent.core.protocol.assignors.outcome import AssignmentOutcome, assignment_outcome, partition_spread
from agent.presentation.narrative.phrases import is_sampled
from analyzers.formatting import list_text

JsonObject = dict[str, Any]
AskPartitionCounts = Callable[[Collection[str]], Mapping[str, int]]
"""Asks how many partitions topics have; those that do not exist are not in the answer."""

MAX_PARTITIONS = 1_000_000
"""Of all topics together. Beyond it, no number of a partition either: nothing is made of what an agent may say by
mistake."""

BROKER, OPTION, SEEN = "broker", "option", "seen"
"""Where a topic's number of partitions is from; what was seen is the least that it can be."""

_WHY_NOT_ASSIGNABLE = {
    "connect": "is a Connect cluster: its leader spreads connectors and tasks, and no assignor is chosen",
    "share": "is a share group: its members share partitions, and no assignor is chosen",
    "streams": "is a streams group: tasks are assigned by where their state is, and no assignor is chosen",
}


class NotAssignable(Exception):
    """Why there is nothing to choose for a group."""


def assignment_plan(
    form: JsonObject,
    only: Sequence[str],
    given: Mapping[str, int],
    ask: AskPartitionCounts | None,
    as_of_ms: int | None = None,
) -> JsonObject:
    """Today's assignment and the alternatives, as JSON; notes say which assignor has none.

    `only`: these assignors, all if none. `given`: partitions by topic, whatever else says. `ask`: asks a broker.
    `as_of_ms`: the time that stands for today, where it is not now. Raises `NotAssignable`.
    """
    by_server = form["group_type"] == "consumer"
    names = _names(form, only, by_server=by_server)
    held = {str(member["member_id"]): _held(member, by_server=by_server) for member in form["members"]}
    wants = _subscriptions(form, held, by_server=by_server)
    topics = frozenset[str]().union(*wants.values())
    counts, sources = _counts(form, topics, held, given, ask)
    if (total := sum(counts.values())) > MAX_PARTITIONS:
        raise NotAssignable(f"has topics of {total:,} partitions in all; {MAX_PARTITIONS:,} are assigned at most")
    members = {
        str(member["member_id"]): MemberSubscription(
            wants[member["member_id"]], _text(member.get("instance_id")), owned
        )
        for member, owned in zip(form["members"], held.values(), strict=True)
    }
    today = {member_id: sorted(slots) for member_id, slots in held.items()}
    alternatives, endless = [], []
    for name in names if members else ():
        try:
            found = assignment_outcome(name, AssignmentProblem(counts, members), by_server=by_server)
        except AssignmentNeverEnds as error:
            endless.append(f"{name} has no answer: {error}")
        else:
            alternatives.append(_alternative(name, found))
    return {
        "group": form["group"],
        "group_type": form["group_type"],
        "as_of_ms": as_of_ms,
        "generation": form["generation"],
        "assignor": _text(form.get("protocol")),
        "partitions": counts,
        "partitions_from": sources,
        "today": {"assignment": today, **partition_spread(today)._asdict()},
        "alternatives": alternatives,
        "notes": [*endless, *_notes(form, topics, sources, is_past=as_of_ms is not None)],
    }


def _names(form: JsonObject, only: Sequence[str], *, by_server: bool) -> list[str]:
    """The assignors that the group might have."""
    kind = "streams" if form.get("protocol") == "stream" else form["group_type"]
    if kind in _WHY_NOT_ASSIGNABLE:
        raise NotAssignable(_WHY_NOT_ASSIGNABLE[kind])
    if form.get("protocol_type") not in (None, "", "consumer"):
        raise NotAssignable("is no group of consumers: its members share something other than partitions")
    names = list(SERVER_ASSIGNORS if by_server else ASSIGNORS)
    for name in only:
        if name not in names:
            whose = "a group of KIP-848" if by_server else "a classic group"
            raise NotAssignable(f"is {whose}, which has no assignor {name}; it has {', '.join(names)}")
    return [name for name in names if not only or name in only]


def _held(member: JsonObject, *, by_server: bool) -> tuple[Slot, ...]:
    """What a member holds, or shall hold soon: the coordinator's assignors go by that."""
    target = member.get("target")
    assignment = target if by_server and isinstance(target, dict) else member["assignment"]
    return tuple(
        (topic, number)
        for topic, numbers in assignment.items()
        if isinstance(numbers, list)
        for number in numbers
        if isinstance(number, int) and 0 <= number < MAX_PARTITIONS
    )


def _subscriptions(
    form: JsonObject, held: Mapping[str, tuple[Slot, ...]], *, by_server: bool
) -> dict[str, frozenset[str]]:
    """By member, the topics it subscribes to. Which ones a pattern matches shows in what members with it hold; where
    the Admin API, which names none, was asked, every member is taken to want all that is held."""
    members = form["members"]
    if is_sampled(form):
        every = frozenset(topic for slots in held.values() for topic, _ in slots)
        return dict.fromkeys((member["member_id"] for member in members), every)
    of_pattern: dict[str | None, set[str]] = defaultdict(set)
    for member in members:
        pattern = _text(member.get("subscription_regex"))
        if by_server and pattern is not None:
            of_pattern[pattern].update(topic for topic, _ in held[member["member_id"]])
    return {
        member["member_id"]: frozenset(topic for topic in member.get("subscription") or () if isinstance(topic, str))
        | of_pattern.get(_text(member.get("subscription_regex")), set())
        for member in members
    }


def _counts(
    form: JsonObject,
    topics: Collection[str],
    held: Mapping[str, tuple[Slot, ...]],
    given: Mapping[str, int],
    ask: AskPartitionCounts | None,
) -> tuple[dict[str, int], dict[str, str]]:
    """How many partitions each topic has, and where that is from."""
    if ask is not None:
        counts = dict(ask(sorted(topics - given.keys())))
        sources = dict.fromkeys(counts, BROKER)
    else:
        counts = {}
        offsets = ((item["topic"], item["partition"]) for item in form["offsets"])
        for topic, number in [*offsets, *(slot for slots in held.values() for slot in slots)]:
            if topic in topics and 0 <= number < MAX_PARTITIONS:
                counts[topic] = max(counts.get(topic, 0), number + 1)
        sources = dict.fromkeys(counts, SEEN)
    for topic, count in given.items():
        counts[topic], sources[topic] = count, OPTION
    return dict(sorted(counts.items())), dict(sorted(sources.items()))


def _alternative(name: str, found: AssignmentOutcome) -> JsonObject:
    return {
        "assignor": name,
        "assignment": found.assignment,
        **found.spread._asdict(),
        "moves": found.moves,
        "stopped": found.stopped,
        "rounds": found.rounds,
    }


def _notes(form: JsonObject, wanted: Collection[str], sources: Mapping[str, str], *, is_past: bool) -> Iterator[str]:
    """What may make the real answer another one."""
    members = form["members"]
    if members and is_sampled(form):
        yield "the Admin API does not tell subscriptions: all members are taken to subscribe to all assigned topics"
    seen = [topic for topic, source in sources.items() if source == SEEN]
    if members and seen:
        yield (
            f"partitions of {list_text(seen)} are the least there can be, by what was assigned and committed; "
            "--bootstrap-server or --partitions TOPIC=N say how many there are"
        )
    if members and is_past and BROKER in sources.values():
        yield "topics have as many partitions as the broker says that they have now"
    if members and (others := [topic for topic in sources if topic not in wanted]):
        yield f"no member subscribes to {list_text(others)}"
    if any(member.get("rack_id") for member in members):
        yield "members have racks, which may matter to their assignor; the racks of replicas are not known here"
    if any(member.get("subscription_regex") for member in members):
        yield "members subscribe by pattern: topics without an assigned partition are not known"


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None

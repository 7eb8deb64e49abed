"""History events as the story reads them: typed, and what a file or an agent may leave out as None.

An event is a flat dict of the history's schema 1 (`agent.history.events`). Kinds of causes and of evidence may be
added at any time, so none is an error here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, NamedTuple

Event = dict[str, Any]
Evidence = Mapping[str, Any]

TAKEN_OUT = ("session_timeout", "poll_timeout")
"""The causes of departures that the member did not choose: it fell silent and its time ran out."""


class Who(NamedTuple):
    """A member as an event names it."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None

    @property
    def label(self) -> str:
        """What people call it: its client id, or the member id where it has none."""
        return self.client_id or self.member_id


class Gone(NamedTuple):
    """A member that left, how, and the evidence for it; `observed` where somebody saw it and nothing was inferred."""

    who: Who
    cause: str
    confidence: float
    observed: bool
    evidence: tuple[Evidence, ...]
    at_ms: int


STATES_CAUSES = "broker_log"
"""The kind of evidence of a witness who states causes; what it is certain of has confidence 1."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A `rebalance` event. `stopped_ms` is stopped partition time, summed over partitions."""

    at_ms: int
    generation: int
    previous: int | None
    cause: str
    causes: tuple[str, ...]
    confidence: float
    observed: bool
    evidence: tuple[Evidence, ...]
    joined: tuple[Who, ...]
    left: tuple[Gone, ...]
    protocol: str | None
    members: int
    stopped_ms: int | None


def rebalance(event: Event) -> Rebalance:
    """The rebalance of an event."""
    evidence = tuple(event["evidence"])
    return Rebalance(
        at_ms=event["at_ms"],
        generation=event["generation"],
        previous=event["previous_generation"],
        cause=event["cause"],
        causes=tuple(event["causes"]),
        confidence=event["confidence"],
        observed=_is_observed(event["confidence"], event["observed"], evidence),
        evidence=evidence,
        joined=tuple(map(who, event["joined"])),
        left=tuple(_gone(form, event["at_ms"], evidence) for form in event["left"]),
        protocol=event["protocol"],
        members=event["members"],
        stopped_ms=event["stopped_partition_ms"],
    )


def who(form: Mapping[str, Any]) -> Who:
    """A member's form."""
    return Who(form["member_id"], form["client_id"], form["client_host"].lstrip("/"), form["instance_id"])


def departure(event: Event) -> Gone:
    """The departure of a `member_left` event, which has no evidence of its own."""
    return Gone(who(event["member"]), event["cause"], event["confidence"], False, (), event["at_ms"])


def _gone(form: Mapping[str, Any], at_ms: int, evidence: tuple[Evidence, ...]) -> Gone:
    member = who(form)
    own = tuple(item for item in evidence if item.get("member_id") == member.member_id)
    cause, confidence = form["cause"], form["confidence"]
    return Gone(member, cause, confidence, _is_observed(confidence, True, own), own, at_ms)


def _is_observed(confidence: float, observed: bool, evidence: tuple[Evidence, ...]) -> bool:
    # A witness may have seen the rebalance and not its cause: then the cause is as inferred as ever.
    return observed and confidence >= 1 and any(item.get("kind") == STATES_CAUSES for item in evidence)


def within(events: Iterable[Event], since_ms: int | None, until_ms: int | None) -> list[Event]:
    """The events of a range, bounds included; None bounds nothing."""
    return [
        event
        for event in events
        if (since_ms is None or event["at_ms"] >= since_ms) and (until_ms is None or event["at_ms"] <= until_ms)
    ]


def number(evidence: Evidence, field: str) -> int | None:
    """A number of an evidence object; None where it has none."""
    value = evidence.get(field)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


_COMMON: dict[str, type | UnionType] = {
    "event_id": str,
    "type": str,
    "group": str | None,
    "group_type": str | None,
    "at_ms": int,
    "partition": int,
    "offset": int,
}
_MEMBER: dict[str, type | UnionType] = {
    "member_id": str,
    "client_id": str,
    "client_host": str,
    "instance_id": str | None,
}
_HOW: dict[str, type | UnionType] = {"cause": str, "confidence": int | float}
_OWN: dict[str, dict[str, type | UnionType]] = {
    "group_created": {"observed": bool},
    "rebalance": {
        **_HOW,
        "generation": int,
        "previous_generation": int | None,
        "causes": list,
        "evidence": list,
        "observed": bool,
        "joined": list,
        "left": list,
        "protocol": str | None,
        "members": int,
        "stopped_partition_ms": int | None,
    },
    "member_joined": {"generation": int, "member": dict},
    "member_left": {**_HOW, "generation": int, "member": dict},
    "static_member_replaced": {"generation": int, "old_member": dict, "member": dict},
    "assignment_changed": {
        "generation": int,
        "assigned_partitions": int,
        "gained_partitions": int,
        "lost_partitions": int,
    },
    "group_emptied": {"generation": int},
    "offsets_deleted": {"topic": str, "topic_partition": int, "committed_offset": int},
    "finding": {
        "analyzer": str,
        "severity": str,
        "state": str,
        "since_ms": int,
        "summary": str,
        "advice": str,
        "numbers": dict,
    },
}


def is_event(form: Any) -> bool:
    """Whether JSON of anyone's has the fields that the story needs, each of its type. More may come, and do."""
    if not _has(form, _COMMON) or not _has(form, _OWN.get(form["type"], {})):
        return False
    if form["type"] != "finding" and form["group"] is None:
        return False
    members = [form[field] for field in ("member", "old_member") if field in _OWN.get(form["type"], {})]
    if form["type"] == "rebalance":
        members += [*form["joined"], *form["left"]]
        if not all(_has(item, _HOW) for item in form["left"]) or not all(map(_is_object, form["evidence"])):
            return False
        if not all(isinstance(cause, str) for cause in form["causes"]):
            return False
    return all(_has(member, _MEMBER) for member in members)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _has(form: Any, shape: Mapping[str, type | UnionType]) -> bool:
    return isinstance(form, dict) and all(
        field in form and isinstance(form[field], kind) for field, kind in shape.items()
    )

"""Holds what looks saw to the truth: rebalance by rebalance, member by member, finding by finding. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Event = Mapping[str, Any]

EARLY_MS, LATE_MS = 2_000, 15_000
"""So long before or after the topic has it a rebalance may be seen: clocks, and the time until it is looked at."""
UNKNOWN = frozenset({"unknown", "unknown_departure"})
SURE = 0.8
BOUNDS = {"seen": 0.9, "right": 0.85}
"""The least share of the rebalances that are to be seen, and of the causes told that are to be right."""


@dataclass
class Told:
    """Causes: how many there were, how many were told, right, and wrong though sure."""

    count: int = 0
    told: int = 0
    right: int = 0
    sure_and_wrong: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def add(self, cause: str, confidence: float, truth: Iterable[str], what: str) -> None:
        """One cause that was given; `truth` are those that are right."""
        self.count += 1
        if cause in UNKNOWN:
            return
        self.told += 1
        if cause in truth:
            self.right += 1
            return
        line = f"{what}: {cause} ({confidence:.2f}), in truth {'/'.join(sorted(truth))}"
        self.wrong.append(line)
        if confidence >= SURE:
            self.sure_and_wrong.append(line)

    def add_all(self, other: Told) -> None:
        """Sum."""
        self.count += other.count
        self.told += other.told
        self.right += other.right
        self.wrong += other.wrong
        self.sure_and_wrong += other.sure_and_wrong

    @property
    def right_share(self) -> float:
        """Of those told; 1 where none was."""
        return self.right / self.told if self.told else 1.0


@dataclass
class GroupScore:
    """One group."""

    group: str
    rebalances: int = 0
    seen: int = 0
    extra: int = 0
    triggers: Told = field(default_factory=Told)
    departures: Told = field(default_factory=Told)
    findings: set[str] = field(default_factory=set)
    true_findings: set[str] = field(default_factory=set)
    missed: list[str] = field(default_factory=list)


def score_group(group: str, truth: Sequence[Event], seen: Sequence[Event], since_ms: int) -> GroupScore:
    """`truth` and `seen` are the group's events from the topic and from looks, in order, from `since_ms` on."""
    out = GroupScore(group)
    left = [it for it in seen if it["type"] == "rebalance" and it["at_ms"] >= since_ms]
    causes = {gone["member_id"]: gone["cause"] for it in truth if it["type"] == "rebalance" for gone in it["left"]}
    for true in truth:
        if true["type"] != "rebalance" or true["at_ms"] < since_ms:
            continue
        out.rebalances += 1
        at = _match(true, left)
        if at is None:
            out.missed.append(f"{true['cause']} at {true['at_ms']}")
            continue
        found = left.pop(at)
        out.seen += 1
        out.triggers.add(found["cause"], found["confidence"], [true["cause"]], f"{group} {true['at_ms']}")
    out.extra = len(left)
    for it in seen:
        if it["type"] != "rebalance" or it["at_ms"] < since_ms:
            continue
        for gone in it["left"]:
            known = causes.get(gone["member_id"])
            if known is not None and known not in UNKNOWN:
                out.departures.add(gone["cause"], gone["confidence"], [known], f"{group} {gone['client_id']}")
    out.findings = _fired(seen, since_ms)
    out.true_findings = _fired(truth, since_ms)
    return out


def _match(true: Event, seen: Sequence[Event]) -> int | None:
    """Which of those seen is it: about then, and of the same members where any came or went; the nearest."""
    who = _whom(true)
    near = [(n, it) for n, it in enumerate(seen) if -EARLY_MS <= it["at_ms"] - true["at_ms"] <= LATE_MS]
    same = [(n, it) for n, it in near if (who & _whom(it) if who else not _whom(it))]
    return min(same, key=lambda it: abs(it[1]["at_ms"] - true["at_ms"]), default=(None, None))[0]


def _whom(event: Event) -> set[str]:
    return {it["member_id"] for it in (*event["joined"], *event["left"])}


def _fired(events: Iterable[Event], since_ms: int) -> set[str]:
    return {
        it["analyzer"]
        for it in events
        if it["type"] == "finding" and it["state"] == "firing" and it["at_ms"] >= since_ms
    }

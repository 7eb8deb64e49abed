"""Members of one group that disagree: on topics, timeouts, static membership, or the protocol they speak.

Rule: for `open_after_s`, members of the group have had different values of one of these.
Known false alarms: `MixedSubscription.false_alarms`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from agent.core.shadow.views import GroupView, Member
from agent.core.state_fields import StateFields
from analyzers.api import Analyzer, Condition, GroupContext, Settings, Severity, Verdict, setting
from analyzers.formatting import count_text, list_text, truncated

SHOWN_VALUES = 3
SHOWN_TOPICS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedSettings(Settings):
    """Why these: while a change is rolled out members disagree, and most deployments are over in ten minutes. A
    difference that does harm does so for days."""

    open_after_s: float = setting(600.0, "seconds that the condition must hold before a finding opens")


class MixedSubscription(Analyzer):
    """Compares the members each time that the group changes."""

    STATE: ClassVar = StateFields({})

    __slots__ = ()

    name = "mixed_subscription"
    rule = (
        "For `open_after_s`, members of one group have subscribed to different topics (a warning), or have different "
        "session timeouts, different rebalance timeouts (max.poll.interval.ms), static ids or none, or speak "
        "different group protocols (worth knowing)."
    )
    false_alarms = (
        "A deployment that takes longer than `open_after_s`. Applications that share a group on purpose, each with "
        "topics of its own. Which assignors a member of a classic group would accept is not in the log, so that "
        "members may disagree there goes unseen; so do patterns of classic consumers, which the log knows as topics."
    )
    settings_class = MixedSettings

    def judge(self, group: GroupContext) -> Verdict:
        """Look at the members as they are; asked each time that the group changed."""
        view = group.view
        return Verdict(None if view is None else _look(view))


class _Trait(NamedTuple):
    """Something that members should have in common."""

    name: str
    of: Callable[[Member], Any]
    text: Callable[[Any], str]
    advice: str


def _topics(member: Member) -> tuple[frozenset[str], str | None]:
    return frozenset(member.subscription), member.subscription_regex


def _topics_text(value: tuple[frozenset[str], str | None]) -> str:
    topics, pattern = value
    named = [list_text(sorted(topics), SHOWN_TOPICS)] if topics else []
    return " and ".join([*named, *([f"pattern {truncated(pattern)}"] if pattern is not None else [])]) or "no topic"


def _seconds(value: int) -> str:
    return f"{value / 1000:g} s"


TOPICS = _Trait(
    "topics",
    _topics,
    _topics_text,
    "Let all members subscribe to the same topics, or give each application its own group.id; the price is one "
    "deploy, and a new group.id starts without offsets. Otherwise a restart of one application rebalances all.",
)

TRAITS = (
    TOPICS,
    _Trait(
        "session timeout",
        lambda member: member.session_timeout_ms,
        _seconds,
        "Set the same session.timeout.ms on all members; the price is one rolling restart.",
    ),
    _Trait(
        "rebalance timeout",
        lambda member: member.rebalance_timeout_ms,
        _seconds,
        "Set the same max.poll.interval.ms on all members, since a rebalance waits for the longest; the price is one "
        "rolling restart.",
    ),
    _Trait(
        "membership",
        lambda member: member.instance_id is not None,
        lambda is_static: "static" if is_static else "dynamic",
        "Set group.instance.id on all members, each its own; a dead member is then detected by "
        "session.timeout.ms only.",
    ),
    _Trait(
        "protocol",
        lambda member: member.uses_classic_protocol,
        lambda is_classic: "classic" if is_classic else "consumer",
        "Finish the migration: set group.protocol=consumer on the classic members; the price is one rolling restart.",
    ),
)


def _all_members_alike(view: GroupView) -> bool:
    """Whether members agree to the letter: nearly all do, and then nothing needs counting."""
    kinds = {
        (
            it.subscription,
            it.subscription_regex,
            it.session_timeout_ms,
            it.rebalance_timeout_ms,
            it.instance_id is None,
            it.uses_classic_protocol,
        )
        for it in view.members
    }
    return len(kinds) <= 1


def _look(view: GroupView) -> Condition | None:
    if _all_members_alike(view):
        return None
    differing = [(trait, values) for trait in TRAITS if len(values := _values(view, trait)) > 1]
    if not differing:
        return None
    severity = Severity.WARNING if differing[0][0] is TOPICS else Severity.INFO
    parts = [f"{trait.name.capitalize()}: {_values_text(trait, values)}" for trait, values in differing]
    return Condition(
        severity,
        f"{count_text(len(view.members), 'member')} of the group differ. {'. '.join(parts)}.",
        " ".join(trait.advice for trait, _ in differing),
        {
            "members": len(view.members),
            "differing": [trait.name for trait, _ in differing],
            **{f"{trait.name.replace(' ', '_')}_values": len(values) for trait, values in differing},
        },
    )


def _values(view: GroupView, trait: _Trait) -> dict[Any, list[str]]:
    """The clients that have each value; those whose value the log does not tell are left out."""
    out: dict[Any, list[str]] = {}
    for member in view.members:
        value = trait.of(member)
        if value is not None:
            out.setdefault(value, []).append(member.client_id)
    return out


def _values_text(trait: _Trait, values: dict[Any, list[str]]) -> str:
    """The values that most members have, with who has them."""
    common = sorted(values.items(), key=lambda it: (-len(it[1]), trait.text(it[0])))
    shown = [f"{trait.text(value)} ({list_text(clients)})" for value, clients in common[:SHOWN_VALUES]]
    rest = len(common) - SHOWN_VALUES
    return ", ".join([*shown, *([f"and {rest} more"] if rest > 0 else [])])

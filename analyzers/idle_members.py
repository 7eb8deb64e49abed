"""Members that have nothing to do while others work.

Rule: members without any partition (Connect, Streams: task), more than `allowed_members` and more than `allowed_part`
of the group, while other members have some.
Known false alarms: `IdleMembers.false_alarms`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from agent.core.protocol.states import GroupType
from agent.core.shadow.fairness import obtainable_topics, target_or_assignment
from agent.core.shadow.views import GroupView, Member
from agent.core.state_fields import StateFields
from analyzers.api import Analyzer, Condition, GroupContext, Settings, Severity, Verdict, setting
from analyzers.balance import STREAMS_PROTOCOL, settled_from_ms
from analyzers.formatting import count_text, list_text, truncated

LISTED_CLIENTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleSettings(Settings):
    """Why these: a second round of a cooperative rebalance follows within seconds, and where a deployment starts the
    new member before it stops the old, the new one waits for less than a minute. Any number counts unless it is meant
    to be; it costs no more than processes, so it is never more than worth knowing."""

    open_after_s: float = setting(45.0, "seconds that the condition must hold before a finding opens")
    allowed_members: int = setting(0, "idle members that are meant to be, as a reserve")
    allowed_part: float = setting(0.0, "part of the members, 0 to 1, that may be idle")


class IdleMembers(Analyzer):
    """Looks for members without partitions."""

    STATE: ClassVar = StateFields({})

    __slots__ = ()

    name = "idle_members"
    rule = (
        "Members hold no partition (Connect, Streams: no task) while others of the group do, and they are more than "
        "`allowed_members` and more than the part `allowed_part` of all members."
    )
    false_alarms = (
        "Members kept as a reserve, so that one that fails is replaced at once: allow them. Threads of Kafka Streams "
        "in a classic group that only have standby tasks, which the log does not name there (in a streams group they "
        "do not count as idle). Silent for six minutes after a rebalance of Connect, which holds back the tasks of a "
        "worker that may return, and for a rebalance timeout after one that took partitions back for the next."
    )
    settings_class = IdleSettings
    settings: IdleSettings

    def judge(self, group: GroupContext) -> Verdict:
        """Look at who holds what; asked each time that the group changed."""
        view = group.view
        condition = None if view is None else self._look(view)
        if condition is not None and view is not None and settled_from_ms(view) > group.now_ms:
            return Verdict(wake_ms=settled_from_ms(view))
        return Verdict(condition)

    def _look(self, view: GroupView) -> Condition | None:
        idle = [member for member in view.members if not _works(member)]
        settings = self.settings
        is_allowed = len(idle) <= max(settings.allowed_members, settings.allowed_part * len(view.members))
        if is_allowed or len(idle) == len(view.members):
            return None
        reasons = _reasons(view, idle)
        return Condition(
            Severity.INFO, _summary(view, idle, reasons), _advice(view, idle, reasons), _numbers(view, idle, reasons)
        )


def _works(member: Member) -> bool:
    """Whether it has partitions or tasks, or keeps up the state of tasks for others."""
    return any(
        any(them.values())
        for them in (target_or_assignment(member), member.standby_tasks, member.warmup_tasks)
        if them
    )


class Reason(StrEnum):
    """Why a member has nothing."""

    TOO_FEW = "too_few_partitions"
    NOTHING_WANTED = "nothing_subscribed"
    LEFT_OUT = "left_out"


def _reasons(view: GroupView, idle: Iterable[Member]) -> Counter[Reason]:
    wanted = obtainable_topics(view.group_type, view.members)
    partitions: Counter[str] = Counter()
    for member in view.members:
        partitions.update({topic: len(numbers) for topic, numbers in target_or_assignment(member).items()})
    out: Counter[Reason] = Counter()
    by_topics: dict[frozenset[str], Reason] = {}
    for member in idle:
        topics = wanted[member.member_id]
        if topics not in by_topics:
            takers = sum(1 for others in wanted.values() if others & topics)
            enough = sum(partitions[topic] for topic in topics) >= takers
            by_topics[topics] = Reason.LEFT_OUT if enough else Reason.TOO_FEW
        out[by_topics[topics] if topics else Reason.NOTHING_WANTED] += 1
    return out


_WHY = {
    Reason.TOO_FEW: "there are fewer {things} than members",
    Reason.NOTHING_WANTED: "no member has a topic that they subscribe to",
    Reason.LEFT_OUT: "the assignor gave them none, though there are enough {things}",
}


def _summary(view: GroupView, idle: list[Member], reasons: Counter[Reason]) -> str:
    things = f"{_thing(view)}s"
    whys = [
        (f"{count} because " if len(reasons) > 1 else "") + _WHY[reason].format(things=things)
        for reason, count in reasons.most_common()
    ]
    have = "has" if len(idle) == 1 else "have"
    return (
        f"{len(idle)} of {len(view.members)} members {have} no {_thing(view)} while the others hold {_held(view)}: "
        f"{list_text(it.client_id for it in idle)}; {', '.join(whys)}."
    )


def _advice(view: GroupView, idle: list[Member], reasons: Counter[Reason]) -> str:
    reason = reasons.most_common(1)[0][0]
    if reason is Reason.NOTHING_WANTED:
        return (
            "Check which topics these clients subscribe to, and whether they exist; members of one group should "
            "subscribe to the same topics."
        )
    if reason is Reason.LEFT_OUT and view.group_type == GroupType.CLASSIC and view.protocol != STREAMS_PROTOCOL:
        return (
            "Set partition.assignment.strategy to roundrobin or cooperative-sticky on all members; the price is a "
            "rolling restart. range assigns each topic by itself, so topics of few partitions go to the same members."
        )
    if reason is Reason.LEFT_OUT and view.group_type == GroupType.CONSUMER:
        return (
            "Set group.remote.assignor to uniform on all members, and let them subscribe to the same topics; the "
            "price is a rolling restart."
        )
    allow = f"For a deliberate reserve, set idle_members.allowed_members={len(idle)}."
    if view.group_type == GroupType.CONNECT:
        return f"Run fewer workers, or raise tasks.max where the connectors can use it. {allow}"
    if view.group_type == GroupType.STREAMS or view.protocol == STREAMS_PROTOCOL:
        return f"Lower num.stream.threads or run fewer instances, or give the input topics more partitions. {allow}"
    return (
        f"Run {count_text(len(view.members) - len(idle), 'member')}, or give the topics more partitions, which moves "
        f"keys to other partitions. {allow}"
    )


def _numbers(view: GroupView, idle: list[Member], reasons: Counter[Reason]) -> dict[str, Any]:
    return {
        "idle": len(idle),
        "members": len(view.members),
        "partitions": _held(view),
        "clients": [truncated(it.client_id) for it in idle[:LISTED_CLIENTS]],
        **{str(reason): reasons[reason] for reason in Reason},
    }


def _thing(view: GroupView) -> str:
    return "task" if view.group_type in (GroupType.CONNECT, GroupType.STREAMS) else "partition"


def _held(view: GroupView) -> int:
    return sum(len(numbers) for member in view.members for numbers in target_or_assignment(member).values())

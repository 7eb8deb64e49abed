"""Committed offsets that nobody uses: they keep lag metrics alive and growing, of a consumer that is gone.

A group without members, from the time it lost the last one or committed last; and in a group that has members, topics
that none of them subscribes to, from the last commit on. (A topic that is subscribed is in use, however quiet.)

Brokers delete both by themselves after `offsets.retention.minutes` (7 days by default): KIP-211, and for topics that
an active group left, since Kafka 2.4. Until then, or for good where the retention is long, they can be deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from agent.core.shadow.transitions import Rebalanced, Transition
from agent.core.shadow.views import CommittedOffset, GroupView
from agent.core.state_fields import StateFields
from analyzers.api import Analyzer, Condition, GroupContext, Sample, Settings, Severity, Verdict, setting
from analyzers.formatting import count_text, distinct_names, duration_text, milliseconds, names_text, truncated

RETENTION_MS = 7 * 86_400_000
"""The brokers' default of offsets.retention.minutes."""

LOOKS = 32
"""How many are taken at the most in as long again as offsets have been unused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanedOffsetsSettings(Settings):
    """Three days outlast a weekend, and leave four before a broker with default settings deletes the offsets: time to
    save them too, if the consumer was to come back."""

    close_after_s: float = setting(0.0, "seconds that it must be gone before the finding closes")
    empty_s: float = setting(259_200.0, "seconds without members and without a commit", least=1)
    unused_s: float = setting(259_200.0, "seconds without a commit, of topics that no member subscribes to", least=1)
    settle_s: float = setting(3600.0, "seconds from a change of the group to the check of its offsets", least=1)
    look_every_s: float = setting(21_600.0, "least seconds between checks while there are such offsets", least=1)


class OrphanedOffsets(Analyzer):
    """Looks at a group's offsets when one may have become too old: a look costs a decode for each."""

    STATE: ClassVar = StateFields(
        {
            "_look_ms": int | None,
            "_condition": Condition | None,
            "_is_empty": bool,
        }
    )

    name: ClassVar[str] = "orphaned_offsets"
    rule: ClassVar[str] = (
        "A group with committed offsets had no members and made no commit for empty_s; or its members "
        "subscribe to other topics, and the offsets of those they left were not committed for unused_s. Info."
    )
    false_alarms: ClassVar[str] = (
        "A job that runs less often than every empty_s. A group that commits by itself, without members (Spark, "
        "Flink, mirrors), is not orphaned while it commits, but looks so when its topics are quiet for empty_s. "
        "Not judged: commits whose records have no time, topics of active Streams groups of KIP-1071, and of "
        "subscriptions by pattern whose topics are not known by name."
    )
    settings_class: ClassVar[type[Settings]] = OrphanedOffsetsSettings
    settings: OrphanedOffsetsSettings
    samples = True

    __slots__ = ("_condition", "_is_empty", "_look_ms")

    def __init__(self, settings: OrphanedOffsetsSettings) -> None:
        super().__init__(settings)
        self._look_ms: int | None = None
        self._condition: Condition | None = None
        # Whether the condition is that the group is empty: a member ends it, whatever a look would show.
        self._is_empty = False

    def observe(self, transition: Transition, group: GroupContext) -> None:
        """Anything may have left offsets behind, or brought a user of them: look, when it has settled."""
        if isinstance(transition, Rebalanced) and transition.members and self._is_empty:
            self._condition, self._is_empty = None, False
        # The first of many changes counts: a storm must not put it off.
        soon = group.now_ms + milliseconds(self.settings.settle_s)
        self._look_ms = soon if self._look_ms is None else min(self._look_ms, soon)

    def sample(self, sample: Sample, group: GroupContext) -> None:
        """Who commits without being a member uses them, too."""
        if self._is_empty:
            self._look_ms = group.now_ms

    def judge(self, group: GroupContext) -> Verdict:
        """Whether there are offsets that nobody uses."""
        if self._look_ms is not None and group.now_ms >= self._look_ms:
            self._look_ms = self._look(group)
        return Verdict(self._condition, self._look_ms)

    def _look(self, group: GroupContext) -> int | None:
        """Set the condition by the group's offsets; return when to look again (epoch milliseconds; None: no need)."""
        self._condition, self._is_empty = None, False
        view = group.view
        if view is None or not view.committed_partitions:
            return None
        return self._look_at_empty(view, group) if not view.members else self._look_at_active(view, group)

    def _look_at_empty(self, view: GroupView, group: GroupContext) -> int | None:
        last_ms = group.last_commit_ms
        if last_ms is None and not view.is_sampled:
            # Its commits have no time: nobody knows when it last did.
            return None
        since_ms = max(view.state_since_ms, last_ms or 0)
        due_ms = since_ms + milliseconds(self.settings.empty_s)
        if group.now_ms < due_ms:
            return due_ms
        idle_ms = group.now_ms - since_ms
        offsets = group.offsets
        self._is_empty = True
        tail = "deletes them" if idle_ms < RETENTION_MS else "would have deleted them"
        what = f"{count_text(len(offsets), 'committed offset')} of {_topics(offsets)}"
        self._condition = Condition(
            Severity.INFO,
            f"{what} are unused: the group has had no members and no commit for {duration_text(idle_ms)}.",
            "Delete the group if its consumer will not return (kafka-consumer-groups.sh --delete); its positions are "
            "then lost. Otherwise start it before the offsets expire: offsets.retention.minutes "
            f"{tail} after {duration_text(RETENTION_MS)} by default.",
            _numbers("empty_group", offsets, idle_ms),
        )
        return self._next_look_ms(group.now_ms, idle_ms)

    def _look_at_active(self, view: GroupView, group: GroupContext) -> int | None:
        unused_ms = milliseconds(self.settings.unused_s)
        # Of commits without a time nobody knows for how long they are unused.
        due = [
            (it.committed_ms + unused_ms, it)
            for it in _left_behind(view, group.offsets)
            if it.committed_ms is not None
        ]
        old = [it for due_ms, it in due if group.now_ms >= due_ms]
        if old:
            idle_ms = group.now_ms - (_last_commit_ms(old) or 0)
            what = f"{count_text(len(old), 'committed offset')} of {_topics(old)}"
            self._condition = Condition(
                Severity.INFO,
                f"{what} are unused: no member subscribes, and the last commit was {duration_text(idle_ms)} ago.",
                "Delete them (kafka-consumer-groups.sh --delete-offsets); the positions are then lost. From "
                "Kafka 2.4 "
                f"on brokers delete them by offsets.retention.minutes, {duration_text(RETENTION_MS)} after the last "
                "commit by default. Until then leave those topics out of alerts on the group's lag.",
                _numbers("unused_topics", old, idle_ms),
            )
            return self._next_look_ms(group.now_ms, idle_ms)
        return min((due_ms for due_ms, _ in due), default=None)

    def _next_look_ms(self, now_ms: int, idle_ms: int) -> int:
        """When to look again: less often, the longer they are unused. Three records dated 2^62 move the clock of a
        history there, past all looks between."""
        return now_ms + max(milliseconds(self.settings.look_every_s), idle_ms // LOOKS)


def _left_behind(view: GroupView, offsets: Sequence[CommittedOffset]) -> list[CommittedOffset]:
    """The offsets of topics that no member subscribes to, as far as subscriptions are known."""
    if not all(member.subscription or member.subscription_regex for member in view.members):
        # Some member's could not be read, or they are of a protocol that names no topics.
        return []
    used = {topic for member in view.members for topic in (*member.subscription, *member.assignment)}
    used |= {topic for member in view.members for topic in member.target or ()}
    left = [it for it in offsets if it.topic not in used]
    if any(member.subscription_regex for member in view.members):
        # What the pattern matches is known by what is assigned, and that perhaps by an id that no commit has.
        known = {it.topic for it in offsets}
        return left if used and used <= known else [it for it in left if used and it.topic_id]
    return left


def _topics(offsets: Sequence[CommittedOffset]) -> str:
    counts = Counter(it.topic for it in offsets)
    return names_text(sorted(counts, key=lambda topic: (-counts[topic], topic)))


def _last_commit_ms(offsets: Sequence[CommittedOffset]) -> int | None:
    return max((it.committed_ms for it in offsets if it.committed_ms is not None), default=None)


def _numbers(kind: str, offsets: Sequence[CommittedOffset], idle_ms: int) -> dict[str, Any]:
    topics = sorted({it.topic for it in offsets})
    return {
        "kind": kind,
        "offsets": len(offsets),
        "topics": len(topics),
        "topic_names": distinct_names(map(truncated, topics)),
        "idle_s": idle_ms // 1000,
        "last_commit_ms": _last_commit_ms(offsets),
    }

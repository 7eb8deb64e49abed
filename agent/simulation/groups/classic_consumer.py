"""A consumer of a classic group, over virtual time: what it wants, what it holds, and how it assigns when it leads.

After the Java client's `ConsumerCoordinator`. What it holds is `owned`. Eager assignors give everything back before
each JoinGroup; cooperative ones keep what they hold, and give back only what the new assignment lacks, with a second
JoinGroup right after.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from agent.core.protocol.assignors import ASSIGNORS, AssignmentProblem, MemberSubscription, Slot
from agent.simulation.groups.classic_client import ClassicClient
from agent.simulation.groups.messages import ClassicRequest, JoinGroupResponse, RebalanceReason, SupportedProtocol
from agent.simulation.groups.script import ClientSettings

COOPERATIVE = frozenset({"cooperative-sticky"})


class ClassicConsumer(ClassicClient):
    """One consumer. `partitions` is the cluster's metadata, shared with whoever changes it."""

    protocol_type = "consumer"

    def __init__(self, group: str, settings: ClientSettings, partitions: Mapping[str, int]) -> None:
        super().__init__(group, settings)
        self._partitions = partitions
        self._partitions_led: dict[str, int] | None = None

    def metadata_changed(self, now_ms: int) -> list[ClassicRequest]:
        """The number of some topic's partitions changed: the leader, who assigned the old number, joins again."""
        if self._partitions_led is None or self._partitions_led == self._partition_counts(self._partitions_led):
            return []
        return self._request_rejoin(now_ms, RebalanceReason.PARTITIONS_CHANGED)

    @property
    def is_cooperative(self) -> bool:
        """Whether it keeps what it holds while it joins: all its assignors must be able to."""
        return COOPERATIVE.issuperset(self.settings.assignors)

    def _prepare_join(self) -> tuple[SupportedProtocol, ...]:
        topics = self.settings.topics if self.is_cooperative and self.generation >= 0 else ()
        self.owned = frozenset(slot for slot in self.owned if slot[0] in topics)
        self._partitions_led = None
        said = MemberSubscription(
            self.settings.topics,
            self.settings.instance_id,
            tuple(sorted(self.owned)),
            generation=self.generation if self.generation >= 0 else None,
        )
        return tuple(SupportedProtocol(name, said) for name in self.settings.assignors)

    def _generation_began(self, answer: JoinGroupResponse, now_ms: int) -> None:
        topics = {topic for _, _, subscribed in answer.members for topic in subscribed.topics}
        self._partitions_led = self._partition_counts(topics) if answer.leader == answer.member_id else None

    def _assign(self, answer: JoinGroupResponse) -> dict[str, Any]:
        members = {
            member_id: subscribed if instance_id is None else replace(subscribed, instance_id=instance_id)
            for member_id, instance_id, subscribed in answer.members
        }
        assignor = ASSIGNORS[answer.protocol or ""]
        return {
            member_id: tuple(slots)
            for member_id, slots in assignor(AssignmentProblem(self._partitions, members)).items()
        }

    def _take_assignment(self, assignment: Any, now_ms: int) -> list[ClassicRequest]:
        assigned: frozenset[Slot] = frozenset(assignment)
        if any(topic not in self.settings.topics for topic, _ in assigned):
            # It wants other topics by now: it does not take these up.
            return self._request_rejoin(now_ms, RebalanceReason.SUBSCRIPTION_CHANGED)
        gives_back = self.is_cooperative and bool(self.owned - assigned)
        self.owned = assigned
        if gives_back:
            return self._request_rejoin(now_ms, RebalanceReason.COOPERATIVE_FOLLOWUP)
        return self._request_rejoin(now_ms, self._rejoin_reason) if self._rejoin_reason is not None else []

    def _generation_lost(self) -> None:
        self.owned, self._partitions_led = frozenset(), None

    def _partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        return {topic: self._partitions.get(topic, 0) for topic in topics}

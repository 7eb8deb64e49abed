"""KIP-848 groups of a real broker's log, played through the model record by record.

Each batch of records that the broker wrote says what was asked of it: who joined, whose heartbeat brought what, who
left. That is asked of the model at the same time, and what the model writes is held against the batch. The assignor
may be one that answers what the broker's assignor answered (`Targets`), so that what is held here is the protocol.
Heartbeats without effect are not in a log: sessions are taken as renewed up to the next batch, but of members whose
session ended, up to `last_sign` at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from agent.core.protocol.assignors import Assignment, AssignmentProblem, Assignor, Slot
from agent.core.records import RawRecord
from agent.core.wire import Record, Tombstone, decode
from agent.core.wire.json_form import uuid_text
from agent.kafka.source.paths import raw_records
from agent.simulation.groups.kip848_coordinator import Kip848Coordinator
from agent.simulation.groups.kip848_messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupHeartbeatRequest,
    CurrentAssignmentImage,
    EpochBumped,
    EpochImage,
    Kip848Effect,
    MemberMetadataImage,
    MemberState,
    TargetAssignmentImage,
    TargetComputed,
    TargetEpochImage,
)
from agent.simulation.groups.messages import MemberRemoved, RecordAppended, ResponseSent
from agent.simulation.groups.script import BrokerSettings

EPOCH, ABOUT, TARGET_EPOCH, TARGET, CURRENT, EXPRESSION = 3, 5, 6, 7, 8, 16
Line = tuple[Any, ...]
"""A record in a form that can be compared: its key type, the member, and what it says."""


@dataclass(slots=True)
class Batch:
    """What the broker wrote at one time: the records' values by key type and member, in order."""

    at_ms: int
    records: list[tuple[int, str, Any]]

    def of(self, key_type: int) -> dict[str, Any]:
        return {member_id: value for kind, member_id, value in self.records if kind == key_type}


def batches(directory: Path) -> dict[str, list[Batch]]:
    """By KIP-848 group: what was written, in order of partition and offset."""
    of_group: dict[str, list[tuple[int, int, str, Any]]] = {}
    for raw in raw_records(str(directory)):
        if not isinstance(raw, RawRecord) or raw.control:
            continue
        entry = decode(raw.key, raw.value)
        if not isinstance(entry, Record | Tombstone):
            continue
        if entry.type.key_type in (EPOCH, ABOUT, TARGET_EPOCH, TARGET, CURRENT, EXPRESSION):
            value = entry.value if isinstance(entry, Record) else None
            group, member_id = entry.key.group_id, getattr(entry.key, "member_id", "")
            of_group.setdefault(group, []).append((raw.timestamp_ms, entry.type.key_type, member_id, value))
    return {
        group: [
            Batch(at_ms, [(kind, member_id, value) for _, kind, member_id, value in records])
            for at_ms, records in groupby(found, key=lambda it: it[0])
        ]
        for group, found in of_group.items()
    }


def _slots(topics: Any) -> frozenset[Slot]:
    return frozenset((uuid_text(topic.topic_id), number) for topic in topics for number in topic.partitions)


def _epochs(topics: Any) -> dict[Slot, int]:
    return {
        (uuid_text(topic.topic_id), number): epoch
        for topic in topics
        for number, epoch in zip(topic.partitions, topic.assignment_epochs, strict=True)
    }


def line_of_record(kind: int, member_id: str, value: Any) -> Line:
    """A record of the broker as a line."""
    if value is None:
        return kind, member_id, None
    match kind:
        case 3:
            return kind, member_id, value.epoch
        case 5:
            return kind, member_id, value.instance_id, value.rebalance_timeout_ms, value.server_assignor
        case 6:
            return kind, member_id, value.assignment_epoch
        case 7:
            return kind, member_id, _slots(value.topic_partitions)
    held, revoking = _epochs(value.assigned_partitions), _epochs(value.partitions_pending_revocation)
    return kind, member_id, value.member_epoch, value.previous_member_epoch, value.state, held, revoking


def line_of_image(image: Any) -> Line:
    """A record of the model as a line."""
    match image:
        case EpochImage():
            return EPOCH, "", image.epoch
        case TargetEpochImage():
            return TARGET_EPOCH, "", image.epoch
        case TargetAssignmentImage():
            return TARGET, image.member_id, image.target
        case MemberMetadataImage(metadata=None):
            return ABOUT, image.member_id, None
        case MemberMetadataImage(metadata=about):
            return ABOUT, image.member_id, about.instance_id, about.rebalance_timeout_ms, about.server_assignor
        case CurrentAssignmentImage(current=None):
            return CURRENT, image.member_id, None
        case CurrentAssignmentImage(current=it):
            parts = it.epoch, it.previous_epoch, int(it.state), dict(it.assigned), dict(it.revoking)
            return CURRENT, image.member_id, *parts
    raise AssertionError(image)


def in_order(lines: list[Line]) -> list[Line]:
    """Lines in their order, but of several targets in a row, which a broker writes in the order of a hash table."""
    out: list[Line] = []
    for kind, run in groupby(lines, key=lambda line: line[0]):
        together = list(run)
        out += sorted(together, key=lambda line: line[1]) if kind == TARGET else together
    return out


class Targets:
    """Answers what the broker's assignor answered, one time after the other."""

    def __init__(self, found: list[Batch]) -> None:
        self._answers: list[dict[str, frozenset[Slot]]] = []
        now: dict[str, frozenset[Slot]] = {}
        for batch in found:
            for member_id, value in batch.of(TARGET).items():
                now[member_id] = frozenset() if value is None else _slots(value.topic_partitions)
            if batch.of(TARGET_EPOCH):
                self._answers.append(dict(now))

    def __call__(self, problem: AssignmentProblem) -> Assignment:
        answer = self._answers.pop(0)
        return {member_id: sorted(answer.get(member_id, ())) for member_id in problem.members}


@dataclass(slots=True)
class Outcome:
    """How the model's records compare: those that are the broker's own, and each batch that differs."""

    matched: int = 0
    total: int = 0
    extra: int = 0
    differing: list[tuple[int, list[Line], list[Line]]] = field(default_factory=list)
    removed: list[MemberRemoved] = field(default_factory=list)
    steps: list[tuple[str, int]] = field(default_factory=list)
    """Epochs as they were raised, and as targets were computed for them."""
    late_ms: list[int] = field(default_factory=list)
    """Of sessions that ended: by how much the broker wrote it after the model said so."""


class Replay:
    """One group's log played through the model. `last_sign`: until when members were heard whose session ended."""

    def __init__(
        self,
        group: str,
        found: list[Batch],
        settings: BrokerSettings,
        last_sign: Mapping[str, int],
        assignors: Mapping[str, Assignor] | None = None,
    ) -> None:
        self.group = group
        self.outcome = Outcome()
        self._found = found
        self._last_sign = last_sign
        self._settings = settings
        # Topics go by their ids, which assignments name; which topics those names were only the joins say.
        targets = [value for batch in found for value in batch.of(TARGET).values() if value is not None]
        counts: dict[str, int] = {}
        for topic, number in sorted(slot for value in targets for slot in _slots(value.topic_partitions)):
            counts[topic] = number + 1
        self.model = Kip848Coordinator(group, settings, str, counts, assignors or {"uniform": Targets(found)})
        self._topics = frozenset(counts)
        self._resolved = False

    def run(self) -> Outcome:
        held_over: list[tuple[int, str, Any]] = []
        for batch in self._found:
            kinds = {kind for kind, _, _ in batch.records}
            if EXPRESSION in kinds:
                # A regular expression was resolved: the members' next heartbeat finds the epoch raised.
                self._resolved = True
                held_over += [record for record in batch.records if record[0] != EXPRESSION]
                continue
            batch.records = held_over + batch.records
            held_over = []
            self._play(batch)
        return self.outcome

    def _play(self, batch: Batch) -> None:
        effects = self._let_pass(batch)
        effects += [effect for request in self._requests(batch) for effect in self._ask(request, batch.at_ms)]
        mine = [line_of_image(effect.image) for effect in effects if isinstance(effect, RecordAppended)]
        theirs = [line_of_record(*record) for record in batch.records]
        if self._resolved and not batch.of(ABOUT):
            # The model hears of a resolved expression as of other topics, which the member says.
            mine = [line for line in mine if line[0] != ABOUT]
        out = self.outcome
        out.removed += [effect for effect in effects if isinstance(effect, MemberRemoved)]
        for effect in effects:
            if isinstance(effect, EpochBumped | TargetComputed):
                out.steps.append(("epoch" if isinstance(effect, EpochBumped) else "target", effect.epoch))
        out.total += len(theirs)
        if in_order(mine) == in_order(theirs):
            out.matched += len(theirs)
            return
        common = [line for line in mine if line in theirs]
        out.matched += len(common)
        out.extra += len(mine) - len(common)
        out.differing.append((batch.at_ms, mine, theirs))

    def _let_pass(self, batch: Batch) -> list[Kip848Effect]:
        for member_id in self.model.members:
            sign = self._last_sign.get(member_id)
            self.model.renew_session(member_id, batch.at_ms if sign is None else min(sign, batch.at_ms))
        effects = self.model.fire_timers(batch.at_ms)
        self.outcome.late_ms += [batch.at_ms - it.at_ms for it in effects if isinstance(it, MemberRemoved)]
        return effects

    def _ask(self, request: ConsumerGroupHeartbeatRequest, at_ms: int) -> list[Kip848Effect]:
        effects = self.model.handle(request, "", at_ms)
        answered = effects[-1]
        assert isinstance(answered, ResponseSent)
        return effects

    def _requests(self, batch: Batch) -> Iterator[ConsumerGroupHeartbeatRequest]:
        """What must have been asked for the broker to write this."""
        current = batch.of(CURRENT)
        for member_id, value in current.items():
            member = self.model.members.get(member_id)
            instance_id = member.metadata.instance_id if member is not None else None
            replaced = any(it and it.instance_id == instance_id for it in batch.of(ABOUT).values())
            if value is None and member is not None and not (instance_id and replaced):
                yield ConsumerGroupHeartbeatRequest(self.group, member_id, LEAVE_EPOCH, instance_id)
            elif value is not None and value.member_epoch == STATIC_LEAVE_EPOCH:
                yield ConsumerGroupHeartbeatRequest(self.group, member_id, STATIC_LEAVE_EPOCH, instance_id)
        joined = {member_id: about for member_id, about in batch.of(ABOUT).items() if about is not None}
        for member_id, about in joined.items():
            if member_id not in self.model.members:
                yield self._join(member_id, about)
        for member_id, value in current.items():
            going = value is None or value.member_epoch == STATIC_LEAVE_EPOCH
            if not going and member_id not in joined:
                yield self._beat(member_id)

    def _join(self, member_id: str, about: Any) -> ConsumerGroupHeartbeatRequest:
        by_expression = bool(about.subscribed_topic_regex) and not self._resolved
        return ConsumerGroupHeartbeatRequest(
            self.group,
            member_id,
            JOIN_EPOCH,
            about.instance_id,
            about.rack_id,
            about.rebalance_timeout_ms,
            frozenset() if by_expression else self._topics,
            about.server_assignor,
            frozenset(),
            about.client_id,
            about.client_host,
        )

    def _beat(self, member_id: str) -> ConsumerGroupHeartbeatRequest:
        member = self.model.members[member_id]
        revoked = member.current.state == MemberState.UNREVOKED_PARTITIONS
        about = member.metadata
        return ConsumerGroupHeartbeatRequest(
            self.group,
            member_id,
            member.current.epoch,
            about.instance_id,
            subscribed_topics=self._topics,
            owned=frozenset(member.current.assigned) if revoked else None,
            client_id=about.client_id,
            client_host=about.client_host,
        )

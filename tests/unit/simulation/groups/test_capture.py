"""The model, fed with what came to a real coordinator, against what that coordinator did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agent.core.protocol.assignors import ASSIGNORS
from agent.core.protocol.states import GroupState
from agent.simulation.groups.classic_coordinator import ClassicCoordinator
from agent.simulation.groups.classic_group import ClassicGroupMachine
from agent.simulation.groups.messages import (
    ClassicGroupImage,
    Effect,
    ErrorCode,
    GenerationStabilized,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    MemberRemoved,
    RebalanceReason,
    RecordAppended,
    ResponseSent,
    SupportedProtocol,
    SyncGroupRequest,
)
from agent.simulation.groups.script import (
    BrokerSettings,
    ClientSettings,
    Close,
    Kill,
    Rejoin,
    Resubscribe,
    Script,
    Start,
    Step,
)
from agent.simulation.groups.simulate import simulate
from tests.unit.core.wire.vectors import CAPTURE, needs
from tests.unit.simulation.groups.captured import Captured, Line, captured

pytestmark = needs(CAPTURE)

BEAT_MS = 1500
"""`heartbeat.interval.ms` of the capture's clients."""


LATE_MS = 100
"""Lines are logged a little before or after what they tell of; an initial delay of nothing took up to 87 ms."""


class Fed:
    """A coordinator that gets a captured group's requests at the times of the log.

    Of the log's lines only those say something that a member did: it asked for an id, joined, joined again, synced,
    left, and (by when its session ended) was last heard of. When members joined again because they were asked to is
    not logged but for the last of them: then the join phase ended. So all do at that time.
    """

    def __init__(self, group: str, capture: Captured) -> None:
        self.name = group
        self.capture = capture
        self.effects: list[Effect] = []
        self.told: list[tuple[Any, ...]] = []
        created = (line.member for line in capture.lines if line.kind in ("asked", "static"))
        self._suffixes = iter([member[-36:] for member in created if member is not None] + [f"{0:036}"] * 9)
        settings = BrokerSettings(initial_rebalance_delay_ms=0)
        self.coordinator = ClassicCoordinator(group, settings, self._suffixes.__next__)
        self._ends = self._last_signs()
        self._beats: dict[str, int] = {}

    @property
    def group(self) -> ClassicGroupMachine:
        assert self.coordinator.group is not None
        return self.coordinator.group

    def _last_signs(self) -> dict[str, int]:
        """When members that failed were last heard of."""
        return {
            line.member: line.at_ms - int(self.capture.last_known(line.member, 0)["sessionTimeout"])
            for line in self.capture.lines
            if line.kind == "failed" and line.member is not None
        }

    def run(self) -> None:
        for line in self.capture.lines:
            self._let_pass(line.at_ms)
            getattr(self, f"_{line.kind}")(line)
            self._take(self.coordinator.fire_timers(line.at_ms))
        self._let_pass(self.capture.lines[-1].at_ms + 1)

    def _take(self, effects: list[Effect]) -> None:
        self.effects += effects

    def _ask(self, request: Any, at: int) -> Any:
        effects = self.coordinator.handle(request, "asked", at)
        self._take(effects)
        return next((it.response for it in effects if isinstance(it, ResponseSent)), None)

    def _let_pass(self, until: int) -> None:
        """Members send heartbeats, those that died until they did."""
        group = self.coordinator.group
        while group is not None:
            beats = {
                member_id: min(self._beats.setdefault(member_id, until) + BEAT_MS, self._ends.get(member_id, until))
                for member_id in group.members
            }
            due = {it: at for it, at in beats.items() if self._beats[it] < at < until}
            if not due:
                return
            member_id = min(due, key=due.__getitem__)
            self._beats[member_id] = due[member_id]
            self._take(self.coordinator.fire_timers(due[member_id]))
            if member_id in group.members:
                instance = group.members[member_id].instance_id
                self._ask(HeartbeatRequest(self.name, group.generation, member_id, instance), due[member_id])

    def _join(self, member_id: str, at: int, *, known: bool) -> Any:
        self._beats[member_id] = at
        row = self.capture.last_known(member_id, self.group.generation + 1 if known else 0)
        record = next(it for it in self.capture.records if row in it["members"])
        request = JoinGroupRequest(
            self.name,
            int(row["sessionTimeout"]),
            int(row["rebalanceTimeout"]),
            member_id if known else "",
            record["protocolType"],
            (SupportedProtocol(record["protocol"], row["subscription"]),),
            row["groupInstanceId"],
            row["clientId"],
            row["clientHost"],
        )
        return self._ask(request, at)

    # What members did.

    def _asked(self, line: Line) -> None:
        assert line.member is not None
        answer = self._join(line.member, line.at_ms, known=False)
        assert (answer.error, answer.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, line.member)

    def _joined(self, line: Line) -> None:
        assert line.member is not None
        self._join(line.member, line.at_ms, known=True)

    def _again(self, line: Line) -> None:
        self._joined(line)

    def _static(self, line: Line) -> None:
        if line.member is not None:
            self._join(line.member, line.at_ms, known=False)
            return
        # It came back: under which id, the next record says.
        old = self.group.roster.static_member(line.instance)
        new = next(
            row["memberId"]
            for record in self.capture.records
            for row in record["members"]
            if row["groupInstanceId"] == line.instance and record["timestamp"] >= line.at_ms
        )
        self._suffixes = iter([new[-36:]])
        self.group.new_id = self._suffixes.__next__
        assert old is None or old.member_id != new
        self._join(new, line.at_ms, known=False)

    def _left(self, line: Line) -> None:
        assert line.member is not None
        answer = self._ask(LeaveGroupRequest(self.name, (LeavingMember(line.member),)), line.at_ms)
        assert answer.members == (ErrorCode.NONE,)

    def _stabilized(self, line: Line) -> None:
        self._take(self.coordinator.fire_timers(line.at_ms))
        if self.group.state is GroupState.PREPARING_REBALANCE:
            absent = [it for it in self.group.members.values() if it.pending_join is None]
            for member in absent:
                if self._ends.get(member.member_id, line.at_ms) >= line.at_ms:
                    self._join(member.member_id, line.at_ms, known=True)
        self.told.append(("Stabilized", line.generation, line.size))

    def _assigned(self, line: Line) -> None:
        self.told.append(("leads", line.generation, line.member))
        record = next(it for it in self.capture.records if it["generation"] == line.generation)
        given = {row["memberId"]: row["assignment"] for row in record["members"]}
        for member_id, member in sorted(self.group.members.items(), key=lambda it: it[0] == self.group.leader):
            brings = given if member_id == self.group.leader else {}
            request = SyncGroupRequest(self.name, line.generation, member_id, member.instance_id, assignments=brings)
            self._ask(request, line.at_ms)
            self._beats[member_id] = line.at_ms

    # What only the coordinator did.

    def _failed(self, line: Line) -> None:
        self.told.append(("failed", line.at_ms, line.member))

    def _empty(self, line: Line) -> None:
        self.told.append(("Empty", line.generation, 0))

    def _preparing(self, line: Line) -> None:
        pass

    def _deleted(self, line: Line) -> None:
        self._take(self.coordinator.delete_group(line.at_ms))

    # What the model did.

    def did(self) -> list[tuple[Any, ...]]:
        out: list[tuple[Any, ...]] = []
        for effect in self.effects:
            match effect:
                case GenerationStabilized():
                    out.append(("Stabilized", effect.generation, effect.members))
                case MemberRemoved(reason=RebalanceReason.SESSION_TIMEOUT):
                    out.append(("failed", effect.at_ms, effect.member_id))
                case RecordAppended(image) if image.state is GroupState.EMPTY and image.generation:
                    out.append(("Empty", image.generation, 0))
                case RecordAppended(image) if image.state is GroupState.STABLE and not replaced(effect, self.effects):
                    out.append(("leads", image.generation, image.leader))
        return out

    def images(self) -> list[ClassicGroupImage]:
        return [effect.image for effect in self.effects if isinstance(effect, RecordAppended)]

    def written(self) -> Iterator[dict[str, Any]]:
        return map(shape, self.images())


def replaced(wrote: Effect, effects: list[Effect]) -> bool:
    """Whether a record only says that a static member goes on under another id."""
    before = effects[effects.index(wrote) - 1]
    return isinstance(before, MemberRemoved) and before.reason is RebalanceReason.STATIC_REPLACED


def shape(image: ClassicGroupImage) -> dict[str, Any]:
    if image.state is GroupState.DEAD:
        return {"generation": None}
    members = {it.member_id: (it.instance_id, it.metadata, it.assignment) for it in image.members}
    return {
        "generation": image.generation,
        "protocol": image.protocol,
        "leader": image.leader,
        "members": members,
    }


def recorded(record: dict[str, Any]) -> dict[str, Any]:
    if record["generation"] is None:
        return {"generation": None}
    members = {
        it["memberId"]: (it["groupInstanceId"], it["subscription"], it["assignment"]) for it in record["members"]
    }
    return {
        "generation": record["generation"],
        "protocol": record["protocol"],
        "leader": record["leader"],
        "members": members,
    }


def groups() -> list[Any]:
    return [pytest.param(group, it, id=group) for group, it in captured().items()] if CAPTURE.is_dir() else []


@pytest.mark.parametrize(("group", "capture"), groups())
def test_as_the_broker_did(group: str, capture: Captured) -> None:
    fed = Fed(group, capture)
    fed.run()
    # A broker's timer may be a moment late; whom it is about and in which order is exact.
    told = [("failed", it[2]) if it[0] == "failed" else it for it in fed.told]
    did = [("failed", it[2]) if it[0] == "failed" else it for it in fed.did()]
    assert did == told
    assert list(fed.written()) == [recorded(it) for it in capture.records]
    for image, record in zip(fed.images(), capture.records, strict=True):
        if image.state is not GroupState.DEAD:
            assert abs(image.state_since_ms - record["currentStateTimestamp"]) < LATE_MS


PARTITIONS = {"clicks": 12, "orders": 6, "payments": 4, "grow": 7, "solo-a": 1, "solo-b": 1, "solo-c": 1}


def client_of(member: str, capture: Captured) -> str:
    """A static member's client goes on under other member ids."""
    return str(capture.last_known(member, 0)["groupInstanceId"] or member)


def settings_of(member: str, capture: Captured, generation: int = 0) -> ClientSettings:
    row = capture.last_known(member, generation)
    protocol = next(it for it in capture.records if row in it["members"])["protocol"]
    return ClientSettings(
        row["clientId"],
        frozenset(row["subscription"]["topics"]) if isinstance(row["subscription"], dict) else frozenset({"orders"}),
        row["clientHost"],
        row["groupInstanceId"],
        int(row["sessionTimeout"]),
        BEAT_MS,
        int(row["rebalanceTimeout"]),
        # Kafka Streams' own assignor is not modelled; which generations there are does not hang on it.
        (protocol if protocol in ASSIGNORS else "range",),
    )


def script_of(group: str, capture: Captured) -> Script:
    """Only what came from outside: clients that started, left, died, changed their mind or saw a topic grow."""
    steps: list[Step] = []
    for number, line in enumerate(capture.lines):
        member, at = line.member, line.at_ms - 1
        match line.kind:
            case "asked" | "static" if member is not None:
                steps.append(Start(at, client_of(member, capture), settings_of(member, capture)))
            case "static":
                instance = line.instance or ""
                before = next(it for it in reversed(steps) if isinstance(it, Start) and it.client == instance)
                steps += [Close(at, instance), Start(at, instance, before.settings)]
            case "left" if member is not None:
                steps.append(Close(at, member))
            case "failed" if member is not None:
                died = line.at_ms - int(capture.last_known(member, 0)["sessionTimeout"])
                steps.append(Kill(died + 1, client_of(member, capture)))
            case "again" if member is not None:
                now = settings_of(member, capture)
                then = settings_of(
                    member, capture, next(it.generation for it in capture.lines[number:] if it.size > 0)
                )
                if then.topics != now.topics:
                    steps.append(Resubscribe(at, member, then.topics))
                elif now.assignors != ("cooperative-sticky",):
                    steps.append(Rejoin(at, member))
    broker = BrokerSettings(initial_rebalance_delay_ms=0)
    return Script(group, PARTITIONS, tuple(steps), capture.lines[-1].at_ms + 1000, broker)


BY_A_HEARTBEAT = "audit-deploy"
"""Here two members rejoined within 11 ms of the first one's assignment, before a third one came: by a heartbeat that
librdkafka sends at once, and that in the other groups was over when the second member came."""


def test_what_came_from_outside_is_enough() -> None:
    """When members hear of a rebalance the model finds out by itself, from their heartbeats."""
    same = []
    for group, capture in captured().items():
        told = [
            (line.generation, max(line.size, 0)) for line in capture.lines if line.kind in ("stabilized", "empty")
        ]
        played = [(it.generation, len(it.clients)) for it in simulate(script_of(group, capture)).rebalances]
        if group == BY_A_HEARTBEAT:
            assert [size for _, size in played] == [size for generation, size in told if generation != 2]
        elif played == told:
            same.append(group)
    print(f"{len(same)} groups exactly, and {BY_A_HEARTBEAT} but for one generation")
    assert same == [group for group in captured() if group != BY_A_HEARTBEAT]

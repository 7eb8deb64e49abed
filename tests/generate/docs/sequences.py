"""Who says what to whom: short plays of the model, drawn as sequence diagrams with what is written into the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from agent.core.protocol.states import GroupState
from agent.simulation.groups import kip848_messages as m
from agent.simulation.groups import messages as r
from agent.simulation.groups import script as s
from agent.simulation.groups.classic_coordinator import ClassicCoordinator
from agent.simulation.groups.protocol_models import AnyEffect
from agent.simulation.groups.simulation import Simulation
from tests.generate.docs.markdown import fenced

LATENCY_MS = 5
TOPIC = "t"
BROKER, LOG = "broker", "__consumer_offsets"


@dataclass(frozen=True, slots=True)
class Line:
    """One arrow, or where `to` is None a note over `of`."""

    at_ms: int
    of: str
    to: str | None
    text: str


class Heard(Simulation):
    """A world that remembers what was said and written."""

    def __init__(self, script: s.Script) -> None:
        self.lines: list[Line] = []
        self._state: GroupState | None = None
        super().__init__(script, self._seen)

    def _enqueue(self, now: int, is_request: bool, who: tuple[str, int], what: Any) -> None:
        text = said(what, self)
        if text is not None:
            ends = (who[0], BROKER) if is_request else (BROKER, who[0])
            self.lines.append(Line(now, *ends, text))
        super()._enqueue(now, is_request, who, what)

    def _take_step(self, step: s.Step, now: int) -> Any:
        if isinstance(step, s.Kill):
            self.lines.append(Line(now, step.client, None, "dies"))
        if isinstance(step, s.Close):
            self.lines.append(Line(now, step.client, None, "closes"))
        if isinstance(step, s.Stall):
            self.lines.append(Line(now, step.client, None, "polls no more"))
        if isinstance(step, s.Start):
            self.lines.append(Line(now, step.client, None, "starts"))
        return super()._take_step(step, now)

    def _send_responses(self, effects: Sequence[AnyEffect], now: int) -> Sequence[AnyEffect]:
        for effect in effects:
            match effect:
                case r.RecordAppended():
                    self.lines += [Line(now, BROKER, LOG, text) for text in written(effect.image, self)]
                case r.MemberRemoved(reason=r.RebalanceReason.SESSION_TIMEOUT):
                    text = f"the session of {_name(effect.member_id, self)} is over"
                    self.lines.append(Line(now, BROKER, None, text))
                case _:
                    super()._send_responses([effect], now)
        return effects

    def _seen(self, _: Simulation, now: int, effects: list[AnyEffect]) -> None:
        coordinator = self.model.coordinator
        machine = coordinator.group if isinstance(coordinator, ClassicCoordinator) else coordinator
        state = None if machine is None else machine.state
        if state is not None and state is not self._state:
            self._state = state
            self.lines.append(Line(now, BROKER, None, f"{state}"))


def said(what: Any, world: Simulation) -> str | None:
    """A message in a few words; None for a heartbeat that says nothing new."""
    match what:
        case r.JoinGroupRequest():
            return "JoinGroup" if what.member_id or what.instance_id else "JoinGroup, no member id yet"
        case r.JoinGroupResponse(error=r.ErrorCode.NONE):
            leads = f", to assign to {len(what.members)}" if what.members else ""
            return f"in generation {what.generation}{leads}"
        case r.SyncGroupRequest():
            return "SyncGroup, everybody's assignment" if what.assignments else "SyncGroup"
        case r.SyncGroupResponse(error=r.ErrorCode.NONE):
            return f"yours: {_slots(what.assignment)}"
        case r.LeaveGroupRequest():
            return "LeaveGroup"
        case m.ConsumerGroupHeartbeatRequest():
            return _beat(what)
        case m.ConsumerGroupHeartbeatResponse(error=r.ErrorCode.NONE):
            if what.assignment is None:
                return None
            return f"epoch {what.member_epoch}, yours: {_slots(what.assignment)}"
        case r.JoinGroupResponse() | r.SyncGroupResponse() | r.HeartbeatResponse() if (
            what.error is not r.ErrorCode.NONE
        ):
            return str(what.error)
        case _:
            return None


def _beat(beat: m.ConsumerGroupHeartbeatRequest) -> str | None:
    if beat.member_epoch == m.JOIN_EPOCH:
        return "Heartbeat, epoch 0: joins"
    if beat.member_epoch < 0:
        return f"Heartbeat, epoch {beat.member_epoch}: leaves"
    return None if beat.owned is None else f"Heartbeat, epoch {beat.member_epoch}, holds {_slots(beat.owned)}"


def written(image: Any, world: Simulation) -> Iterable[str]:
    """What a record says, in a few words; nothing of tombstones, and of what a member says of itself."""
    match image:
        case r.ClassicGroupImage():
            shares = ", ".join(f"{_name(it.member_id, world)} {_slots(it.assignment)}" for it in image.members)
            yield f"generation {image.generation}, {image.state}: {shares or 'nobody'}"
        case m.EpochImage():
            yield f"group epoch {image.epoch}"
        case m.TargetEpochImage():
            yield f"target of epoch {image.epoch}"
        case m.TargetAssignmentImage(target=target) if target is not None:
            yield f"{_name(image.member_id, world)} shall have {_slots(target)}"
        case m.CurrentAssignmentImage(current=current) if current is not None:
            gives = f", to give up {_slots(current.revoking)}" if current.revoking else ""
            yield f"{_name(image.member_id, world)} at epoch {current.epoch}: has {_slots(current.assigned)}{gives}"


def _name(member_id: str, world: Simulation) -> str:
    if member_id in world.client_names:
        return world.client_names[member_id]
    # A static member's id begins with its instance's.
    return next(name for name in world.clients if member_id.startswith((f"{name}-", f"i-{name}-")))


def _slots(slots: Iterable[tuple[str, int]]) -> str:
    return " ".join(str(partition) for _, partition in sorted(slots)) or "nothing"


def drawn(script: s.Script, since_ms: int) -> str:
    """A play as a Mermaid diagram, from a time on."""
    world = Heard(script)
    world.run()
    lines = [line for line in world.lines if line.at_ms >= since_ms]
    names = sorted(world.clients)
    out = ["sequenceDiagram", *(f"    participant {name}" for name in names)]
    out += [f"    participant {BROKER}", f"    participant log as {LOG}"]
    last = None
    for line in lines:
        if last is None or line.at_ms - last >= 1_000:
            out.append(f"    Note over {names[0]},log: at {_clock(line.at_ms - since_ms)}")
        last = line.at_ms
        if line.to is None:
            out.append(f"    Note over {line.of}: {line.text}")
        else:
            arrow = "->>" if line.of != BROKER or line.to == LOG else "-->>"
            out.append(f"    {line.of}{arrow}{'log' if line.to == LOG else line.to}: {line.text}")
    return fenced("\n".join(out), "mermaid")


def _clock(ms: int) -> str:
    return f"{ms / 1000:g} s" if ms < 1000 else f"{ms / 1000:.1f} s"


def client(name: str, **changed: Any) -> s.ClientSettings:
    """A consumer of the topic with the protocol's defaults, but for what is said."""
    settings = s.ClientSettings(name, frozenset({TOPIC}), assignors=("range",), session_timeout_ms=10_000)
    return replace(settings, **changed)


def script(*steps: s.Step, until_ms: int, partitions: int = 6) -> s.Script:
    """A group `g` of one topic."""
    return s.Script("g", {TOPIC: partitions}, steps, until_ms, latency_ms=LATENCY_MS)


def eager() -> str:
    """A member comes to a group that works."""
    steps = (s.Start(0, "c1", client("c1")), s.Start(0, "c2", client("c2")), s.Start(20_000, "c3", client("c3")))
    return drawn(script(*steps, until_ms=27_000), 20_000)


def cooperative() -> str:
    """The same with cooperative-sticky: two rounds."""
    with_care = {"assignors": ("cooperative-sticky",)}
    steps = (s.Start(0, "c1", client("c1", **with_care)), s.Start(20_000, "c2", client("c2", **with_care)))
    return drawn(script(*steps, until_ms=30_000), 20_000)


def crash() -> str:
    """A member dies without a word."""
    steps = (s.Start(0, "c1", client("c1")), s.Start(0, "c2", client("c2")), s.Kill(20_000, "c2"))
    return drawn(script(*steps, until_ms=36_000), 20_000)


def static() -> str:
    """A static member is restarted in time."""
    fixed = {name: client(name, instance_id=f"i-{name}") for name in ("c1", "c2")}
    steps = (*(s.Start(0, name, it) for name, it in fixed.items()), s.Close(20_000, "c2"))
    return drawn(script(*steps, s.Start(24_000, "c2", fixed["c2"]), until_ms=30_000), 20_000)


def modern() -> str:
    """A member comes to a KIP-848 group."""
    new = {"group_protocol": s.GroupProtocol.CONSUMER}
    steps = (s.Start(0, "c1", client("c1", **new)), s.Start(20_000, "c2", client("c2", **new)))
    return drawn(script(*steps, until_ms=40_000, partitions=4), 20_000)

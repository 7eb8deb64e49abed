"""Random but plausible histories: several groups of every type in one partition, as their coordinators write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from agent.core.wire.primitives import Uuid
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log, Pair
from tests.unit.core.shadow.scripts import (
    CONSUMER,
    KINDS,
    SHARE,
    TOPIC,
    ClassicScript,
    ModernScript,
    downgrade,
    downgrade_in_place,
    upgrade,
    upgrade_in_place,
)

Pick = Callable[[Sequence[Any]], Any]
Script = ClassicScript | ModernScript


@dataclass
class Life:
    """One group over time; whatever type it has just now."""

    name: str
    script: Script | None = None
    committed: set[int] = field(default_factory=set)
    made: int = 0

    def new_id(self, prefix: str = "m") -> str:
        self.made += 1
        return f"{prefix}-{self.name}-{self.made}"


def _commits(life: Life, pick: Pick) -> list[Pair]:
    number = pick(range(3))
    life.committed.add(number)
    version = pick([3, 4, 0, 1, 3, 3])
    topic_id = b.topic_id(TOPIC) if version == 4 and pick([True, False]) else bytes(16)
    metadata = pick(["", "", "note"])
    life.made += 1
    key_type = pick([1, 1, 1, 0])
    return [
        b.commit(
            TOPIC,
            number,
            life.made,
            group=life.name,
            version=version,
            at_ms=b.T0 + life.made,
            metadata=metadata,
            id_of_topic=Uuid(topic_id),
            key_type=key_type,
        )
    ]


def _uncommits(life: Life) -> list[Pair]:
    gone = [b.uncommit(TOPIC, number, group=life.name) for number in sorted(life.committed)]
    life.committed.clear()
    return gone


def _classic(life: Life, script: ClassicScript, what: str, pick: Pick) -> list[Pair]:
    members = dict(script.members)
    statics = [member_id for member_id, instance_id in members.items() if instance_id is not None]
    match what:
        case "join" | "join_static":
            new = life.new_id()
            return script.rebalance({**members, new: f"I{new}" if what == "join_static" else None})
        case "leave" if members:
            gone = pick(sorted(members))
            return script.rebalance({member_id: it for member_id, it in members.items() if member_id != gone})
        case "static" if statics:
            old = pick(sorted(statics))
            return script.replace(old, life.new_id())
        case "heartbeat":
            return script.rebalance(members)
        case "refresh":
            return script.rebalance(members, failed=2)
        case "migrate" if statics and pick([True, False]):
            life.script, out = upgrade_in_place(script, pick(sorted(statics)), life.new_id())
            return out
        case "migrate" if members:
            life.script, out = upgrade(script)
            return [*out, *life.script.join(life.new_id())]
        case "migrate" | "delete" if not members:
            out = script.delete(0)
            life.script = None
            if what == "delete":
                return [*_uncommits(life), *out]
            # An empty classic group is deleted by the first member of another type; its offsets stay.
            life.script = ModernScript(CONSUMER, life.name)
            return [*out, *life.script.join(life.new_id())]
    return []


def _modern(life: Life, script: ModernScript, what: str, pick: Pick) -> list[Pair]:
    ids = sorted(script.members)
    away = [member_id for member_id in ids if script.members[member_id].epoch == -2]
    here = [member_id for member_id in ids if member_id not in away]
    chosen = pick(ids) if ids else None
    match what:
        case "join":
            return script.join(life.new_id())
        case "join_static" if script.kind is CONSUMER:
            new = life.new_id()
            return script.join(new, f"I{new}")
        case "leave" if isinstance(chosen, str):
            return script.leave(chosen)
        case "static" if away:
            old = pick(sorted(away))
            return script.static_return(old, life.new_id(), pick([None, "/10.0.0.4"]))
        case "static":
            mine = [member_id for member_id in here if member_id in script.statics]
            return script.static_leave(mine[0]) if mine else []
        case "heartbeat" if here:
            member_id = pick(sorted(here))
            return script.heartbeat(member_id)
        case "refresh" if here:
            return [script.raised(), *script.heartbeat(here[0])]
        case "migrate" if chosen in script.statics and len(away) < 2 and {*away} <= {chosen}:
            life.script, out = downgrade_in_place(script, str(chosen), life.new_id())
            return out
        case "migrate" if script.kind is CONSUMER and isinstance(chosen, str) and len(ids) > 1 and not away:
            life.script, out = downgrade(script, chosen)
            if pick([True, False]):
                return [*out, *life.script.rebalance(life.script.members)]
            # Before that is done a KIP-848 member comes.
            return [*out, *_classic(life, life.script, "migrate", pick)]
        case "migrate" | "delete" if not ids and script.epoch > 1:
            out = script.delete()
            life.script = None
            if what == "delete" or script.kind is SHARE:
                return [*_uncommits(life), *out]
            life.script = ClassicScript(life.name)
            return [*out, *life.script.create()]
    return []


OPERATIONS = [
    "join",
    "join",
    "join_static",
    "join_static",
    "leave",
    "static",
    "heartbeat",
    "heartbeat",
    "refresh",
    "migrate",
    "migrate",
    "migrate",
    "delete",
]


@st.composite
def histories(draw: st.DrawFn, *, max_operations: int = 30, partition: int = 7) -> Log:
    """A log of a few groups. Batches are whole and in the broker's order; groups take turns."""

    def pick(items: Sequence[Any]) -> Any:
        return draw(st.sampled_from(items))

    log = Log(partition)
    lives = [Life(name) for name in ("g0", "g1", "g2")]
    for _ in range(draw(st.integers(1, max_operations))):
        life = lives[draw(st.integers(0, 2))]
        if draw(st.booleans()):
            burst = [pair for _ in range(draw(st.integers(1, 4))) for pair in _commits(life, pick)]
            log.add(*burst)
            continue
        if life.script is None:
            kind = pick([None, None, *KINDS])
            if kind is None:
                life.script = ClassicScript(life.name)
                # As in the broker, a group that has offsets is there already.
                log.add(*([] if life.committed else life.script.create()))
            else:
                life.script = ModernScript(kind, life.name)
                deleted = [b.no_classic_group(life.name)] if life.committed else []
                log.add(*deleted, *life.script.join(life.new_id()))
            continue
        what = pick(OPERATIONS)
        if isinstance(life.script, ClassicScript):
            log.add(*_classic(life, life.script, what, pick))
        else:
            log.add(*_modern(life, life.script, what, pick))
    return log

"""What an `OriginSource` answers stands beside the cause, at once or some seconds later; without one nothing
changes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from agent.core.causes import Cause
from agent.core.events.events import Event, event_of
from agent.core.events.open_origins import BEHIND_S, SETTLE_S
from agent.core.events.recent import estimated_bytes
from agent.core.inference.facts import Departure
from agent.core.inference.origin_evidence import MAX_DEPARTED, PartitionOrigins
from agent.core.inference.origins import Origin
from agent.core.records import LogId
from agent.core.shadow.transitions import LogPosition, MemberJoined, MemberLeft, Rebalanced, Transition
from agent.core.shadow.views import Member
from agent.persistence.cluster_state import ClusterState
from agent.persistence.export.columns import event_to_row, row_to_event
from agent.presentation.json_views import describe_json
from agent.runtime import held_events
from agent.runtime.held_events import HeldEvents
from tests.unit.cli.running import SEGMENTS
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log
from tests.unit.serving.routes.replayed import of_path

LOG = LogId("cluster-1", "topic-1")


def origin(kind: str, **more: Any) -> Origin:
    """What happened to a pod."""
    values: dict[str, Any] = {
        "at_ms": 1_000,
        "namespace": "shop",
        "pod": "payments-2",
        "container": "app",
        "node": "n7",
        "workload": "StatefulSet/payments",
        "revision": "7d9f",
        "exit_code": 137 if kind == "oom_killed" else None,
        "message": "container `app` was killed by the kernel at its memory limit of 512Mi",
    }
    return Origin(kind=kind, **values | more)


@dataclass
class Pods:
    """A source that knows of members by id; it may learn more meanwhile."""

    went: dict[str, Origin] = field(default_factory=dict)
    came: dict[str, Origin] = field(default_factory=dict)
    asked: list[tuple[str, int | None, int]] = field(default_factory=list)
    is_behind: bool = False

    def departure_origin(self, member: Member, departed_ms: int | None, shown_ms: int) -> Origin | None:
        self.asked.append((member.member_id, departed_ms, shown_ms))
        return self.went.get(member.member_id)

    def join_origin(self, member: Member, shown_ms: int) -> Origin | None:
        return self.came.get(member.member_id)


@dataclass
class EveryPod:
    """A source to which all members that left have the same origin, and all that joined."""

    went: Origin
    came: Origin | None = None
    is_behind: bool = False

    def departure_origin(self, member: Member, departed_ms: int | None, shown_ms: int) -> Origin | None:
        return self.went

    def join_origin(self, member: Member, shown_ms: int) -> Origin | None:
        return self.came


def hostile_origin(text: str) -> Origin:
    """One with the same text wherever a stranger may write."""
    return origin("oom_killed", namespace=text, pod=text, container=text, node=text, workload=text, message=text)


def a_departure() -> Log:
    """Two members, of which the second leaves."""
    log = Log().add(b.new_group())
    two = (b.member("m-1", {"t": [0]}), b.member("m-2", {"t": [1]}))
    log.add(b.classic_group(1, *two, state_ms=log.now_ms + b.STEP_MS - 40))
    return log.add(b.classic_group(2, two[0], state_ms=log.now_ms + b.STEP_MS - 40), after_ms=60_000)


def play(state: ClusterState, log: Log) -> list[Transition]:
    """What came of it."""
    return [it for it in state.replay_batch(b.run_of(log.records)) if isinstance(it, Transition)]


def members_of(events: Sequence[Event], kind: str, name: str) -> list[Any]:
    """A field of the events of a type."""
    return [it[name] for it in events if it["type"] == kind]


def test_members_that_came_and_went_carry_their_origins() -> None:
    pods = Pods({"m-2": origin("oom_killed")}, {"m-1": origin("scaled_up")})
    state = ClusterState(origin_source=pods)
    events = [event_of(it) for it in play(state, a_departure())]
    first, last = members_of(events, "rebalance", "joined"), members_of(events, "rebalance", "left")
    assert [it["origin"] and it["origin"]["kind"] for it in first[0]] == ["scaled_up", None]
    assert [(it["cause"], it["origin"]["kind"], it["origin"]["pod"]) for it in last[-1]] == [
        ("member_left", "oom_killed", "payments-2")
    ]
    (gone,) = members_of(events, "member_left", "member")
    assert gone["origin"] == last[-1][0]["origin"]
    view = state.mirror.view(b.GROUP)
    assert view is not None
    (stayed,) = describe_json(view, ())["members"]
    assert (stayed["member_id"], stayed["origin"]["kind"]) == ("m-1", "scaled_up")


def test_a_source_is_asked_for_the_last_sign_of_life_of_a_session_that_timed_out() -> None:
    gone = Member("m-2", "m", "/10.0.0.1", session_timeout_ms=10_000)
    departure = Departure(gone, Cause.SESSION_TIMEOUT, 1.0, {}, 50_000)
    left = MemberLeft(LogPosition(7, 1, 50_100), b.GROUP, "classic", 2, gone, departure)
    pods = Pods()
    PartitionOrigins().attach([left], pods)
    assert pods.asked == [("m-2", 40_000, 50_100)]


def test_without_a_source_events_are_as_before() -> None:
    without, blind = ClusterState(), ClusterState(origin_source=Pods())
    said = 0
    for batch in of_path(SEGMENTS / "__consumer_offsets-14"):
        plain = [event_of(it) for it in without.replay_batch(batch)]
        asked = [event_of(it) for it in blind.replay_batch(batch)]
        for event in asked:
            for name in ("joined", "left", "member", "old_member"):
                found = event.get(name, [])
                for member in [found] if isinstance(found, dict) else found:
                    assert member.pop("origin") is None
                    said += 1
        assert msgspec.json.encode(plain) == msgspec.json.encode(asked)
        assert b'"origin"' not in msgspec.json.encode(plain)
    assert said > 0


@pytest.mark.parametrize("late", ["exited", "oom_killed"])
def test_late_evidence_amends_what_is_remembered_shown_and_counted(late: str) -> None:
    pods = Pods()
    state = ClusterState(origin_source=pods, log=LOG)
    log = a_departure()
    outputs = play(state, log)
    shown_ms = log.now_ms
    state.observe_origins(outputs, 100.0, shown_ms)

    def remembered() -> list[Any]:
        (timeline, _) = state.recent.timeline(b.GROUP)
        return [it["member"]["origin"] for it in timeline if it["type"] == "member_left"]

    state.recent.partitions[7].groups[b.GROUP][-1].encoded()
    assert remembered() == [None]
    assert state.counts.partitions[7].origins == {}
    pods.went["m-2"] = origin(late)
    state.settle_origins(101.5)
    assert [it["kind"] for it in remembered()] == [late]
    assert state.counts.partitions[7].origins == {}, "counters do not go back, so they wait until it is settled"
    state.settle_origins(100.0 + SETTLE_S)
    assert state.counts.partitions[7].origins == {b.GROUP: {late: 1}}
    pods.went["m-2"] = origin("deleted")
    state.settle_origins(200.0)
    assert [it["kind"] for it in remembered()] == [late]
    assert state.counts.partitions[7].origins == {b.GROUP: {late: 1}}
    # What was kept of it goes on after a restart.
    other = ClusterState(origin_source=pods, log=LOG)
    other.restore(7, state.capture(7).encode())
    assert other.counts.partitions[7].origins == {b.GROUP: {late: 1}}
    assert other.mirror.partitions[7].origins.departed[b.GROUP]["m-2"].kind == late


@pytest.mark.parametrize(("back_s", "counted"), [(104.0, {}), (112.0, {}), (118.0, {b.GROUP: {"exited": 1}})])
def test_while_the_source_is_behind_it_is_asked_for_longer(back_s: float, counted: dict[str, dict[str, int]]) -> None:
    pods = Pods(is_behind=True)
    state = ClusterState(origin_source=pods, log=LOG)
    log = a_departure()
    state.observe_origins(play(state, log), 100.0, log.now_ms)
    state.settle_origins(back_s)
    pods.is_behind = False
    pods.went["m-2"] = origin("exited")
    state.settle_origins(back_s + SETTLE_S - 1)
    assert state.counts.partitions[7].origins == counted
    state.settle_origins(back_s + SETTLE_S)
    assert state.counts.partitions[7].origins == {b.GROUP: {"exited": 1}}


def test_a_source_that_stays_away_keeps_nothing_open_for_long() -> None:
    state = ClusterState(origin_source=Pods({"m-2": origin("evicted")}, is_behind=True), log=LOG)
    log = a_departure()
    state.observe_origins(play(state, log), 100.0, log.now_ms)
    state.settle_origins(100.0 + SETTLE_S + BEHIND_S - 1)
    assert state.counts.partitions[7].origins == {}
    state.settle_origins(100.0 + SETTLE_S + BEHIND_S)
    assert state.counts.partitions[7].origins == {b.GROUP: {"evicted": 1}}


@pytest.mark.parametrize("is_behind", [False, True])
def test_what_is_read_from_long_ago_is_settled_at_once(is_behind: bool) -> None:
    state = ClusterState(origin_source=Pods({"m-2": origin("evicted")}, is_behind=is_behind))
    log = a_departure()
    outputs = play(state, log)
    state.observe_origins(outputs, 100.0, log.now_ms + 3_600_000)
    assert state.counts.partitions[7].origins == {b.GROUP: {"evicted": 1}}
    assert all(it.origins is None or it.origins.is_settled for it in outputs)


def test_a_partition_that_is_forgotten_counts_nothing_later() -> None:
    state = ClusterState(origin_source=Pods({"m-2": origin("evicted")}))
    log = a_departure()
    state.observe_origins(play(state, log), 100.0, log.now_ms)
    state.forget(7)
    state.settle_origins(100.0 + SETTLE_S)
    assert state.counts.partitions == {}


def test_members_that_left_are_remembered_up_to_a_bound() -> None:
    log = Log().add(b.new_group())
    names = [f"m-{n}" for n in range(MAX_DEPARTED + 5)]
    for generation, name in enumerate(names, start=1):
        log.add(b.classic_group(generation, b.member(name, {"t": [0]})))
    pods = Pods({name: origin("exited") for name in names}, {name: origin("restarted") for name in names})
    state = ClusterState(origin_source=pods)
    play(state, log)
    origins = state.mirror.partitions[7].origins
    assert list(origins.departed[b.GROUP]) == names[-MAX_DEPARTED - 1 : -1]
    assert list(origins.joined[b.GROUP]) == names[-1:]


class Sink:
    """Keeps what is exported."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def put(self, events: Sequence[Event]) -> None:
        self.events += events


def test_history_waits_for_what_is_open_and_keeps_the_order() -> None:
    pods, sink, lock = Pods(), Sink(), threading.Lock()
    state = ClusterState(origin_source=pods)
    held = HeldEvents(sink, "c")  # type: ignore[arg-type]  # all that it calls
    log = a_departure()
    outputs = play(state, log)
    state.observe_origins(outputs, 100.0, log.now_ms)
    held.put(outputs)
    assert sink.events == []
    assert not held.wait_released(lock, lambda: state.settle_origins(103.0), 0.0)
    pods.went["m-2"] = origin("oom_killed")
    assert held.wait_released(lock, lambda: state.settle_origins(100.0 + SETTLE_S), 5.0)
    assert [it["type"] for it in sink.events] == [it.kind for it in outputs]
    (gone,) = members_of(sink.events, "member_left", "member")
    assert gone["origin"]["kind"] == "oom_killed"


def waiting_for_an_origin() -> tuple[Sink, HeldEvents, list[Transition]]:
    """What came of a departure whose origin is not known yet, and where it is to wait."""
    sink, log = Sink(), a_departure()
    state = ClusterState(origin_source=Pods())
    outputs = play(state, log)
    state.observe_origins(outputs, 100.0, log.now_ms)
    return sink, HeldEvents(sink, "c"), outputs  # type: ignore[arg-type]  # all that it calls


def test_what_waits_is_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    sink, held, outputs = waiting_for_an_origin()
    size = sum(estimated_bytes(it) for it in outputs if isinstance(it, Transition))
    monkeypatch.setattr(held_events, "MAX_BYTES", 3 * size)
    for put in range(1, 6):
        held.put(outputs)
        assert len(sink.events) == max(put - 3, 0) * len(outputs)
    held.release(all_of_them=True)
    held.put(outputs)
    assert len(sink.events) == 5 * len(outputs), "what went weighs nothing any more"


def test_all_goes_out_at_once_where_it_must() -> None:
    sink, held, outputs = waiting_for_an_origin()
    held.put(outputs)
    held.release(all_of_them=True)
    assert len(sink.events) == len(outputs)


def test_origins_have_a_column_and_come_back_from_it() -> None:
    pods = Pods({"m-2": origin("oom_killed")}, {"m-1": origin("scaled_up")})
    events = [event_of(it) for it in play(ClusterState(origin_source=pods), a_departure())]
    assert {it["type"] for it in events} >= {MemberJoined.kind, MemberLeft.kind, Rebalanced.kind}
    # Those of a newer agent too, whose members have more than the column.
    newer = [{**it, "member": {**it["member"], "shoe_size": 43}} for it in events if "member" in it]
    for event in (*events, *newer):
        row = event_to_row(event)
        assert ("extra" in row) is (event in newer)
        full = {"extra": None, "escaped": False, **row}
        assert row_to_event(full) == event
        # Files of before have no such column.
        old = {name: value for name, value in full.items() if name != "origins"}
        assert '"origin"' not in msgspec.json.encode(row_to_event(old)).decode()

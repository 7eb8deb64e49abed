"""Late evidence, over any times at which a source learns, and with restarts in between: one answer, counted once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.events.events import Event
from agent.core.events.open_origins import ASK_EVERY_S, SETTLE_S
from agent.core.shadow.transitions import Transition
from agent.persistence.cluster_state import ClusterState
from agent.runtime.held_events import HeldEvents
from tests import examples
from tests.unit.core.inference.test_origin_evidence import LOG, Pods, Sink, origin
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log

KINDS = ("oom_killed", "exited", "evicted", "drained", "rolled_out", "deleted")


class Played:
    """An agent, a source that learns as time passes, and a history that outlives the agent."""

    def __init__(self, learns_s: Mapping[str, float]) -> None:
        """`learns_s`: by member that leaves, when the source knows why."""
        self.learns_s = learns_s
        self.pods, self.sink, self.now_s = Pods(), Sink(), 0.0
        self.log = Log().add(b.new_group())
        self.began_ms, self.left = self.log.now_ms, 0
        self.start()
        self.log.add(b.classic_group(1, b.member("m-0", {"t": [0]}), state_ms=self.log.now_ms + b.STEP_MS - 40))
        self.state.replay_batch(b.run_of(self.log.records))

    def start(self, image: bytes | None = None) -> None:
        """A process, with the snapshot of the one before."""
        self.state = ClusterState(origin_source=self.pods, log=LOG)
        self.held = HeldEvents(self.sink, "c")  # type: ignore[arg-type]  # all that it calls
        if image is not None:
            self.state.restore(7, image)

    def departs(self) -> None:
        """The member leaves as the next one joins."""
        self.left += 1
        joins = b.member(f"m-{self.left}", {"t": [0]})
        self.log.add(b.classic_group(self.left + 1, joins, state_ms=self.log.now_ms + b.STEP_MS - 40))
        outputs = self.state.replay_batch(b.run_of(self.log.records[-1:]))
        transitions = [it for it in outputs if isinstance(it, Transition)]
        self.state.observe_origins(transitions, self.now_s, self.log.now_ms)
        self.held.put(transitions)

    def pass_until(self, until_s: float) -> None:
        while self.now_s < until_s:
            self.now_s = min(self.now_s + ASK_EVERY_S, until_s)
            known = (name for name, at_s in self.learns_s.items() if at_s <= self.now_s)
            self.pods.went |= {name: origin(KINDS[int(name[2:])]) for name in known}
            self.state.settle_origins(self.now_s)
            self.held.release()

    @property
    def told(self) -> Sequence[tuple[str, str | None]]:
        """Who left and why, as the history has it."""
        left: list[Event] = [it["member"] for it in self.sink.events if it["type"] == "member_left"]
        return [(it["member_id"], None if it["origin"] is None else it["origin"]["kind"]) for it in left]

    @property
    def counted(self) -> Counter[str]:
        return self.state.counts.partitions[7].origins.get(b.GROUP, Counter())


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(st.floats(0.5, 8.0), st.none() | st.floats(0.0, 14.0)), min_size=1, max_size=6))
def test_each_departure_has_one_answer(departures: list[tuple[float, float | None]]) -> None:
    """Each: how long after the one before, and how long after it the source knows, if ever."""
    at_s, times, learns_s = 0.0, [], {}
    for number, (gap_s, after_s) in enumerate(departures):
        at_s += gap_s
        times.append(at_s)
        if after_s is not None:
            learns_s[f"m-{number}"] = at_s + after_s
    played = Played(learns_s)
    for at_s in times:
        played.pass_until(at_s)
        played.departs()
    played.pass_until(at_s + SETTLE_S + ASK_EVERY_S)
    told = dict(played.told)
    assert [name for name, _ in played.told] == [f"m-{it}" for it in range(len(departures))], "in order, once"
    for number, time_s in enumerate(times):
        name, knows_s = f"m-{number}", learns_s.get(f"m-{number}", 1e9)
        if knows_s <= time_s + SETTLE_S - ASK_EVERY_S:
            assert told[name] == KINDS[number]
        elif knows_s > time_s + SETTLE_S + ASK_EVERY_S:
            assert told[name] is None
    assert played.counted == Counter(kind for kind in told.values() if kind is not None), "the counter says the same"
    ids = [it["event_id"] for it in played.sink.events]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(("stops_s", "kind"), [(3.0, "oom_killed"), (1.0, None)])
def test_who_stops_tells_what_is_known(stops_s: float, kind: str | None) -> None:
    played = Played({"m-0": 2.0})
    played.departs()
    played.pass_until(stops_s)
    played.state.settle_origins(played.now_s, all_of_them=True)
    played.held.release(all_of_them=True)
    played.start(played.state.capture(7).encode())
    played.pass_until(30.0)
    assert played.told == [("m-0", kind)]
    assert played.counted == ({} if kind is None else {kind: 1})


@pytest.mark.parametrize(("imaged_s", "counts"), [(3.0, {"oom_killed": 1}), (1.0, {})])
def test_a_snapshot_counts_what_is_open_as_it_is_known(imaged_s: float, counts: dict[str, int]) -> None:
    """It is stored once all events of it are safe; then the agent is killed."""
    played, lock = Played({"m-0": 2.0}), threading.Lock()
    played.departs()
    played.pass_until(imaged_s)
    image = played.state.capture(7).encode()
    assert played.counted == {}, "counters do not go back, so they wait until it is settled"
    assert played.held.wait_released(lock, lambda: played.pass_until(played.now_s + 1.0), 60.0)
    assert played.told == [("m-0", "oom_killed")]
    assert played.counted == {"oom_killed": 1}
    played.start(image)
    played.pass_until(60.0)
    assert played.counted == counts
    assert played.told == [("m-0", "oom_killed")]

"""Replays for the page: aside, bounded, kept until the group moves; and what the page makes of them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from agent.core.inference.session_settings import SessionSetting
from agent.presentation.narrative.gains import Gain, Gains
from agent.serving.page.gains_table import gains_table
from agent.serving.page.replays import Recommend, ReplayRequest, gains_soon
from agent.serving.replay_limit import MAX_MEMBERS
from agent.serving.replays import MAX_WAITING, Replays
from agent.simulation.whatif.recent_recordings import RecentRecordings
from agent.simulation.whatif.recorder import GroupRecording
from tests.unit.cli.running import SEGMENTS
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import T0, Log
from tests.unit.presentation.narrative import made as m
from tests.unit.serving.page.scene import CAPTURE, Reader, captured, client, newest_ms
from tests.unit.serving.routes.replayed import Replayed, of_log
from tests.waiting import until

GAIN = Gain("static membership", ("group.instance.id=<b>",), "in every client", 9, 3, 120.0, 30.0, price="None <i>.")
FOUND = Gains((GAIN,), 8, 9, 120.0, 9, 118.0, 9, 9)


def recording(*generations: int, members: int = 2) -> GroupRecording:
    log = Log()
    for number in generations:
        them = [b.member(f"m-{number}-{at}", {"t": [at]}) for at in range(members)]
        log.add(b.classic_group(number, *them, state_ms=log.now_ms), after_ms=1_000)
    found = Replayed(of_log(log)).recording("orders")
    assert found is not None
    return found


def asked(of: GroupRecording, group: str = "orders", since_ms: int | None = None) -> ReplayRequest:
    return ReplayRequest((None, group), of, since_ms, None, T0 + 10**7, "kshadow whatif orders")


def asking(recommend: Recommend) -> Callable[[ReplayRequest], Gains | None]:
    """Who asks for gains, over one agent's replays."""
    replays = Replays()
    return lambda it: gains_soon(replays, it, recommend)


def test_nobody_waits_and_it_is_made_once() -> None:
    made: list[int] = []

    def recommend(it: GroupRecording, *_: object) -> Gains:
        made.append(len(it.states))
        return FOUND

    gains, first = asking(recommend), asked(recording(1, 2))
    assert gains(first) is None, "it is being replayed"
    until(lambda: gains(first) == FOUND)
    assert [gains(first) for _ in range(3)] == [FOUND] * 3
    assert made == [2]
    told = asked(replace(first.recording, kip848_session=SessionSetting(10_000)))
    assert gains(told) == FOUND
    until(lambda: made == [2, 2])
    moved = asked(recording(1, 2, 3))
    assert gains(moved) == FOUND, "of a moment ago, rather than nothing"
    until(lambda: made == [2, 2, 3])


def test_what_cannot_be_replayed_is_told_at_once() -> None:
    gains = asking(lambda *_: FOUND)
    assert gains(asked(recording(1, 2, members=MAX_MEMBERS))) == Gains(
        untold="the group is too large to be replayed by the agent", command="kshadow whatif orders"
    )
    log = Log().add(b.c_member("a"), b.c_epoch(1), b.c_target("a", {"t": [0]}), b.c_target_epoch(1))
    of_848 = Replayed(of_log(log)).recording("orders")
    assert of_848 is not None
    said = gains(asked(of_848))
    assert said is not None
    assert "KIP-848" in said.untold


def test_a_model_that_trips_ends_nothing() -> None:
    def recommend(it: GroupRecording, *_: object) -> Gains:
        if len(it.states) == 2:
            raise ZeroDivisionError
        return FOUND

    gains = asking(recommend)
    two, three = asked(recording(1, 2)), asked(recording(1, 2, 3), "other")
    until(lambda: gains(two) is not None)
    assert gains(two) == Gains(untold="the replay failed (ZeroDivisionError)", command="kshadow whatif orders")
    until(lambda: gains(three) == FOUND)


def test_a_thread_that_could_not_be_started_is_tried_again() -> None:
    gains, first = asking(lambda *_: FOUND), asked(recording(1, 2))
    usual = threading.stack_size(1 << 47)  # No machine has as much room for a thread.
    try:
        with pytest.raises(RuntimeError, match="can't start new thread"):
            gains(first)
    finally:
        threading.stack_size(usual)
    until(lambda: gains(first) == FOUND)


def test_only_so_many_wait_and_the_newest_is_next() -> None:
    gate, made = threading.Event(), list[str]()

    def recommend(it: GroupRecording, *_: object) -> Gains:
        made.append(it.group)
        gate.wait(60)
        return FOUND

    gains, one = asking(recommend), recording(1, 2)
    for at in range(MAX_WAITING + 20):
        gains(asked(GroupRecording(f"g-{at}", one.states), f"g-{at}"))
        until(lambda: made != [])
    gate.set()
    until(lambda: len(made) == MAX_WAITING + 1)
    assert made[0] == "g-0"
    assert made[1] == f"g-{MAX_WAITING + 19}"


def test_the_table() -> None:
    text = Reader(str(gains_table(FOUND))).text
    for words in ("As today", "2 min", "Static membership", "30.0 s", "group.instance.id=<b>", "9 of 9"):
        assert words in text, words
    assert "<b>" not in gains_table(FOUND)
    assert "without a price" not in text
    dear = replace(FOUND, gains=(replace(GAIN, stopped_after_s=150.0),))
    assert "Each setting that saves rebalances stops partitions for longer" in gains_table(dear)
    assert gains_table(Gains()) == ""
    assert gains_table(Gains(untold="no log")) == "", "that stands with what could not be seen"
    assert "being replayed" in gains_table(None)
    other = Gains((GAIN,), 8, 9, 500.0, 9, 118.0, 9, 9)
    assert gains_table(other) == "", "a replay of something else says nothing"


def test_each_range_has_numbers_of_its_own() -> None:
    log = Log()
    for number in range(1, 5):
        them = [b.member(f"m-{number}-{at}", {"t": [at]}) for at in range(2)]
        log.add(b.classic_group(number, *them, state_ms=log.now_ms), after_ms=600_000)
    agent = Replayed(of_log(log))
    agent.recent.observe([m.finding(at_ms=log.now_ms, group="orders")])
    with client(agent, lambda: log.now_ms) as http:
        until(lambda: "being replayed" not in http.get("/groups/orders?range=all").text)
        assert "being replayed" in http.get("/groups/orders?range=15m").text, "and not the numbers of all"
        until(lambda: "being replayed" not in http.get("/groups/orders?range=15m").text)
        assert "being replayed" not in http.get("/groups/orders?range=all").text


@pytest.mark.skipif(CAPTURE == SEGMENTS, reason="the captures are not beside the checkout (../shared)")
def test_a_real_replay_stands_beside_the_finding() -> None:
    agent = captured()
    now_ms = newest_ms(agent) + 60_000
    agent.recent.observe([m.finding(at_ms=now_ms, group="audit-deploy")])
    with client(agent, lambda: now_ms) as http:
        path = "/groups/audit-deploy?range=all"
        first = http.get(path)
        assert "being replayed" in first.text
        until(lambda: "being replayed" not in http.get(path).text)
        done = http.get(path)
        assert done.headers["etag"] != first.headers["etag"], "an open page gets it"
        assert 'id="settings"' in done.text


@pytest.mark.skipif(CAPTURE == SEGMENTS, reason="the captures are not beside the checkout (../shared)")
def test_an_agent_that_keeps_nothing_shows_no_numbers() -> None:
    agent = captured()
    agent.recordings = RecentRecordings()
    with client(agent, lambda: newest_ms(agent)) as http:
        text = http.get("/groups/risk-848re?range=all").text
    assert ('id="settings"' in text, 'id="matrix"' in text, ">Assigned<" in text) == (False, False, True)

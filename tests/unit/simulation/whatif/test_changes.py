"""Other settings: what each changes of a script, and what is tried by itself."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from agent.simulation.groups import script as s
from agent.simulation.whatif.changes import (
    CHANGES,
    CURRENT_SETTINGS,
    Alternative,
    allow_session_timeouts,
    format_setting,
    standard_alternatives,
    starts,
)

DYNAMIC = s.ClientSettings("a", frozenset({"t"}))
STATIC = replace(DYNAMIC, instance_id="i")


def script(*steps: s.Step, until_ms: int = 1_000_000) -> s.Script:
    return s.Script("g", {"t": 4}, steps, until_ms)


def changed(name: str, value: Any, *settings: s.ClientSettings) -> s.Script:
    before = script(*(s.Start(0, f"c{at}", it) for at, it in enumerate(settings or (DYNAMIC,))), s.Kill(9, "c0"))
    after = Alternative({name: value}).apply(before)
    assert [type(it) for it in after.steps] == [type(it) for it in before.steps]
    assert after.steps[-1] == before.steps[-1], "what happened stays as it was"
    return after


def first(found: s.Script) -> s.ClientSettings:
    return next(iter(starts(found))).settings


def test_static_membership_names_who_has_no_name() -> None:
    taken = replace(DYNAMIC, instance_id="c0")
    ids = [it.settings.instance_id for it in starts(changed("static", True, DYNAMIC, STATIC, taken))]
    assert ids == ["c0'", "i", "c0"]


def test_a_session_timeout_allows_three_heartbeats_and_the_broker_allows_it() -> None:
    found = changed("session-timeout", 3_000)
    assert (first(found).session_timeout_ms, first(found).heartbeat_interval_ms) == (3_000, 1_000)
    assert (found.broker.min_session_timeout_ms, found.broker.consumer_session_timeout_ms) == (3_000, 3_000)
    found = changed("session-timeout", 3_600_000)
    assert (first(found).heartbeat_interval_ms, found.broker.max_session_timeout_ms) == (3_000, 3_600_000)


def test_the_others() -> None:
    assert first(changed("poll-timeout", 7_000)).max_poll_interval_ms == 7_000
    beats = changed("heartbeat-interval", 1_000)
    assert (first(beats).heartbeat_interval_ms, beats.broker.consumer_heartbeat_interval_ms) == (1_000, 1_000)
    assert first(changed("assignor", "sticky")).assignors == ("sticky",)
    assert changed("initial-delay", 0).broker.initial_rebalance_delay_ms == 0
    modern = first(changed("protocol", "consumer", STATIC))
    assert (modern.group_protocol, modern.instance_id) == (s.GroupProtocol.CONSUMER, "i")


def test_a_broker_allows_what_was_seen() -> None:
    found = allow_session_timeouts(script(s.Start(0, "a", replace(DYNAMIC, session_timeout_ms=2_000))))
    assert (found.broker.min_session_timeout_ms, found.broker.max_session_timeout_ms) == (2_000, 1_800_000)


def test_labels() -> None:
    assert CURRENT_SETTINGS.label == "today's settings"
    assert CURRENT_SETTINGS.apply(script()) == script()
    values = {"static": True, "session-timeout": 120_000, "assignor": "sticky", "initial-delay": 500}
    assert (
        Alternative(values).label == "static membership, session timeout 2 min, sticky assignor, initial delay 500 ms"
    )
    others = {"poll-timeout": 1_500, "heartbeat-interval": 0, "protocol": "classic"}
    assert Alternative(others).label == "poll timeout 1.5 s, heartbeat interval 0 s, classic protocol"
    assert [format_setting(it) for it in (0, 999, 30_000, 90_000)] == ["0 s", "999 ms", "30 s", "1 min 30 s"]


@pytest.mark.parametrize("name", CHANGES)
def test_each_says_what_it_is_and_what_it_assumes(name: str) -> None:
    change = CHANGES[name]
    assert change.name == name
    assert change.help.endswith(".")
    assert change.assumes
    assert bool(change.choices) == (change.kind == "choice")


def labels(found: s.Script) -> list[str]:
    return [it.label for it in standard_alternatives(found)]


def test_the_standard_set() -> None:
    assert labels(script(s.Start(0, "a", DYNAMIC))) == [
        "static membership",
        "session timeout 10 s",
        "session timeout 2 min",
        "cooperative-sticky assignor",
        "static membership, cooperative-sticky assignor",
        "initial delay 10 s",
        "KIP-848",
        "static membership, KIP-848",
    ]


def test_nothing_is_tried_that_is_so_already() -> None:
    settings = replace(
        STATIC, assignors=("cooperative-sticky",), group_protocol=s.GroupProtocol.CONSUMER, session_timeout_ms=10_000
    )
    found = replace(script(s.Start(0, "a", settings)), broker=s.BrokerSettings(initial_rebalance_delay_ms=10_000))
    assert labels(found) == ["session timeout 45 s", "session timeout 2 min", "initial delay 3 s"]
    found = script(s.Start(0, "a", STATIC))
    assert "cooperative-sticky assignor" in labels(found)
    assert not [it for it in labels(found) if "static" in it]


def test_a_session_that_outlasts_restarts_is_tried() -> None:
    restarts = (s.Start(0, "a", DYNAMIC), s.Kill(10_000, "a"), s.Start(100_000, "a", DYNAMIC))
    assert "static membership, session timeout 2 min" in labels(script(*restarts))
    restarts = (s.Start(0, "a", STATIC), s.Close(10_000, "a"), s.Start(200_000, "a", STATIC))
    assert labels(script(*restarts))[0] == "session timeout 5 min"
    short = (s.Start(0, "a", DYNAMIC), s.Kill(10_000, "a"), s.AdminRemove(10_000, "a"), s.Start(12_000, "a", DYNAMIC))
    assert not [it for it in labels(script(*short)) if "static membership, session" in it]
    long = (s.Start(0, "a", DYNAMIC), s.Kill(10_000, "a"), s.Start(9_000_000, "a", DYNAMIC))
    assert not [it for it in labels(script(*long)) if "static membership, session" in it]


def test_a_poll_timeout_that_outlasts_stalls_is_tried() -> None:
    assert "poll timeout 10 min" in labels(script(s.Start(0, "a", DYNAMIC), s.Stall(10, "a", 400_000)))
    for for_ms in (100_000, 2_000_000):
        found = labels(script(s.Start(0, "a", DYNAMIC), s.Stall(10, "a", for_ms)))
        assert not [it for it in found if "poll" in it]

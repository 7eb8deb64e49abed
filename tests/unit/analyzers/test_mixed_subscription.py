"""`mixed_subscription`: what members of one group disagree on."""

from __future__ import annotations

from typing import Any

import pytest

from agent.core.wire.classic import MemberMetadata
from tests.unit.analyzers.driving import Log, findings, idle, of_the_capture, states
from tests.unit.core.shadow import build as b
from tests.unit.core.wire.vectors import CAPTURE, needs

NAME = "mixed_subscription"

LONG_MS = 660_000


def log_of(*given: MemberMetadata, generation: int = 1) -> Log:
    return Log().add(b.classic_group(generation, *given))


def two(**differs: Any) -> tuple[MemberMetadata, MemberMetadata]:
    return b.member("m0-1", {}), b.member("m1-1", {}, **differs)


def test_different_topics_open_a_warning_that_closes_when_they_agree() -> None:
    log = idle(log_of(*two(topics=("t", "u"))), LONG_MS)
    log.add(b.classic_group(2, *two()))
    (opened, closed) = findings(idle(log, 400_000), NAME)
    assert states([opened, closed]) == [("firing", "warning"), ("resolved", "warning")]
    assert opened.at.timestamp_ms - opened.since_ms == 600_000
    assert opened.summary == "2 members of the group differ. Topics: t (m0), t and u (m1)."
    assert opened.advice.startswith(
        "Let all members subscribe to the same topics, or give each application its own group.id"
    )
    assert opened.numbers == {"members": 2, "differing": ["topics"], "topics_values": 2}


def test_a_deployment_is_silent() -> None:
    log = log_of(*two(topics=("t", "u")))
    log.add(b.classic_group(2, b.member("m0-1", {}, topics=("t", "u")), two(topics=("t", "u"))[1]), after_ms=590_000)
    assert findings(idle(log, LONG_MS), NAME) == []


def test_does_not_flap_while_some_come_and_go() -> None:
    log = idle(log_of(*two(topics=("t", "u"))), LONG_MS)
    for generation in range(2, 12, 2):
        log.add(b.classic_group(generation, *two()), after_ms=60_000)
        log.add(b.classic_group(generation + 1, *two(topics=("t", "u"))), after_ms=60_000)
    assert states(findings(log, NAME)) == [("firing", "warning")]


@pytest.mark.parametrize(
    ("differs", "said", "setting"),
    [
        ({"session_ms": 6_500}, "Session timeout: 45 s (m0), 6.5 s (m1).", "session.timeout.ms"),
        ({"rebalance_ms": 60_000}, "Rebalance timeout: 300 s (m0), 60 s (m1).", "max.poll.interval.ms"),
        ({"instance_id": "i-1"}, "Membership: dynamic (m0), static (m1).", "group.instance.id"),
    ],
)
def test_other_settings_are_worth_knowing(differs: dict[str, Any], said: str, setting: str) -> None:
    (found,) = findings(idle(log_of(*two(**differs)), LONG_MS), NAME)
    assert found.severity == "info"
    assert found.summary == f"2 members of the group differ. {said}"
    assert setting in found.advice


@pytest.mark.parametrize(
    "differs", [{"rack_id": "r"}, {"host": "/10.9.9.9"}, {"owned": {"t": [0]}}, {"topics": ["t"]}]
)
def test_what_may_differ(differs: dict[str, Any]) -> None:
    assert findings(idle(log_of(*two(**differs)), LONG_MS), NAME) == []


def test_several_at_once_and_the_order_of_topics_does_not_matter() -> None:
    given = (b.member("m0-1", {}, topics=("t", "u")), b.member("m1-1", {}, topics=("u", "t"), session_ms=6_000))
    (found,) = findings(idle(log_of(*given), LONG_MS), NAME)
    assert found.numbers["differing"] == ["session timeout"]
    (found,) = findings(idle(log_of(*two(topics=("u",), session_ms=6_000)), LONG_MS), NAME)
    assert found.numbers == {"members": 2, "differing": ["topics", "session timeout"]} | {
        "topics_values": 2,
        "session_timeout_values": 2,
    }
    assert "Topics: t (m0), u (m1). Session timeout: 45 s (m0), 6 s (m1)." in found.summary


def test_many_values_names_and_topics_are_cut() -> None:
    given = [
        b.member(f"m{number}-1", {}, topics=[f"{number}{'t' * 99}{it}" for it in range(50)]) for number in range(9)
    ]
    given += [b.member(f"n{number}-1", {}) for number in range(9)]
    (found,) = findings(idle(log_of(*given), LONG_MS), NAME)
    assert "t (n0, n1, n2 and 6 more)" in found.summary
    assert "and 47 more (m0)" in found.summary
    assert found.summary.endswith(", and 7 more.")
    assert len(found.summary) < 1_000


def test_nobody_is_there() -> None:
    assert (
        findings(idle(log_of(*two(topics=())).add(b.classic_group(2)).add(b.no_classic_group()), LONG_MS), NAME) == []
    )


def test_patterns_and_protocols() -> None:
    log = Log().add(b.c_topics("t"), b.c_member("m1", topics=(), regex="t.*"), b.c_member("m2", topics=()))
    log.add(b.c_member("m3", classic_session_ms=6_000), b.c_member("m4", topics=("u",), regex="t.*"), b.c_epoch(1))
    (found,) = findings(idle(log, LONG_MS), NAME)
    assert found.numbers["differing"] == ["topics", "protocol"]
    assert "Topics: no topic (m2), pattern t.* (m1), t (m3), and 1 more." in found.summary
    assert "Protocol: consumer (m1, m2 and m4), classic (m3)." in found.summary
    assert "group.protocol=consumer" in found.advice


@needs(CAPTURE)
def test_silent_on_the_capture() -> None:
    assert of_the_capture(NAME) == {}

"""What is said of other settings, and that the rules of thumb give way to it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from agent.presentation.narrative.explain import Story, StoryRequest, explain
from agent.presentation.narrative.gains import (
    MAX_LINE,
    Gain,
    Gains,
    advice,
    best_gain_sentence,
    limitations,
    replayed,
)
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.made import MINUTE, T0

EACH = "in every client's configuration, an id of its own for each"
STATIC = Gain("static membership", ("group.instance.id",), EACH, 8, 4, 258.9, 63.1)
DEAR = replace(STATIC, stopped_before_s=5.9, stopped_after_s=25.6, price="each has its own")
REPLAYED = Gains((STATIC,), 11, 8, 258.9, 8, 234.0, 8, 8)
BASE = (
    "Replayed under today's settings this comes to 8 rebalances (the log shows 8) and 4 min 19 s of stopped "
    "partition time. Of 11 other settings that were tried"
)

# 1-7: what is said, and why.
ADVICE: list[tuple[str, Gains, list[tuple[frozenset[str], str, int]]]] = [
    (
        "1: one that helps",
        REPLAYED,
        [
            (
                frozenset({"group.instance.id"}),
                (
                    "Set `group.instance.id` in every client, an id of its own for each: saves 3 min 16 s of "
                    "4 min 19 s stopped time and 4 of 8 rebalances."
                ),
                195800,
            )
        ],
    ),
    (
        "2: one with a price is said to have it",
        replace(REPLAYED, gains=(DEAR,)),
        [
            (
                frozenset({"group.instance.id"}),
                (
                    "Set `group.instance.id` in every client, an id of its own for each: saves 4 of 8 rebalances "
                    "and costs 20 s more stopped time; each has its own."
                ),
                -19700,
            )
        ],
    ),
    (
        "3: several, and lines of a stranger's length",
        replace(
            REPLAYED,
            gains=(
                replace(STATIC, exact=("session.timeout.ms=10000", "x" * 999), rebalances_after=9),
                replace(STATIC, rebalances_after=8, stopped_after_s=258.0),
            ),
        ),
        [
            (
                frozenset({"session.timeout.ms"}),
                (
                    "Set `session.timeout.ms=10000` and "
                    f"`{'x' * (MAX_LINE - 1)}…` "
                    "in every client, an id of its own for each: saves 3 min 16 s of 4 min 19 s stopped time and "
                    "costs 1 more rebalance."
                ),
                195800,
            ),
            (
                frozenset({"group.instance.id"}),
                "Set `group.instance.id` in every client, an id of its own for each: changes nothing.",
                900,
            ),
        ],
    ),
    (
        "4: none does",
        replace(REPLAYED, gains=()),
        [],
    ),
    (
        "5: a replay that is not exact says so",
        replace(REPLAYED, gains=(), matched=7),
        [],
    ),
    ("6: where nothing was lost nothing needs to be saved", replace(REPLAYED, gains=(), log_stopped_s=0.9), []),
    ("7: no numbers", Gains(untold="no"), []),
]


@pytest.mark.parametrize(("why", "gains", "said"), ADVICE)
def test_advice(why: str, gains: Gains, said: list[tuple[frozenset[str], str, int]]) -> None:
    assert advice(gains) == said


def test_settings_are_written_as_the_clients_write_them() -> None:
    long = replace(STATIC, exact=("session.timeout.ms=45000",))
    sticky = replace(
        STATIC,
        exact=("partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor",),
    )
    delay = replace(STATIC, exact=("group.initial.rebalance.delay.ms=3000",))

    def lines(*libraries: str) -> list[str]:
        found = advice(replace(REPLAYED, gains=(STATIC, long, sticky, delay)), libraries)
        return [text.split("`")[1] for _, text, _ in found]

    broker = "group.initial.rebalance.delay.ms=3000"
    assert lines("librdkafka") == [
        "group.instance.id",
        "session.timeout.ms=45000",
        "partition.assignment.strategy=cooperative-sticky",
        broker,
    ]
    assert lines("franz-go") == [
        "kgo.InstanceID",
        "kgo.SessionTimeout=45 * time.Second",
        "kgo.Balancers=kgo.CooperativeStickyBalancer()",
        broker,
    ]
    assert lines("kafka-go") == ["ReaderConfig.SessionTimeout=45 * time.Second", broker]
    assert lines("java", "librdkafka")[2].endswith("=org.apache.kafka.clients.consumer.CooperativeStickyAssignor")
    assert lines("brod")[0] == "session_timeout_seconds=45"


def test_a_replay_says_how_near_it_comes() -> None:
    (text,) = replayed(REPLAYED)
    assert text == (
        "The log shows 8 rebalances and 3 min 54 s of stopped partition time. A replay under today's settings has 8, "
        "and 4 min 19 s. 11 other settings were tried. Static membership: 4 rebalances, 1 min 3 s stopped."
    )
    (none,) = replayed(replace(REPLAYED, gains=(), matched=7))
    assert none.endswith(
        "7 of 8 generations are replayed as they were. 11 other settings were tried. None helps notably, so change "
        "the cause, not the settings."
    )
    assert replayed(replace(REPLAYED, log_stopped_s=9.0)) == [], "what was replayed is something else"
    assert replayed(Gains(untold="no")) == []


def test_at_a_glance() -> None:
    assert best_gain_sentence(REPLAYED) == (
        "Static membership would save 3 min 16 s of 4 min 19 s stopped and 4 of 8 rebalances."
    )
    assert best_gain_sentence(replace(REPLAYED, gains=(replace(STATIC, rebalances_after=9),))) == (
        "Static membership would save 3 min 16 s of 4 min 19 s stopped."
    )
    nothing = replace(STATIC, rebalances_after=8, stopped_after_s=258.9)
    apart = replace(REPLAYED, log_stopped_s=129.0)
    for none in (None, Gains(), replace(REPLAYED, gains=(DEAR,)), replace(REPLAYED, gains=(nothing,)), apart):
        assert best_gain_sentence(none) == ""


def test_what_is_not_told() -> None:
    assert limitations(Gains()) == []
    assert limitations(Gains(untold="too much")) == ["What other settings would have saved: too much."]
    assert limitations(Gains(untold="too much", command="kshadow whatif g")) == [
        "What other settings would have saved: too much. `kshadow whatif g` shows it."
    ]


def rolling(gains: Gains | None, *, rebalances: int = 4) -> Story:
    events = []
    for at in range(rebalances // 2):
        left = [m.gone(f"a{at}", "member_left")]
        events.append(m.rebalance(2 * at + 1, "member_left", T0 + at * MINUTE, left=left, stopped_ms=99_000))
        events.append(m.rebalance(2 * at + 2, at_ms=T0 + at * MINUTE + 9, joined=[m.member(f"b{at}")]))
    return explain(StoryRequest("g", T0 + 9 * MINUTE, is_live=True), events, [], m.form(), gains=gains)


def test_a_replay_stands_in_place_of_rules_of_thumb() -> None:
    without = rolling(None)
    assert any("Set group.instance.id, an id of its own for each client" in it for it in without.advice)
    assert without.to_json()["whatif"] is None
    found = rolling(REPLAYED)
    (text,) = (text for _, text, _ in advice(REPLAYED))
    assert found.advice == (f"{text} See docs/runbooks.md#kshadowrebalancestorm.",), (
        "what a rule would say of the same settings was tried"
    )
    assert [it.text for it in found.paragraphs if it.kind == "whatif"] == replayed(REPLAYED)
    assert found.to_json()["whatif"]["gains"][0]["exact"] == ("group.instance.id",)
    assert rolling(replace(REPLAYED, log_stopped_s=129.0)).advice == without.advice, "what it says is not the group's"
    untold = rolling(Gains(untold="no"))
    assert untold.advice == without.advice
    assert untold.limitations[-1] == "What other settings would have saved: no."
    assert rolling(Gains(untold="no"), rebalances=0).limitations == (), "nor is it missed where nothing happened"

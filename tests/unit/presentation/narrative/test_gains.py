"""What is said of other settings, and that the rules of thumb give way to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.presentation.narrative.explain import Story, StoryRequest, explain
from agent.presentation.narrative.gains import MAX_LINE, Gain, Gains, advice, best_gain_sentence, limitations
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.made import MINUTE, T0

STATIC = Gain("static membership", ("group.instance.id=a-0",), "in every client's configuration", 8, 4, 258.9, 63.1)
DEAR = replace(STATIC, stopped_before_s=5.9, stopped_after_s=25.6, price="Each has its own.")
REPLAYED = Gains((STATIC,), 11, 8, 258.9, 8, 234.0, 8, 8)
BASE = (
    "Replayed under today's settings this comes to 8 rebalances (the log shows 8) and 4 min 19 s of stopped "
    "partition time. Of 11 other settings that were tried"
)

# 1-7: what is said, and why.
ADVICE: list[tuple[str, Gains, list[str]]] = [
    (
        "1: one that helps",
        REPLAYED,
        [
            f"{BASE} this one would have helped:",
            "Static membership: 4 rebalances and 1 min 3 s, 4 rebalances fewer and 3 min 16 s less. In every "
            "client's configuration: `group.instance.id=a-0`.",
        ],
    ),
    (
        "2: one with a price is said to have it",
        replace(REPLAYED, gains=(DEAR,)),
        [
            f"{BASE} none helps without a price, but one may be worth it:",
            "Static membership: 4 rebalances and 25.6 s, 4 rebalances fewer and 19.7 s more. In every client's "
            "configuration: `group.instance.id=a-0`. Each has its own.",
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
            f"{BASE} these would have helped most:",
            "Static membership: 9 rebalances and 1 min 3 s, 1 rebalance more and 3 min 16 s less. In every client's "
            f"configuration: `session.timeout.ms=10000` and `{'x' * (MAX_LINE - 1)}…`.",
            "Static membership: 8 rebalances and 4 min 18 s, the same. In every client's configuration: "
            "`group.instance.id=a-0`.",
        ],
    ),
    (
        "4: none does",
        replace(REPLAYED, gains=()),
        [f"{BASE} none would have helped notably: see to the cause, not to the settings."],
    ),
    (
        "5: a replay that is not exact says so",
        replace(REPLAYED, gains=(), matched=7),
        [
            BASE.replace("time.", "time; 7 of 8 generations come out as they were.")
            + " none would have helped notably: see to the cause, not to the settings."
        ],
    ),
    ("6: where nothing was lost nothing needs to be saved", replace(REPLAYED, gains=(), log_stopped_s=0.9), []),
    ("7: no numbers", Gains(untold="no"), []),
]


@pytest.mark.parametrize(("why", "gains", "said"), ADVICE)
def test_advice(why: str, gains: Gains, said: list[str]) -> None:
    assert advice(gains) == said


def test_at_a_glance() -> None:
    assert best_gain_sentence(REPLAYED) == (
        "Static membership would have saved 3 min 16 s of 4 min 19 s of that and 4 of 8 rebalances."
    )
    assert best_gain_sentence(replace(REPLAYED, gains=(replace(STATIC, rebalances_after=9),))) == (
        "Static membership would have saved 3 min 16 s of 4 min 19 s of that."
    )
    nothing = replace(STATIC, rebalances_after=8, stopped_after_s=258.9)
    for none in (None, Gains(), replace(REPLAYED, gains=(DEAR,)), replace(REPLAYED, gains=(nothing,))):
        assert best_gain_sentence(none) == ""


def test_what_is_not_told() -> None:
    assert limitations(Gains()) == []
    assert limitations(Gains(untold="too much")) == ["What other settings would have saved: too much."]
    assert limitations(Gains(untold="too much", command="kshadow whatif g")) == [
        "What other settings would have saved: too much. `kshadow whatif g` tells."
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
    assert any("Static membership (a group.instance.id" in it for it in without.advice)
    assert without.to_json()["whatif"] is None
    found = rolling(REPLAYED)
    assert list(found.advice) == advice(REPLAYED), "what a rule would say of the same settings was tried"
    assert found.summary.endswith("would have saved 3 min 16 s of 4 min 19 s of that and 4 of 8 rebalances.")
    assert found.to_json()["whatif"]["gains"][0]["exact"] == ("group.instance.id=a-0",)
    untold = rolling(Gains(untold="no"))
    assert untold.advice == without.advice
    assert untold.limitations[-1] == "What other settings would have saved: no."
    assert rolling(Gains(untold="no"), rebalances=0).limitations == (), "nor is it missed where nothing happened"

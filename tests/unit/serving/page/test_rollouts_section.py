"""The page's section of rollouts: the verdict with its reason, and what other settings would have made of it."""

from __future__ import annotations

from typing import Any

from agent.presentation.rollouts.rollout_list import rollouts_json
from agent.serving.page.rollouts_section import MAX_SHOWN, rollouts_section
from agent.simulation.whatif.rollout_costs import no_costs
from tests.harness.verdicts.stories import GROUP, START_MS, STORIES, UNTIL_MS, events, records
from tests.unit.serving.page.scene import Reader, client
from tests.unit.serving.routes.replayed import Replayed
from tests.unit.simulation.generator.making import runs
from tests.waiting import until

NOW_MS = START_MS + UNTIL_MS
PATH = f"/groups/{GROUP}?range=all"


def rollouts(kind: str, now_ms: int = NOW_MS) -> list[dict[str, Any]]:
    return rollouts_json(GROUP, events(STORIES[kind], 411), now_ms)


def test_on_a_group_s_page() -> None:
    agent = Replayed(runs(list(records(STORIES["short grace period"], 411))))
    agent.now_ms = NOW_MS
    with client(agent, lambda: NOW_MS) as http:
        first = http.get(PATH)
        read = Reader(first.text)
        section = read.text[read.text.index("Rollouts") :]
        words = ("harmful", "ended without leaving the group", "Members replaced", "same", "It did no harm.")
        places = [section.index(it) for it in words]
        assert places == sorted(places), "the newest first, with its reason and its numbers"
        until(lambda: "being replayed" not in http.get(PATH).text)
        done = http.get(PATH)
        assert done.headers["etag"] != first.headers["etag"], "an open page gets the numbers"
        assert "With static membership" in done.text
        second_ms = rollouts("short grace period")[1]["began_ms"]
        earlier = Reader(http.get(f"/groups/{GROUP}?since={START_MS}&until={second_ms - 60_000}").text)
        assert "harmful" not in earlier.text, "what began after the range is not in it"
        assert "It did no harm." in earlier.text
        (*_, told) = http.get(f"/api/v1/groups/{GROUP}/rollouts").json()
        assert told["whatif"]["static_membership"] is not None


def test_each_word_has_its_look() -> None:
    for kind, look in {
        "clean eager": 'class="state steady"',
        "short grace period": 'class="severity critical"',
        "lopsided": 'class="severity warning"',
    }.items():
        made = rollouts_section(rollouts(kind), no_costs("x"), NOW_MS)
        assert look in made[: made.index("summary")], kind
    now_ms = rollouts("clean eager")[1]["ended_ms"] - 1_000
    running = rollouts_section(rollouts("clean eager", now_ms), None, now_ms)
    assert 'class="state moving"' in running
    assert "pending" in running
    assert "being replayed" not in running, "what goes on is not replayed"


def test_nothing_many_and_unknown() -> None:
    assert rollouts_section([], None, NOW_MS) == ""
    (first, newest) = rollouts("clean eager")
    many = Reader(rollouts_section([first] * MAX_SHOWN + [newest], no_costs("no log"), NOW_MS)).text
    assert "<" not in many, "markup that was escaped is no markup"
    assert many.count("It did no harm") == MAX_SHOWN
    assert "And 1 before these" in many
    assert "not known: no log." in many
    assert "being replayed" in rollouts_section([newest], None, NOW_MS)


def test_strangers_names_are_no_markup() -> None:
    (_, newest) = rollouts("clean eager")
    strange = {**newest, "workload": "<script>alert(1)</script>", "revision_to": "<b>\x1b[31m", "reasons": ["<i>x"]}
    made = rollouts_section([strange], no_costs("<u>"), NOW_MS)
    assert [it for it in ("<script", "<b>", "<i>", "<u>", "\x1b") if it in made] == []

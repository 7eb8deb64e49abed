"""Who holds what: the matrix of members and topics, and what moved between two generations."""

from __future__ import annotations

import re
from typing import Any

import pytest

from agent.serving.page.assignment_matrix import MAX_COLUMNS, MAX_ROWS
from tests.unit.cli.hostile import TEXTS
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log
from tests.unit.serving.page.scene import Reader, client
from tests.unit.serving.routes.replayed import Replayed, of_log

Held = dict[str, dict[str, list[int]]]


def generation(number: int, held: Held) -> b.Pair:
    return b.classic_group(number, *(b.member(it, its) for it, its in held.items()), state_ms=b.T0 + number * 1_000)


def matrix(log: Log, query: str = "") -> str:
    with client(Replayed(of_log(log)), lambda: log.now_ms) as http:
        page = http.get(f"/groups/orders?{query}")
    assert page.status_code == 200
    Reader(page.text)
    return page.text.partition('id="matrix"')[2].partition("</section>")[0]


def rows(markup: str) -> list[list[str]]:
    found = re.findall(r"<tr data-key.*?</tr>", markup, re.DOTALL)
    cells = [re.findall(r"<t[hd].*?</t[hd]>", it, re.DOTALL) for it in found]
    return [[re.sub(r"<[^>]+>", " ", it).replace("\u2212", "-").split() for it in row] for row in cells]  # type: ignore[misc]


LOG: list[Held] = [
    {"a-1": {"t": [0, 1, 2], "u": [0]}},
    {"a-1": {"t": [0], "u": [0]}, "b-1": {"t": [1, 2]}},
    {"b-1": {"t": [0, 1, 2], "u": [0]}},
]


def three() -> Log:
    log = Log()
    for number, held in enumerate(LOG, 1):
        log.add(generation(number, held))
    return log


def test_members_of_a_client_id_of_kilobytes_have_rows_of_their_own() -> None:
    client_id = "c" * 2_000
    log = Log().add(generation(1, {f"{client_id}-1": {"t": [0]}, f"{client_id}-2": {"t": [1]}}))
    with client(Replayed(of_log(log)), lambda: log.now_ms) as http:
        keys = Reader(http.get("/groups/orders").text).rows()
    of_members = [it[-4:] for it in keys if it.startswith("cc")]
    assert sorted(of_members) == ["cc-1", "cc-1", "cc-2", "cc-2"], "each in the table and in the matrix"


def test_topics_have_their_names_in_epochs_that_were_there_before_anybody_committed() -> None:
    log = Log().add(b.c_member("a"), b.c_epoch(1))
    log.add(b.c_target("a", {"t": [0, 1]}), b.c_target_epoch(1), b.c_current("a", 1, {"t": [0, 1]}))
    log.add(b.commit("t", 0, version=4, id_of_topic=b.topic_id("t")))
    assert "<bdi>t</bdi></th>" in matrix(log)
    log.add(b.c_member("b"), b.c_epoch(2))
    log.add(b.c_target("a", {"t": [0]}), b.c_target("b", {"t": [1]}), b.c_target_epoch(2))
    newest = matrix(log)
    assert "Since epoch 1: 1 of 2 partitions moved, 1 member joined" in newest
    assert rows(newest) == [[["a"], ["0", "gave", "up", "-1"], ["1"]], [["b", "joined"], ["gained", "+1"], ["1"]]]


def test_moves_between_generations() -> None:
    newest = matrix(three())
    assert "Since generation 2: 2 of 4 partitions moved, 1 member left" in newest
    assert rows(newest) == [
        [["b"], ["1-2", "gained", "+0"], ["gained", "+0"], ["4"]],
        [["a", "left"], ["gave", "up", "-0"], ["gave", "up", "-0"], ["0"]],
    ]
    second = matrix(three(), "generation=2")
    assert "Since generation 1: 2 of 4 partitions moved, 1 member joined" in second
    assert rows(second) == [
        [["a"], ["0", "gave", "up", "-1-2"], ["0"], ["2"]],
        [["b", "joined"], ["gained", "+1-2"], ["none"], ["2"]],
    ]
    assert "it is unknown what moved" in matrix(three(), "generation=1")
    other = matrix(three(), "generation=<b>7")
    assert rows(other) == rows(newest), "no such one: the newest"
    assert "Generation <bdi>&lt;b&gt;7</bdi> is not kept, so the newest is shown." in other
    assert "is not kept" not in newest + second


def test_the_address_says_which_generation() -> None:
    links = Reader(matrix(three(), "range=1h&generation=2").replace("</nav>", "</nav>")[1:]).links()
    assert links == [
        "/groups/orders?range=1h",
        "/groups/orders?range=1h&generation=2",
        "/groups/orders?range=1h&generation=1",
    ]


def test_thousands_of_members_and_topics() -> None:
    many: Held = {f"m-{at}": {f"topic-{at % 50:02d}": [at]} for at in range(2_000)}
    fewer = {name: its for name, its in many.items() if name != "m-7"}
    markup = matrix(Log().add(generation(1, many), generation(2, {**fewer, "new-1": {"topic-07": [7]}})))
    made = rows(markup)
    assert (len(made), len(made[0])) == (MAX_ROWS, MAX_COLUMNS + 2)
    assert {made[0][0][-1], made[1][0][-1]} == {"joined", "left"}, "what moved comes first"
    assert f"And {2_001 - MAX_ROWS} more members and {50 - MAX_COLUMNS} more topics" in markup
    assert len(markup) < 100_000


@pytest.mark.parametrize("name", TEXTS)
def test_strangers_names_stay_text(name: str) -> None:
    stranger = TEXTS[name].encode("utf-8", "replace").decode()[:200]
    held: Any = {stranger: [0, 1]}
    log = Log().add(
        b.classic_group(1, b.member(f"{stranger}-1", held)),
        b.classic_group(2, b.member(f"{stranger}-1", {}), b.member(f"{stranger}-2", held, instance_id=stranger)),
    )
    markup = matrix(log)
    assert "<script" not in markup
    assert "<img" not in markup
    assert markup.isprintable() or "\n" in markup

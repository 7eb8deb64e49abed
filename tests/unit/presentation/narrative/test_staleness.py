"""What is said of groups of which it is not known what was written lately."""

from __future__ import annotations

import pytest

from agent.core.open_transactions import GRACE_MS, OpenTransaction, hiding
from agent.presentation.narrative.explain import StoryRequest, explain
from agent.presentation.narrative.staleness import (
    known_until_ms,
    open_transaction_json,
    quarantined_sentence,
    reservations,
    stale_sentence,
    worry,
)
from agent.presentation.narrative.words import MAX_NAME
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.made import DAY, MINUTE, T0

ONE = OpenTransaction(42, T0, "orders", ("tx",))


@pytest.mark.parametrize(
    ("it", "whose"),
    [
        (ONE, "transaction `tx` that commits offsets of `orders`"),
        (ONE._replace(group=None), "transaction `tx`"),
        (ONE._replace(transactional_ids=()), "a transaction that commits offsets of `orders`"),
        (OpenTransaction(42, T0), "a transaction"),
        (
            ONE._replace(transactional_ids=("a", "b", "c")),
            "a transaction that commits offsets of `orders` (one of `a`, `b` and `c`)",
        ),
    ],
)
def test_whose_it_is(it: OpenTransaction, whose: str) -> None:
    assert stale_sentence("g", open_transaction_json(it), T0 + 4 * MINUTE) == (
        f"What is known of `g` is as of 14:13:20 UTC: {whose} has been open for 4 min and hides what was "
        "written since."
    )


def test_a_group_in_whose_partition_records_were_passed_over() -> None:
    form = {"group": "g", "coordinator_partition": 7, "quarantined": {"records": 1}}
    said = "`g` may stand otherwise than is told: 1 record of partition 7 of __consumer_offsets could not be read."
    assert reservations(form, T0) == [said]
    assert reservations(None, T0) == []
    both = reservations({**form, "stale": open_transaction_json(ONE)}, T0)
    assert both == [stale_sentence("g", open_transaction_json(ONE), T0), said]
    rows = [form, {**form, "group": "h"}, {**form, "group": "i", "coordinator_partition": 8}]
    assert quarantined_sentence(rows).startswith(
        "`g`, `h` and `i` may stand otherwise than is told: 2 records of partitions 7 and 8 of"
    )


def test_names_are_short_and_other_days_are_named() -> None:
    long = open_transaction_json(ONE._replace(transactional_ids=("x" * 30_000,), group="y" * 30_000))
    said = stale_sentence("z" * 30_000, long, T0 + 2 * DAY)
    assert len(said) < 250 + 3 * MAX_NAME
    assert "is as of 2026-09-21 14:13:20 UTC" in said
    assert "open for 2 d" in said


def test_a_worry_stays_the_same_while_it_lasts() -> None:
    assert worry({3: ONE}, 1) == (
        "what is known of 1 group in partition 3 of __consumer_offsets is as of 2026-09-21 14:13:20 UTC: transaction "
        "`tx` that commits offsets of `orders` is open since then and hides what was written later"
    )
    many = {
        number: ONE._replace(since_ms=T0 + number * MINUTE, transactional_ids=(str(number),)) for number in range(9)
    }
    assert worry(many, 70) == (
        "what is known of 70 groups in partitions 0, 1, 2, 3 and 5 more of __consumer_offsets is as of 2026-09-21 "
        "14:13:20 UTC or later: transactions are open and hide what was written since, of which transaction `0` "
        "that commits offsets of `orders` is the oldest"
    )


def test_a_transaction_of_seconds_hides_nothing_worth_a_word() -> None:
    found = {0: ONE, 1: ONE._replace(since_ms=T0 + 1)}
    assert hiding(found, T0 + GRACE_MS) == {0: ONE}
    assert ONE.age_ms(T0 - 1) == 0, "clocks differ"


def test_up_to_when_all_is_known() -> None:
    stale = {"stale": open_transaction_json(ONE)}
    assert [known_until_ms(it, T0 + 5) for it in (None, {}, stale)] == [T0 + 5, T0 + 5, T0]
    assert known_until_ms(stale, T0 - 5) == T0 - 5, "clocks differ"


def test_an_explanation_begins_with_it() -> None:
    events = [m.rebalance(1, joined=[m.member("a")])]
    form = {**m.form(), "group": "g"}
    now = explain(StoryRequest("g", T0 + 4 * MINUTE), events, [], form)
    story = explain(StoryRequest("g", T0 + 4 * MINUTE), events, [], {**form, "stale": open_transaction_json(ONE)})
    assert story.summary == (
        f"As of 14:13:20 UTC, since an open transaction hides what was written later. {now.summary}"
    )
    assert [it.text for it in story.paragraphs if it.kind == "state"] == [
        stale_sentence("g", open_transaction_json(ONE), T0 + 4 * MINUTE),
        *(it.text for it in now.paragraphs if it.kind == "state"),
    ]

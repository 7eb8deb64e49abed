"""The captured groups' stories, word by word."""

from __future__ import annotations

import pytest

from tests.unit.presentation.narrative.golden import file_of, histories, story, text


@pytest.mark.parametrize("group", histories())
def test_words(group: str) -> None:
    assert text(group) == file_of(group).read_text(encoding="utf-8"), (
        "python -m tests.unit.presentation.narrative.golden writes it anew"
    )


@pytest.mark.parametrize("group", histories())
def test_numbers_are_those_of_the_events(group: str) -> None:
    events = [event for event in histories()[group].events if event["type"] == "rebalance"]
    numbers = story(group).numbers
    assert numbers["rebalances"] == sum(numbers["rebalances_by_cause"].values()) == len(events)
    assert numbers["joined"] == sum(len(event["joined"]) for event in events)
    assert numbers["left"] == sum(numbers["left_by_cause"].values()) == sum(len(event["left"]) for event in events)
    known = [it["stopped_partition_ms"] for it in events if it["stopped_partition_ms"] is not None]
    assert numbers["stopped_partition_ms"] == (sum(known) if known else None)

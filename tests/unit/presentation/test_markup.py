"""Sentences as markup: names in them, whatever they hold."""

from __future__ import annotations

from html import unescape

import pytest

from agent.presentation.markup import prose
from agent.presentation.narrative.words import name, word_count
from agent.serving.page.markup import sentences

NAMES = ("orders", "", "back`tick", "two`back`ticks", "`all`", "``", "a b`c d`e", "x`" * 20)


@pytest.mark.parametrize("group", NAMES)
def test_a_name_is_set_as_one_and_nothing_else_is(group: str) -> None:
    said = f"{name(group)} was removed from {name(group)} 5 times (see `kshadow whatif`): it is {name(group)}."
    for shown in (str(prose(said)), str(sentences(said))):
        pieces = [unescape(it.partition("</bdi></code>")[0]) for it in shown.split("<code><bdi>")[1:]]
        shown_as = group or '""'
        assert pieces == [shown_as, shown_as, "kshadow whatif", shown_as]
    assert word_count(f"{name(group)} left {name('x')}.") == 3


def test_a_name_without_backticks_around_it_is_no_code() -> None:
    said = "two`back`ticks on 10.0.0.1 after 8 s; 2 members joined again."
    assert str(prose(said)) == str(sentences(said)) == said

"""Patterns: what is a name, what is a regular expression, who wins, and that no name takes long."""

from __future__ import annotations

import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config import filters
from agent.config.filters import Filters, check_pattern, check_topic_pattern, looks_like_regex
from tests.unit.cli.hostile import TEXTS

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@pytest.mark.parametrize(
    ("allow", "deny", "name", "shown"),
    [
        ([], [], "payments", True),  # 1: no pattern, no filter
        (["payments"], [], "payments", True),  # 2: a name
        (["payments"], [], "payments-2", False),  # 3: and no other that begins so
        (["a.b"], [], "axb", False),  # 4: a name is never a regular expression
        (["a.b"], [], "a.b", True),  # 5
        (["pay*"], [], "payments", False),  # 6: nor a wildcard
        (["/pay.*/"], [], "payments", True),  # 7
        (["/pay/"], [], "payments", False),  # 8: the whole name
        (["/pay/"], [], "pay", True),  # 9
        (["/a|bc/"], [], "abc", False),  # 10: the whole of each alternative
        (["/a|bc/"], [], "bc", True),  # 11
        (["/pay.*/"], ["payments"], "payments", False),  # 12: deny wins
        (["payments"], ["/.*/"], "payments", False),  # 13: also over a name
        ([], ["/console-consumer-[0-9]+/"], "console-consumer-12", False),  # 14
        ([], ["/console-consumer-[0-9]+/"], "payments", True),  # 15
        (["a", "/b.*/"], [], "b1", True),  # 16: any of them
        (["a", "/b.*/"], [], "c", False),  # 17
        (["/.*/"], [], "two\nlines", True),  # 18: the dot is any character
        (["/gr.ße/"], [], "größe", True),  # 19: a character, not a byte
        (["/(?i)PAY/"], [], "pay", True),  # 20
        (["//"], [], "", True),  # 21: a group's name may be empty
        (["//"], [], "a", False),  # 22
        ([r"/\/etc/"], [], "/etc", True),  # 23: a name that begins with a slash
        (["/a/b/"], [], "a/b", True),  # 24: slashes within need no escape
    ],
)
def test_groups(allow: list[str], deny: list[str], name: str, shown: bool) -> None:
    made = Filters(allow, deny)
    assert made.shows_group(name) is shown
    assert made.shows_group(name) is shown, "remembered"
    assert made.shows_topic(name), "topics have patterns of their own"
    assert Filters((), (), allow, deny).shows_topic(name) is shown


@given(NAMES, NAMES)
def test_a_name_stands_for_itself_alone(pattern: str, name: str) -> None:
    if not pattern or pattern.startswith("/"):
        return
    assert Filters([pattern]).shows_group(name) is (pattern == name)
    assert Filters((), [pattern]).shows_group(name) is (pattern != name)


@given(st.lists(NAMES.filter(lambda it: it and it[0] != "/")), st.lists(NAMES.filter(lambda it: it and it[0] != "/")))
def test_deny_wins_over_allow(allow: list[str], deny: list[str]) -> None:
    made = Filters(allow, deny)
    for name in allow + deny:
        assert made.shows_group(name) is ((not allow or name in allow) and name not in deny)


@pytest.mark.parametrize("name", TEXTS.values(), ids=TEXTS)
def test_hostile_names(name: str) -> None:
    assert Filters(["/[^\\x00]*.*/"]).shows_group(name)
    assert not Filters((), ["/.*/"]).shows_group(name)


def test_no_pattern_takes_long() -> None:
    """Python's own `re` needs more than a day for the first of these with 40 letters."""
    patterns = ["/(a+)+b/", "/(a|a)*b/", "/(.*)*x/", "/((a{1,30}){1,30})b/"]
    made = Filters(patterns)
    began = time.process_time()
    assert not made.shows_group("a" * 32_767)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/(/", r"'/(/' is no regular expression of RE2's syntax: missing ): ("),  # 1
        ("/(?=a)/", "invalid perl operator: (?="),  # 2: what RE2 leaves out to stay linear
        (r"/(a)\1/", r"invalid escape sequence: \1"),  # 3
        ("/a{1001}/", "invalid repetition size"),  # 4
        (
            "/pay.*",
            "stands between slashes, '/pay.*' only begins with one; /\\/pay.*/ is the name that begins so",
        ),  # 5
        ("/", "only begins with one"),  # 6
        ("", "expected a name or a /regular expression/, got nothing"),  # 7
        ("/\ud800/", "is no text"),  # 8: bytes of a command line that are none
    ],
)
def test_no_patterns(text: str, said: str) -> None:
    for check in (check_pattern, check_topic_pattern, lambda it: Filters([it]), lambda it: Filters((), (), (), [it])):
        with pytest.raises(ValueError) as raised:  # noqa: PT011 - each case says its message
            check(text)
        assert said in str(raised.value)


def test_a_topic_must_be_able_to_have_the_name() -> None:
    check_topic_pattern("a.b_c-1")
    check_topic_pattern("/payments.*/")
    check_pattern("payments*")
    for text in ("payments*", "a b", "a" * 250):
        with pytest.raises(ValueError, match="no topic can be called"):
            check_topic_pattern(text)


@pytest.mark.parametrize(
    ("text", "perhaps"),
    [("payments", False), ("a.b-c_d", False), ("pay*", True), ("^pay", True), (r"pay\d", True), ("/pay.*/", False)],
)
def test_a_regex_without_its_slashes_is_noticed(text: str, perhaps: bool) -> None:
    assert looks_like_regex(text) is perhaps


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "CACHE_SIZE", 2)
    made = Filters((), ["/x.*/"])
    for name in ("x1", "a", "x2", "b", "x1", "a" * 1000, "x" * 1000):
        assert made.shows_group(name) is (name[0] != "x")


@pytest.mark.parametrize("patterns", [(), ("/p.*/", "/.*-tmp/")])
def test_all_groups_are_asked_for_again_at_the_same_cost_each_however_many(patterns: tuple[str, ...]) -> None:
    made = Filters(patterns)
    few, many = ([f"payments-{number}" for number in range(count)] for count in (100, 50_000))
    assert len(many) * calls_of_second_walk(made, few) == len(few) * calls_of_second_walk(made, many)


def calls_of_second_walk(made: Filters, names: list[str]) -> int:
    assert all(map(made.shows_group, names))
    calls: list[str] = []
    sys.setprofile(lambda frame, event, _: calls.append(event) if event == "call" else None)
    try:
        shown = list(map(made.shows_group, names))
    finally:
        sys.setprofile(None)
    assert all(shown)
    return len(calls)

"""A few lines of YAML that stand for gigabytes."""

from __future__ import annotations

import time

import pytest
import yaml

from agent.common.bounded_yaml import MAX_CHARACTERS, BoundedLoader, yaml_problem

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 10)}]\n" for number in range(1, 9)
)


def load(text: str) -> object:
    return yaml.load(text, BoundedLoader)


def test_aliases_are_followed_within_bounds() -> None:
    assert load("a: &a {x: 1}\nb: *a\nc: [*a, *a]\n<<: *a") == {
        "a": {"x": 1},
        "b": {"x": 1},
        "c": [{"x": 1}] * 2,
        "x": 1,
    }
    assert load("") is None


def test_keys_that_are_others_or_are_merged_are_none_twice() -> None:
    assert load("1: a\n'1': b\nc: &c {d: 1}\ne: {<<: *c, d: 2}") == {1: "a", "1": "b", "c": {"d": 1}, "e": {"d": 2}}


def test_many_keys_take_no_time_of_their_own() -> None:
    started = time.process_time()
    assert len(load("\n".join(f"k{number}: 1" for number in range(20_000)))) == 20_000
    assert time.process_time() - started < 60


def test_a_bomb_is_refused_at_once() -> None:
    started = time.process_time()
    with pytest.raises(yaml.YAMLError, match="there are more once aliases are followed"):
        load(BOMB)
    assert time.process_time() - started < 5


def test_long_texts_count_as_often_as_they_are_used() -> None:
    text = "x" * (MAX_CHARACTERS // 2)
    load(f"a: &a {text}")
    with pytest.raises(yaml.YAMLError, match="expected at most"):
        load(f"a: &a {text}\nb: *a")


@pytest.mark.parametrize(
    ("scalar", "kind"),
    [
        ("2026-02-30", "timestamp"),
        ("0b_", "int"),
        ("9" * 5_000, "int"),
        ("!!int x", "int"),
        ("!!float x", "float"),
        ("!!bool x", "bool"),
        ("!!timestamp x", "timestamp"),
    ],
)
def test_what_its_type_cannot_be_made_of_has_a_place(scalar: str, kind: str) -> None:
    with pytest.raises(yaml.YAMLError) as raised:
        load(f"a: 1\nb: [{scalar}]")
    told = yaml_problem(raised.value)
    assert told.startswith(f"line 2, column 5: expected YAML: what looks like a value of type {kind} is none")


def test_what_refers_to_itself_is_refused() -> None:
    with pytest.raises(yaml.YAMLError, match="within what it stands for"):
        load("&a [*a]")


@pytest.mark.parametrize("text", ["k: 1\nk: 2", "a: {k: 1, k: 1}", "- {k: 1, b: 2, 'k': 3}", "k: &k [1]\n? k\n: 2"])
def test_no_key_comes_twice(text: str) -> None:
    with pytest.raises(yaml.YAMLError, match="the key 'k' stands there twice"):
        load(text)
    with pytest.raises(yaml.YAMLError) as long:
        load(text.replace("k", "k" * 900))
    assert len(str(long.value)) < 300

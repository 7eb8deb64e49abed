"""Lines: whatever an event holds can be encoded, kept on disk, and read again."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.persistence.export.encoded_event import decode_event, encode_event, pack_event, unpack_event
from tests.unit.persistence.export.made import HOSTILE, event, plain

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.parametrize("name", HOSTILE)
def test_text_of_strangers_comes_back_as_it_was(name: str) -> None:
    made = event(3, name, summary=name, numbers={name: [name]})
    line = encode_event(made, 17)
    assert json.loads(line.body) == made, "as any reader of JSON has it"
    again, is_text = decode_event(line)
    assert again == made
    assert is_text == ("\ud800" not in name and "\udc80" not in name)
    assert line.key == name.encode("utf-8", "backslashreplace")
    assert unpack_event(pack_event(line)) == line


@given(
    group=ANY_TEXT | st.none(), cluster=ANY_TEXT | st.none(), numbers=VALUES, at_ms=st.integers(-(1 << 63), 1 << 62)
)
def test_any_event_comes_back(group: str | None, cluster: str | None, numbers: Any, at_ms: int) -> None:
    made = event(1, group, cluster=cluster, numbers=numbers, at_ms=at_ms)
    line = encode_event(made, 5)
    assert decode_event(line)[0] == plain(made)
    assert unpack_event(pack_event(line)) == line
    assert line.body == encode_event(made, 6).body, "the same event, the same bytes"
    assert (line.key is None) == (group is None and cluster is None)


def test_a_finding_of_the_cluster_is_keyed_by_the_cluster() -> None:
    assert encode_event(event(1, None), 0).key == b"c"
    assert encode_event(event(1, None, cluster=None), 0).key is None


@pytest.mark.parametrize(
    ("number", "comes_as"),
    [
        (float("nan"), None),
        ({"a": [float("inf"), "\udc80"]}, {"a": [None, "\udc80"]}),
        ((1, "\udc80"), [1, "\udc80"]),
        (Decimal("1.5"), "1.5"),
        ({1: 2}, {"1": 2}),
        (ValueError("x"), "x"),
        (1 << 70, 1 << 70),
    ],
)
def test_what_json_has_not_comes_as_the_nearest(number: Any, comes_as: Any) -> None:
    assert decode_event(encode_event(event(1, numbers={"it": number}), 0))[0]["numbers"] == {"it": comes_as}

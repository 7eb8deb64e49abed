"""Cells, times and the layout of tables."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cli.tables import Column, fold, render
from agent.cli.text import cell, iso_time, json_text, printable_lines
from agent.common.sanitize import printable
from agent.common.text import printable_truncated
from tests.unit.cli.hostile import raw


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "-"),  # 1: not known
        (0, "0"),  # 2: known, and nothing
        (True, "yes"),  # 3
        (False, "no"),  # 4
        ([], "-"),  # 5
        (["a", 1], "a, 1"),  # 6
        ({}, "-"),  # 7
        ({"t": [3, 1, 2, 7]}, "t[1-3,7]"),  # 8: partitions as ranges, whatever their order
        ({"t": [], "u": [5]}, "t[] u[5]"),  # 9
        ({"c": [-1, 0, 1]}, "c[-1-1]"),  # 10: Connect's -1
        ({"t": ["x", None]}, "t[x,None]"),  # 11: of an agent that sends else
        ({"a": "b"}, "a=b"),  # 12
        ("a\x1b\U000e0041\xa0", "a\\u001b\\U000e0041\\u00a0"),  # 13
        ("x" * 256, "x" * 256),  # 14
        ("x" * 257, "x" * 255 + "…"),  # 15
        ("\x1b" * 100, ("\\u001b" * 100)[:255] + "…"),  # 16: the escapes count
    ],
)
def test_cell(value: object, expected: str) -> None:
    assert cell(value) == expected


@pytest.mark.parametrize(
    ("at_ms", "expected"),
    [
        (None, None),  # 1
        (-1, None),  # 2: Kafka's "none"
        (0, "1970-01-01 00:00:00.000Z"),  # 3
        (1_795_246_094_383, "2026-11-21 07:28:14.383Z"),  # 4
        (253_402_300_799_999, "9999-12-31 23:59:59.999Z"),  # 5: the last that a calendar has, not rounded up
        (253_402_300_800_000, "253402300800000 ms"),  # 6
        (2**63 - 1, "9223372036854775807 ms"),  # 7
    ],
)
def test_when(at_ms: int | None, expected: str | None) -> None:
    assert iso_time(at_ms) == expected


@given(st.text(st.characters(codec=None, categories=None)))
def test_nothing_unprintable_and_json_comes_back(text: str) -> None:
    assert raw(printable(text)) == []
    assert "\n" not in printable(text)
    assert raw(printable_lines(text)) == []
    assert len(printable_truncated(text, 10)) <= 10
    for ascii_only in (False, True):
        for indent in (None, 2):
            encoded = json_text({text: [text]}, indent=indent, ascii_only=ascii_only)
            assert raw(encoded) == []
            assert encoded.isascii() or not ascii_only
            assert json.loads(encoded) == json.loads(json.dumps({text: [text]}))


@given(st.text(), st.integers(1, 20))
def test_folding_loses_nothing_but_blanks(text: str, width: int) -> None:
    from rich.cells import cell_len

    text = printable(text)
    pieces = fold(text, width)
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")
    assert all(cell_len(piece) <= max(width, 2) for piece in pieces), "a wide character takes two at least"


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("abc", 3, ["abc"]),  # 1: fits
        ("abcd", 3, ["abc", "d"]),  # 2: no place to cut
        ("one two three", 8, ["one two", "three"]),  # 3: at a blank
        ("one two three", 7, ["one two", "three"]),  # 4: at the blank that just does not fit
        ("orders-eu,orders-us", 12, ["orders-eu,", "orders-us"]),  # 5: behind a mark
        ("a bcdefghij", 8, ["a bcdefg", "hij"]),  # 6: the blank is too far back
        ("日本語", 4, ["日本", "語"]),  # 7: two cells each
        ("日本", 1, ["日", "本"]),  # 8: at least one character
        ("", 5, [""]),  # 9
        ("timeout 10 s", 11, ["timeout", "10 s"]),  # 10: a number stays with its unit
        ("timeout 10 s", 10, ["timeout", "10 s"]),  # 11: at the blank that just does not fit, too
        ("wait 10 sea", 10, ["wait 10", "sea"]),  # 12: no unit
        ("12345 s", 6, ["12345", "s"]),  # 13: no other blank
    ],
)
def test_fold(text: str, width: int, expected: list[str]) -> None:
    assert fold(text, width) == expected


def table(columns: list[Column], row: list[str], width: int | None) -> tuple[list[str], list[str]]:
    return render(columns, [row], numeric=[False] * len(columns), width=width)


NAME, TIME, NOTE = Column("NAME", folds=6), Column("TIME", spare=1), Column("NOTE", spare=2)


@pytest.mark.parametrize(
    ("width", "expected", "left_out"),
    [
        (None, ["NAME      TIME   NOTE", "aaaa-bbb  12:00  nnnnnn"], []),  # 1: a pipe
        (23, ["NAME      TIME   NOTE", "aaaa-bbb  12:00  nnnnnn"], []),  # 2: just fits
        (22, ["NAME     TIME   NOTE", "aaaa-    12:00  nnnnnn", "bbb"], []),  # 3: folded
        (20, ["NAME      TIME", "aaaa-bbb  12:00"], ["NOTE"]),  # 4: the one that is most spare goes, nothing folds
        (8, ["NAME", "aaaa-bbb"], ["TIME", "NOTE"]),  # 5
        (4, ["NAME", "aaaa", "-bbb"], ["TIME", "NOTE"]),  # 6: folded beyond its least
    ],
)
def test_layout(width: int | None, expected: list[str], left_out: list[str]) -> None:
    got = table([NAME, TIME, NOTE], ["aaaa-bbb", "12:00", "nnnnnn"], width)
    assert got == (expected, left_out)


def test_a_column_that_says_nothing_goes_first() -> None:
    assert table([NAME, TIME, NOTE], ["aaaa-bbb", "-", "nnnnnn"], 18)[1] == ["TIME"]


def test_what_may_not_be_left_out_is_folded_in_the_end() -> None:
    lines, left_out = table([Column("FIXED"), Column("ALSO")], ["12345678", "12345678"], 12)
    assert (lines, left_out) == (["FIXED  ALSO", "12345  12345", "678    678"], [])


SAID, MORE = Column("SAID", folds=4, below=10), Column("MORE", folds=4, spare=1, below=10)


@pytest.mark.parametrize(
    ("width", "expected", "left_out"),
    [
        (None, ["NAME  SAID           MORE", "ab    one two three  four five"], []),  # 1: a pipe
        (27, ["NAME  SAID        MORE", "ab    one two     four five", "      three"], []),  # 2: beside, folded
        (18, ["NAME  SAID   MORE", "ab    one    four", "      two    five", "      three"], []),  # 3: both, folded
        (15, ["NAME", "ab", "    one two", "    three"], ["MORE"]),  # 4: below, and nothing spare with it
    ],
)
def test_sentences_stand_below_where_there_is_no_room(
    width: int | None, expected: list[str], left_out: list[str]
) -> None:
    assert table([NAME, SAID, MORE], ["ab", "one two three", "four five"], width) == (expected, left_out)


def test_numbers_stand_to_the_right() -> None:
    columns = [Column("N"), Column("TEXT"), Column("NUMBER")]
    lines, _ = render(columns, [["1", "a", "7"], ["200", "", ""]], numeric=[True, False, True], width=None)
    assert lines == ["  N  TEXT  NUMBER", "  1  a          7", "200"]

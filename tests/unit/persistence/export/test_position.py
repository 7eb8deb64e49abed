"""Positions: what they have, and whose they are."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.shadow.transitions import LogPosition
from agent.persistence.cluster_state import ReplayPosition
from agent.persistence.export.errors import PositionRefused
from agent.persistence.export.history_position import PartitionLog, decode_position, encode_position

LOG = PartitionLog("cluster", "topic", 7)
AT = ReplayPosition(100, 5_000)


@pytest.mark.parametrize(
    ("offset", "at_ms", "has"),
    [
        (99, 5_000, True),
        (100, 5_000, False),  # a record that was not applied yet
        (99, 5_001, False),  # time that had not passed yet
        (0, 0, True),
    ],
)
def test_what_was_made_before(offset: int, at_ms: int, has: bool) -> None:
    assert AT.includes(LogPosition(7, offset, at_ms)) is has


@pytest.mark.parametrize("log", [LOG, PartitionLog("cluster", None, 0)])
def test_it_is_read_as_it_was_stored(log: PartitionLog) -> None:
    assert decode_position(encode_position(AT, log), log) == AT
    assert len(encode_position(AT, log)) < 170


@given(st.data())
def test_a_byte_that_changed_makes_no_other_position(data: st.DataObject) -> None:
    whole = encode_position(AT, LOG)
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = bytearray(whole)
    damaged[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(PositionRefused):
        decode_position(bytes(damaged), LOG)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (LOG._replace(cluster_id="other"), "expected cluster_id 'other', got 'cluster'"),
        (LOG._replace(topic_id=None), "expected topic_id None, got 'topic'"),
        (LOG._replace(partition=8), "expected partition 8, got 7"),
    ],
)
def test_another_logs_is_refused(log: PartitionLog, said: str) -> None:
    with pytest.raises(PositionRefused, match=said):
        decode_position(encode_position(AT, LOG), log)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "expected JSON, got b''"),
        (b"\xff", "expected JSON"),
        (b"[]", r"expected version 1, got \[\]"),
        (b"{}", "expected version 1, got None"),
        (b'{"version":2}', "expected version 1, got 2"),
        (
            json.dumps({**json.loads(encode_position(AT, LOG)), "clock_ms": "x"}).encode(),
            "expected numbers, got 100 and 'x'",
        ),
    ],
)
def test_what_is_none_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(PositionRefused, match=said):
        decode_position(data, LOG)

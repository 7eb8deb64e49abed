"""The share coordinator's records, against the bytes and the JSON of Kafka 4.3.1's own classes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.core.wire.errors import Invalid, TrailingBytes, Truncated, UnknownKeyType, UnknownVersion
from agent.core.wire.json_form import message_json
from agent.core.wire.share_state import RECORD_TYPES, decode_share_state
from tests import DATA

ROWS = [json.loads(line) for line in (DATA / "wire" / "share-state-4.3.1.ndjson").read_text("utf-8").splitlines()]


def both(row: dict[str, Any]) -> tuple[bytes, bytes]:
    return bytes.fromhex(row["key"]), bytes.fromhex(row["value"])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["key"][:24])
def test_a_record_is_what_kafka_says_and_nothing_shorter_or_longer(row: dict[str, Any]) -> None:
    key, value = both(row)
    place, message = decode_share_state(key, value)
    assert message is not None
    assert message_json(place, 0) == row["expect"]["key"]["data"]
    assert message_json(message, 0) == row["expect"]["value"]["data"]
    assert type(message) is RECORD_TYPES[row["expect"]["key"]["type"]]
    out = bytearray(b"\0\0")
    message.write(out, 0)
    assert bytes(out) == value
    assert decode_share_state(key, None) == (place, None)
    for end in range(len(value)):
        with pytest.raises(Truncated, match=r"^value"):
            decode_share_state(key, value[:end])
    for end in range(len(key)):
        with pytest.raises(Truncated, match=r"^key"):
            decode_share_state(key[:end], value)
    with pytest.raises(TrailingBytes, match=r"^value"):
        decode_share_state(key, value + b"\0")
    with pytest.raises(TrailingBytes, match=r"^key"):
        decode_share_state(key + b"\0", value)


def test_what_is_not_known() -> None:
    key, value = both(ROWS[0])
    with pytest.raises(UnknownKeyType, match="key: key type 2 of the share coordinator"):
        decode_share_state(b"\0\2" + key[2:], value)
    with pytest.raises(UnknownVersion, match="value: version 1 of ShareSnapshotValue; known is 0"):
        decode_share_state(key, b"\0\1" + value[2:])
    with pytest.raises(Invalid, match="key: expected a key"):
        decode_share_state(None, value)

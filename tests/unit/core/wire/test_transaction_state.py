"""The transaction coordinator's records, against the bytes that Kafka 4.4.0 and 3.9.2 wrote of one transaction."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.core.wire.errors import Invalid, TrailingBytes, Truncated, UnknownKeyType, UnknownVersion
from agent.core.wire.transaction_state import decode_transaction_state
from tests import DATA

ROWS = [json.loads(line) for line in (DATA / "wire" / "transaction-state.ndjson").read_text("utf-8").splitlines()]


def both(row: dict[str, Any]) -> tuple[bytes, bytes]:
    return bytes.fromhex(row["key"]), bytes.fromhex(row["value"])


@pytest.mark.parametrize("broker", ["4.4.0", "3.9.2"])
def test_what_a_transaction_does_until_it_was_aborted(broker: str) -> None:
    found = [decode_transaction_state(*both(row)) for row in ROWS if row["broker"] == broker]
    assert {name for name, _ in found} == {"tx"}
    states = [state for _, state in found if state is not None]
    # Made, with a partition of a topic, with one of the offsets topic too, about to abort, aborted.
    assert [it.transaction_status for it in states] == [0, 1, 1, 3, 5]
    assert [it.partitions_of("__consumer_offsets") for it in states] == [set(), set(), {1}, {1}, set()]
    assert [len(it.partitions_of("orders")) for it in states] == [0, 1, 1, 1, 0]
    began = states[1].transaction_start_timestamp_ms
    assert states[0].transaction_start_timestamp_ms == -1
    assert all(it.transaction_start_timestamp_ms == began for it in states[1:])
    assert states[3].transaction_last_update_timestamp_ms - began in range(900, 5_000)
    assert {it.transaction_timeout_ms for it in states} == {60_000}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['broker']}-{row['value'][40:60]}")
def test_nothing_shorter_or_longer(row: dict[str, Any]) -> None:
    key, value = both(row)
    _, state = decode_transaction_state(key, value)
    assert state is not None
    out = bytearray(value[:2])
    state.write(out, value[1])
    assert bytes(out) == value, "what is not known here is kept"
    assert decode_transaction_state(key, None) == ("tx", None)
    for end in range(len(value)):
        with pytest.raises(Truncated, match=r"^value"):
            decode_transaction_state(key, value[:end])
    for end in range(len(key)):
        with pytest.raises(Truncated, match=r"^key"):
            decode_transaction_state(key[:end], value)
    with pytest.raises(TrailingBytes, match=r"^value"):
        decode_transaction_state(key, value + b"\0")
    with pytest.raises(TrailingBytes, match=r"^key"):
        decode_transaction_state(key + b"\0", value)


def test_what_is_not_known() -> None:
    key, value = both(ROWS[0])
    with pytest.raises(UnknownKeyType, match="key: key type 1 of the transaction coordinator"):
        decode_transaction_state(b"\0\1" + key[2:], value)
    with pytest.raises(UnknownVersion, match="value: version 2 of TransactionStateValue; known are 0 and 1"):
        decode_transaction_state(key, b"\0\2" + value[2:])
    with pytest.raises(Invalid, match="key: expected a key"):
        decode_transaction_state(None, value)

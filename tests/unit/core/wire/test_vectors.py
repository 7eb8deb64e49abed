"""Kafka's own bytes, both directions, whole, cut at every byte and with bytes behind them."""

from __future__ import annotations

import json

import pytest

from agent.core.wire import TrailingBytes, Truncated, Undecodable, decode, encode_key, encode_value
from agent.core.wire.json_form import entry_json, message_json
from agent.core.wire.payloads import decode_leniently, decode_payload, encode_payload
from agent.core.wire.records import RECORD_TYPES, Record, Tombstone
from tests.unit.core.wire.vectors import ALL_OWN, PayloadVector, RecordVector, load, params

RECORDS = params(RecordVector)
PAYLOAD_BYTES = params(PayloadVector)


@pytest.mark.parametrize("vector", RECORDS)
def test_a_record_decodes_to_what_kafka_prints(vector: RecordVector) -> None:
    entry = decode(vector.key, vector.value)
    assert isinstance(entry, Record | Tombstone)
    form = entry_json(entry, expand=False)
    assert form == vector.expect
    assert json.loads(json.dumps(form)) == form, "nothing in a form but JSON's own types"


@pytest.mark.parametrize("vector", RECORDS)
def test_a_record_encodes_to_the_bytes_it_came_from(vector: RecordVector) -> None:
    entry = decode(vector.key, vector.value)
    assert isinstance(entry, Record | Tombstone)
    assert encode_key(entry.type, entry.key) == vector.key
    value = encode_value(entry.type, entry.value, entry.version) if isinstance(entry, Record) else None
    assert value == vector.value


@pytest.mark.parametrize("vector", RECORDS)
def test_a_record_cut_at_any_byte_is_truncated(vector: RecordVector) -> None:
    for end in range(len(vector.key)):
        _refused(vector.key[:end], vector.value, Truncated, "key")
    for end in range(len(vector.value or b"")):
        _refused(vector.key, (vector.value or b"")[:end], Truncated, "value")


@pytest.mark.parametrize("vector", RECORDS)
@pytest.mark.parametrize("behind", [b"\x00", b"\xff" * 40], ids=["a zero", "forty ff"])
def test_bytes_behind_a_record_are_trailing(vector: RecordVector, behind: bytes) -> None:
    _refused(vector.key + behind, vector.value, TrailingBytes, "key")
    if vector.value is not None:
        _refused(vector.key, vector.value + behind, TrailingBytes, "value")


def _refused(key: bytes, value: bytes | None, kind: type[Exception], where: str) -> None:
    entry = decode(key, value)
    assert isinstance(entry, Undecodable)
    assert type(entry.error) is kind
    assert entry.error.path[0] == where
    assert (entry.key, entry.value) == (key, value), "what could not be decoded keeps its bytes"


@pytest.mark.parametrize("vector", PAYLOAD_BYTES)
def test_a_payload_decodes_and_encodes(vector: PayloadVector) -> None:
    version, payload = decode_payload(vector.message, vector.data)
    assert {"version": version, "data": message_json(payload, version)} == vector.expect
    assert decode_payload(vector.message, vector.data, lenient=True) == (version, payload)
    assert encode_payload(payload, version) == vector.data


@pytest.mark.parametrize("vector", PAYLOAD_BYTES)
def test_a_payload_cut_at_any_byte_is_truncated_but_leniently_where_an_older_version_ends(
    vector: PayloadVector,
) -> None:
    version, payload = decode_payload(vector.message, vector.data)
    lowest, highest = vector.message.versions
    older = {
        len(encode_payload(payload, number)): number
        for number in range(min(version, highest) - 1, lowest - 1, -1)
        if vector.data.startswith(encode_payload(payload, number)[2:], 2)
    }
    for end in range(len(vector.data)):
        cut = vector.data[:end]
        with pytest.raises(Truncated, match=rf"^{vector.message.__name__}"):
            decode_payload(vector.message, cut)
        if end not in older:
            with pytest.raises(Truncated, match=rf"^{vector.message.__name__}"):
                decode_leniently(vector.message, cut)
            continue
        # Of versions that are alike the newest is taken, as the payload says to be newer yet.
        read = decode_leniently(vector.message, cut)
        assert read.version == version
        assert encode_payload(read.message, read.fields_version)[2:] == cut[2:]


@pytest.mark.parametrize("vector", PAYLOAD_BYTES)
def test_bytes_behind_a_payload_are_trailing_unless_lenient(vector: PayloadVector) -> None:
    with pytest.raises(TrailingBytes):
        decode_payload(vector.message, vector.data + b"\x00")
    assert decode_payload(vector.message, vector.data + b"\x00", lenient=True) == decode_payload(
        vector.message, vector.data
    )


def test_the_own_copy_covers_every_type_and_version() -> None:
    """So that a clone without the shared vectors still holds every codec to Kafka's bytes."""
    seen: set[tuple[object, int]] = set()
    for _, row in load(*ALL_OWN):
        if isinstance(row, PayloadVector):
            seen.add((row.message, row.expect["version"]))
        elif row.value is not None:
            seen.add((row.expect["key"]["type"], row.expect["value"]["version"]))
    for record_type in RECORD_TYPES.values():
        lowest, highest = record_type.value.versions
        for version in range(lowest, highest + 1):
            assert (record_type.key_type, version) in seen
    for message in {row.message for _, row in load(*ALL_OWN) if isinstance(row, PayloadVector)}:
        assert {version for name, version in seen if name is message} == {0, 1, 2, 3}

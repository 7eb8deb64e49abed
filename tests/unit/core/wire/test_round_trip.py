"""Any message that a version can hold, written and read back."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.core.wire import decode, encode_key, encode_value
from agent.core.wire.json_form import entry_json
from agent.core.wire.payloads import PAYLOADS, decode_payload, encode_payload
from agent.core.wire.records import Record, RecordType, Tombstone, Undecodable, decode_value
from agent.core.wire.schema import Message
from tests import examples
from tests.unit.core.wire.strategies import RECORD_VERSIONS, messages

PROFILE = settings(
    max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
NAMES = [f"{record_type.key_type}-{record_type.name}-v{version}" for record_type, version in RECORD_VERSIONS]
PAYLOAD_VERSIONS = [
    (message, version)
    for pair in PAYLOADS.values()
    for message in pair
    for version in range(message.versions[0], message.versions[1] + 1)
]


@pytest.mark.parametrize(("record_type", "version"), RECORD_VERSIONS, ids=NAMES)
@PROFILE
@given(data=st.data())
def test_any_record_comes_back(record_type: RecordType, version: int, data: st.DataObject) -> None:
    key = data.draw(messages(record_type.key, 0))
    value = data.draw(messages(record_type.value, version))
    raw_key, raw_value = encode_key(record_type, key), encode_value(record_type, value, version)
    assert decode(raw_key, raw_value) == Record(record_type, key, version, value)
    assert decode(raw_key, None) == Tombstone(record_type, key)
    for expand in (False, True):
        form = entry_json(Record(record_type, key, version, value), expand=expand)
        assert json.loads(json.dumps(form)) == form


@pytest.mark.parametrize(("message", "version"), PAYLOAD_VERSIONS, ids=lambda part: getattr(part, "__name__", part))
@PROFILE
@given(data=st.data())
def test_any_payload_comes_back(message: type[Message], version: int, data: st.DataObject) -> None:
    payload = data.draw(messages(message, version))
    assert decode_payload(message, encode_payload(payload, version)) == (version, payload)


@pytest.mark.parametrize(("record_type", "version"), RECORD_VERSIONS, ids=NAMES)
@PROFILE
@given(data=st.data())
def test_any_damage_is_a_value_or_a_typed_error(record_type: RecordType, version: int, data: st.DataObject) -> None:
    """One byte of a real value replaced: a decoded value is one that can be written and read back."""
    raw = bytearray(encode_value(record_type, data.draw(messages(record_type.value, version)), version))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    key = encode_key(record_type, record_type.key())
    match decode(key, bytes(raw)):
        case Record(_, _, read_version, value):
            written = encode_value(record_type, value, read_version)
            assert decode_value(record_type, written) == (read_version, value)
        case entry:
            assert isinstance(entry, Undecodable)
            assert entry.error.path[0] == "value"

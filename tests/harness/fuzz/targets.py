"""What is fuzzed: functions of bytes that return for a value or a `WireError` and raise for anything else.

Each target cuts its arguments from the front of the input, so that a fuzzer can mutate them apart. Knows
nothing of atheris: the same functions run over the seeds as an ordinary test.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import NoReturn, TypeVar

from agent.core.wire import decode, encode_key, encode_value
from agent.core.wire.errors import KINDS, WireError
from agent.core.wire.json_form import entry_json, message_json, payload_json
from agent.core.wire.offset_commit_fastpath import (
    canonical_key,
    commit_from_message,
    has_fixed_layout,
    have_one_fixed_layout,
    is_commit_key,
    read_commit,
)
from agent.core.wire.payloads import PAYLOADS, decode_leniently, decode_payload, encode_payload
from agent.core.wire.records import (
    RECORD_TYPES,
    Record,
    RecordType,
    Tombstone,
    TransactionMarker,
    Undecodable,
    decode_key,
    decode_value,
)
from agent.core.wire.schema import is_flexible
from tests import DATA

SEEDS = DATA / "wire" / "records-4.3.1.ndjson"

_TYPES = tuple(RECORD_TYPES.values())
_PAYLOADS = tuple(message for pair in PAYLOADS.values() for message in pair)

Value = TypeVar("Value")

_CONTROL, _NO_VALUE, _NO_KEY = 1, 2, 4


def fuzz_decode(data: bytes) -> None:
    """A whole record: flags, the key's length, key, value."""
    flags, size, rest = data[:1], data[1:2], data[2:]
    if not size:
        return
    key = None if flags[0] & _NO_KEY else rest[: size[0]]
    value = None if flags[0] & _NO_VALUE else rest[size[0] :]
    match decode(key, value, control=bool(flags[0] & _CONTROL)):
        case Record() as entry:
            assert not flags[0] & _CONTROL
            _key_comes_back(entry, key)
            _value_comes_back(entry.type, value, entry)
            json.dumps(entry_json(entry, expand=True))
        case Tombstone() as entry:
            assert value is None
            _key_comes_back(entry, key)
            json.dumps(entry_json(entry, expand=True))
        case TransactionMarker(outcome, _):
            assert flags[0] & _CONTROL
            assert outcome in ("commit", "abort")
        case Undecodable(error, kept_key, kept_value):
            assert (kept_key, kept_value) == (key, value)
            _is_reported(error)


def _key_comes_back(entry: Record | Tombstone, key: bytes | None) -> None:
    # No key is flexible: one form only, so the bytes are the same.
    assert encode_key(entry.type, entry.key) == key


def _value_comes_back(record_type: RecordType, value: bytes | None, entry: Record) -> None:
    assert value is not None
    written = encode_value(record_type, entry.value, entry.version)
    assert decode_value(record_type, written) == (entry.version, entry.value)
    if not is_flexible(record_type.value, entry.version):
        assert written == value
    # The canonical form: varints at their shortest, no tag at its default. Never longer than what came.
    assert len(written) <= len(value)


def fuzz_value(data: bytes) -> None:
    """A value: one byte picks the record type."""
    if not data:
        return
    record_type, value = _TYPES[data[0] % len(_TYPES)], data[1:]
    decoded = _outcome(lambda: decode_value(record_type, value))
    if isinstance(decoded, WireError):
        assert decoded.path[0] == "value"
        _is_reported(decoded)
        return
    version, message = decoded
    _value_comes_back(record_type, value, Record(record_type, record_type.key(), version, message))
    json.dumps(message_json(message, version))


def fuzz_payload(data: bytes) -> None:
    """A member's payload: one byte picks which and whether to read it leniently."""
    if not data:
        return
    choice, lenient = divmod(data[0], 2)
    message, payload = _PAYLOADS[choice % len(_PAYLOADS)], data[1:]
    form = payload_json(message, payload)
    outcome = _outcome(lambda: decode_payload(message, payload, lenient=bool(lenient)))
    if isinstance(outcome, WireError):
        assert outcome.path[0] == message.__name__
        # What is shown is read leniently: bytes that follow are let be, and so is the end of an older version.
        assert form is None or outcome.kind in ("trailing_bytes", "truncated")
        if form is not None and outcome.kind == "truncated":
            read = decode_leniently(message, payload)
            assert read.fields_version < read.version
        _is_reported(outcome)
        return
    version, decoded = outcome
    assert form is not None
    assert form["version"] == version
    json.dumps(form)
    leniently = bool(lenient) or version > message.versions[1]
    of = decode_leniently(message, payload).fields_version if leniently else version
    written = encode_payload(decoded, of)
    assert decode_payload(message, written) == (of, decoded)
    # No payload is flexible: what was understood is what was written, behind the version.
    if leniently:
        assert payload[2:].startswith(written[2:])
    else:
        assert written == payload


def fuzz_hot(data: bytes) -> None:
    """The offset-commit path against the general one: a length, then values of that length; keys too."""
    if not data:
        return
    size, rest = data[0] + 1, data[1:]
    values = [rest[at : at + size] for at in range(0, len(rest), size)]
    plain = [has_fixed_layout(value) for value in values]
    for value, fast in zip(values, plain, strict=True):
        _hot_is_general(value, fast)
    if values:
        layouts = {(len(value), value[:2]) for value in values}
        assert have_one_fixed_layout(values) == (all(plain) and len(layouts) == 1)
        assert not have_one_fixed_layout([*values, None])
    if is_commit_key(rest):
        key, canonical = _outcome(lambda: decode_key(rest)), _outcome(lambda: decode_key(canonical_key(rest)))
        if isinstance(key, WireError):
            assert str(canonical) == str(key)
        else:
            assert not isinstance(canonical, WireError)
            assert canonical[1] == key[1]


def _hot_is_general(value: bytes, fast: bool) -> None:
    commit = _outcome(lambda: read_commit(value))
    general = _outcome(lambda: commit_from_message(decode_value(RECORD_TYPES[1], value)[1]))
    if isinstance(general, WireError):
        assert not fast
        assert str(commit) == str(general)
        return
    assert commit == general
    legacy = _outcome(lambda: commit_from_message(decode_value(RECORD_TYPES[0], value)[1]))
    assert isinstance(legacy, WireError) or commit == legacy


def _outcome(read: Callable[[], Value]) -> Value | WireError:
    try:
        return read()
    except WireError as error:
        return error


def _is_reported(error: WireError) -> None:
    assert error.kind in KINDS
    assert error.message
    assert str(error).endswith(error.message)


def fuzz_self_test(data: bytes) -> None:
    """Fails on purpose: a test holds the harness to noticing."""
    if data[:1] == b"!":
        _fail()


def _fail() -> NoReturn:
    raise RuntimeError("the self test found its input")


TARGETS: dict[str, Callable[[bytes], None]] = {
    "decode": fuzz_decode,
    "value": fuzz_value,
    "payload": fuzz_payload,
    "hot": fuzz_hot,
}
HIDDEN = {"self-test": fuzz_self_test}


def seeds(target: str) -> Iterator[bytes]:
    """Inputs for a target from Kafka's own bytes, in the shape that the target cuts apart."""
    for text in SEEDS.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        if "bytes" in line:
            if target == "payload":
                choice = 2 * [message.__name__ for message in _PAYLOADS].index(line["name"])
                yield from (bytes([choice + lenient]) + bytes.fromhex(line["bytes"]) for lenient in (0, 1))
            continue
        key = bytes.fromhex(line["key"])
        value = bytes.fromhex(line["value"] or "")
        number = line["expect"]["key"]["type"]
        match target:
            case "decode" if len(key) < 256:
                yield bytes([_NO_VALUE * (line["value"] is None), len(key)]) + key + value
            case "value" if value:
                yield bytes([list(RECORD_TYPES).index(number)]) + value
            case "hot" if number in (0, 1) and 0 < len(value) <= 256:
                yield bytes([len(value) - 1]) + value
                yield bytes([255]) + key
    match target:
        case "decode":
            # Markers as a broker wrote them: commit, abort.
            yield bytes.fromhex("0104 00000001 000000000000")
            yield bytes.fromhex("0104 00000000 000000000000")
        case "payload":
            for choice, message in enumerate(_PAYLOADS):
                for version in range(message.versions[1] + 1):
                    yield bytes([2 * choice]) + encode_payload(message(), version)
        case "hot":
            # The three fixed layouts, twice each.
            body = bytes.fromhex("000000000000002a 00000007")
            time = bytes.fromhex("000001a1fd017c09")
            for value in (
                b"\x00\x03" + body + b"\x00\x00" + time,
                b"\x00\x04" + body + b"\x01" + time + b"\x00",
                b"\x00\x04" + body + b"\x01" + time + b"\x01\x00\x10" + bytes(range(16)),
            ):
                yield bytes([len(value) - 1]) + value * 2
        case "self-test":
            yield b"!"

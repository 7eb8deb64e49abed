"""Each record of files in the form in which Kafka's own tools show it: what `kshadow decode` prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from agent.core.records import RawRecord
from agent.core.wire.errors import WireError
from agent.core.wire.json_form import entry_json, message_json, uuid_text
from agent.core.wire.offset_commit_fastpath import has_fixed_layout, read_commit, read_commit_key
from agent.core.wire.payloads import PAYLOADS, decode_payload
from agent.core.wire.primitives import ZERO_UUID
from agent.core.wire.records import TransactionMarker, Undecodable, decode, decode_key
from agent.kafka.source.ndjson import LineProblem, PayloadLine
from agent.kafka.source.paths import raw_records
from agent.kafka.source.problems import SegmentProblem

KEPT_KEYS = 16_384
"""So many texts of keys and topic ids are kept."""
LONGEST_KEPT_KEY = 1_024
"""Only of keys of so many bytes at most: names are strangers', and those of groups may be long."""

_PAYLOAD_CLASSES = {message.__name__: message for pair in PAYLOADS.values() for message in pair}


_Item = RawRecord | PayloadLine | LineProblem | SegmentProblem


def decoded(path: str, *, expand: bool) -> Iterator[dict[str, Any]]:
    """Every record of a PATH in the contract's form, what cannot be decoded among them, in its place.

    Raises `SourceError` for a path that holds no records at all.
    """
    for item in _items(path):
        yield _form(item, expand=expand)


def _items(path: str) -> Iterator[_Item]:
    """All that has a row."""
    for item in raw_records(path):
        if not (isinstance(item, SegmentProblem) and item.harmless):
            yield item


def _form(item: _Item, *, expand: bool) -> dict[str, Any]:
    match item:
        case RawRecord():
            return record_form(item, expand=expand)
        case PayloadLine():
            return _payload_form(item)
        case LineProblem():
            return _line_form(item)
        case SegmentProblem():
            return _damage_form(item)


def decoded_lines(path: str, *, expand: bool, to_text: Callable[[Any], str]) -> Iterator[tuple[str, bool]]:
    """The same as lines of JSON, with whether it could be decoded. `to_text`: writes a value as JSON on one line.

    Nearly all are commits: of these the line is made of numbers and their keys' texts, several times as fast.
    """

    @lru_cache(KEPT_KEYS)
    def key_text(key: bytes) -> str | None:
        return None if read_commit_key(key) is None else to_text(_key_form(key))

    for item in _items(path):
        if isinstance(item, RawRecord) and not item.control:
            key, value = item.key, item.value
            if key is not None and value is not None and has_fixed_layout(value) and len(key) <= LONGEST_KEPT_KEY:
                text = key_text(key)
                if text is not None:
                    yield _commit_line(item, text, value), True
                    continue
        form = _form(item, expand=expand)
        yield to_text(form), "error" not in form


def _commit_line(record: RawRecord, key: str, value: bytes) -> str:
    commit = read_commit(value)
    topic = "" if commit.topic_id == ZERO_UUID else f',"topicId":"{_id_text(commit.topic_id)}"'
    return (
        f'{{"partition":{record.partition},"offset":{record.offset},"timestamp":{record.timestamp_ms},"key":{key},'
        f'"value":{{"version":{value[1]},"data":{{"offset":{commit.offset},"leaderEpoch":{commit.leader_epoch},'
        f'"metadata":"","commitTimestamp":{commit.commit_ms}{topic}}}}}}}'
    )


def _key_form(key: bytes) -> dict[str, Any]:
    record_type, message = decode_key(key)
    return {"type": record_type.key_type, "data": message_json(message, 0)}


_id_text = lru_cache(KEPT_KEYS)(uuid_text)


def record_form(record: RawRecord, *, expand: bool) -> dict[str, Any]:
    """One record: its place, its time, and its key and value, or what kind of marker it is, or what is wrong."""
    place: dict[str, Any] = {"partition": record.partition, "offset": record.offset}
    entry = decode(record.key, record.value, control=record.control)
    match entry:
        case Undecodable(error=error):
            return {
                **place,
                "timestamp": record.timestamp_ms,
                "error": {"kind": error.kind, "message": str(error)},
                "keyHex": None if record.key is None else record.key.hex(),
                "valueHex": None if record.value is None else record.value.hex(),
            }
        case TransactionMarker(outcome=outcome, coordinator_epoch=epoch):
            return {**place, "timestamp": record.timestamp_ms, "control": outcome, "coordinatorEpoch": epoch}
        case _:
            return {**place, "timestamp": record.timestamp_ms, **entry_json(entry, expand=expand)}


def _line_form(problem: LineProblem) -> dict[str, Any]:
    """A line that holds no record: in the output, so that lines in are lines out."""
    return {
        "partition": None,
        "offset": None,
        "line": problem.line,
        "error": {"kind": "bad_line", "message": str(problem)},
        "keyHex": None,
        "valueHex": None,
    }


def _damage_form(problem: SegmentProblem) -> dict[str, Any]:
    """A piece of a file whose records cannot be told apart. An offset that stands there may be damaged too."""
    return {
        "partition": problem.partition,
        "offset": problem.offset if problem.offset is not None and problem.offset >= 0 else None,
        "file": str(problem.path),
        "byte": problem.position,
        "error": {"kind": str(problem.kind), "message": str(problem)},
        "keyHex": None,
        "valueHex": None,
    }


def _payload_form(line: PayloadLine) -> dict[str, Any]:
    """A line that holds a member's payload alone."""
    place = {"line": line.line, "name": line.name}
    message = _PAYLOAD_CLASSES.get(line.name or "")
    if message is None:
        known = ", ".join(_PAYLOAD_CLASSES)
        error = {"kind": "unknown_payload", "message": f"expected one of {known}, got {line.name!r}"}
        return {**place, "error": error, "valueHex": line.data.hex()}
    try:
        version, payload = decode_payload(message, line.data)
    except WireError as wrong:
        return {**place, "error": {"kind": wrong.kind, "message": str(wrong)}, "valueHex": line.data.hex()}
    return {**place, "version": version, "data": message_json(payload, min(version, message.versions[1]))}

"""Every record of a real broker's segment files, against what Kafka's dump tool printed for it.

The files are read with aiokafka's record reader here, not with `agent.kafka.source`: these tests are about
`agent.core.wire`.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.record.memory_records import MemoryRecords

from agent.core.records import RawRecord
from agent.core.wire import TransactionMarker, decode, encode_key, encode_value
from agent.core.wire.json_form import entry_json
from agent.core.wire.offset_commit_fastpath import (
    commit_from_message,
    has_fixed_layout,
    have_one_fixed_layout,
    is_commit_key,
    read_commit,
)
from agent.core.wire.records import Record, Tombstone
from tests.unit.core.wire.vectors import CAPTURE, needs

pytestmark = needs(CAPTURE)

RECORDS = 12_066
MARKERS = 906


@pytest.fixture(scope="module")
def records() -> list[RawRecord]:
    return list(_read())


def _read() -> Iterator[RawRecord]:
    for path in sorted((CAPTURE / "segments").glob("*/*.log")):
        partition = int(path.parent.name.rpartition("-")[2])
        batches = MemoryRecords(path.read_bytes())
        while (batch := batches.next_batch()) is not None:
            for record in batch:
                yield RawRecord(
                    partition, record.offset, record.timestamp, record.key, record.value, batch.is_control_batch
                )


def _printed(record: RawRecord) -> dict[str, Any]:
    """Our decoding, in the form of the dump: numbers of types and versions as text, markers as a sentence."""
    line: dict[str, Any] = {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
    }
    entry = decode(record.key, record.value, control=record.control)
    if isinstance(entry, TransactionMarker):
        raw = f"endTxnMarker: {entry.outcome.upper()} coordinatorEpoch: {entry.coordinator_epoch}"
        return {**line, "raw": raw}
    assert isinstance(entry, Record | Tombstone), entry
    form = entry_json(entry, expand=True)
    form["key"]["type"] = str(form["key"]["type"])
    if form["value"] is not None:
        form["value"]["version"] = str(form["value"]["version"])
        for member in form["value"]["data"].get("members", ()):
            for payload in ("subscription", "assignment"):
                # `version` is ours, the dump does not print it; empty bytes are no payload and stay base64.
                assert member[payload] == "" or member[payload].pop("version") in (0, 1, 2, 3)
    return {**line, **form}


def test_every_record_is_what_the_dump_tool_printed(records: list[RawRecord]) -> None:
    with gzip.open(CAPTURE / "dump.ndjson.gz", "rt", encoding="utf-8") as lines:
        dump = {(line["partition"], line["offset"]): line for line in map(json.loads, lines)}
    ours = {(record.partition, record.offset): _printed(record) for record in records}
    assert len(records) == len(ours) == len(dump) == RECORDS
    different = [place for place in dump if dump[place] != ours.get(place)]
    assert [(dump[place], ours.get(place)) for place in different[:3]] == [], f"{len(different)} differ"
    assert sum("raw" in line for line in ours.values()) == MARKERS


def test_every_record_encodes_to_the_brokers_bytes(records: list[RawRecord]) -> None:
    kinds: Counter[str] = Counter()
    for record in records:
        entry = decode(record.key, record.value, control=record.control)
        kinds[type(entry).__name__] += 1
        match entry:
            case Record(record_type, key, version, value):
                assert encode_key(record_type, key) == record.key
                assert encode_value(record_type, value, version) == record.value
            case Tombstone(record_type, key):
                assert encode_key(record_type, key) == record.key
                assert record.value is None
    assert kinds["Undecodable"] == 0
    assert kinds["TransactionMarker"] == MARKERS
    assert kinds["Record"] > 0
    assert kinds["Tombstone"] > 0


def test_the_hot_path_reads_every_commit_as_the_general_way_does(records: list[RawRecord]) -> None:
    plain: dict[tuple[int, bytes], list[bytes]] = defaultdict(list)
    other: list[bytes] = []
    for record in records:
        entry = decode(record.key, record.value, control=record.control)
        commit = isinstance(entry, Record | Tombstone) and entry.type.key_type in (0, 1)
        assert (not record.control and is_commit_key(record.key)) == commit
        if commit and isinstance(entry, Record) and record.value is not None:
            assert read_commit(record.value) == commit_from_message(entry.value)
            if has_fixed_layout(record.value):
                plain[len(record.value), record.value[:2]].append(record.value)
            else:
                other.append(record.value)
    assert all(have_one_fixed_layout(values) for values in plain.values())
    assert sum(map(len, plain.values())) > 1000, "the hot path must be the common one"
    assert all(read_commit(value).metadata for value in other), "only metadata keeps a commit from the hot path"

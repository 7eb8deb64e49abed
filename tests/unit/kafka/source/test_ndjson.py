import gzip
import io
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.records import RawRecord, RecordBatch
from agent.kafka.source import ndjson
from agent.kafka.source.errors import SourcePathError
from agent.kafka.source.ndjson import LineProblem, PayloadLine, committed_batches, read_lines, read_ndjson
from agent.kafka.source.paths import committed_batches_of, raw_records
from tests import SHARED

from .building import batch, write

VECTORS = SHARED / "vectors/records-4.3.1.ndjson"


def lines(*texts: str | bytes):
    data = b"\n".join(text.encode() if isinstance(text, str) else text for text in texts)
    return list(read_lines(io.BytesIO(data), "x.ndjson"))


def test_what_a_line_need_not_say():
    assert lines('{"key":"00ff","value":null}', "", '{"key":null,"value":"01","name":"x","expect":{}}') == [
        RawRecord(0, 0, -1, b"\x00\xff", None),
        RawRecord(0, 2, -1, None, b"\x01"),
    ]


def test_what_a_line_may_say():
    line = '{"key":"01","value":"","partition":7,"offset":9223372036854775807,"timestamp":12,"control":true}'
    assert lines(line) == [RawRecord(7, (1 << 63) - 1, 12, b"\x01", b"", True)]


def test_payload_lines():
    name = "ConsumerProtocolSubscription"
    assert lines(f'{{"name":"{name}","bytes":"0001"}}', '{"bytes":""}') == [
        PayloadLine(1, name, b"\x00\x01"),
        PayloadLine(2, None, b""),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "expected a JSON object, got {"),
        ("[1]", "expected a JSON object, got [1]"),
        ("\0\0\0\x0b{", "expected a JSON object, got binary data; a segment is read by its path"),
        ("[" * 100_000, "expected a JSON object"),
        (b"\xff\xfe\xff", "expected a JSON object"),
        ('{"value":null}', "key: expected hex or null, the line has none"),
        ('{"key":"00"}', "value: expected hex or null, the line has none"),
        ('{"key":"0","value":null}', "key: expected hex, got '0'"),
        ('{"key":"zz","value":null}', "key: expected hex, got 'zz'"),
        ('{"key":3,"value":null}', "key: expected hex, got 3"),
        ('{"bytes":null}', "bytes: expected hex, got None"),
        ('{"key":"","value":"","partition":-1}', "partition: expected a number from 0 to 2147483647, got -1"),
        ('{"key":"","value":"","partition":true}', "partition: expected a number"),
        ('{"key":"","value":"","offset":"1"}', "offset: expected a number"),
        ('{"key":"","value":"","offset":9223372036854775808}', "offset: expected a number"),
        ('{"key":"","value":"","timestamp":-2}', "timestamp: expected a number from -1"),
        ('{"key":"","value":"","control":"commit"}', "control: expected true or false, got 'commit'"),
        ('{"key":"%s","value":""}' % ("g" * 100), "… (102 characters)"),
    ],
)
def test_a_bad_line_has_a_number_and_does_not_end_the_reading(line, message):
    good = '{"key":"01","value":"02"}'
    before, problem, after = lines(good, line, good)
    assert isinstance(problem, LineProblem)
    assert (before.offset, problem.line, after.offset) == (0, 2, 2)
    assert message in problem.message
    assert str(problem).startswith("x.ndjson: line 2: ")


def test_a_line_without_end_is_passed_over(monkeypatch):
    monkeypatch.setattr(ndjson, "_MAX_LINE_BYTES", 64)
    first, second = lines('{"key":"%s","value":""}' % ("00" * 200), '{"key":"01","value":""}')
    assert first == LineProblem("x.ndjson", 1, "expected at most 64 bytes, got more")
    assert second == RawRecord(0, 1, -1, b"\x01", b"")


@given(st.binary(max_size=200))
def test_no_bytes_raise(data):
    assert all(isinstance(item, RawRecord | PayloadLine | LineProblem) for item in read_lines(io.BytesIO(data), "x"))


def record_line(partition: int, offset: int, **more: object) -> str:
    return json.dumps({"key": "01", "value": None, "partition": partition, "offset": offset, **more})


def test_runs_are_neighbours_of_one_partition_without_markers(monkeypatch):
    monkeypatch.setattr(ndjson, "MAX_BATCH_RECORDS", 3)
    texts = [record_line(1, o) for o in range(4)] + [record_line(1, 4, control=True), "oops", record_line(1, 5)]
    texts += [record_line(2, 0), record_line(1, 6)]
    items = [
        (item.partition, list(item.offsets)) if isinstance(item, RecordBatch) else type(item)
        for item in committed_batches(iter(lines(*texts)))
    ]
    assert items == [(1, [0, 1, 2]), (1, [3]), LineProblem, (1, [5]), (2, [0]), (1, [6])]


def test_files_stdin_and_gzip(tmp_path, monkeypatch):
    text = (record_line(1, 0) + "\n").encode()
    (tmp_path / "a.ndjson").write_bytes(text)
    (tmp_path / "a.ndjson.gz").write_bytes(gzip.compress(text))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    for path in (str(tmp_path / "a.ndjson"), str(tmp_path / "a.ndjson.gz"), "-"):
        assert list(raw_records(path)) == [RawRecord(1, 0, -1, b"\x01", None)]
    assert [list(run.records()) for run in committed_batches_of(str(tmp_path / "a.ndjson"))] == [
        [RawRecord(1, 0, -1, b"\x01", None)]
    ]


@pytest.mark.parametrize("spoil", [lambda data: data[:-9], lambda data: b"no gzip" + data])
def test_gzip_that_is_none_or_cut_short_is_a_problem(tmp_path, spoil):
    path = tmp_path / "a.ndjson.gz"
    path.write_bytes(spoil(gzip.compress((record_line(1, 0) + "\n").encode() * 100)))
    *_, last = read_ndjson(str(path))
    assert isinstance(last, LineProblem)
    assert "expected more lines or the end of the file" in last.message


def test_a_file_that_is_not_there():
    with pytest.raises(SourcePathError, match="expected a readable NDJSON file"):
        list(read_ndjson("/nowhere/a.ndjson"))


def test_paths_choose_segments(tmp_path):
    write(tmp_path, batch(0, 2), partition=5)
    assert [record.offset for record in raw_records(str(tmp_path))] == [0, 1]
    assert [run.partition for run in committed_batches_of(str(tmp_path))] == [5]


@pytest.mark.skipif(not VECTORS.is_file(), reason="the vectors are not beside the checkout (../shared)")
def test_vectors():
    items = list(raw_records(str(VECTORS)))
    assert sum(isinstance(item, RawRecord) for item in items) == 240
    assert sum(isinstance(item, PayloadLine) for item in items) == 64

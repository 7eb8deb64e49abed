import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.records import RawRecord
from agent.kafka.source import segments
from agent.kafka.source.errors import SourcePathError
from agent.kafka.source.problems import ProblemKind
from agent.kafka.source.segments import PartitionLog, discover
from tests import SHARED, examples

from .building import (
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    at_offset,
    batch,
    by_leader,
    committed,
    key,
    marker,
    offsets,
    old_batch,
    raw,
    value,
    with_attributes,
    write,
)

CAPTURE = SHARED / "captures/kafka-4.3.1"


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_every_codec_gives_what_was_written(tmp_path, codec):
    log = write(tmp_path, batch(0, 40, codec=codec), batch(40, 1, codec=codec))
    expected = [RawRecord(3, o, 1000 + o, key(o), value(o)) for o in range(41)]
    assert committed(log) == (expected, [])
    assert raw(log) == (expected, [])


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_records_have_the_epoch_of_the_leader_that_appended_them(tmp_path, codec):
    frames = [by_leader(epoch, batch(base, 2, codec=codec)) for epoch, base in ((0, 0), (0, 2), (3, 4), (7, 6))]
    runs = list(write(tmp_path, *frames, old_batch(8, 1, 1)).committed())
    assert [it for run in runs for it in run.leader_epochs] == [0, 0, 0, 0, 3, 3, 7, 7, -1]
    assert [it for run in runs for it in run.offsets] == list(range(9))


def test_unknown_codec_is_a_problem_and_the_rest_is_read(tmp_path):
    log = write(tmp_path, batch(0), with_attributes(batch(1), 7), batch(2))
    records, (problem,) = committed(log)
    assert offsets(records) == [0, 2]
    assert (problem.kind, problem.offset) == (ProblemKind.RECORDS, 1)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_messages_of_old_magic(tmp_path, magic, codec):
    log = write(tmp_path, old_batch(5, 3, magic, codec), batch(8))
    records, problems = committed(log)
    assert problems == []
    stamps = [-1] * 3 if magic == 0 else [1005, 1006, 1007]
    assert records == [RawRecord(3, 5 + i, stamps[i], key(5 + i), value(5 + i)) for i in range(3)] + [
        RawRecord(3, 8, 1008, key(8), value(8))
    ]


def test_transactions_by_the_first_marker_of_their_producer_behind_them(tmp_path):
    log = write(
        tmp_path,
        batch(0, 2, producer=1),  # committed by 6
        batch(2, 1, producer=2),  # aborted by 5
        batch(3),
        batch(4, 1, producer=1),  # committed by 6
        marker(5, 2, commit=False),
        marker(6, 1, commit=True),
        batch(7, 1, producer=2),  # committed by 9, not by what befell the one before
        batch(8, 1, producer=1),  # open: no marker of this producer follows
        marker(9, 2, commit=True),
        batch(10),  # behind an open transaction, and kept all the same
    )
    assert offsets(committed(log)[0]) == [0, 1, 3, 4, 7, 10]
    records, problems = raw(log)
    assert offsets(records) == list(range(11))
    assert [record.offset for record in records if record.control] == [5, 6, 9]
    assert problems == []


def test_the_marker_may_be_in_a_later_segment(tmp_path):
    write(tmp_path, batch(0, 2, producer=1), batch(2, 1, producer=2))
    log = write(tmp_path, marker(3, 1, commit=True), batch(4), base=3)
    assert offsets(committed(log)[0]) == [0, 1, 4]


def test_a_control_record_of_another_kind_or_with_a_wrong_crc_ends_no_transaction(tmp_path):
    broken = bytearray(marker(2, 1, commit=True))
    broken[-3] ^= 1
    log = write(
        tmp_path,
        batch(0, 1, producer=1),
        marker(1, 1, commit=True, kind=2),
        bytes(broken),
        marker(3, 1, commit=False),
    )
    records, (problem,) = committed(log)
    assert records == []
    assert (problem.kind, problem.offset) == (ProblemKind.CRC, 2)


def test_gaps_overlaps_and_order_of_segments(tmp_path):
    write(tmp_path, batch(0, 2), batch(7, 3))
    write(tmp_path, batch(7, 5), batch(12), base=5)  # 7 to 9 again: seen, passed over
    log = write(tmp_path, batch(100), base=100)
    records, problems = committed(log)
    assert offsets(records) == [0, 1, 7, 8, 9, 10, 11, 12, 100]
    assert problems == []
    assert [path.name for path in log.segments] == [f"{base:020}.log" for base in (0, 5, 100)]


def test_going_back_within_a_file_is_a_problem(tmp_path):
    records, (problem,) = committed(write(tmp_path, batch(4), batch(2), batch(5)))
    assert offsets(records) == [4, 5]
    assert problem.kind is ProblemKind.OFFSET
    assert "expected an offset from 5 on, the batch ends at 2" in str(problem)


def test_runs_are_bounded(tmp_path):
    log = write(tmp_path, batch(0, 5_000), *[batch(5_000 + i) for i in range(1_005)])
    assert [len(run) for run in log.committed()] == [2_000, 2_000, 2_000, 5]


def test_records_before_a_fault_inside_a_batch_are_kept(tmp_path):
    whole = batch(0, 3)
    cut = bytearray(whole)
    cut[whole.rindex(b"key-2") - 1] = 0x7F  # its length, as a varint
    log = write(tmp_path, with_attributes(bytes(cut), 0), batch(3))
    records, (problem,) = committed(log)
    assert offsets(records) == [0, 1, 3]
    assert problem.kind is ProblemKind.RECORDS
    assert raw(log)[1] == [problem]


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_any_interleaving_of_transactions_is_resolved_as_by_a_model(tmp_path_factory, data):
    """The model: a consumer that keeps each producer's records back until its marker comes."""
    frames, visible = [], []
    held: dict[int, list[int]] = {}
    steps = data.draw(st.lists(st.tuples(st.sampled_from("bcad"), st.integers(1, 3), st.integers(1, 4)), max_size=30))
    offset = 0
    for step, producer, size in steps:
        match step:
            case "b":
                frames.append(batch(offset, size))
                visible.extend(range(offset, offset + size))
                offset += size
            case "d":
                frames.append(batch(offset, size, producer=producer))
                held.setdefault(producer, []).extend(range(offset, offset + size))
                offset += size
            case _:
                frames.append(marker(offset, producer, commit=step == "c"))
                ended = held.pop(producer, [])
                visible.extend(ended if step == "c" else [])
                offset += 1
    log = write(tmp_path_factory.mktemp("log"), *frames)
    assert offsets(committed(log)[0]) == sorted(visible)


def test_paths_of_each_form(tmp_path):
    write(tmp_path, batch(0), partition=12)
    write(tmp_path, batch(0), partition=3)
    (tmp_path / "__consumer_offsets-3.0123abcd-delete").mkdir()
    (tmp_path / "orders-0").mkdir()
    assert [log.partition for log in discover(tmp_path)] == [3, 12]
    (tmp_path / "server.log").write_text("[2026-11-21 10:00:00,000] INFO a broker's own log\n", encoding="ascii")
    assert [log.partition for log in discover(tmp_path)] == [3, 12]
    assert [log.partition for log in discover(tmp_path / "__consumer_offsets-3")] == [3]
    file = tmp_path / "__consumer_offsets-3" / f"{0:020}.log"
    assert discover(file) == [PartitionLog(3, (file,))]
    alone = tmp_path / "orders-0" / "copy.log"
    alone.write_bytes(batch(0))
    assert discover(alone)[0].partition == segments.UNKNOWN_PARTITION
    assert offsets(committed(discover(alone)[0])[0]) == [0]


def test_a_text_log_beside_segments_is_none_of_them(tmp_path):
    """It was told to be a damaged segment."""
    log = write(tmp_path, batch(0), partition=12)
    directory = log.segments[0].parent
    (directory / "coordinator.log").write_text("[2026-11-21 10:00:00,000] INFO a log", encoding="ascii")
    assert discover(directory) == [log]
    assert discover(tmp_path) == [log]


def test_a_partition_without_segments_has_no_records(tmp_path):
    bare = tmp_path / "__consumer_offsets-1"
    bare.mkdir()
    (bare / f"{0:020}.timeindex").touch()
    # Kafka keeps at least one segment: this is a copy that lacks them.
    for place in (tmp_path, bare):
        with pytest.raises(SourcePathError, match=r"expected \.log segments, or .* with some, got neither"):
            discover(place)
    log = write(tmp_path, batch(0), partition=2)
    assert discover(tmp_path) == [PartitionLog(1, ()), log]


@pytest.mark.parametrize(
    ("name", "came"), [("absent", "got nothing"), ("text", "got a file of another kind"), (".", "got neither")]
)
def test_paths_without_records(tmp_path, name, came):
    (tmp_path / "text").write_text("x")
    with pytest.raises(SourcePathError, match=came):
        discover(tmp_path / name)


def test_a_file_that_cannot_be_opened_is_a_problem(tmp_path):
    log = PartitionLog(3, (tmp_path / "gone.log", *write(tmp_path, batch(0)).segments))
    records, (problem,) = committed(log)
    assert offsets(records) == [0]
    assert problem.kind is ProblemKind.UNREADABLE
    assert "No such file" in str(problem)


@pytest.mark.skipif(not CAPTURE.is_dir(), reason="the captures are not beside the checkout (../shared)")
class TestCapture:
    def test_every_record_is_as_the_dump_tool_says(self):
        with gzip.open(CAPTURE / "dump.ndjson.gz", "rt") as lines:
            dumped = {(line["partition"], line["offset"]) for line in map(json.loads, lines)}
        records = []
        for log in discover(CAPTURE / "segments"):
            found, problems = raw(log)
            assert problems == []
            records.extend(found)
        assert len(records) == 12_066
        assert sum(record.control for record in records) == 906
        assert {(record.partition, record.offset) for record in records} == dumped

    def test_committed_are_those_a_consumer_would_be_given(self):
        for log in discover(CAPTURE / "segments"):
            visible, held = [], {}
            for batch_ in (item for path in log.segments for item in segments.BatchReader(path, log.partition)):
                rows = [(record.offset, record.key, record.value) for record in batch_]
                if batch_.attributes & 0x20:
                    ended = held.pop(batch_.producer_id, [])
                    visible.extend(ended if rows[0][1][3] == 1 else [])
                elif batch_.attributes & 0x10:
                    held.setdefault(batch_.producer_id, []).extend(rows)
                else:
                    visible.extend(rows)
            found, _ = committed(log)
            assert [(record.offset, record.key, record.value) for record in found] == sorted(visible)


def test_the_base_offset_is_not_covered_by_the_crc_so_its_range_is_checked(tmp_path):
    log = write(tmp_path, batch(10), at_offset(batch(11), 1 << 40), at_offset(batch(12), 2), batch(13), base=10)
    records, problems = committed(log)
    assert offsets(records) == [10, 13]
    assert [(problem.kind, problem.offset) for problem in problems] == [
        (ProblemKind.OFFSET, 1 << 40),
        (ProblemKind.OFFSET, 2),
    ]

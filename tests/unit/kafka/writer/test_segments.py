"""Segment files as sources and Kafka's own dump tool read them."""

from __future__ import annotations

import json
import re
import resource
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.records import RawRecord, RecordBatch
from agent.kafka.source.segments import discover
from agent.kafka.writer import Written
from agent.kafka.writer.errors import RecordRefused, SinkPathError
from agent.kafka.writer.segments import write_segments
from agent.tools.embedded import fetch_tools
from agent.tools.embedded.java import run_class
from tests import examples
from tests.unit.kafka.writer.making import TIMED_RECORDS, groups, numbered

SOME = [RawRecord(partition, 0, 1000 + index, b"k%d" % index, b"v") for index in range(4) for partition in (3, 7)]


def read(directory: Path) -> list[RawRecord]:
    out: list[RawRecord] = []
    for log in discover(directory):
        for run in log.committed():
            assert isinstance(run, RecordBatch), run
            out.extend(run.records())
    return out


def tree(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@settings(max_examples=examples(150), deadline=None)
@given(
    TIMED_RECORDS.filter(bool),
    st.sampled_from([1, 200, 2_000, 1 << 20]),
    st.sampled_from([1, 100, 500, 1 << 16]),
)
def test_what_is_written_is_read(records: list[RawRecord], segment_bytes: int, batch_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder, "history")
        written = write_segments(iter(records), directory, segment_bytes=segment_bytes, batch_bytes=batch_bytes)
        assert read(directory) == numbered(records)
        sizes = [path.stat().st_size for path in directory.rglob("*.log")]
        assert written == Written(len(records), len({it.partition for it in records}), sum(sizes))
        assert len(list(directory.iterdir())) == written.partitions, "and nothing else stays"


def test_a_segment_is_named_by_its_first_offset_and_not_larger_than_told(tmp_path: Path) -> None:
    records = [RawRecord(5, 0, 1000 + index, b"key-%04d" % index, b"v" * 50) for index in range(500)]
    write_segments(records, tmp_path, segment_bytes=4_000, batch_bytes=1_000)
    segments = sorted((tmp_path / "__consumer_offsets-5").iterdir())
    assert len(segments) > 5
    for segment in segments:
        assert re.fullmatch(r"\d{20}\.log", segment.name)
        assert int.from_bytes(segment.read_bytes()[:8]) == int(segment.stem)
        assert 3_000 < segment.stat().st_size <= 4_000 or segment is segments[-1]
    assert read(tmp_path) == numbered(records)


def test_a_record_that_is_larger_than_a_batch_and_a_segment_stands_alone(tmp_path: Path) -> None:
    records = [RawRecord(0, 0, 1000, b"k", b"v" * size) for size in (1, 5_000, 1)]
    write_segments(records, tmp_path, segment_bytes=1_000, batch_bytes=500)
    assert sorted(tree(tmp_path)) == [f"__consumer_offsets-0/{base:020}.log" for base in (0, 1, 2)]


def test_no_records_leave_nothing(tmp_path: Path) -> None:
    assert write_segments([], tmp_path / "none") == Written(0, 0, 0)
    assert not (tmp_path / "none").exists()


def test_a_directory_that_holds_partitions_is_refused_and_stays(tmp_path: Path) -> None:
    write_segments(SOME, tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    before = tree(tmp_path)
    with pytest.raises(SinkPathError, match=r"a directory without __consumer_offsets-N, it has \S+-3$"):
        write_segments(SOME[:2], tmp_path)
    assert tree(tmp_path) == before


def test_replace_takes_the_old_partitions_away_and_nothing_else(tmp_path: Path) -> None:
    write_segments(SOME, tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    write_segments([RawRecord(4, 0, 1, b"new", None)], tmp_path, replace=True)
    assert sorted(tree(tmp_path)) == ["__consumer_offsets-4/00000000000000000000.log", "notes.txt"]


@pytest.mark.parametrize("replace", [False, True])
def test_records_that_end_in_an_error_leave_everything_as_it_was(tmp_path: Path, replace: bool) -> None:
    def broken():
        yield from SOME[:5]
        raise RuntimeError("no more")

    if replace:
        write_segments(SOME, tmp_path / "history")
    before = tree(tmp_path)
    with pytest.raises(RuntimeError, match="no more"):
        write_segments(broken(), tmp_path / "history", replace=replace)
    assert tree(tmp_path) == before
    assert (tmp_path / "history").exists() == replace


@pytest.mark.parametrize("failing", [0, 1, 2, 3])
def test_partitions_that_cannot_all_change_places_keep_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    write_segments(SOME, tmp_path)
    before = tree(tmp_path)
    rename, calls = Path.rename, []

    def sometimes(self: Path, target: Path) -> Path:
        calls.append(target)
        if len(calls) == failing + 1:
            raise OSError("not this one")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", sometimes)
    with pytest.raises(SinkPathError, match="not this one"):
        write_segments([record._replace(value=b"new") for record in SOME], tmp_path, replace=True)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("record", "came"),
    [
        (RawRecord(2, 0, 1, b"\0\0\0\1", b"", True), "a transaction marker"),
        (RawRecord(2, 0, -1, b"k", b"v"), "timestamp -1"),
    ],
)
def test_what_a_segment_does_not_hold_is_refused(tmp_path: Path, record: RawRecord, came: str) -> None:
    with pytest.raises(RecordRefused, match=f"partition 2: expected a group's record with a time, got {came}"):
        write_segments([record], tmp_path)
    assert not tree(tmp_path)


def test_what_a_full_disk_took_by_half_is_told(tmp_path: Path) -> None:
    """The system takes what there is room for, and says only of the next write that there is none."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(SinkPathError, match="File too large"):
            write_segments([RawRecord(5, 0, 1000, b"key", b"v" * 2000)], tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert tree(tmp_path) == {}


def test_a_path_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SinkPathError, match="file: expected a directory to write to"):
        write_segments(SOME, tmp_path / "file")


@pytest.mark.usefixtures("kafka")
def test_kafkas_dump_tool_finds_nothing_wrong(tmp_path: Path) -> None:
    records = groups([f"team.group-{number}" for number in range(40)], partitions=5, at_ms=1_795_246_100_000)
    write_segments(records, tmp_path, segment_bytes=6_000, batch_bytes=1_500)
    segments = sorted(tmp_path.rglob("*.log"))
    assert len(segments) >= 5
    said = run_class(
        fetch_tools().classpath,
        "org.apache.kafka.tools.DumpLogSegments",
        *("--offsets-decoder", "--deep-iteration", "--files", ",".join(map(str, segments))),
    ).splitlines()

    known = re.compile(r"Dumping |Log starting offset: \d+$|baseOffset: |\| offset: ")
    assert not [line for line in said if not known.match(line)], "warnings would stand here"
    batches = [line for line in said if line.startswith("baseOffset")]
    assert all(line.endswith("isvalid: true") for line in batches)
    dumped = [line for line in said if line.startswith("|")]
    kinds = Counter(json.loads(line.partition(" key: ")[2].partition(" payload: ")[0])["type"] for line in dumped)
    assert kinds == {"2": 40, "1": 201}
    times = sorted(int(line.split("CreateTime: ")[1].split()[0]) for line in dumped)
    assert times == sorted(record.timestamp_ms for record in records)

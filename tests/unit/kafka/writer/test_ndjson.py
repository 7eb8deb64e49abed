"""NDJSON lines as the source reads them."""

from __future__ import annotations

import gzip
import io
import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.records import RawRecord
from agent.kafka.source.ndjson import read_lines, read_ndjson
from agent.kafka.writer import Written
from agent.kafka.writer.errors import SinkPathError
from agent.kafka.writer.ndjson import write_lines, write_ndjson
from tests import examples
from tests.unit.kafka.writer.making import ANY_RECORDS, numbered

SOME = [RawRecord(index % 3, 0, 1000 + index, b"k%d" % index, b"v") for index in range(2_500)]


@settings(max_examples=examples(150), deadline=None)
@given(ANY_RECORDS, st.sampled_from(["x.ndjson", "x.ndjson.gz"]))
def test_what_is_written_is_read(records: list[RawRecord], name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        written = write_ndjson(iter(records), path)
        read = [it for it in read_ndjson(str(path)) if isinstance(it, RawRecord)]
        assert sorted(read, key=lambda it: it.partition) == numbered(records)
        assert [it.partition for it in read] == [it.partition for it in records], "in the order in which they came"
        text = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
        assert written == Written(len(records), len({it.partition for it in records}), len(text))


def test_a_line_is_what_the_contract_says() -> None:
    stream = io.BytesIO()
    write_lines([RawRecord(7, 99, 1234, b"\x00\xff", None), RawRecord(7, 99, 1235, b"k", b"v", True)], stream)
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first == {"partition": 7, "offset": 0, "timestamp": 1234, "key": "00ff", "value": None}
    assert second == {"partition": 7, "offset": 1, "timestamp": 1235, "key": "6b", "value": "76", "control": True}
    stream.seek(0)
    assert [it.control for it in read_lines(stream, "here") if isinstance(it, RawRecord)] == [False, True]


@pytest.mark.parametrize("name", ["x.ndjson", "x.ndjson.gz"])
def test_the_same_records_give_the_same_bytes_under_any_name(tmp_path: Path, name: str) -> None:
    write_ndjson(SOME, tmp_path / name)
    write_ndjson(SOME, tmp_path / f"other-{name}")
    assert (tmp_path / name).read_bytes() == (tmp_path / f"other-{name}").read_bytes()


def test_a_file_that_exists_is_refused_unless_it_is_to_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.ndjson"
    path.write_text("mine")
    with pytest.raises(SinkPathError, match=r"x\.ndjson: expected a name that is not taken"):
        write_ndjson(SOME, path)
    assert path.read_text() == "mine"
    write_ndjson(SOME, path, replace=True)
    assert len(path.read_text().splitlines()) == len(SOME)
    path.with_name("touched").touch()
    assert path.stat().st_mode == path.with_name("touched").stat().st_mode, "as any new file"


def test_records_that_end_in_an_error_leave_no_file(tmp_path: Path) -> None:
    def broken():
        yield from SOME
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        write_ndjson(broken(), tmp_path / "x.ndjson")
    assert not list(tmp_path.iterdir())


def test_a_directory_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SinkPathError, match=r"x\.ndjson: expected a file to write to: .*No such file"):
        write_ndjson(SOME, tmp_path / "none" / "x.ndjson")


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "x.ndjson"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_ndjson(SOME[:10], pipe, replace=True)
        assert len(os.read(reader, 1 << 16).splitlines()) == 10
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_link_stays_one_and_what_it_names_is_replaced(tmp_path: Path) -> None:
    kept = tmp_path / "there" / "old.ndjson"
    kept.parent.mkdir()
    kept.write_text("old")
    link = tmp_path / "x.ndjson"
    link.symlink_to(kept)
    write_ndjson(SOME, link, replace=True)
    assert link.is_symlink()
    assert len(kept.read_bytes().splitlines()) == len(SOME)

"""Samples of a history, from where histories are written; and `kshadow replay --samples`, which finds by them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from agent.core.events.events import Event
from agent.core.events.samples import GroupLagTotal, GroupSample, PositionBehind, sample_event
from agent.kafka.writer.ndjson import write_ndjson
from agent.persistence.export.encoded_event import encode_event
from agent.persistence.export.parquet_sink import ParquetSink
from agent.persistence.export.reading import HistoryUnreadable, samples_in
from tests.unit.analyzers.test_stalled_consumer import HALF_STOPS, fleet, hundred_a_second, play
from tests.unit.cli.running import SEGMENTS, kshadow
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import GROUP, Log
from tests.unit.persistence.export.made import event


def sample(at_ms: int, end: int, cluster: str | None = None) -> Event:
    """Of a group with four positions, the last two of which are behind."""
    behind = [PositionBehind("t", number, end) for number in (2, 3)]
    lag = GroupLagTotal(4, 4, 9, 1.0)
    return sample_event(
        GroupSample(at_ms, 7, 1, GROUP, "classic", "Stable", 2, 1.0, 1.0, lag, at_ms, behind), cluster
    )


SAMPLES = [sample(b.T0 + second * 1_000, hundred_a_second(second)) for second in range(10, 1_300, 30)]


def written_lines(path: Path, events: list[Event]) -> Path:
    path.write_text("".join(json.dumps(it) + "\n\n" for it in events), encoding="utf-8")
    return path


def written_parquet(path: Path, events: list[Event]) -> Path:
    assert ParquetSink(str(path)).write(tuple(encode_event(it, 0) for it in events)) == []
    return path


def test_samples_come_back_from_lines_and_from_parquet_and_nothing_else(tmp_path: Path) -> None:
    events = [event(1), *SAMPLES, event(2)]
    assert list(samples_in(written_lines(tmp_path / "events.ndjson", events))) == SAMPLES
    directory = written_parquet(tmp_path / "history", events)
    by_time = sorted(samples_in(directory), key=lambda it: it["at_ms"])
    assert by_time == SAMPLES
    files = sorted(directory.rglob("*.parquet"))
    assert [it for path in files for it in samples_in(path)] == list(samples_in(directory))


def test_what_a_writer_has_not_finished_is_passed_over(tmp_path: Path) -> None:
    directory = written_parquet(tmp_path / ".kept" / "history", SAMPLES)
    expected = list(samples_in(directory))
    day = next(directory.glob("date=*"))
    (day / ".kshadow-1234.parquet").write_bytes(b"PAR1")
    (directory / "_scratch").mkdir()
    (directory / "_scratch" / "staged.parquet").write_bytes(b"PAR1")
    assert list(samples_in(directory)) == expected != []


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("bad.ndjson", b'{"type": "rebalance"}\nno json\n', "line 2: expected an event"),
        ("deep.ndjson", b"[" * 100_000, "line 1: expected an event"),
        ("bare.ndjson", b'{"type": "group_sample"}\n', "line 1: expected a sample of a group: Object missing"),
        (
            "wrong.ndjson",
            b'{"type": "group_sample", "cluster": null, "group": "g", "partitions": 1, "lag_partitions": "1"}',
            "expected a sample of a group: Expected `int`, got `str`",
        ),
        ("list.ndjson", b"[1]\n", "line 1: expected an event"),
        ("other.ndjson", b"{}\n", "line 1: expected an event"),
        ("bad.parquet", b"nothing of that kind", "expected a Parquet file"),
    ],
)
def test_what_is_no_history_is_refused(tmp_path: Path, name: str, content: bytes, expected: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(HistoryUnreadable, match=expected):
        list(samples_in(path))
    refused = kshadow("replay", SEGMENTS, "--samples", path)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert expected in " ".join(refused.stderr.split())


def test_a_table_of_something_else_is_told_by_its_file(tmp_path: Path) -> None:
    directory = written_parquet(tmp_path / "history", SAMPLES)
    parquet.write_table(pyarrow.table({"a": [1]}), directory / "other.parquet")
    with pytest.raises(HistoryUnreadable, match=r"other\.parquet: expected events of a history, there is no column"):
        list(samples_in(directory))


def test_a_file_that_is_damaged_within_is_told_by_its_name(tmp_path: Path) -> None:
    directory = written_parquet(tmp_path / "history", SAMPLES)
    file = sorted(directory.rglob("*.parquet"))[-1]
    body = bytearray(file.read_bytes())
    body[4:2_000] = b"\xa5" * 1_996
    file.write_bytes(body)
    with pytest.raises(HistoryUnreadable, match=f"{re.escape(str(file))}: expected a Parquet file"):
        list(samples_in(directory))


def test_a_directory_without_files_and_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(HistoryUnreadable, match="got none"):
        list(samples_in(tmp_path))
    with pytest.raises(HistoryUnreadable, match="No such file"):
        list(samples_in(tmp_path / "gone.ndjson"))


def as_lines(log: Log, path: Path) -> Path:
    write_ndjson(log.records, path)
    return path


def test_replay_finds_by_samples(tmp_path: Path) -> None:
    log = as_lines(play(fleet(), 11, HALF_STOPS, each_s=10), tmp_path / "log.ndjson")
    samples = written_lines(tmp_path / "history.ndjson", SAMPLES)

    def found(*more: object) -> list[Event]:
        said = kshadow("replay", log, "--event", "finding", "--analyzers", "stalled_consumer", *more)
        assert (said.exit_code, said.stderr) == (0, "")
        return [json.loads(it) for it in said.stdout.splitlines()]

    assert found() == []
    (opened,) = found("--samples", samples)
    assert (opened["severity"], opened["numbers"]["partitions"]) == ("critical", ["t-2", "t-3"])
    assert found("--samples", samples, "--cluster", "east") == [], "of another cluster"
    east = written_lines(tmp_path / "east.ndjson", [{**it, "cluster": "east"} for it in SAMPLES])
    assert len(found("--samples", east, "--cluster", "east")) == 1
